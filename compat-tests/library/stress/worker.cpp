// SPDX-License-Identifier: BSD-2-Clause
// One process of the run: it opens its NIC, takes completions, sends, waits, ends in an orderly way, and checks that nothing
// of it is left.
#include "meeting.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sched.h>
#include <set>

namespace stress
{

namespace
{

constexpr unsigned kAtOnce = 32; // completions taken before something is sent
constexpr unsigned kMoment = 2;  // ms
constexpr unsigned kLong = 2000; // ms
constexpr unsigned kPause = 30;  // ms

struct Entry { // of the CQ
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN isReceive;
};

class Worker
{
      public:
	Worker(const Options &options, Board &board, unsigned rank) : home_(options, board, rank, handler, this)
	{
		for (unsigned peer = 0; peer < options.processes; peer++) {
			if (peer == rank)
				continue;
			links_.push_back(std::make_unique<Link>(home_, peer));
			prepare(*links_.back());
		}
	}

	void run()
	{
		while (!home_.closing())
			turn();
	}

	void close()
	{
		meeting_.stop();
		std::unique_lock<std::mutex> lock(mutex_);
		if (!losses_.empty())
			fail("asynchronous error %d of a VI that is not connected", losses_.front().code);
		lock.unlock();
		if (home_.random.once(2)) // else VipCloseNic has to
			closeOrderly();
		must(VipCloseNic(home_.nic), "VipCloseNic");
	}

      private:
	// Runs on a thread of the library.
	static void handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
	{
		auto *self = static_cast<Worker *>(context);
		Time when = now();
		if (self->home_.closing())
			return; // the peers are ending
		if (error->ResourceCode != VIP_RESOURCE_VI)
			fail("asynchronous error %d of no VI", error->ErrorCode);
		VIP_VI_STATE state;
		VIP_VI_ATTRIBUTES attributes;
		VIP_BOOLEAN sendsEmpty, receivesEmpty;
		VIP_RETURN result = VipQueryVi(error->ViHandle, &state, &attributes, &sendsEmpty, &receivesEmpty);
		if (self->home_.closing())
			return;
		must(result, "VipQueryVi in the error handler");
		std::lock_guard<std::mutex> lock(self->mutex_);
		self->losses_.push_back({error->ViHandle, error->ErrorCode, state, when});
	}

	void turn()
	{
		// A lazy process leaves the NIC alone now and then, as a program does that computes.
		takeArrivals(lazy_ && home_.random.once(64) ? kPause : 0);
		bool busy = takeCompletions();
		takeLosses();
		advance();
		if (phase_ == Phase::Run)
			busy |= send();
		if (!busy)
			idle();
	}

	void takeArrivals(unsigned ms)
	{
		for (const Arrival &arrival : meeting_.arrivals(ms))
			links_[arrival.peer - (arrival.peer > home_.rank)]->connected(arrival);
	}

	void takeLosses()
	{
		std::vector<Loss> losses;
		{
			std::lock_guard<std::mutex> lock(mutex_);
			losses.swap(losses_);
		}
		for (const Loss &loss : losses) {
			Link *link = find(loss.vi);
			if (!link)
				fail("asynchronous error %d of a VI that is no more", loss.code);
			if (link->state == State::Up || link->state == State::Broken) {
				link->lost(loss);
				continue;
			}
			// The connection may be lost before this thread knows that it was made.
			std::lock_guard<std::mutex> lock(mutex_);
			losses_.push_back(loss);
		}
		for (auto &link : links_) {
			link->checkOverdue();
			if (link->state == State::Broken && link->finish())
				prepare(*link);
		}
	}

	bool takeCompletions()
	{
		unsigned taken = 0;
		Entry entry;
		while (home_.cq && taken < kAtOnce &&
		       takeEntry(VipCQDone(home_.cq, &entry.vi, &entry.isReceive), entry))
			taken++;
		for (auto &link : links_) {
			if (link->state != State::Up && link->state != State::Broken)
				continue;
			for (unsigned i = 0; i < kDepth && !link->sendCq && link->takeSend(); i++)
				taken++;
			for (unsigned i = 0; i < kDepth && !link->receiveCq && link->takeReceive(); i++)
				taken++;
		}
		return taken > 0;
	}

	// The result of a call that asks the CQ. True when it has named a queue.
	bool takeEntry(VIP_RETURN result, const Entry &entry)
	{
		if (result == VIP_NOT_DONE)
			return false;
		must(result, "VipCQDone or VipCQWait");
		Link *link = find(entry.vi);
		if (!link || !(entry.isReceive ? link->receiveCq : link->sendCq))
			fail("the CQ names a queue that is not on it");
		while (link->state == State::Ready) // a message has come before this thread knows of the connection
			takeArrivals(kMoment);
		if (entry.isReceive)
			link->takeReceive(true);
		else
			link->takeSend(true);
		return true;
	}

