// SPDX-License-Identifier: BSD-2-Clause
// The biased lock: its owner, and mutual exclusion with and without an owner.
#include "shim.h"

#include <atomic>
#include <csignal>
#include <future>
#include <gtest/gtest.h>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "support.h"

namespace
{

const int MANY = 1000; // of takings in a row, after which a lock has an owner for sure
const int MOST = 1024; // threads that have places: lock_thread.c

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
	EXPECT_TRUE(shim_lock_is_own(shared));
	take_elsewhere(1);
	EXPECT_FALSE(shim_lock_is_owned(shared));
	take(MANY);
	EXPECT_TRUE(shim_lock_is_own(shared)) << "it is the owner again";
	EXPECT_EQ(inside, 1 + MANY + 1 + MANY);
}

TEST_F(Locks, AreOwnedByAnotherThreadWhileTheFormerOwnerLives)
{
	if (!shim_lock_can_be_owned())
		GTEST_SKIP() << "membarrier() is missing here";
	take(MANY);
	EXPECT_TRUE(shim_lock_is_own(shared));
	elsewhere([this] {
		take(MANY);
		EXPECT_TRUE(shim_lock_is_own(shared));
	});
	EXPECT_FALSE(shim_lock_is_own(shared));
}

std::atomic<bool> somebody_may_come, somebody_is_inside;

// Of the page in which the calling thread says what it is inside.
void allow(int rights)
{
	const auto size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
	const auto page = reinterpret_cast<uintptr_t>(shim_lock_place()) & -size;

	ASSERT_EQ(mprotect(reinterpret_cast<void *>(page), size, rights), 0);
}

// The thread goes on with what it could not write.
void be_late(int)
{
	allow(PROT_READ | PROT_WRITE);
	somebody_may_come = true;
	while (!somebody_is_inside)
		std::this_thread::yield();
}

// It has seen that it is the owner. Before it can say that it comes in, another thread becomes the owner, and is inside.
TEST_F(Locks, DoNotLetAFormerOwnerInThatIsLateOnItsWay)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "the sanitizer holds a lock while it writes, and the other thread needs that to read";
#endif
	if (!shim_lock_can_be_owned())
		GTEST_SKIP() << "membarrier() is missing here";
	passing_child({}, [this] {
		std::atomic<bool> late_one_is_inside{false};

		std::thread other([&] {
			while (!somebody_may_come)
				std::this_thread::yield();
			take(MANY);
			EXPECT_TRUE(shim_lock_is_own(shared));
			shim_lock_acquire(shared);
			somebody_is_inside = true;
			while (!late_one_is_inside && shim_lock_is_owned(shared))
				std::this_thread::yield();
			for (int i = 0; i < MANY; i++) // the late one has the latch now
				std::this_thread::yield();
			EXPECT_FALSE(late_one_is_inside);
			shim_lock_release(shared);
		});
		take(MANY);
		EXPECT_TRUE(shim_lock_is_own(shared));
		signal(SIGSEGV, be_late);
		allow(PROT_READ);
		shim_lock_acquire(shared);
		late_one_is_inside = true;
		EXPECT_TRUE(somebody_is_inside);
		shim_lock_release(shared);
		EXPECT_FALSE(shim_lock_seems_taken(shared));
		other.join();
	});
}

TEST_F(Locks, OfOneLevelAreTakenByTheLatchWhileTheThreadIsInsideAnotherAsItsOwner)
{
	if (!shim_lock_can_be_owned())
		GTEST_SKIP() << "membarrier() is missing here";
	struct lock *other = shim_lock_create();
	const auto seems_taken = [](struct lock *lock) { return elsewhere([lock] { return shim_lock_seems_taken(lock); }); };

	for (struct lock *lock : {shared, other}) {
		for (int i = 0; i < MANY; i++) {
			shim_lock_acquire(lock);
			shim_lock_release(lock);
		}
		EXPECT_TRUE(shim_lock_is_own(lock));
	}
	shim_lock_acquire(shared);
	EXPECT_TRUE(shim_lock_is_own(shared));
	shim_lock_acquire(other);
	EXPECT_FALSE(shim_lock_is_own(other));
	EXPECT_TRUE(seems_taken(shared));
	EXPECT_TRUE(seems_taken(other));
	shim_lock_release(other);
	EXPECT_TRUE(seems_taken(shared));
	EXPECT_FALSE(seems_taken(other));
	shim_lock_release(shared);
	EXPECT_FALSE(seems_taken(shared));
	shim_lock_destroy(other);
}

TEST_F(Locks, GiveThePlaceOfAThreadThatHasEndedToAnother)
{
	if (!shim_lock_can_be_owned())
		GTEST_SKIP() << "membarrier() is missing here";
	for (int i = 0; i <= MOST; i++)
		take_elsewhere(1);
	elsewhere([this] {
		take(MANY);
		EXPECT_TRUE(shim_lock_is_own(shared));
	});
}

TEST_F(Locks, TakeAThreadForANewOneThatComesAfterItHasGivenItsPlaceBack)
{
	static void *place;
	pthread_key_t later; // than the lock's

	take(1);
	ASSERT_EQ(pthread_key_create(&later, [](void *) { place = shim_lock_place(); }), 0);
	elsewhere([&] {
		take(1);
		place = shim_lock_place();
		EXPECT_TRUE(place);
		pthread_setspecific(later, place);
	});
	EXPECT_FALSE(place);
	pthread_key_delete(later);
}

TEST_F(Locks, AreNeverOwnedByAThreadWithoutAPlace)
{
	passing_child({}, [this] {
		for (int i = 0; i <= MOST; i++)
			shim_lock_be_new_thread();
		take(MANY);
		EXPECT_FALSE(shim_lock_is_owned(shared));
	});
}

TEST_F(Locks, GiveThePlacesOfTheParentsThreadsToThoseOfAChild)
{
	if (!shim_lock_can_be_owned())
		GTEST_SKIP() << "membarrier() is missing here";
	passing_child({}, [this] {
		for (int i = 0; i <= MOST; i++)
			shim_lock_be_new_thread();
		passing_child({}, [this] {
			elsewhere([this] {
				take(MANY);
				EXPECT_TRUE(shim_lock_is_own(shared));
			});
		});
	});
}

TEST_F(Locks, KnowTheThreadThatForkedInTheChild)
{
	if (!shim_lock_can_be_owned())
		GTEST_SKIP() << "membarrier() is missing here";
	take(1);
	passing_child({}, [this] {
		take(MANY);
		EXPECT_TRUE(shim_lock_is_own(shared));
		elsewhere([this] {
			struct lock *other = shim_lock_create();

			shim_lock_acquire(other);
			EXPECT_FALSE(shim_lock_is_own(shared)) << "it has another place";
			shim_lock_release(other);
			shim_lock_destroy(other);
		});
	});
}

TEST_F(Locks, AreNeverOwnedByAnAgent)
{
	elsewhere([this] {
		shim_lock_be_agent();
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
	shim_lock_set_waiting(shared, 1);
	take(MANY);
	EXPECT_FALSE(shim_lock_is_owned(shared));
	shim_lock_set_waiting(shared, 0);
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
	long taken = 0;
	for (std::future<long> &one : all)
		taken += one.get();
	EXPECT_EQ(inside, taken);
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
