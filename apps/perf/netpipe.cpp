// SPDX-License-Identifier: BSD-2-Clause
#include "netpipe.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <unistd.h>

#include "run.h"

namespace
{
/*
 * The warm-up of each transport takes this many trials' time, or up to twice that; enough messages
 * end it, too.
 */
constexpr double warm_trials = 10;
/* The buffer space for the messages under way in one direction. It exceeds a CPU's own caches. */
constexpr size_t most_buffered = 16 << 20;

/* Reads the ticks since boot. */
HostTicks host_ticks()
{
	std::ifstream stat("/proc/stat");
	std::string word;
	double user = 0, nice = 0, system = 0, idle = 0;
	double iowait = 0, irq = 0, softirq = 0, steal = 0;

	stat >> word >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
	const double busy = user + nice + system + irq + softirq;

	return {busy, busy + idle + iowait + steal};
}

/* A transport that takes its turns. */
class Contestant
{
public:
	Contestant(const Side &side, const Shape &shape, bool is_stream)
	    : shape_(shape), is_stream_(is_stream), match_(side, shape)
	{
	}

	/* Uses each buffer once, because the first use of memory is slow. */
	void touch()
	{
		run(shape_.room, shape_.buffers);
	}
	void warm(size_t bytes, double us)
	{
		warm_up(us, sending(bytes));
	}
	/* Finds the number of messages for a trial. This warms up the way for the size, too. */
	void prepare(size_t bytes, double trial_us)
	{
		const size_t times = bytes_ ? bytes / bytes_ : 1; /* keeps the duration */

		count_ = count_for(trial_us, count_ / 4 / std::max<size_t>(times, 1), sending(bytes));
		bytes_ = bytes;
	}
	Trial run(size_t bytes)
	{
		const HostTicks before = host_ticks();
		const Block block = run(bytes, count_);
		const HostTicks after = host_ticks();

		return {block, count_, {after.busy - before.busy, after.all - before.all}};
	}

	const Shape &shape() const
	{
		return shape_;
	}

private:
	Block run(size_t bytes, uint64_t count)
	{
		return is_stream_ ? match_.stream(bytes, count) : match_.ping(bytes, count);
	}
	Send sending(size_t bytes)
	{
		return [this, bytes](uint64_t count) { return run(bytes, count).us; };
	}

	const Shape shape_;
	const bool is_stream_;
	Match match_;
	uint64_t count_ = 8; /* messages of a trial of the last size; first a guess */
	size_t bytes_ = 0; /* of the last size */
};

class Contest
{
public:
	Contest(const Side &side, const Plan &plan, const std::vector<Shape> &shapes)
	    : side_(side), plan_(plan), shapes_(shapes)
	{
	}
	/* Fails, before anything is measured, where there is no room for messages of this size. */
	void expect_room(size_t room) const;
	/* Makes all transports anew, for messages of up to `room` bytes. */
	void open(size_t room);
	std::vector<Result> measure(size_t bytes);

private:
	unsigned buffers(size_t room) const;
	Shape fitted(Shape shape, size_t room) const;

	const Side &side_;
	const Plan &plan_;
	const std::vector<Shape> &shapes_;
	std::vector<std::unique_ptr<Contestant>> contestants_;
	bool is_warm_ = false; /* remains true when the transports are made anew */
};

unsigned Contest::buffers(size_t room) const
{
	if (!plan_.is_stream)
		return 1;
	if (plan_.buffers)
		return plan_.buffers;
	return static_cast<unsigned>(
		std::clamp(most_buffered / room, size_t{1}, size_t{plan_.depth}));
}

Shape Contest::fitted(Shape shape, size_t room) const
{
	shape.room = std::max(room, sizeof(uint64_t));
	shape.depth = plan_.depth;
	shape.buffers = buffers(shape.room);
	return shape;
}

void Contest::expect_room(size_t room) const
{
	for (const Shape &shape : shapes_)
		::expect_room(fitted(shape, room));
}

void Contest::open(size_t room)
{
	contestants_.clear();
	for (const Shape &shape : shapes_) {
		progress("opening " + name_of(shape));
		contestants_.push_back(std::make_unique<Contestant>(side_, fitted(shape, room),
								    plan_.is_stream));
		contestants_.back()->touch();
	}
}

std::vector<Result> Contest::measure(size_t bytes)
{
	const double trial_us = plan_.trial_ms * 1e3;
	std::vector<Result> results;

	for (const auto &contestant : contestants_) {
		if (is_stopped())
			return {};
		if (!is_warm_)
			contestant->warm(bytes, warm_trials * trial_us);
		contestant->prepare(bytes, trial_us);
		results.push_back({contestant->shape(), bytes, plan_.is_stream, {}});
	}
	is_warm_ = true;
	for (unsigned trial = 1; trial <= plan_.trials; ++trial) {
		if (is_stopped())
			return {};
		progress(std::to_string(bytes) + " bytes, trial " + std::to_string(trial));
		for (size_t i = 0; i < results.size(); ++i)
			results[i].trials.push_back(contestants_[i]->run(bytes));
	}
	return results;
}
} // namespace

Samples Result::one_way_us() const
{
	const double ways = is_stream ? 1 : ways_of_ping(shape);
	Samples samples;

	for (const Trial &trial : trials)
		samples.push_back(trial.block.us / static_cast<double>(trial.count) / ways);
	return samples;
}

Samples Result::MBps() const
{
	Samples samples;

	for (double us : one_way_us())
		samples.push_back(static_cast<double>(bytes) / us);
	return samples;
}

double Result::percent(double Block::*processor_us, double Block::*took_us) const
{
	double used = 0, whole = 0;

	for (const Trial &trial : trials) {
		used += trial.block.*processor_us;
		whole += trial.block.*took_us;
	}
	return used / whole * 100;
}

double Result::host_percent() const
{
	HostTicks sum = {};

	for (const Trial &trial : trials) {
		sum.busy += trial.host.busy;
		sum.all += trial.host.all;
	}
	return sum.all > 0 ? sum.busy / sum.all * 100 * double(sysconf(_SC_NPROCESSORS_ONLN)) : 0;
}

void measure_by_turns(const Side &side, const std::vector<Shape> &shapes, const Plan &plan,
		      Report &report, const std::function<void(const Result &)> &found)
{
	const size_t most = side.nic.attributes().MaxTransferSize;
	const std::vector<SizeGroup> groups = netpipe_sizes(
		plan.from, std::min<size_t>(plan.to, most), plan.factor, plan.perturb);
	Contest contest(side, plan, shapes);

	stop_on_interrupt();
	if (groups.empty())
		throw Failure("no size from " + std::to_string(plan.from) + " to " +
			      std::to_string(plan.to) + " bytes that this NIC takes");
	if (plan.to > most)
		report.remark("left out: messages over " + std::to_string(most) +
			      " bytes, the longest of this NIC");
	contest.expect_room(std::min(groups.back().back(), most));
	report.note("trials", plan.trials);
	report.note("trial_ms", plan.trial_ms);
	if (plan.is_stream)
		report.note("depth", plan.depth);
	else
		contest.open(std::min(groups.back().back(), most));
	for (const SizeGroup &group : groups) {
		if (is_stopped())
			return;
		/*
		 * The buffers of a stream are adjacent. Otherwise they would compete for the same
		 * cache lines.
		 */
		if (plan.is_stream)
			contest.open(std::min(group.back(), most));
		for (size_t bytes : group)
			if (bytes <= most)
				for (const Result &result : contest.measure(bytes))
					found(result);
	}
}
