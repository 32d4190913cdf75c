// SPDX-License-Identifier: BSD-2-Clause
// Many threads and one CQ of via_lo: a look at an empty one waits for nobody, no look misses what is there, and a
// message wakes one thread.
#include <atomic>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include "long_sleeps.h"
#include "shim.h"
#include "support.h"

namespace
{

class CqThreads : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open("via_lo");
		cq = make_cq(64);
	}
	struct Pair {
		Vi from, to; // the receives of `to` complete on the CQ
	};
	Pair add_pair()
	{
		Pair pair{make_vi(), make_vi(nullptr, cq)};

		connect(pair.from, pair.to, std::to_string(pairs++) + " ");
		return pair;
	}
	void expect_receive(const Pair &pair, size_t number)
	{
		posted_receive(pair.to, 2 * number, {{memory.data(64 * number), 8}});
	}
	void send(const Pair &pair, size_t number)
	{
		expect_send(pair.from, descriptor(2 * number + 1, {{memory.data(100000), 8}}));
	}
	VIP_RETURN look()
	{
		return cq_done(cq).code;
	}
	// Waits for a message, and takes it.
	VIP_RETURN take()
	{
		const CqEntry entry = cq_wait(cq, VIP_INFINITE);

		return entry.code == VIP_SUCCESS ? recv_done(entry.vi).code : entry.code;
	}
	// Threads that make a call again and again while the body runs. The call gets the thread's number.
	static void meanwhile(int count, const std::function<void(int)> &call, const std::function<void()> &body)
	{
		std::atomic<bool> is_over{false};
		std::vector<std::thread> threads;

		for (int i = 0; i < count; i++)
			threads.emplace_back([&, i] {
				while (!is_over)
					call(i);
			});
		body();
		is_over = true;
		for (std::thread &thread : threads)
			thread.join();
	}
	VIP_CQ_HANDLE cq = nullptr;
	int pairs = 0;
};

// If it waited for the lock, this test would end by its time limit.
TEST_F(CqThreads, ALookWhereNothingIsWaitsForNobody)
{
	Pair pair = add_pair();
	std::atomic<bool> is_locked{false}, has_looked{false};

	expect_receive(pair, 0);
	std::thread holder([&] {
		shim_cq_lock(cq);
		is_locked = true;
		while (!has_looked)
			std::this_thread::yield();
		shim_cq_unlock(cq);
	});
	while (!is_locked)
		std::this_thread::yield();
	for (int i = 0; i < 1000; i++) { // the agent takes note now and then of whether the program polls
		EXPECT_EQ(look(), VIP_NOT_DONE);
		EXPECT_EQ(recv_done(pair.to).code, VIP_NOT_DONE);
		if (i % 100 == 0)
			usleep(1000);
	}
	has_looked = true;
	holder.join();
	send(pair, 0);
	EXPECT_EQ(look(), VIP_SUCCESS);
}

TEST_F(CqThreads, ALookWhereAMessageIsWaitsForTheLock)
{
	Pair pair = add_pair();

	expect_receive(pair, 0);
	shim_cq_lock(cq);
	send(pair, 0);
	const unsigned before = lock_rests_of_program();
	auto looked = std::async(std::launch::async, [&] { return look(); });
	EXPECT_TRUE(eventually([&] { return lock_rests_of_program() > before; }));
	shim_cq_unlock(cq);
	EXPECT_EQ(looked.get(), VIP_SUCCESS);
}

// All messages are there before either thread looks, so each look has to find one, whatever the other thread is doing.
// The first look of the two gathers all queues, and meanwhile the messages are neither on their way nor in the CQ.
TEST_F(CqThreads, NoLookMissesWhatHasCome)
{
	const int rounds = 60, half = 24;
	std::vector<Pair> all;
	std::atomic<int> round{0}, ready{0}, looked{0}, missed{0};
	const auto take_half = [&](int now) {
		while (round < now)
			std::this_thread::yield();
		ready++;
		while (ready < 2 * now) // at the same moment, if there are two processors
			;
		for (int i = 0; i < half; i++)
			missed += look() != VIP_SUCCESS;
		looked++;
	};
	std::thread other([&] {
		for (int now = 1; now <= rounds; now++)
			take_half(now);
	});

	for (int i = 0; i < 2 * half; i++)
		all.push_back(add_pair());
	for (int now = 1; now <= rounds; now++) {
		for (size_t i = 0; i < all.size(); i++) {
			expect_receive(all[i], i);
			send(all[i], i);
		}
		round = now;
		take_half(now);
		while (looked < 2 * now)
			std::this_thread::yield();
		for (int left = missed; left > 0; left--) // after a miss
			look();
		for (const Pair &pair : all) {
			EXPECT_EQ(recv_done(pair.to).code, VIP_SUCCESS);
		}
	}
	other.join();
	EXPECT_EQ(missed, 0);
}

