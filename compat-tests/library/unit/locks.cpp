// SPDX-License-Identifier: BSD-2-Clause
// The biased lock: its owner, and mutual exclusion with and without an owner.
#include "shim.h"

#include <atomic>
#include <future>
#include <gtest/gtest.h>
#include <random>
#include <thread>
#include <vector>

#include "support.h"

namespace
{

const int MANY = 1000; // of takings in a row, after which a lock has an owner for sure

class Locks : public testing::Test
{
      protected:
	~Locks() override
	{
		shim_lock_destroy(shared);
	}
	void take(int times)
	{
		for (int i = 0; i < times; i++) {
			shim_lock_acquire(shared);
			inside++;
			shim_lock_release(shared);
		}
	}
	// In another thread.
	template <class Call> static auto elsewhere(Call call)
	{
		return std::async(std::launch::async, call).get();
	}
	void take_elsewhere(int times)
	{
		elsewhere([=] { take(times); });
	}
	struct lock *shared = shim_lock_create();
	long inside = 0; // not atomic: the lock guards it
};

TEST_F(Locks, AreOwnedByWhoTakesThemOftenUntilSomebodyElseComes)
{
	if (!shim_lock_can_be_owned())
		GTEST_SKIP() << "membarrier() is missing here";
	take(1);
	EXPECT_FALSE(shim_lock_is_owned(shared)) << "once is not often";
	take(MANY);
	EXPECT_TRUE(shim_lock_is_owned(shared));
	take_elsewhere(1);
	EXPECT_FALSE(shim_lock_is_owned(shared));
	take(MANY);
	EXPECT_TRUE(shim_lock_is_owned(shared)) << "the bias owner owns it again";
	take_elsewhere(MANY);
	EXPECT_FALSE(shim_lock_is_owned(shared)) << "the bias owner lives, and may be on its way in";
	EXPECT_EQ(inside, 1 + MANY + 1 + MANY + MANY);
}

TEST_F(Locks, AreOwnedByAnotherThreadWhenTheBiasOwnerHasComeByTheLatch)
{
	if (!shim_lock_can_be_owned())
		GTEST_SKIP() << "membarrier() is missing here";
	take(MANY);
	EXPECT_TRUE(shim_lock_is_owned(shared));
	take_elsewhere(1);
	take(1);
	EXPECT_FALSE(shim_lock_has_bias_owner(shared));
	take_elsewhere(MANY);
	EXPECT_TRUE(shim_lock_is_owned(shared));
}

TEST_F(Locks, AreOwnedByAnotherThreadWhenTheBiasOwnerHasEnded)
{
	if (!shim_lock_can_be_owned())
		GTEST_SKIP() << "membarrier() is missing here";
	take_elsewhere(MANY);
	// The kernel may know a thread for a moment after it was joined.
	for (int i = 0; i < 10000 && !shim_lock_is_owned(shared); i++) {
		take(MANY);
		std::this_thread::yield();
	}
	EXPECT_TRUE(shim_lock_is_owned(shared));
}

TEST_F(Locks, AreNeverOwnedByAThreadOfTheLibrary)
{
	elsewhere([this] {
		shim_lock_be_guest();
		take(MANY);
		EXPECT_FALSE(shim_lock_is_owned(shared));
	});
	take(MANY);
	EXPECT_EQ(shim_lock_is_owned(shared), shim_lock_can_be_owned());
}

TEST_F(Locks, WhoComesWhileTheOwnerIsInsideWaits)
{
	std::atomic<bool> got_it{false};

	take(MANY);
	shim_lock_acquire(shared);
	std::thread other([&] {
		shim_lock_acquire(shared);
		got_it = true;
		inside++;
		shim_lock_release(shared);
	});
	while (shim_lock_can_be_owned() && shim_lock_is_owned(shared))
		std::this_thread::yield(); // until the other thread is about to take it
	EXPECT_FALSE(got_it);
	inside++;
	shim_lock_release(shared);
	other.join();
	EXPECT_TRUE(got_it);
	EXPECT_EQ(inside, MANY + 2);
}

// Ending an ownership interrupts processors. So a thread that is only the quickest of many gets none.
TEST_F(Locks, AreNotOwnedWhileOthersWait)
{
	if (!shim_lock_can_be_owned())
		GTEST_SKIP() << "membarrier() is missing here";
	int needed = 0; // takings
	struct lock *alone = shim_lock_create();
	for (; !shim_lock_has_bias_owner(alone); needed++) {
		shim_lock_acquire(alone);
		shim_lock_release(alone);
	}
	shim_lock_destroy(alone);

	take(needed - 1);
	shim_lock_acquire(shared);
	std::thread other([this] { take(1); });
	while (!shim_lock_is_waited_for(shared))
		std::this_thread::yield();
	shim_lock_release(shared);
	other.join();
	EXPECT_FALSE(shim_lock_has_bias_owner(shared));
	take(MANY);
	EXPECT_TRUE(shim_lock_is_owned(shared)) << "nobody waits any more";
}

TEST_F(Locks, CanBeTriedWhereNobodyIsInsideOrOwnsThem)
{
	const auto can_be_taken = [this] {
		return elsewhere([this] {
			const bool taken = shim_lock_try(shared);

			if (taken)
				shim_lock_release(shared);
			return taken;
		});
	};
	EXPECT_TRUE(can_be_taken());
	shim_lock_acquire(shared);
	EXPECT_FALSE(can_be_taken());
	shim_lock_release(shared);
	EXPECT_TRUE(can_be_taken());
	take(MANY);
	EXPECT_EQ(can_be_taken(), !shim_lock_can_be_owned());
	EXPECT_EQ(shim_lock_is_owned(shared), shim_lock_can_be_owned()) << "trying ends no ownership";
	take(1);
}

// Threads take the lock once or often, at full speed, until it has changed its owner several times.
TEST_F(Locks, ExcludeWhileTheOwnerChanges)
{
	if (!shim_lock_can_be_owned())
		GTEST_SKIP() << "membarrier() is missing here";
	const int threads = 3, changes = 10;
	std::atomic<int> owner{-1}, changed{0};
	std::vector<std::future<long>> all;

	for (int i = 0; i < threads; i++)
		all.push_back(std::async(std::launch::async, [this, &owner, &changed, i] {
			std::minstd_rand any(static_cast<unsigned>(i));
			long taken = 0;

			for (; changed < changes; std::this_thread::yield()) {
				const int times = any() % 3 ? 1 : MANY;

				take(times);
				taken += times;
				if (shim_lock_is_own(shared))
					changed += owner.exchange(i) != i;
			}
			return taken;
		}));
	for (std::future<long> &taken : all)
		inside -= taken.get();
	EXPECT_EQ(inside, 0);
}

// The program has installed a filter of system calls when the lock has an owner already.
TEST_F(Locks, ExcludeWhenTheKernelRefusesTheFenceLater)
{
	if (!shim_lock_can_be_owned())
		GTEST_SKIP() << "membarrier() is missing here";
	Child child = passing_child({}, [this] {
		std::atomic<bool> stop{false};

		take(MANY);
		ASSERT_TRUE(shim_refuse_membarrier());
		ASSERT_TRUE(shim_lock_is_owned(shared));
		std::thread other([&] {
			take(MANY);
			stop = true;
		});
		long taken = 0;
		for (; !stop; taken++)
			take(1);
		other.join();
		EXPECT_EQ(inside, MANY + MANY + taken);
		EXPECT_FALSE(shim_lock_can_be_owned());
		take(MANY);
		EXPECT_FALSE(shim_lock_is_owned(shared));
	});
	EXPECT_EQ(child.err,
		  "vipl: warning: membarrier: Operation not permitted; from now on calls take mutexes, and are slower\n");
}

} // namespace
