// SPDX-License-Identifier: BSD-2-Clause
// All memory that a connection of the loopback device needs is allocated when the connection is made. Where memory is
// short, an access to a page that is not allocated would be a signal.
#include "shim.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace
{

constexpr off_t kBlock = 512; // the unit of st_blocks

bool all_is_allocated(int fd)
{
	struct stat status{};
	return !fstat(fd, &status) && status.st_size > 0 && status.st_blocks * kBlock >= status.st_size;
}

class SharedMemory : public testing::TestWithParam<shared_kind>
{
};

TEST_P(SharedMemory, IsAllocatedByTheEndThatMakesIt)
{
	int fd = shim_shared_create(GetParam());
	ASSERT_GE(fd, 0);
	EXPECT_TRUE(all_is_allocated(fd));
	close(fd);
}

TEST_P(SharedMemory, IsRefusedIfItsMakerHasNotAllocatedIt)
{
	int fd = shim_shared_sparse(GetParam(), 0);
	ASSERT_GE(fd, 0);
	ASSERT_FALSE(all_is_allocated(fd));
	EXPECT_FALSE(shim_shared_map(GetParam(), fd));
	close(fd);
}

// To allocate it would wait for who has the file's lock. To close it last takes time, if there is more of it.
TEST_P(SharedMemory, IsTakenOnlyIfThereIsNoMoreOfItThanItsSize)
{
	int fd = shim_shared_sparse(GetParam(), 1), vast = shim_shared_sparse(GetParam(), 0x8000000);
	ASSERT_GE(fd, 0);
	ASSERT_GE(vast, 0);
	ASSERT_TRUE(all_is_allocated(fd));
	EXPECT_TRUE(shim_shared_may_be(fd));
	EXPECT_TRUE(shim_shared_map(GetParam(), fd));
	EXPECT_FALSE(shim_shared_may_be(vast));
	close(fd);
	close(vast);
}

INSTANTIATE_TEST_SUITE_P(Each, SharedMemory, testing::Values(SHARED_LINK, SHARED_REGIONS, SHARED_CQ_PAGE));

} // namespace
