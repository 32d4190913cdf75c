// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf waking - measures the cost of a message for a program that watches memory and calls nothing.
 * Programs did this where the adapter wrote the status of a descriptor. With VIPL_PROGRESS=on a thread
 * of the library is woken and writes the status. Two futex measurements are made by turns with it: one
 * process wakes another one, which is the least cost of waking; and a process wakes a thread, which
 * writes memory that its program watches.
 *
 * A figure is half of a round trip of eight bytes: each side watches the status of its receive until it
 * is done, takes it, posts it again, and answers. The futexes' processes are on the client's host.
 */
#include <atomic>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "child.h"
#include "arithmetic.h"
#include "patience.h"
#include "run.h"
#include "server_address.h"
#include "small_vi.h"

extern "C" {
#include "../common/common.h"
}

namespace
{
constexpr unsigned depth = 4;

struct Wanted {
	unsigned pairs = 15, round_trips = 500;
};

/* Two processes take turns. The number says whose turn it is, and the other process sleeps. */
struct Turns {
	std::atomic<uint32_t> number;
	std::atomic<bool> is_over;
};

/* An object in memory that children share. */
template <typename T> class Shared
{
public:
	Shared()
	{
		void *memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			fail_errno("get shared memory");
		object_ = new (memory) T();
	}
	~Shared()
	{
		munmap(object_, sizeof(T));
	}
	Shared(const Shared &) = delete;
	Shared &operator=(const Shared &) = delete;

	T &operator*() const
	{
		return *object_;
	}

private:
	T *object_;
};

/* Sleeps while the number has this value. Returns false if no wake-up came for too long. */
bool sleep_on(std::atomic<uint32_t> &number, uint32_t value)
{
	const timespec limit = {silence_limit_ms / 1000, 0};

	return !syscall(SYS_futex, &number, FUTEX_WAIT, value, &limit, nullptr, 0) ||
	       errno != ETIMEDOUT;
}

void add_and_wake(std::atomic<uint32_t> &number)
{
	++number;
	syscall(SYS_futex, &number, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

/* Returns false if the measurement is over or no wake-up came for too long. */
bool await_turn(Turns &turns, uint32_t parity)
{
	for (;;) {
		const uint32_t now = turns.number;

		if (turns.is_over)
			return false;
		if (now % 2 == parity)
			return true;
		if (!sleep_on(turns.number, now))
			return false;
	}
}

/* This process and a child, which lives as long as the object. */
class FutexPair
{
public:
	FutexPair()
	{
		child_ = std::make_unique<Child>([turns = &*turns_] {
			while (!turns->is_over)
				if (await_turn(*turns, 1))
					add_and_wake(turns->number);
			return EXIT_OK;
		});
	}
	~FutexPair()
	{
		(*turns_).is_over = true;
		add_and_wake((*turns_).number);
		child_.reset();
	}
	FutexPair(const FutexPair &) = delete;
	FutexPair &operator=(const FutexPair &) = delete;

	double one_way_us(unsigned round_trips)
	{
		const double start = now_us();

		for (unsigned i = 0; i < round_trips; ++i) {
			add_and_wake((*turns_).number);
			if (!await_turn(*turns_, 0))
				throw Failure("a process was not woken by a futex");
		}
		return (now_us() - start) / round_trips / 2;
	}

private:
	Shared<Turns> turns_;
	std::unique_ptr<Child> child_;
};

/* `rung` wakes a process's thread, and the thread writes `seen`. */
struct Bell {
	std::atomic<uint32_t> rung, seen;
};

/* The work of the thread: it is woken for each ring. */
void take_rings(Bell &bell, uint32_t rings)
{
	for (uint32_t seen = 0; seen < rings; bell.seen = seen = bell.rung)
		if (!sleep_on(bell.rung, seen))
			throw Failure("a thread was not woken by a futex");
}

/* The work of a program: it watches what its thread writes, rings, and watches again. */
void look_and_ring(Bell &own, Bell &other, uint32_t rings, bool begins)
{
	const auto thread = std::async(std::launch::async, take_rings, std::ref(own), rings);

	for (uint32_t i = 0; i < rings; ++i) {
		if (begins)
			add_and_wake(other.rung);
		for (Patience patience; own.seen == i;)
			patience.in_vain("a thread that was woken by a futex");
		if (!begins)
			add_and_wake(other.rung);
	}
}

double looked_for_us(unsigned round_trips)
{
	struct Bells {
		Bell client, server;
	};
	const Shared<Bells> bells;
	const Child child([&] {
		look_and_ring((*bells).server, (*bells).client, round_trips, false);
		return EXIT_OK;
	});
	const double start = now_us();

	look_and_ring((*bells).client, (*bells).server, round_trips, true);
	return (now_us() - start) / round_trips / 2;
}

void send_and_watch(SmallVi &vi, uint32_t number)
{
	vi.send(number);
	vi.watch_sent();
}

double watched_us(const Side &side, SmallVi &vi, unsigned round_trips)
{
	side.control.write({{"messages", round_trips}});
	side.control.meet();
	const double start = now_us();
	for (uint32_t i = 0; i < round_trips; ++i) {
		vi.send(i);
		if (vi.watch_message() != i)
			throw Failure("a message came with wrong contents");
		vi.post_receive();
		vi.watch_sent();
	}
	return (now_us() - start) / round_trips / 2;
}

Json point(const char *what, const Samples &us, double ratio)
{
	return {{"what", what},
		{"us", median(us)},
		{"us_min", minimum(us)},
		{"us_stderr", standard_error(us)},
		{"ratio", ratio}};
}

Report measure(const Side &side, const Wanted &wanted)
{
	Report report("waking", {{"what", "what", ""},
				 {"us", "one way", "us"},
				 {"us_min", "least", "us"},
				 {"us_stderr", "std. error", "us"},
				 {"ratio", "to the futex", ""}});
	FutexPair futex;
	const auto futex_us = [&] { return futex.one_way_us(wanted.round_trips); };
	const Pairs threads = side.control.together([&] {
		return measure_pairs(wanted.pairs, futex_us,
				     [&] { return looked_for_us(wanted.round_trips); });
	});

	side.control.write({{"do", "waking"}});
	Address server = share_server_address(side);
	SmallVi vi(side.nic, VIP_SERVICE_RELIABLE_DELIVERY, depth, nullptr);
	const Pairs pairs = side.control.together([&] {
		connect_vi(side, vi.vi(), server);
		return measure_pairs(wanted.pairs, futex_us,
				     [&] { return watched_us(side, vi, wanted.round_trips); });
	});

	side.control.write({{"messages", 0U}});
	side.control.meet();
	report.add("waking", point("futex", pairs.first, 1));
	report.add("waking",
		   point("futex, watched in memory", threads.second, median(ratios(threads))));
	report.add("waking",
		   point("message, watched in memory", pairs.second, median(ratios(pairs))));
	return report;
}
} // namespace

void serve_waking(const Side &side)
{
	Address server = share_server_address(side);
	SmallVi vi(side.nic, VIP_SERVICE_RELIABLE_DELIVERY, depth, nullptr);

	connect_vi(side, vi.vi(), server);
	while (uint64_t messages = side.control.read().at("messages").get<uint64_t>()) {
		side.control.meet();
		for (; messages; --messages) {
			const uint32_t number = vi.watch_message();

			vi.post_receive();
			send_and_watch(vi, number);
		}
	}
	side.control.meet();
}

void add_waking(CLI::App &app)
{
	auto wanted = std::make_shared<Wanted>();
	CLI::App *command = add_measurement(
		app, "waking",
		"What a message costs a program that watches memory, with\n"
		"VIPL_PROGRESS=on, beside waking by a futex",
		[=](const Side &side) { return measure(side, *wanted); }, Placing::anywhere);

	command->add_option("--pairs", wanted->pairs, "pairs of blocks, one of each")
		->check(CLI::Range(2, 1000))
		->capture_default_str();
	command->add_option("--iterations", wanted->round_trips, "round trips in a block")
		->check(CLI::Range(1, 1000000))
		->capture_default_str();
	/* The NIC reads the variable when it is opened. */
	command->parse_complete_callback([] { setenv("VIPL_PROGRESS", "on", 1); });
}
