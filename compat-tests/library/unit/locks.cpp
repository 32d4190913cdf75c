// SPDX-License-Identifier: BSD-2-Clause
// The locks of the data path. That who comes while a thread is inside waits, and goes on then, is in cq_threads.cpp.
#include "shim.h"

#include <future>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace
{

class Locks : public testing::Test
{
      protected:
	~Locks() override
	{
		shim_lock_destroy(shared);
	}
	void take()
	{
		shim_lock_acquire(shared);
		inside++;
		shim_lock_release(shared);
	}
	// In another thread.
	bool can_be_taken()
	{
		return std::async(std::launch::async, [this] {
			const bool taken = shim_lock_try(shared);

			if (taken)
				shim_lock_release(shared);
			return taken;
		}).get();
	}
	struct lock *shared = shim_lock_create();
	long inside = 0; // not atomic: the lock guards it
};

TEST_F(Locks, CanBeTriedWhereNobodyIsInside)
{
	EXPECT_FALSE(shim_lock_seems_taken(shared));
	EXPECT_TRUE(can_be_taken());
	shim_lock_acquire(shared);
	EXPECT_TRUE(shim_lock_seems_taken(shared));
	EXPECT_FALSE(can_be_taken());
	shim_lock_release(shared);
	EXPECT_TRUE(can_be_taken());
}

TEST_F(Locks, ExcludeAtFullSpeed)
{
	const int threads = 3, times = 20000;
	std::vector<std::thread> all;

	for (int i = 0; i < threads; i++)
		all.emplace_back([this] {
			for (int time = 0; time < times; time++)
				take();
		});
	for (std::thread &one : all)
		one.join();
	EXPECT_EQ(inside, threads * times);
}

} // namespace
