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
#include <future>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "end.h"
#include "processes.h"
#include "run.h"

namespace
{
constexpr unsigned depth = 4;

struct Wanted {
	unsigned pairs = 15, round_trips = 500;
};

/* A futex that wakes a process, or its thread, which then writes `seen`. */
struct Bell {
	std::atomic<uint32_t> rung, seen;
};

/* Of a program and of a child, which share them. */
struct Bells {
	Bell own, childs;
	std::atomic<bool> is_over;
};

std::shared_ptr<Bells> shared_bells()
{
	void *memory = mmap(nullptr, sizeof(Bells), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail_errno("get shared memory");
	return {new (memory) Bells(), [](Bells *bells) { munmap(bells, sizeof(*bells)); }};
}

void ring(Bell &bell)
{
	++bell.rung;
	syscall(SYS_futex, &bell.rung, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

constexpr timespec ring_limit = {silence_limit_ms / 1000, 0};

/* Sleeps until the bell has rung more often than so many times, and returns how often. */
uint32_t await_ring(Bell &bell, uint32_t known, const timespec *limit = &ring_limit)
{
	uint32_t rung;

	while (rung = bell.rung, rung == known)
		if (syscall(SYS_futex, &bell.rung, FUTEX_WAIT, known, limit, nullptr, 0) && errno == ETIMEDOUT)
			throw Failure("nobody was woken by a futex");
	return rung;
}

/*
 * Wakes this process and a child by turns. The child is made before the VI, because the memory of a process
 * that forks is slow afterwards.
 */
class FutexPair : Single
{
public:
	FutexPair()
	{
		child_ = std::make_unique<Child>([bells = bells_](Control &) {
			for (uint32_t known = 0; known = await_ring(bells->childs, known, nullptr), !bells->is_over;)
				ring(bells->own);
		});
	}
	~FutexPair()
	{
		bells_->is_over = true;
		ring(bells_->childs);
	}

	double one_way_us(unsigned round_trips)
	{
		const double start = now_us();

		for (unsigned i = 0; i < round_trips; ++i) {
			ring(bells_->childs);
			known_ = await_ring(bells_->own, known_);
		}
		return (now_us() - start) / round_trips / 2;
	}

private:
	const std::shared_ptr<Bells> bells_ = shared_bells();
	std::unique_ptr<Child> child_;
	uint32_t known_ = 0;
};

/* The work of a program: it watches what its thread writes when it is woken, rings, and watches again. */
void look_and_ring(Bell &own, Bell &other, uint32_t rings, bool begins)
{
	const auto thread = std::async(std::launch::async, [&] {
		while (own.seen < rings)
			own.seen = await_ring(own, own.seen);
	});

	for (uint32_t i = 0; i < rings; ++i) {
		if (begins)
			ring(other);
		for (Patience patience; own.seen == i;)
			patience.in_vain("a thread that was woken by a futex");
		if (!begins)
			ring(other);
	}
}

double looked_for_us(unsigned round_trips)
{
	const std::shared_ptr<Bells> bells = shared_bells();
	const Child child([&](Control &) { look_and_ring(bells->childs, bells->own, round_trips, false); });
	const double start = now_us();

	look_and_ring(bells->own, bells->childs, round_trips, true);
	return (now_us() - start) / round_trips / 2;
}

void watch(End &end, bool is_receive)
{
	const VIP_UINT32 *status = &end.oldest(is_receive)->CS.Status;
	Patience patience;

	while (!(__atomic_load_n(status, __ATOMIC_ACQUIRE) & VIP_STATUS_DONE))
		patience.in_vain(is_receive ? "a message" : "the end of a send");
	end.await(is_receive);
}

uint32_t watch_for_number(End &end)
{
	const VIP_DESCRIPTOR *message = end.oldest(true);

	watch(end, true);
	const uint32_t number = end.number_in(message);
	end.post_receive();
	return number;
}

double message_us(const Side &side, End &end, unsigned round_trips)
{
	side.control.write({{"messages", round_trips}});
	side.control.meet();
	const double start = now_us();
	for (uint32_t i = 0; i < round_trips; ++i) {
		end.send_number(i);
		if (watch_for_number(end) != i)
			throw Failure("a message came with wrong contents");
		watch(end, false);
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

void measure(const Side &side, const Wanted &wanted, Reports &reports)
{
	Report &report = reports.add("waking", {{"what", "what", ""},
						{"us", "one way", "us"},
						{"us_min", "least", "us"},
						{"us_stderr", "std. error", "us"},
						{"ratio", "to the futex", ""}});
	FutexPair futex;
	const auto woken = [&] { return futex.one_way_us(wanted.round_trips); };
	const Pairs threads =
		measure_pairs(wanted.pairs, woken, [&] { return looked_for_us(wanted.round_trips); });

	side.control.write({{"do", "waking"}});
	End end(side.nic, numbers_shape(depth));
	const Pairs messages = side.control.together([&] {
		connect_vi(side, end.vi());
		return measure_pairs(wanted.pairs, woken, [&] { return message_us(side, end, wanted.round_trips); });
	});

	side.control.write({{"messages", 0U}});
	side.control.meet();
	report.add("waking", point("futex", messages.first, 1));
	report.add("waking", point("futex, watched in memory", threads.second, median(ratios(threads))));
	report.add("waking", point("message, watched in memory", messages.second, median(ratios(messages))));
}
} // namespace

void serve_waking(const Side &side, const Json &)
{
	End end(side.nic, numbers_shape(depth));

	connect_vi(side, end.vi());
	while (uint64_t messages = side.control.read().at("messages").get<uint64_t>()) {
		side.control.meet();
		for (; messages; --messages) {
			end.send_number(watch_for_number(end));
			watch(end, false);
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
		[=](const Side &side, Reports &reports) { measure(side, *wanted, reports); }, Placing::anywhere);

	add_number(command, "--pairs", wanted->pairs, 2, 1000, "pairs of blocks, one of each");
	add_number(command, "--iterations", wanted->round_trips, 1, 1000000, "round trips in a block");
	/* The NIC reads the variable when it is opened. */
	command->parse_complete_callback([] { setenv("VIPL_PROGRESS", "on", 1); });
}
