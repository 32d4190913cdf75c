// SPDX-License-Identifier: BSD-2-Clause
// Configuration, faults that make functions fail, misuse, counters.
#include "world.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace fake
{

World::World()
{
#define X(fn) points[FN_##fn].name = #fn;
	FAKE_FUNCTIONS(X)
#undef X
	fake_options_rxe(&opt);
	default_devices(*this);
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
	void (*happen)(void *) = nullptr;
	void *argument = nullptr;
	int err = 0;

	for (size_t i = 0; i < point.faults.size();) {
		if (--point.faults[i].countdown > 0) {
			++i;
			continue;
		}
		if (point.faults[i].happen) {
			happen = point.faults[i].happen;
			argument = point.faults[i].argument;
		} else {
			err = point.faults[i].err;
		}
		point.faults.erase(point.faults.begin() + static_cast<long>(i));
	}
	if (!err)
		err = point.always;
	point.armed = point.always || !point.faults.empty();
	if (happen) {
		world().mutex.unlock();
		happen(argument);
		world().mutex.lock();
	}
	return err;
}

static Point &point_of(const char *function)
{
	for (Point &point : world().points)
		if (!strcmp(point.name, function))
			return point;
	die("no function \"%s\" that could be counted or made to fail", function);
}

static void free_everything(World &w)
{
	while (!w.ids.empty())
		free_id(*w.ids.begin());
	for (rdma_cm_event *event : w.events_out)
		delete event;
	w.events_out.clear();
	for (CmChannel *channel : std::set<CmChannel *>(w.cm_channels))
		free_cm_channel(channel);
	w.held.clear();
	for (Qp *qp : w.qps)
		if (qp)
			free_qp(qp);
	for (Cq *cq : std::set<Cq *>(w.cqs))
		free_cq(cq);
	for (Channel *channel : std::set<Channel *>(w.channels))
		free_channel(channel);
	for (Mr *mr : std::set<Mr *>(w.mrs))
		free_mr(mr);
	for (Pd *pd : w.pds)
		delete pd;
	w.pds.clear();
	for (Context *ctx : std::set<Context *>(w.contexts))
		close_context(ctx);
}

static void forget(World &w)
{
	for (Point &point : w.points) {
		const char *name = point.name;
		point = Point();
		point.name = name;
	}
	w.misuse.clear();
	w.live = {};
	w.seq = 0;
	w.qps.clear();
	w.keys.clear();
	w.free_keys.clear();
	w.reach.clear();
	w.next.clear();
	w.retired.clear();
}

} // namespace fake

using namespace fake;

void fake_reset(void)
{
	World &w = world();
	std::lock_guard<std::mutex> lock(w.mutex);

	free_everything(w);
	forget(w);
	fake_options_rxe(&w.opt);
	default_devices(w);
	w.retired.clear();
}

void fake_options_rxe(fake_options *options)
{
	*options = fake_options{};
}

void fake_options_mlx5(fake_options *options)
{
	fake_options_rxe(options);
	options->spec_status = true;
	options->async_errors = true;
	options->flush_late_receives = true;
	options->reset_cleans_cq = true;
	options->uc_stays_hearing = true;
}

void fake_set_options(const fake_options *options)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	world().opt = *options;
	for (Qp *qp : world().qps) // those whose sends have waited for fake_progress()
		if (qp)
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
	Point &point = point_of(function);

	point.faults.push_back({nth, err, nullptr, nullptr});
	point.armed = true;
}

void fake_before(const char *function, int nth, void (*happen)(void *), void *argument)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	Point &point = point_of(function);

	point.faults.push_back({nth, 0, happen, argument});
	point.armed = true;
}

void fake_fail_always(const char *function, int err)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	Point &point = point_of(function);

	point.always = err;
	point.armed = err != 0;
	if (!err)
		point.faults.clear();
}

void fake_forget_faults(void)
{
	std::lock_guard<std::mutex> lock(world().mutex);

	for (Point &point : world().points) {
		point.always = 0;
		point.armed = false;
		point.faults.clear();
	}
}

uint64_t fake_calls(const char *function)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	return point_of(function).calls;
}

struct fake_counts fake_live(void)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	return world().live;
}

int fake_live_total(void)
{
	fake_counts l = fake_live();
	return l.device_lists + l.contexts + l.pds + l.mrs + l.cqs + l.channels + l.qps +
	       l.event_channels + l.ids + l.ifaddrs;
}

int fake_misuse_count(void)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	return static_cast<int>(world().misuse.size());
}

const char *fake_misuse(int index)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	auto i = static_cast<size_t>(index);
	return i < world().misuse.size() ? world().misuse[i].c_str() : nullptr;
}

void fake_misuse_clear(void)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	world().misuse.clear();
}
