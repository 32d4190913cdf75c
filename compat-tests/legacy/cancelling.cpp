// SPDX-License-Identifier: BSD-2-Clause
// Programs that cancel their threads at the end (pthread_cancel()), in calls that wait for ever. All that the thread had in the call
// is given back, so other threads go on, and the NIC can be closed.
#include "harness.h"

#include <atomic>
#include <fstream>
#include <memory>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

using namespace harness;

namespace
{

// A thread that is to be cancelled.
class CancelledThread
{
      public:
	CancelledThread(int type, std::function<void()> body) : type_(type), body_(std::move(body))
	{
		EXPECT_EQ(0, pthread_create(&thread_, nullptr, run, this));
	}
	// Or has gone already, as a busy machine may let it be by the time it is looked at.
	bool sleeps() const
	{
		std::ifstream file("/proc/self/task/" + std::to_string(number_) + "/stat");
		std::string line;
		return number_ && (!std::getline(file, line) || line.find(") S ") != std::string::npos);
	}
	void cancel()
	{
		EXPECT_EQ(0, pthread_cancel(thread_));
	}
	void expectCancelled()
	{
		void *result = nullptr;
		EXPECT_EQ(0, pthread_join(thread_, &result));
		EXPECT_EQ(PTHREAD_CANCELED, result) << "the call has returned";
	}

	// For the thread itself, when only the call is to come.
	static void takeType()
	{
		pthread_setcanceltype(wanted, nullptr);
	}

      private:
	static inline thread_local int wanted;
	static void *run(void *self)
	{
		auto *thread = static_cast<CancelledThread *>(self);
		wanted = thread->type_;
		thread->number_ = static_cast<pid_t>(syscall(SYS_gettid));
		thread->body_();
		return nullptr;
	}
	const int type_;
	const std::function<void()> body_;
	std::atomic<pid_t> number_{0};
	pthread_t thread_{};
};

class Cancelling : public NicTest
{
      protected:
	void TearDown() override
	{
		Vi one(nic), other(nic);
		ASSERT_TRUE(harness::connect(one, other));
		expectTalk(one, other);
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(one));
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(other));
	}
	// Threads that wait in this call are cancelled: before they have begun it, or when they sleep.
	void cancelIn(const std::function<void()> &call, const std::function<void()> &afterwards = [] {},
		      std::initializer_list<int> types = {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS})
	{
		for (int type : types)
			for (bool sleeps : {false, true}) {
				SCOPED_TRACE(testing::Message() << "type " << type << (sleeps ? ", asleep" : ""));
				CancelledThread thread(type, call);
				EXPECT_TRUE(!sleeps || eventually([&] { return thread.sleeps(); }));
				thread.cancel();
				thread.expectCancelled();
				afterwards();
			}
	}
};

TEST_F(Cancelling, AThreadInConnectWait)
{
	const std::string name = freshDiscriminator();
	cancelIn([&] {
		Address local(nic.address(), name), remote(nic);
		VIP_VI_ATTRIBUTES peer;
		VIP_CONN_HANDLE conn;
		CancelledThread::takeType();
		VipConnectWait(nic, local.get(), VIP_INFINITE, remote.get(), &peer, &conn);
	});
}

TEST_F(Cancelling, AThreadInConnectRequestEndsItsAttempt)
{
	Vi client(nic), server(nic);
	const std::string name = freshDiscriminator();
	cancelIn(
		[&] {
			Address local(nic.address(), "c"), remote(nic.address(), name);
			VIP_VI_ATTRIBUTES peer;
			CancelledThread::takeType();
			while (true) // the host may be slow, and there is no server
				VipConnectRequest(client, local.get(), remote.get(), VIP_INFINITE, &peer);
		},
		[&] {
			EXPECT_EQ(VIP_STATE_IDLE, client.state());
			ASSERT_TRUE(harness::connect(client, server));
			EXPECT_EQ(VIP_SUCCESS, VipDisconnect(client));
			EXPECT_EQ(VIP_SUCCESS, VipDisconnect(server));
		});
}

TEST_F(Cancelling, AThreadInConnectPeerWaitLeavesTheAttemptToOthers)
{
	Vi vi(nic);
	Address local(nic.address(), freshDiscriminator()), remote(nic.address(), freshDiscriminator());
	ASSERT_EQ(VIP_SUCCESS, VipConnectPeerRequest(vi, local.get(), remote.get(), VIP_INFINITE));
	cancelIn(
		[&] {
			VIP_VI_ATTRIBUTES peer;
			CancelledThread::takeType();
			VipConnectPeerWait(vi, &peer);
		},
		[&] {
			VIP_VI_ATTRIBUTES peer;
			EXPECT_EQ(VIP_NOT_DONE, VipConnectPeerDone(vi, &peer));
		});
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(vi));
	EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}

