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
#include <condition_variable>
#include <cstdio>
#include <future>
#include <iostream>
#include <mutex>
#include <thread>
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

/*
 * The thread of one end, for all blocks of a path: the library's locks are cheap for the thread that usually takes
 * them.
 */
class Worker : Single
{
public:
	~Worker()
	{
		start([this] { ends_ = true; });
		thread_.join();
	}
	/* For one task at a time. */
	std::future<void> start(std::function<void()> work)
	{
		const std::lock_guard<std::mutex> lock(mutex_);

		task_ = std::packaged_task<void()>(std::move(work));
		changed_.notify_one();
		return task_.get_future();
	}

private:
	void work()
	{
		while (!ends_) {
			std::unique_lock<std::mutex> lock(mutex_);

			changed_.wait(lock, [this] { return task_.valid(); });
			std::packaged_task<void()> task = std::move(task_);
			lock.unlock();
			task();
		}
	}

	std::mutex mutex_;
	std::condition_variable changed_;
	std::packaged_task<void()> task_;
	bool ends_ = false; /* the thread's own */
	std::thread thread_{[this] { work(); }}; /* the last member, because the thread uses the others */
};

/* Two ends with a thread for each. */
struct Workers {
	Worker ping, echo;
};

/*
 * Ends the process if the block takes longer than ten seconds, and for each round trip ten milliseconds and the
 * duration at 1 MB/s: a thread that sleeps without a limit, as over raw verbs, cannot be woken if its event is lost.
 */
void await_block(const std::future<void> &end, const Case &one, uint64_t iterations)
{
	const std::chrono::milliseconds limit(10000 + iterations * (10 + one.traffic.bytes / 500));

	if (end.wait_for(limit) == std::future_status::ready)
		return;
	progress("");
	complain("%s: no message came", one.name);
	_exit(EXIT_FAILED);
}

/* Returns the microseconds of the thread that pings. Both ends fail when one fails. */
double time_two_threads(Workers &workers, Path &path, const Case &one, uint64_t iterations)
{
	double us = 0;
	const auto start = [&path](Worker &worker, auto work) {
		return worker.start([&path, work] {
			try {
				work();
			} catch (...) {
				path.give_up();
				throw;
			}
		});
	};
	auto echo = start(workers.echo, [&path, iterations] { path.echo(iterations); });
	auto ping = start(workers.ping, [&path, iterations, &us] {
		const double began = now_us();

		path.ping(iterations);
		us = now_us() - began;
	});

	await_block(ping, one, iterations);
	await_block(echo, one, iterations);
	echo.get();
	ping.get();
	return us;
}

double time_one_thread(Path &path, const Case &one, uint64_t iterations)
{
	const double began = now_us();

	if (one.streams)
		path.stream(iterations);
	else
		path.ping_pong(iterations);
	return now_us() - began;
}

/* Runs one block. Returns microseconds one way, or MB/s. */
double figure_of_block(Workers &workers, Path &path, const Case &one, uint64_t iterations)
{
	path.messages().prepare();
	const double us = one.traffic.waits ? time_two_threads(workers, path, one, iterations)
					    : time_one_thread(path, one, iterations);

	path.messages().check(!one.streams);
	return one.streams ? static_cast<double>(iterations * one.traffic.bytes) / us
			   : us / static_cast<double>(iterations) / 2;
}

/* Rounds to a tenth of a per mille, because the rest is noise. */
double rounded(double value, double steps)
{
	return std::round(value * steps) / steps;
}

Json run_case(const Nic &nic, const Case &one, const Overhead &asked)
{
	const uint64_t iterations = iterations_of(one, asked.iterations);
	const auto raw = make_raw_path(nic, one.traffic);
	const auto vipl = make_vipl_path(nic, one.traffic);
	Workers raw_workers, vipl_workers;
	const auto raw_block = [&] { return figure_of_block(raw_workers, *raw, one, iterations); };
	const auto vipl_block = [&] { return figure_of_block(vipl_workers, *vipl, one, iterations); };
	const Pairs pairs = measure_pairs(asked.pairs, raw_block, vipl_block);

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
			received(end)[slot] = {~traffic_.bytes, 0};
		}
}

void Messages::check(bool at_both)
{
	for (unsigned end = 0; end < 2 * traffic_.links; end++)
		for (unsigned slot = 0; slot < traffic_.window && (at_both || end % 2); slot++) {
			const Received &is = received(end)[slot];

			if (is.length != traffic_.bytes || (traffic_.writes && is.immediate != immediate_data) ||
			    std::memcmp(to_receive(end, slot), to_send(end ^ 1, slot), traffic_.bytes) != 0)
				throw Failure("a message did not come as it was sent");
		}
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

		progress("");
		if (*json)
			std::cout << results.dump(1) << '\n';
		else
			print_table(results);
	});
}
