// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf crowd --question threads - measures 1, 2, 4, ... threads of a process on one NIC. Each thread
 * has a VI with queues of its own and sends messages of eight bytes to the server. It has a few messages
 * under way and sends the next one when an answer comes. The report has the answers per second, and the
 * rate of the slowest thread in relation to the fastest.
 *
 * The server answers in one of three ways:
 *
 *	own queues		a thread for each VI, as in the client
 *	one CQ, one thread	for all queues of all VIs, as in servers of VIA's time with one loop
 *	one CQ, all threads	as many threads as VIs, each of which serves any queue that the CQ names
 */
#include "crowd.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <thread>
#include <unordered_map>

#include "patience.h"
#include "server_address.h"
#include "small_vi.h"
#include "stop.h"

namespace
{
constexpr unsigned depth = 16, window = 8; /* receives, and messages without an answer */
/* The time grows with the number of threads: they share the CPUs, and each needs some turns. */
constexpr unsigned duration_ms = 500, duration_each_ms = 25;
constexpr VIP_ULONG wait_ms = 100; /* after it the thread looks whether the measurement is over */
constexpr uint32_t last = UINT32_MAX; /* the number of a VI's last message */

struct Plan {
	unsigned vis;
	unsigned collectors; /* threads on one CQ; 0: there is no CQ */
	Waiting waiting;
};

MEMBERS_IN_JSON(Plan, vis, collectors, waiting)

/* Returns the number of answers that came before the end. */
uint64_t converse(SmallVi &vi, Waiting waiting, const std::atomic<bool> &is_over)
{
	unsigned under_way = 0;
	uint64_t count = 0;

	for (;;) {
		for (; under_way < window && !is_over; ++under_way)
			vi.send(static_cast<uint32_t>(count));
		if (!under_way)
			break;
		vi.await_message(waiting);
		vi.post_receive();
		vi.await_sent(waiting);
		--under_way;
		count += !is_over;
	}
	vi.send(last);
	vi.await_message(waiting);
	vi.await_sent(waiting);
	return count;
}

/* Returns the messages per second of each thread. */
std::vector<double> rates_of(const Side &side, const Plan &plan)
{
	std::vector<std::unique_ptr<SmallVi>> vis;
	std::vector<std::future<uint64_t>> threads;
	std::atomic<bool> is_over = false;
	std::promise<void> start;
	const std::shared_future<void> started = start.get_future().share();
	Address server = share_server_address(side);
	std::vector<double> rates;

	for (unsigned i = 0; i < plan.vis; ++i) {
		vis.push_back(std::make_unique<SmallVi>(
			side.nic, VIP_SERVICE_RELIABLE_DELIVERY, depth, nullptr));
		connect_vi(side, vis.back()->vi(), server);
	}
	for (const auto &vi : vis)
		threads.push_back(std::async(
			std::launch::async, [&is_over, started, vi = vi.get(), &plan] {
				started.wait();
				return converse(*vi, plan.waiting, is_over);
			}));
	side.control.meet();
	const double begun = now_us();
	start.set_value();
	std::this_thread::sleep_for(
		std::chrono::milliseconds(std::max(duration_ms, duration_each_ms * plan.vis)));
	is_over = true;
	const double seconds = (now_us() - begun) / 1e6;
	for (auto &thread : threads)
		rates.push_back(static_cast<double>(thread.get()) / seconds);
	side.control.meet(); /* no message of the other side is flushed */
	return rates;
}

/* A VI of the server, which several threads may serve. */
class Served
{
public:
	Served(const Nic &nic, VIP_CQ_HANDLE cq)
	    : vi_(nic, VIP_SERVICE_RELIABLE_DELIVERY, depth, cq)
	{
	}
	SmallVi &small_vi()
	{
		return vi_;
	}
	/* Answers messages until the VI's last one. */
	void answer_all(Waiting waiting);
	/*
	 * Serves a queue that the CQ names. Returns true when it has answered the last message. One thread at a time serves the
	 * VI. Another one leaves to it what the CQ has named meanwhile, and waits for nothing.
	 */
	bool serve(bool is_receive);

private:
	static constexpr uint32_t a_send = 1, a_receive = 0x10000;

	bool take(bool is_receive);

