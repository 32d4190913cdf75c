// SPDX-License-Identifier: BSD-2-Clause
// Configuration, faults that make functions fail, misuse, counters.
#include "world.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace fake
{

State::State()
{
	devices.push_back(make_device(fake_device()));
}

// The world is never destroyed: atexit handlers of the code under test may still call the fake.
World &world()
{
	static World *const the = new World;
	return *the;
}

void misuse(const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	world().misuse.emplace_back(text);
}

void die(const char *format, ...)
{
	va_list args;

	fputs("fake_rdma: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	abort();
}

// This is out of line, since it is called only when a fault is pending for the function.
int strike(Point &point)
{
	std::function<void()> happen;
	int err = 0;

	for (size_t i = 0; i < point.faults.size();) {
		Fault &fault = point.faults[i];
		if (--fault.countdown > 0) {
			++i;
			continue;
		}
		if (fault.happen)
			happen = fault.happen;
		else
			err = fault.err;
		point.faults.erase(point.faults.begin() + static_cast<long>(i));
	}
	if (!err)
		err = point.always;
	if (happen) {
		world().mutex.unlock();
		happen();
		world().mutex.lock();
	}
	return err;
}

static Point &point_of(const char *function)
{
	for (int i = 0; i < FN_COUNT; ++i)
		if (!strcmp(function_names[i], function))
			return world().points[i];
	die("no function \"%s\" that could be counted or made to fail", function);
}

static void free_everything(World &w)
{
	while (!w.ids.empty())
		free_id(*w.ids.begin());
	for (rdma_cm_event *event : w.events_out)
		delete event;
	while (!w.cm_channels.empty())
		free_cm_channel(*w.cm_channels.begin());
	while (!w.qps.empty())
		free_qp(w.qps.begin()->second);
	while (!w.cqs.empty())
		free_cq(*w.cqs.begin());
	while (!w.channels.empty())
		free_channel(*w.channels.begin());
	while (!w.mrs.empty())
		free_mr(*w.mrs.begin());
	for (ibv_pd *pd : w.pds)
		delete pd;
	while (!w.contexts.empty())
		close_context(*w.contexts.begin());
}

} // namespace fake

using namespace fake;

void fake_reset(void)
{
	World &w = world();
	std::lock_guard<std::mutex> lock(w.mutex);

	free_everything(w);
	static_cast<State &>(w) = State();
}

fake_options fake_options_mlx5(void)
{
	fake_options options;

	options.by_specification = options.reset_cleans_cq = true;
	return options;
}

void fake_set_options(const fake_options *options)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	world().opt = *options;
	for (auto [number, qp] : world().qps) // those whose sends have waited for fake_progress()
		run_sends(qp);
}

void fake_get_options(fake_options *options)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	*options = world().opt;
}

void fake_fail(const char *function, int nth, int err)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	point_of(function).faults.push_back({nth, err, {}});
}

void fake_before(const char *function, int nth, const std::function<void()> &happen)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	point_of(function).faults.push_back({nth, 0, happen});
}

void fake_fail_always(const char *function, int err)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	Point &point = point_of(function);

	point.always = err;
	if (!err)
		point.faults.clear();
}

void fake_forget_faults(void)
{
	for (const char *function : function_names)
		fake_fail_always(function, 0);
}

uint64_t fake_calls(const char *function)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	return point_of(function).calls;
}

int fake_channels(void)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	return static_cast<int>(world().channels.size());
}

int fake_live_total(void)
{
	const World &w = world();
	std::lock_guard<std::mutex> lock(world().mutex);
	size_t all = w.pds.size() + w.mrs.size() + w.cqs.size() + w.channels.size() + w.qps.size() +
		     w.cm_channels.size() + w.ids.size();

	for (const Context *ctx : w.contexts)
		all += ctx != ctx->dev->cm_context;
	return w.lists + static_cast<int>(all);
}

std::vector<std::string> fake_take_misuse(void)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	return std::exchange(world().misuse, {});
}
