/* SPDX-License-Identifier: BSD-2-Clause */
// The calls of the handlers of VipSendNotify, VipRecvNotify and VipCQNotify, with their arguments.
#pragma once

#include "harness.h"

#include <atomic>
#include <shared_mutex>

namespace harness
{

class Calls
{
      public:
	struct Call {
		VIP_NIC_HANDLE nic;
		VIP_VI_HANDLE vi;
		VIP_DESCRIPTOR *descriptor; // NULL for VipCQNotify
		bool isReceive;             // for VipCQNotify only
		std::thread::id thread;
	};
	using Work = std::function<void(const Call &)>;
	class Working
	{
	      public:
		Working(Calls &calls, Work work) : calls_(calls) { calls_.set(std::move(work)); }
		~Working() { calls_.set(nullptr); }
		Working(const Working &) = delete;
		Working &operator=(const Working &) = delete;

	      private:
		Calls &calls_;
	};
	// Each handler does this work before the call counts, as long as the result lives. Handlers are
	// called until the VI is gone, when the variables that the work uses may be gone.
	[[nodiscard]] Working each(Work work)
	{
		return {*this, std::move(work)};
	}

	// `context` is the Calls object to which the call belongs.
	static void ofVi(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
	{
		static_cast<Calls *>(context)->add(
			{nic, vi, d, false, std::this_thread::get_id()});
	}
	static void ofCq(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN receive)
	{
		EXPECT_TRUE(receive == VIP_TRUE || receive == VIP_FALSE) << receive;
		static_cast<Calls *>(context)->add(
			{nic, vi, nullptr, receive == VIP_TRUE, std::this_thread::get_id()});
	}
	bool reach(size_t count, VIP_ULONG ms = kPatience)
	{
		return eventually([&] { return this->count() >= count; }, ms);
	}
	size_t count()
	{
		std::lock_guard<std::mutex> lock(mutex_);
		return calls_.size();
	}
	Call operator[](size_t index)
	{
		std::lock_guard<std::mutex> lock(mutex_);
		return calls_.at(index);
	}

      private:
	void add(const Call &call)
	{
		{
			// Several handlers may work at a time.
			std::shared_lock<std::shared_mutex> working(working_);
			if (work_)
				work_(call);
		}
		std::lock_guard<std::mutex> lock(mutex_);
		calls_.push_back(call);
	}
	void set(Work work)
	{
		std::unique_lock<std::shared_mutex> working(working_);
		work_ = std::move(work);
	}
	std::shared_mutex working_;
	Work work_;
	std::mutex mutex_;
	std::vector<Call> calls_;
};

// For tests of handlers that use what the test has.
class HandlerTest : public PairTest
{
      protected:
	void TearDown() override
	{
		PairTest::TearDown();
		nic.close(); // no handler runs after it
	}
};

// A thread waits here until another thread opens the gate.
struct Gate {
	void pass()
	{
		arrived = true;
		EXPECT_TRUE(eventually([&] { return open.load(); }));
	}
	bool someoneArrives() const
	{
		return eventually([&] { return arrived.load(); });
	}
	std::atomic<bool> arrived{false}, open{false};
};

// `ask` asks for handlers, and completes what they wait for. They wait at a gate after that work. `destroy` has to
// wait for the one that runs. No handler runs afterwards.
inline void expectWaitsForTheHandler(Calls &calls, const std::function<void()> &ask,
				     const std::function<VIP_RETURN()> &destroy, const Calls::Work &work = {})
{
	Gate gate;
	std::atomic<bool> over{false};
	auto handlers = calls.each([&](const Calls::Call &call) {
		if (work)
			work(call);
		gate.pass();
		EXPECT_FALSE(over);
	});
	ASSERT_NO_FATAL_FAILURE(ask());
	ASSERT_TRUE(gate.someoneArrives());
	Thread destroys([&] {
		EXPECT_EQ(VIP_SUCCESS, destroy());
		over = true;
	});
	letTimePass(kQuiet);
	EXPECT_FALSE(over);
	gate.open = true;
	destroys.join();
	letTimePass(kQuiet); // a handler that runs now is noticed
}

} // namespace harness