	bool send()
	{
		bool any = false;
		size_t start = home_.random.below(links_.size());
		for (size_t i = 0; i < links_.size(); i++) {
			Link &link = *links_[(start + i) % links_.size()];
			any |= home_.random.once(4) ? link.state == State::Up : link.step();
		}
		return any;
	}

	// A wait may be long if only that wait can bring news. A long wait shows a lost wake-up.
	bool mayWaitLong() const
	{
		if (phase_ != Phase::Run || !(home_.cq ? home_.allOnCq : links_.size() == 1))
			return false;
		return std::all_of(links_.begin(), links_.end(), [this](const auto &link) {
			return link->state == State::Up && (home_.cq || !link->sending());
		});
	}

	// Waits for a receive, on the CQ, or for a connection.
	void idle()
	{
		unsigned ms = mayWaitLong() ? kLong : kMoment;
		Link &link = *links_[home_.random.below(links_.size())];
		if (link.state == State::Up && !link.receiveCq)
			link.waitReceive(ms);
		else if (home_.cq)
			waitOnCq(ms);
		else
			takeArrivals(ms);
	}

	void waitOnCq(unsigned ms)
	{
		Entry entry;
		Time began = now();
		VIP_RETURN result = VipCQWait(home_.cq, ms, &entry.vi, &entry.isReceive);
		if (result == VIP_TIMEOUT)
			result = VipCQDone(home_.cq, &entry.vi, &entry.isReceive);
		const Link *link = result == VIP_SUCCESS ? find(entry.vi) : nullptr;
		if (link && link->state == State::Up && entry.isReceive)
			link->checkSleep(began);
		takeEntry(result, entry);
	}

	// Reports the phase that this process has reached. Fails if that takes too long.
	void advance()
	{
		Phase phase = home_.board.phase;
		if (phase != phase_) {
			phase_ = phase;
			phaseSince_ = now();
		}
		bool done = phase != Phase::Run;
		for (auto &link : links_)
			done = done && (phase == Phase::Quiet ? !link->sending() : link->drained());
		if (done)
			home_.seat.reached = phase;
		else if (phase != Phase::Run && now() - phaseSince_ > kPatience * kMs) {
			for (auto &link : links_)
				link->explain();
			fail(phase == Phase::Quiet ? "sends are not completed"
						   : "messages whose sends were completed do not arrive");
		}
	}

	void closeOrderly()
	{
		for (auto &link : links_)
			link->close();
		if (home_.cq)
			must(VipDestroyCQ(home_.cq), "VipDestroyCQ");
		home_.pattern.deregister();
	}

	Link *find(VIP_VI_HANDLE vi)
	{
		auto found =
			std::find_if(links_.begin(), links_.end(), [vi](const auto &link) { return link->vi == vi; });
		return found == links_.end() ? nullptr : found->get();
	}

	void prepare(Link &link)
	{
		link.prepare();
		meeting_.want(link.peer, link.vi);
	}

	std::mutex mutex_;
	std::vector<Loss> losses_; // reported by the handler's thread, not handled yet
	Home home_;
	const bool lazy_ = home_.random.once(3);
	std::vector<std::unique_ptr<Link>> links_;
	Meeting meeting_{home_};
	Phase phase_ = Phase::Run;
	Time phaseSince_ = now();
};

// The files that this process has open, and the library's that it has mapped.
std::set<std::string> openAndMapped()
{
	namespace fs = std::filesystem;
	std::set<std::string> found;
	auto contains = [](const std::string &text, const char *part) { return text.find(part) != std::string::npos; };
	for (const fs::directory_entry &entry : fs::directory_iterator("/proc/self/fd")) {
		std::error_code error;
		std::string file = fs::read_symlink(entry, error).string();
		// The directory itself is open while it is read. librdmacm keeps its files of /dev/infiniband open until
		// the process ends.
		if (!contains(file, "/proc/") && !contains(file, "infiniband"))
			found.insert("descriptor " + entry.path().filename().string() + ": " + file);
	}

	std::ifstream maps("/proc/self/maps");
	for (std::string line; getline(maps, line);)
		if (contains(line, "/memfd:") || contains(line, "/dev/shm/") || contains(line, "/dev/infiniband/"))
			found.insert("mapping " + line);
	return found;
}

} // namespace

void work(const Options &options, Board &board, unsigned rank)
{
	std::set<std::string> before = openAndMapped(), left;
	{
		Worker worker(options, board, rank);
		worker.run();
		worker.close();
	}

	Time deadline = now() + 2 * kSecond; // a thread of the library may have to end yet
	do {
		std::set<std::string> after = openAndMapped();
		left.clear();
		std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::inserter(left, left.end()));
		sched_yield();
	} while (!left.empty() && now() < deadline);
	for (const std::string &one : left)
		say("left after VipCloseNic: %s", one.c_str());
	if (!left.empty())
		fail("it has left something");
	board.seat[rank].reached = Phase::Close;
}

} // namespace stress
