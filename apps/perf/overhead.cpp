// SPDX-License-Identifier: BSD-2-Clause
/*
 * The cases of vip_perf overhead. For each message libvipl and raw verbs do the same: post a signalled
 * request, take the receive at the other end, post the next receive there, take the request's completion. One
 * thread has both ends, so that the scheduler has no influence: it posts on A, takes on B, posts on B, takes
 * on A, and takes the completions of both requests. Where threads sleep until a message comes, each end has a
 * thread. A software device works within the call that posts, so a thread with both ends would find its
 * message there already and never sleep.
 */
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <future>
#include <iostream>
#include <unistd.h>

#include "../common/common.h"
#include "overhead.h"
#include "run.h"

namespace
{
struct Overhead {
	std::string nic = "nic0";
	std::vector<std::string> cases; /* empty: all */
	unsigned pairs = 15;
	/* In a block of small messages; blocks of larger messages have fewer. */
	unsigned iterations = 1000;
};

struct Case {
	const char *name;
	bool streams;
	unsigned share; /* this case has 1/share of the iterations, at least one */
	Traffic traffic;
};

constexpr uint32_t KiB = 1024, MiB = 1024 * KiB;
constexpr bool rc = false, uc = true, send = false, write = true, polls = false, waits = true,
	       limited = true;

const Case all_cases[] = {
	{"rc_send_8B", false, 1, {8, rc, send, polls}},
	{"rc_send_4KiB", false, 4, {4 * KiB, rc, send, polls}},
	{"rc_send_64KiB", false, 20, {64 * KiB, rc, send, polls}},
	{"rc_send_1MiB", false, 250, {MiB, rc, send, polls}},
	{"uc_send_8B", false, 1, {8, uc, send, polls}},
	{"uc_send_4KiB", false, 4, {4 * KiB, uc, send, polls}},
	{"uc_send_64KiB", false, 20, {64 * KiB, uc, send, polls}},
	{"uc_send_1MiB", false, 250, {MiB, uc, send, polls}},
	{"rc_write_8B", false, 1, {8, rc, write, polls}},
	{"rc_write_4KiB", false, 4, {4 * KiB, rc, write, polls}},
	{"rc_write_64KiB", false, 20, {64 * KiB, rc, write, polls}},
	{"rc_write_1MiB", false, 250, {MiB, rc, write, polls}},
	{"rc_send_wait_8B", false, 1, {8, rc, send, waits}},
	{"rc_send_wait_4KiB", false, 4, {4 * KiB, rc, send, waits}},
	{"rc_send_wait_limited_4KiB", false, 4, {4 * KiB, rc, send, waits, 1, 1, limited}},
	{"rc_send_wait_64KiB", false, 20, {64 * KiB, rc, send, waits}},
	{"rc_send_wait_1MiB", false, 250, {MiB, rc, send, waits}},
	{"rc_stream_64KiB", true, 8, {64 * KiB, rc, send, polls, 16}},
	{"rc_stream_1MiB", true, 64, {MiB, rc, send, polls, 8}},
	{"rc_send_8B_1024", false, 1, {8, rc, send, polls, 1, 1024}},
};

std::vector<std::string> all_names()
{
	std::vector<std::string> names;

	for (const Case &one : all_cases)
		names.emplace_back(one.name);
	return names;
}

/* Returns whole rounds of the buffers and the links, so that all of them can be checked. */
uint64_t iterations_of(const Case &one, unsigned asked)
{
	const uint64_t wanted = std::max(1u, asked / one.share);
	const uint64_t round = uint64_t(one.traffic.window) * one.traffic.links;

	return (wanted + round - 1) / round * round;
}

/* A thread that sleeps without a limit, as over raw verbs, cannot be woken if its event is lost. */
void end_in_vain(int)
{
	static const char word[] = "vip_perf: no message came\n";

	[[maybe_unused]] const ssize_t told = ::write(STDERR_FILENO, word, sizeof(word) - 1);
	_exit(EXIT_FAILED);
}

/*
 * A path that takes its turns. Where threads sleep, one of them echoes, the same for all blocks: the library's locks
 * are cheap for the thread that usually takes them.
 */
class Contestant : Single
{
public:
	Contestant(std::unique_ptr<Path> path, const Case &one, uint64_t iterations)
	    : one_(one), iterations_(iterations), path_(std::move(path))
	{
		if (one.traffic.waits)
			echo_ = std::async(std::launch::async, [this] { echo(); });
	}
	~Contestant()
	{
		starts_.first = Socket();
		path_->give_up();
	}
	/* Runs one block. Returns microseconds one way, or MB/s. */
	double measure()
	{
		const double count = static_cast<double>(iterations_);

		path_->messages().prepare();
		const double us = time();
		path_->messages().check(!one_.streams);
		return one_.streams ? count * one_.traffic.bytes / us : us / count / 2;
	}

private:
	double time()
	{
		const double began = now_us();

		if (one_.traffic.waits)
			ping();
		else if (one_.streams)
			path_->stream(iterations_);
		else
			path_->ping_pong(iterations_);
		return now_us() - began;
	}
	/* Takes at most ten seconds, and for each round trip ten milliseconds and the duration at 1 MB/s; so does the
	 * end of the echo if this fails, because the alarm stays then. */
	void ping()
	{
		alarm(static_cast<unsigned>(10 + iterations_ * (10 + one_.traffic.bytes / 500) / 1000));
		if (::write(starts_.first.fd(), "", 1) != 1)
			fail_errno("start a block");
		path_->ping(iterations_);
		alarm(0);
	}
	/* The other end fails when one fails. */
	void echo()
	try {
		for (char start; read(starts_.second.fd(), &start, 1) == 1;)
			path_->echo(iterations_);
	} catch (...) {
		path_->give_up();
		throw;
	}

