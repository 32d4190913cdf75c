// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf echo - measures latency and throughput by size. It times each message by itself.
 *
 * The method is that of Jacobson, MacDonald and Du ("Experimental Analysis of VI Architecture",
 * University of Minnesota, TR 00-023, 2000). The client sends a packet, and the server sends it back.
 * The client reads the clock before it sends the packet and when the packet is back; half of the
 * difference is the time t. It does so N times, by default 64 (the size of the samples in the paper's
 * figures), after four times that do not count. A machine's speed changes within a run, so VIPL and TCP
 * take turns: all samples of a size by the one, then by the other, then those of the next size.
 *
 * The three ranges of sizes are the paper's: "small" gives its figures 1, 2 (latency) and 7 (VIA
 * and TCP), "medium" 3, 4 and 8 (throughput), "large" 5, 6 and 9. Each t includes reading the clock
 * once. vipl_link.cpp says what a round trip includes: also posting the next receive and taking the
 * completed send.
 */
#include <algorithm>
#include <deque>
#include <tuple>

#include "match.h"
#include "run.h"

namespace
{
constexpr size_t KiB = 1024, MiB = 1024 * KiB;
constexpr unsigned usual_samples = 64, least_samples = 10;
constexpr double usual_limit_us = 400000;

struct Range {
	const char *name;
	size_t first, last, step;
};

constexpr Range ranges[] = {{"small", 16, KiB, 16},
			    {"medium", KiB, 64 * KiB, KiB},
			    {"large", 64 * KiB, 2 * MiB, 32 * KiB}};

struct Wanted {
	Waiting waiting = Waiting::poll;
	std::string range, only; /* empty: all */
	unsigned samples = 0;	 /* 0: the usual number */
};

unsigned usual_count(Match &match, size_t bytes)
{
	const double fitting = usual_limit_us / (2 * match.one_way_us(bytes, 2));

	return static_cast<unsigned>(
		std::clamp(fitting, double(least_samples), double(usual_samples)));
}

Json point(size_t bytes, Samples us)
{
	const double amount = static_cast<double>(bytes); /* bytes in 1 us are 10^6 bytes in 1 s */

	for (double &sample : us)
		sample /= 2;
	const double average = mean(us), error = standard_error(us);

	return {{"bytes", bytes},
		{"samples", us.size()},
		{"us_min", minimum(us)},
		{"us", average},
		{"us_stderr", error},
		{"us_max", maximum(us)},
		{"MBps", amount / average},
		{"MBps_stderr", amount / (average * average) * error},
		{"MBps_max", amount / minimum(us)}};
}

/* Measures each size by all transports in turn. */
void measure_range(const Side &side, const Wanted &wanted, const Range &range, Report &report)
{
	std::deque<std::pair<std::string, Match>> matches;

	for (const Kind kind : {Kind::vipl, Kind::tcp}) {
		Shape shape;

		shape.kind = kind;
		shape.waiting = wanted.waiting;
		shape.room = range.last;
		if (wanted.only.empty() || wanted.only == Json(kind).get<std::string>())
			matches.emplace_back(std::piecewise_construct, std::forward_as_tuple(name_of(shape)),
					     std::forward_as_tuple(side, shape));
	}
	for (size_t bytes = range.first; bytes <= range.last; bytes += range.step)
		for (auto &[name, match] : matches) {
			progress(name + ", " + std::to_string(bytes) + " bytes");
			const unsigned count = wanted.samples ? wanted.samples : usual_count(match, bytes);

			report.add(name + ", " + range.name, point(bytes, match.ping_each(bytes, count)));
		}
}

void measure(const Side &side, const Wanted &wanted, Reports &reports)
{
	Report &report = reports.add("echo", {{"bytes", "packet size", "B"},
					      {"samples", "samples", ""},
					      {"us_min", "least", "us"},
					      {"us", "one way", "us"},
					      {"us_stderr", "+-", "us"},
					      {"us_max", "most", "us"},
					      {"MBps", "throughput", "MB/s"},
					      {"MBps_stderr", "+-", "MB/s"},
					      {"MBps_max", "most", "MB/s"}});

	stop_on_interrupt();
	for (const Range &range : ranges)
		if (wanted.range.empty() || wanted.range == range.name)
			measure_range(side, wanted, range, report);
}
} // namespace

void add_echo(CLI::App &app)
{
	auto wanted = std::make_shared<Wanted>();
	CLI::App *command = add_measurement(
		app, "echo",
		"Latency and throughput with standard errors, each echo timed by itself,\n"
		"over VIPL and over TCP (University of Minnesota, TR 00-023)",
		[=](const Side &side, Reports &reports) { measure(side, *wanted, reports); });

	add_waiting_option(command, wanted->waiting);
	add_only_option(command, wanted->only);
	take_words(command->add_option("--range", wanted->range,
				       "small: 16 to 1024 bytes by 16, medium: 1 to 64 KiB by 1 KiB,\n"
				       "large: 64 KiB to 2 MiB by 32 KiB (default: all)"),
		   Words{"small", "medium", "large"});
	command->add_option("--samples", wanted->samples,
			    "echoes of each size (default: 64, or as many as 0.4 s are\n"
			    "enough for, at least 10)")
		->check(CLI::Range(2, 1000000));
}
