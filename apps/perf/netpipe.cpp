// SPDX-License-Identifier: BSD-2-Clause
#include "netpipe.h"

#include <algorithm>
#include <fstream>
#include <unistd.h>

namespace
{
/*
 * The warm-up of each transport takes this many trials' time, or up to twice that; enough messages
 * end it, too.
 */
constexpr double warm_trials = 10;
/* The buffer space for the messages under way in one direction. It exceeds a CPU's own caches. */
constexpr size_t most_buffered = 16 << 20;

/* Adds the ticks since boot, times `sign`. */
void add_ticks(Result &result, double sign)
{
	std::ifstream stat("/proc/stat");
	std::string word;
	double user = 0, nice = 0, system = 0, idle = 0;
	double iowait = 0, irq = 0, softirq = 0, steal = 0;

	stat >> word >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
	const double busy = user + nice + system + irq + softirq;

	result.busy_ticks += sign * busy;
	result.all_ticks += sign * (busy + idle + iowait + steal);
}

/* A transport that takes its turns. */
class Contestant
{
public:
	Contestant(const Side &side, const Shape &shape, bool is_stream)
	    : shape_(shape), is_stream_(is_stream), match_(side, shape)
	{
		run(shape.room, shape.buffers); /* uses each buffer once, because the first use of memory is slow */
	}

	/* Returns a result without trials. Finds the number of messages for a trial, which warms up the way, too. */
	Result prepare(size_t bytes, double trial_us, bool is_warm)
	{
		const size_t times = bytes_ ? bytes / bytes_ : 1; /* keeps the duration */
		const Send send = [this, bytes](uint64_t count) { return run(bytes, count).client.us; };

		if (!is_warm)
			warm_up(warm_trials * trial_us, send);
		count_ = count_for(trial_us, count_ / 4 / std::max<size_t>(times, 1), send);
		bytes_ = bytes;
		return {shape_, bytes};
	}
	void add_trial(Result &result)
	{
		add_ticks(result, -1);
		const Block block = run(bytes_, count_);
		add_ticks(result, 1);
		result.one_way_us.push_back(block.client.us / static_cast<double>(count_) /
					    (is_stream_ ? 1 : ways_of_ping(shape_)));
		result.sum.client += block.client;
		result.sum.server += block.server;
	}

private:
	Block run(size_t bytes, uint64_t count)
	{
		return is_stream_ ? match_.stream(bytes, count) : match_.ping(bytes, count);
	}

	const Shape shape_;
	const bool is_stream_;
	Match match_;
	uint64_t count_ = 8; /* messages of a trial of the last size; first a guess */
	size_t bytes_ = 0; /* of the last size */
};

using Contestants = std::vector<std::unique_ptr<Contestant>>;

Shape fitted(Shape shape, const Plan &plan, size_t room)
{
	shape.room = std::max(room, sizeof(uint64_t));
	shape.depth = plan.depth;
	if (plan.is_stream)
		shape.buffers = plan.buffers ? plan.buffers
					     : static_cast<unsigned>(std::clamp(most_buffered / shape.room, size_t{1},
										size_t{plan.depth}));
	return shape;
}

/* Makes all transports, for messages of up to `room` bytes. */
Contestants opened(const Side &side, const std::vector<Shape> &shapes, const Plan &plan, size_t room)
{
	Contestants contestants;

	for (const Shape &shape : shapes) {
		progress("opening " + name_of(shape));
		contestants.push_back(std::make_unique<Contestant>(side, fitted(shape, plan, room), plan.is_stream));
	}
	return contestants;
}

/* Returns nothing if it is stopped. */
std::vector<Result> results_of(const Contestants &contestants, const Plan &plan, size_t bytes, bool is_warm)
{
	std::vector<Result> results;

	for (const auto &contestant : contestants) {
		if (is_stopped())
			return {};
		results.push_back(contestant->prepare(bytes, plan.trial_ms * 1e3, is_warm));
	}
	for (unsigned trial = 1; trial <= plan.trials; ++trial) {
		if (is_stopped())
			return {};
		progress(std::to_string(bytes) + " bytes, trial " + std::to_string(trial));
		for (size_t i = 0; i < results.size(); ++i)
			contestants[i]->add_trial(results[i]);
	}
	return results;
}
} // namespace

Samples Result::MBps() const
{
	Samples samples;

	for (double us : one_way_us)
		samples.push_back(static_cast<double>(bytes) / us);
	return samples;
}

double Result::host_percent() const
{
	return all_ticks > 0 ? busy_ticks / all_ticks * 100 * double(sysconf(_SC_NPROCESSORS_ONLN)) : 0;
}

void measure_by_turns(const Side &side, const std::vector<Shape> &shapes, const Plan &plan,
		      Report &report, const std::function<void(const Result &)> &found)
{
	const size_t most = side.nic.attributes().MaxTransferSize;
	const std::vector<SizeGroup> groups = netpipe_sizes(
		plan.from, std::min<size_t>(plan.to, most), plan.factor, plan.perturb);
	bool is_warm = false;

	stop_on_interrupt();
	if (groups.empty())
		throw Failure("no size from " + std::to_string(plan.from) + " to " + std::to_string(plan.to) +
			      " bytes that this NIC takes");
	if (plan.to > most)
		report.remark("left out: messages over " + std::to_string(most) + " bytes, the longest of this NIC");
	const size_t longest = std::min(groups.back().back(), most);
	for (const Shape &shape : shapes) /* fails before anything is measured */
		expect_room(fitted(shape, plan, longest));
	report.note("trials", plan.trials);
	report.note("trial_ms", plan.trial_ms);
	if (plan.is_stream)
		report.note("depth", plan.depth);
	Contestants contestants;
	for (const SizeGroup &group : groups) {
		/*
		 * The buffers of a stream are adjacent. Otherwise they would compete for the same
		 * cache lines.
		 */
		if (!is_stopped() && (plan.is_stream || contestants.empty())) {
			contestants.clear();
			contestants = opened(side, shapes, plan, plan.is_stream ? std::min(group.back(), most) : longest);
		}
		for (size_t bytes : group)
			if (bytes <= most && !is_stopped()) {
				for (const Result &result : results_of(contestants, plan, bytes, is_warm))
					found(result);
				is_warm = true; /* remains so when the transports are made anew */
			}
	}
}