TEST_F(Cancelling, AThreadThatWaitsForACompletionTakesNone)
{
	Cq cq(nic);
	Pool pool(nic, 2, 64);
	Pair own(nic);
	Vi onCq(nic, reliable(), cq, cq), sender(nic);
	ASSERT_TRUE(harness::connect(sender, onCq));
	const auto cancelWait = [&](VIP_VI_HANDLE vi, decltype(VipRecvWait) *wait, std::initializer_list<int> types) {
		cancelIn(
			[&] {
				VIP_DESCRIPTOR *done;
				CancelledThread::takeType();
				wait(vi, VIP_INFINITE, &done);
			},
			[] {}, types);
	};
	cancelWait(own.a, VipSendWait, {PTHREAD_CANCEL_DEFERRED});
	cancelWait(own.b, VipRecvWait, {PTHREAD_CANCEL_ASYNCHRONOUS});
	expectTalk(own.a, own.b);
	cancelWait(onCq, VipRecvWait, {PTHREAD_CANCEL_DEFERRED});
	cancelIn([&] {
		VIP_VI_HANDLE vi;
		VIP_BOOLEAN receive;
		CancelledThread::takeType();
		VipCQWait(cq, VIP_INFINITE, &vi, &receive);
	});
	ASSERT_TRUE(pool.postReceive(onCq, 0, 64));
	ASSERT_TRUE(pool.send(sender, 1, 64));
	EXPECT_EQ(pool.descriptor(0), cq.take().descriptor);
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(onCq));
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(sender));
}

// They poll before they sleep, and what they have at that moment is given back, too: each is cancelled a little later than the
// one before.
TEST_F(Cancelling, AThreadAtAnyMomentOfAWait)
{
	constexpr int kPairs = 32;
	std::vector<std::unique_ptr<Pair>> pairs;
	std::vector<std::unique_ptr<CancelledThread>> threads;
	for (int i = 0; i < kPairs; i++) {
		pairs.push_back(std::make_unique<Pair>(nic));
		for (auto wait : {VipSendWait, VipRecvWait}) {
			std::atomic<bool> begins{false};
			threads.push_back(std::make_unique<CancelledThread>(
				PTHREAD_CANCEL_ASYNCHRONOUS, [&begins, wait, vi = VIP_VI_HANDLE(pairs.back()->a)] {
					VIP_DESCRIPTOR *done;
					CancelledThread::takeType();
					begins = true;
					wait(vi, VIP_INFINITE, &done);
				}));
			while (!begins)
				;
			for (std::atomic<int> spun{0}; spun < 20 * i; spun++)
				;
			threads.back()->cancel();
		}
	}
	for (auto &thread : threads)
		thread->expectCancelled();
	for (auto &pair : pairs)
		expectTalk(pair->a, pair->b);
}

TEST_F(Cancelling, AThreadEndsInNoOtherCall)
{
	std::atomic<bool> done{false};
	CancelledThread thread(PTHREAD_CANCEL_DEFERRED, [&] {
		pthread_cancel(pthread_self());
		{
			Cq cq(nic);
			Region region(nic, 4096);
			Vi vi(nic, reliable(), cq, cq);
			Address local(nic.address(), freshDiscriminator()), remote(nic.address(), freshDiscriminator());
			done = VipConnectPeerRequest(vi, local.get(), remote.get(), VIP_INFINITE) == VIP_SUCCESS &&
			       VipDisconnect(vi) == VIP_SUCCESS;
		}
		pthread_testcancel();
	});
	thread.expectCancelled();
	EXPECT_TRUE(done);
}

TEST_F(Cancelling, AThreadThatHoldsItOffGoesOn)
{
	VIP_RETURN result = VIP_SUCCESS;
	Vi vi(nic);
	cancelIn(
		[&] {
			VIP_DESCRIPTOR *done;
			pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
			CancelledThread::takeType();
			pthread_cancel(pthread_self());
			result = VipRecvWait(vi, 10, &done);
			pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
			pthread_testcancel();
		},
		[&] { EXPECT_EQ(VIP_TIMEOUT, std::exchange(result, VIP_SUCCESS)); });
}

} // namespace