TEST_F(CqThreads, TheTenantIsWhoLooksSeveralTimesInARowAndStaysIt)
{
	Pair pair = add_pair();

	for (size_t i = 0; i < 20; i++) {
		expect_receive(pair, i);
		send(pair, i);
	}
	shim_cq_set_tenant(cq, nullptr);
	std::thread([this] {
		shim_cq_lock(cq);
		shim_cq_unlock(cq);
	}).join();
	EXPECT_EQ(look(), VIP_SUCCESS);
	EXPECT_FALSE(shim_cq_tenant(cq)) << "once is not often";
	for (int i = 0; i < 15 && !shim_cq_tenant(cq); i++) // the agent may come in between
		EXPECT_EQ(look(), VIP_SUCCESS);
	const void *const tenant = shim_cq_tenant(cq);
	EXPECT_TRUE(tenant);
	EXPECT_EQ(look(), VIP_SUCCESS);
	EXPECT_EQ(shim_cq_tenant(cq), tenant);
	EXPECT_EQ(std::async(std::launch::async, [this] { return look(); }).get(), VIP_SUCCESS) << "the tenant does not go on";
	EXPECT_FALSE(shim_cq_tenant(cq));
}

TEST_F(CqThreads, WhoRestsForTheTenantComesInAfterAWhileAndDoesNotEndItsTenancy)
{
	char nobody;
	Pair pair = add_pair();

	expect_receive(pair, 0);
	send(pair, 0);
	shim_cq_set_tenant(cq, &nobody);
	shim_cq_lock(cq); // as if the tenant were inside
	const unsigned before = tenant_rests(), lock_rests = lock_rests_of_program();
	auto looked = std::async(std::launch::async, [this] { return look(); });
	EXPECT_TRUE(eventually([&] { return tenant_rests() > before; }));
	EXPECT_TRUE(eventually([&] { return lock_rests_of_program() > lock_rests; })) << "it has rested enough";
	EXPECT_EQ(shim_cq_tenant(cq), &nobody);
	shim_cq_unlock(cq);
	EXPECT_EQ(looked.get(), VIP_SUCCESS);
}

TEST_F(CqThreads, NobodyRestsForTheTenantBeyondItsTimeout)
{
	const long kMsec = 1000000, kNoLonger = 6 * kMsec; // "does not block"
	char nobody;
	Pair pair = add_pair();

	for (long timeout : {0L, 1L, 1000000L, -1L}) {
		expect_receive(pair, 0);
		send(pair, 0);
		shim_cq_set_tenant(cq, &nobody);
		shim_cq_set_resting(cq, 100);
		shim_cq_lock(cq); // as if the tenant were inside
		const long before = tenant_rest_nsec();
		const unsigned lock_rests = lock_rests_of_program();
		auto looked = std::async(std::launch::async, [=] {
			const VIP_RETURN code = timeout < 0 ? look() : cq_wait(cq, static_cast<VIP_ULONG>(timeout)).code;

			return code == VIP_SUCCESS ? recv_done(pair.to).code : code;
		});
		EXPECT_TRUE(eventually([&] { return lock_rests_of_program() > lock_rests; })) << "it has rested enough";
		const long rested = tenant_rest_nsec() - before;
		EXPECT_LE(rested, timeout < 0 ? kNoLonger : timeout * kMsec) << timeout;
		EXPECT_TRUE(rested > 0 || timeout == 0 || timeout == 1) << timeout;
		shim_cq_unlock(cq);
		EXPECT_EQ(looked.get(), VIP_SUCCESS) << timeout;
	}
	shim_cq_set_resting(cq, 0);
}