	const Case &one_;
	const uint64_t iterations_;
	const std::unique_ptr<Path> path_;
	std::pair<Socket, Socket> starts_ = socket_pair();
	std::future<void> echo_; /* the last member, because the thread uses the others */
};

/* Rounds to a tenth of a per mille, because the rest is noise. */
double rounded(double value, double steps)
{
	return std::round(value * steps) / steps;
}

Json run_case(const Nic &nic, const Case &one, const Overhead &asked)
{
	const uint64_t iterations = iterations_of(one, asked.iterations);
	Contestant raw(make_raw_path(nic, one.traffic), one, iterations);
	Contestant vipl(make_vipl_path(nic, one.traffic), one, iterations);
	const Pairs pairs =
		measure_pairs(asked.pairs, [&] { return raw.measure(); }, [&] { return vipl.measure(); });

	return {{"ratio", rounded(median(ratios(pairs)), 1e4)},
		{"pairs", asked.pairs},
		{one.streams ? "raw_MBps" : "raw_us", rounded(median(pairs.first), 1e3)},
		{one.streams ? "vipl_MBps" : "vipl_us", rounded(median(pairs.second), 1e3)}};
}

/* Returns {"rc_send_8B": {"ratio": 1.01, "pairs": 15, "raw_us": 11.6, "vipl_us": 11.7}, ...} */
Json run_overhead(const Overhead &asked)
{
	const Nic nic(asked.nic);
	Json results = Json::object();

	signal(SIGALRM, end_in_vain);
	for (const Case &one : all_cases)
		if (asked.cases.empty() || std::count(asked.cases.begin(), asked.cases.end(), one.name)) {
			progress(one.name);
			try {
				results[one.name] = run_case(nic, one, asked);
			} catch (const Failure &failure) {
				throw Failure(one.name + std::string(": ") + failure.what());
			}
		}
	return results;
}

void print_table(const Json &results)
{
	std::printf("%-25s %12s %12s %-4s %10s\n", "case", "raw verbs", "VIPL", "", "VIPL/raw");
	for (const auto &[name, result] : results.items()) {
		const bool streams = result.contains("raw_MBps");

		std::printf("%-25s %12.3f %12.3f %-4s %10.4f\n", name.c_str(),
			    result[streams ? "raw_MBps" : "raw_us"].get<double>(),
			    result[streams ? "vipl_MBps" : "vipl_us"].get<double>(), streams ? "MB/s" : "us",
			    result["ratio"].get<double>());
	}
}
} // namespace

void Messages::prepare()
{
	round_++;
	for (unsigned end = 0; end < 2 * traffic_.links; end++)
		for (unsigned slot = 0; slot < traffic_.window; slot++) {
			/* The bytes differ between neighbouring places, slots, ends, and rounds. */
			for (size_t at = 0; at < traffic_.bytes; at++)
				to_send(end, slot)[at] = static_cast<uint8_t>(at + (at >> 8) + 31 * end + (end >> 3) +
									      7 * slot + 101 * round_);
			std::memset(to_receive(end, slot), 0, traffic_.bytes);
		}
}

void Messages::check(bool at_both)
{
	for (unsigned end = 0; end < 2 * traffic_.links; end++)
		for (unsigned slot = 0; slot < traffic_.window && (at_both || end % 2); slot++)
			if (std::memcmp(to_receive(end, slot), to_send(end ^ 1, slot), traffic_.bytes) != 0)
				throw Failure("a message did not come as it was sent");
}

void add_overhead(CLI::App &app)
{
	CLI::App *command = app.add_subcommand("overhead", "What VIPL costs over raw verbs on the "
							   "same RDMA device: paired ratios");
	auto asked = std::make_shared<Overhead>();
	auto json = std::make_shared<bool>(false);

	command->add_option("-n,--nic", asked->nic, "VI NIC to use")->capture_default_str();
	add_list(command, "--case", asked->cases, all_names(), "cases to measure (default: all)");
	add_number(command, "--pairs", asked->pairs, 1, 1000, "pairs of blocks, one over verbs, one over VIPL");
	add_number(command, "--iterations", asked->iterations, 1, 1000000,
		   "round trips of small messages in a block; fewer of larger ones");
	command->add_flag("--json", *json, "print JSON");
	command->callback([=] {
		const Json results = run_overhead(*asked);

		end_progress();
		if (*json)
			std::cout << results.dump(1) << '\n';
		else
			print_table(results);
	});
}
