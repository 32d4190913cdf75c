/*
 * vip_perf waking - what a message costs a program that watches memory and calls nothing, as programs
 * did where the adapter wrote the status of a descriptor: with VIPL_PROGRESS=on a thread of the library
 * is woken for it. Beside it, by turns, what it costs on this machine that one process wakes another
 * one by a futex, which is the least that waking can be.
 *
 * Half of a round trip of eight bytes: each side looks at the status of its receive until that is
 * done, takes it, posts it again, answers. The futex's two processes are both on the client's host.
 */
#include "waking.h"

#include <atomic>
#include <climits>
#include <cstdlib>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "child.h"
#include "paired.h"
#include "patience.h"
#include "run.h"
#include "server_address.h"
#include "small_vi.h"

extern "C" {
#include "../common.h"
}

namespace
{
constexpr unsigned depth = 4;
constexpr uint64_t most_messages = 1000000;

struct Wanted {
	unsigned pairs = 15, round_trips = 500;
};

/* Turns of two processes: whose number it is not, sleeps. */
struct Turns {
	std::atomic<uint32_t> number;
	std::atomic<bool> is_over;
};

/* False: it is over, or nobody woke us for too long. */
bool await_turn(Turns &turns, uint32_t parity)
{
	const timespec limit = {silence_limit_ms / 1000, 0};

	for (;;) {
		const uint32_t now = turns.number;

		if (turns.is_over)
			return false;
		if (now % 2 == parity)
			return true;
		if (syscall(SYS_futex, &turns.number, FUTEX_WAIT, now, &limit, nullptr, 0) < 0 &&
		    errno == ETIMEDOUT)
			return false;
	}
}

void pass_turn(Turns &turns)
{
	++turns.number;
	syscall(SYS_futex, &turns.number, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

/* This process and a child of it, which is there for the object's life. */
class FutexPair
{
public:
	FutexPair()
	{
		void *memory = mmap(nullptr, sizeof(Turns), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			fail_errno("get shared memory");
		turns_ = new (memory) Turns();
		child_ = std::make_unique<Child>([turns = turns_] {
			while (!turns->is_over)
				if (await_turn(*turns, 1))
					pass_turn(*turns);
			return EXIT_OK;
		});
	}
	~FutexPair()
	{
		turns_->is_over = true;
		turns_->number += 2; /* who is about to sleep does not */
		syscall(SYS_futex, &turns_->number, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
		child_.reset();
		munmap(turns_, sizeof(Turns));
	}
	FutexPair(const FutexPair &) = delete;
	FutexPair &operator=(const FutexPair &) = delete;

	double one_way_us(unsigned round_trips)
	{
		const double start = now_us();

		for (unsigned i = 0; i < round_trips; ++i) {
			pass_turn(*turns_);
			if (!await_turn(*turns_, 0))
				throw Failure("a process was not woken by a futex");
		}
		return (now_us() - start) / round_trips / 2;
	}

private:
	Turns *turns_;
	std::unique_ptr<Child> child_;
};

void send_and_watch(SmallVi &vi, uint64_t number)
{
	vi.send(number);
	vi.watch_sent();
}

double watched_us(const Side &side, SmallVi &vi, unsigned round_trips)
{
	side.control.write({{"messages", round_trips}});
	side.control.meet();
	const double start = now_us();
	for (uint64_t i = 0; i < round_trips; ++i) {
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

	side.control.write({{"do", "waking"}});
	Address server = share_server_address(side);
	SmallVi vi(side.nic, VIP_SERVICE_RELIABLE_DELIVERY, depth, nullptr);
	const Pairs pairs = side.control.together([&] {
		connect_vi(side, vi.vi(), server);
		return measure_pairs(
			wanted.pairs, [&] { return futex.one_way_us(wanted.round_trips); },
			[&] { return watched_us(side, vi, wanted.round_trips); });
	});

	side.control.write({{"messages", 0U}});
	side.control.meet();
	report.add("waking", point("futex", pairs.first, 1));
	report.add("waking",
		   point("message, watched in memory", pairs.second, compare(pairs).ratio));
	return report;
}
} // namespace

void serve_waking(const Side &side)
{
	Address server = share_server_address(side);
	SmallVi vi(side.nic, VIP_SERVICE_RELIABLE_DELIVERY, depth, nullptr);

	connect_vi(side, vi.vi(), server);
	while (uint64_t messages = count_in(side.control.read(), "messages")) {
		if (messages > most_messages)
			throw Failure("the client asks for more than there is");
		side.control.meet();
		for (; messages; --messages) {
			const uint64_t number = vi.watch_message();

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
		->check(CLI::Range(1u, static_cast<unsigned>(most_messages)))
		->capture_default_str();
	/* Before the NIC is opened. */
	command->parse_complete_callback([] { setenv("VIPL_PROGRESS", "on", 1); });
}