TEST_F(CqThreads, TheTenantRestsForNobody)
{
	Pair pair = add_pair();
	std::promise<void> is_tenant, may_look;

	for (size_t i = 0; i < 20; i++) {
		expect_receive(pair, i);
		send(pair, i);
	}
	shim_cq_set_tenant(cq, nullptr);
	auto looked = std::async(std::launch::async, [&] {
		for (int i = 0; i < 15 && !shim_cq_tenant(cq); i++)
			look();
		is_tenant.set_value();
		may_look.get_future().wait();
		return look();
	});
	is_tenant.get_future().wait();
	EXPECT_TRUE(shim_cq_tenant(cq));
	shim_cq_lock(cq);
	const unsigned before = tenant_rests(), lock_rests = lock_rests_of_program();
	may_look.set_value();
	EXPECT_TRUE(eventually([&] { return lock_rests_of_program() > lock_rests; }));
	EXPECT_EQ(tenant_rests(), before);
	shim_cq_unlock(cq);
	EXPECT_EQ(looked.get(), VIP_SUCCESS);
}

TEST_F(CqThreads, WhoTakesFromAQueueDoesNotRestForOthers)
{
	char nobody;
	Pair pair = add_pair();

	expect_receive(pair, 0);
	expect_receive(pair, 1);
	send(pair, 0);
	EXPECT_TRUE(eventually([&] { return recv_done(pair.to).code == VIP_SUCCESS; }));
	shim_cq_set_tenant(cq, &nobody);
	EXPECT_EQ(recv_done(pair.to).code, VIP_NOT_DONE) << "although something is in the CQ";
	EXPECT_EQ(shim_cq_tenant(cq), &nobody) << "which does not go on";
	send(pair, 1);
	EXPECT_EQ(look(), VIP_SUCCESS);
}

// The calls of the data path hold no reference.
TEST_F(CqThreads, LooksMayComeLateForACqThatIsGone)
{
	std::atomic<VIP_CQ_HANDLE> handle{cq};

	meanwhile(
		2,
		[&](int) {
			const VIP_RETURN code = cq_done(handle).code;

			EXPECT_TRUE(code == VIP_NOT_DONE || code == VIP_INVALID_PARAMETER) << code;
		},
		[&] {
			for (int i = 0; i < 500; i++) {
				ASSERT_EQ(VipDestroyCQ(handle), VIP_SUCCESS);
				handle = cq = make_cq(64);
			}
		});
	Pair pair = add_pair();
	expect_receive(pair, 0);
	send(pair, 0);
	EXPECT_EQ(look(), VIP_SUCCESS);
}

// The same of VIs, whose descriptors are taken under another lock where the queue is on a CQ.
TEST_F(CqThreads, TakingMayComeLateForAViThatIsGone)
{
	std::atomic<VIP_VI_HANDLE> handle{nullptr};

	meanwhile(
		2,
		[&](int i) {
			const auto [code, descriptor] = i ? recv_done(handle) : send_done(handle);

			EXPECT_TRUE(code == VIP_DESCRIPTOR_ERROR || code == VIP_INVALID_PARAMETER) << code;
			EXPECT_EQ(descriptor, nullptr);
		},
		[&] {
			for (int i = 0; i < 500; i++) {
				VIP_CQ_HANDLE on = i % 3 ? cq : nullptr; // the memory is that of the one before

				handle = make_vi(on, on).handle;
				std::this_thread::yield();
				ASSERT_EQ(VipDestroyVi(handle), VIP_SUCCESS);
			}
		});
}

long switches_of_this_thread()
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

// Eight threads sleep. If all of them woke for each message, they would fall asleep eight times.
TEST_F(CqThreads, AMessageWakesOneSleeper)
{
	const int sleepers = 8, messages = 300;
	Pair pair = add_pair();
	std::atomic<int> taken{0};
	std::atomic<long> switches{0};
	std::vector<std::thread> threads;

	for (int i = 0; i < sleepers; i++)
		threads.emplace_back([&] {
			long before = switches_of_this_thread();

			while (take() == VIP_SUCCESS)
				taken++;
			switches += switches_of_this_thread() - before;
		});
	for (int i = 0; i < messages; i++) {
		expect_receive(pair, 0);
		ASSERT_TRUE(eventually([&] { return shim_cq_waiters(cq) == sleepers; }));
		send(pair, 0);
		ASSERT_TRUE(eventually([&] { return taken == i + 1; }));
	}
	EXPECT_EQ(VipDestroyVi(pair.to), VIP_INVALID_STATE);
	end_vi(pair.to);
	EXPECT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
	for (std::thread &thread : threads)
		thread.join();
	// It and the thread that reads the announcements from then on: two. Two more for threads that find a lock
	// taken.
	EXPECT_LT(switches, 4 * messages);
}