	SmallVi vi_;
	std::atomic<uint32_t> named_ = 0; /* completions that the CQ has named, and that are not served */
	unsigned sends_ = 0;	    /* under way */
	std::deque<uint32_t> owed_; /* answers that wait for a free send */
};

void Served::answer_all(Waiting waiting)
{
	uint32_t number;

	do {
		number = vi_.await_message(waiting);
		vi_.post_receive();
		if (sends_ == window) {
			vi_.await_sent(waiting);
			--sends_;
		}
		vi_.send(number);
		++sends_;
	} while (number != last);
	for (; sends_; --sends_)
		vi_.await_sent(waiting);
}

bool Served::serve(bool is_receive)
{
	uint32_t now = is_receive ? a_receive : a_send;
	bool is_last = false;

	if (named_.fetch_add(now))
		return false;
	do {
		for (uint32_t i = 0; i < now / a_receive; ++i)
			is_last |= take(true);
		for (uint32_t i = 0; i < now % a_receive; ++i)
			is_last |= take(false);
	} while ((now = named_.fetch_sub(now) - now));
	return is_last;
}

bool Served::take(bool is_receive)
{
	uint32_t number;

	if (is_receive ? !vi_.take_message(number) : !vi_.take_sent())
		throw Failure("the completion queue names a queue in which nothing is done");
	if (is_receive) {
		vi_.post_receive();
		owed_.push_back(number);
	} else {
		--sends_;
	}
	if (owed_.empty() || sends_ == depth)
		return false;
	number = owed_.front();
	owed_.pop_front();
	vi_.send(number);
	++sends_;
	return number == last;
}

/* The VIs of one CQ, and the number of VIs that have answered their last message. */
struct Hall {
	Hall(const Nic &nic, size_t entries) : cq(nic, entries)
	{
	}

	CompletionQueue cq;
	std::unordered_map<VIP_VI_HANDLE, Served *> vis;
	std::atomic<size_t> ended = 0;
	std::atomic<bool> has_failed = false;
};

/* The work of a thread that serves the CQ. */
void collect(Hall &hall, Waiting waiting)
try {
	Patience patience;

	while (hall.ended < hall.vis.size() && !hall.has_failed) {
		VIP_BOOLEAN is_receive;
		VIP_VI_HANDLE vi;
		const VIP_RETURN code =
			waiting == Waiting::block
				? VipCQWait(hall.cq.handle(), wait_ms, &vi, &is_receive)
				: VipCQDone(hall.cq.handle(), &vi, &is_receive);

		if (code == VIP_TIMEOUT) {
			patience.blocked_in_vain("a message");
			continue;
		}
		if (code == VIP_NOT_DONE) {
			patience.in_vain("a message");
			continue;
		}
		check(code, "look at a completion queue");
		patience = Patience();
		if (hall.vis.at(vi)->serve(is_receive))
			++hall.ended;
	}
} catch (...) {
	hall.has_failed = true;
	throw;
}

Json count_messages(const Side &side, const Plan &plan)
{
	side.control.write({{"do", "crowd"}, {"question", "threads"}, {"plan", plan}});
	const std::vector<double> rates = side.control.together([&] { return rates_of(side, plan); });
	const double least = *std::min_element(rates.begin(), rates.end());
	const double most = *std::max_element(rates.begin(), rates.end());
	double sum = 0;

	for (const double rate : rates)
		sum += rate;
	return {{"threads", plan.vis},
		{"rate", sum},
		{"rate_min", least},
		{"rate_max", most},
		{"fairness", most > 0 ? least / most : 0}};
}
} // namespace

void serve_threads(const Side &side, const Json &request)
{
	const Plan plan = request.at("plan").get<Plan>();
	Hall hall(side.nic, size_t{2} * depth * plan.vis);
	std::vector<std::unique_ptr<Served>> vis;
	std::vector<std::future<void>> threads;
	Address server = share_server_address(side);

	for (unsigned i = 0; i < plan.vis; ++i) {
		vis.push_back(std::make_unique<Served>(
			side.nic, plan.collectors ? hall.cq.handle() : nullptr));
		SmallVi &vi = vis.back()->small_vi();

		hall.vis[vi.vi().handle()] = vis.back().get();
		connect_vi(side, vi.vi(), server);
	}
	for (unsigned i = 0; i < (plan.collectors ? plan.collectors : plan.vis); ++i)
		threads.push_back(std::async(std::launch::async, [&, i] {
			if (plan.collectors)
				collect(hall, plan.waiting);
			else
				vis[i]->answer_all(plan.waiting);
		}));
	side.control.meet();
	for (auto &thread : threads)
		thread.get();
	side.control.meet();
}

Report crowd_threads(const Side &side, const CrowdOptions &options)
{
	enum class Collecting { none, one, all };
	static const std::pair<const char *, Collecting> servers[] = {
		{"own queues", Collecting::none},
		{"one CQ, one thread", Collecting::one},
		{"one CQ, all threads", Collecting::all}};
	static const std::pair<const char *, Waiting> ways[] = {{", polling", Waiting::poll},
								{", blocking", Waiting::block}};
	Report report("crowd-threads", {{"threads", "threads", "count"},
					{"rate", "messages, all", "1/s"},
					{"rate_min", "slowest", "1/s"},
					{"rate_max", "fastest", "1/s"},
					{"fairness", "slowest / fastest", ""}});

	for (const auto &[way, waiting] : ways)
		for (const auto &[name, collecting] : servers)
			for (unsigned n = 1; n <= options.threads && !is_stopped(); n *= 2) {
				const unsigned collectors = collecting == Collecting::none  ? 0
							    : collecting == Collecting::one ? 1
											    : n;
				const std::string series = std::string(name) + way;

				progress(series + ", " + std::to_string(n) + " threads");
				report.add(series, count_messages(side, {n, collectors, waiting}));
			}
	return report;
}