// Messages that come while all sleep, but with one announcement for all: each thread that wakes calls the next.
TEST_F(CqThreads, EachSleeperGetsItsMessageOfMany)
{
	const size_t sleepers = 8;
	Pair pair = add_pair();

	for (int round = 0; round < 50; round++) {
		std::vector<std::future<VIP_RETURN>> waits;

		for (size_t i = 0; i < sleepers; i++) {
			expect_receive(pair, i);
			waits.push_back(std::async(std::launch::async, [&] { return take(); }));
		}
		ASSERT_TRUE(eventually([&] { return shim_cq_waiters(cq) == sleepers; }));
		for (size_t i = 0; i < sleepers; i++)
			send(pair, i);
		for (auto &waited : waits)
			ASSERT_EQ(waited.get(), VIP_SUCCESS) << round;
	}
}

// No more message comes that would wake it, and the first one does not return before the second one has.
TEST_F(CqThreads, TheSecondSleeperGetsOneOfMoreMessagesThanALookTakes)
{
	const size_t messages = 300; // more than one lane takes
	Pair both[] = {add_pair(), add_pair()};
	LongSleeps last;
	std::atomic<int> taken{0};
	std::vector<std::future<VIP_RETURN>> waits;

	expect_receive(both[0], 0);
	send(both[0], 0); // the first one wakes the agent, too
	EXPECT_TRUE(eventually([&] { return look() == VIP_SUCCESS; }));
	for (size_t i = 1; i < messages; i++)
		expect_receive(both[i % 2], i);
	for (int i = 0; i < 2; i++)
		waits.push_back(std::async(std::launch::async, [&] {
			VIP_RETURN code = take();

			for (taken++; taken < 2;)
				std::this_thread::yield();
			return code;
		}));
	ASSERT_TRUE(eventually([] { return long_sleepers() == 2; }));
	shim_cq_lock(cq);
	for (size_t i = 1; i < messages; i++)
		send(both[i % 2], i);
	shim_cq_unlock(cq);
	for (auto &waited : waits)
		EXPECT_EQ(waited.get(), VIP_SUCCESS);
	EXPECT_EQ(sleeps_in_vain(), 0u);
}

// Two threads sleep at the CQ and two for one VI each. Whoever is woken for what is another one's wakes that one.
TEST_F(CqThreads, ThoseThatWantOneQueueSleepBesideThoseThatWantAny)
{
	const int rounds = 300;
	Pair any = add_pair(), own[2] = {add_pair(), add_pair()};
	LongSleeps last;
	std::atomic<int> any_taken{0}, own_taken[2] = {0, 0};
	std::vector<std::thread> threads;

	for (int i = 0; i < 2; i++) {
		threads.emplace_back([&] {
			CqEntry entry;

			while ((entry = cq_wait(cq, VIP_INFINITE)).code == VIP_SUCCESS)
				if (entry.vi == any.to && recv_done(entry.vi).code == VIP_SUCCESS)
					any_taken++;
		});
		threads.emplace_back([&, i] {
			while (recv_wait(own[i].to, VIP_INFINITE).code == VIP_SUCCESS)
				own_taken[i]++;
		});
	}
	for (int round = 1; round <= rounds; round++) {
		for (size_t i = 0; i < 2; i++)
			expect_receive(any, i);
		for (size_t i = 0; i < 2; i++)
			expect_receive(own[i], 2 + i);
		for (size_t i = 0; i < 2; i++) {
			send(any, i);
			send(own[i], 2 + i);
		}
		ASSERT_TRUE(eventually([&] {
			return any_taken == 2 * round && own_taken[0] == round && own_taken[1] == round;
		})) << round;
	}
	EXPECT_EQ(sleeps_in_vain(), 0u);
	for (const Pair &pair : {any, own[0], own[1]}) {
		end_vi(pair.to);
	}
	EXPECT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
	for (std::thread &thread : threads)
		thread.join();
}

} // namespace
