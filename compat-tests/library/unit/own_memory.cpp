// SPDX-License-Identifier: BSD-2-Clause
// Copies to and from the program's memory by the kernel, where process_vm_readv() is missing, and where the file that stands in
// for it is other memory, as under QEMU's user mode.
#include "old_kernel.h"
#include "support.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
bool own_memory_write(void *to, const void *from, size_t length);
bool own_memory_read(void *to, const void *from, size_t length);
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap___open64_2(const char *path, int flags); // the same in programs that are compiled with _FORTIFY_SOURCE
}

namespace
{

int other_memory = -1; // in place of the file; -1: none

} // namespace

int __wrap_open64(const char *path, int flags, ...)
{
	if (other_memory >= 0 && std::string(path) == "/proc/thread-self/mem")
		return fcntl(other_memory, F_DUPFD_CLOEXEC, 0);
	return __real_open64(path, flags, 0600);
}

int __wrap___open64_2(const char *path, int flags)
{
	return __wrap_open64(path, flags);
}

namespace
{

constexpr size_t BYTES = 3 * 4096;

class OwnMemory : public testing::Test
{
      protected:
	void SetUp() override
	{
		if (!has_filters())
			GTEST_SKIP() << "no filters of system calls";
		place_ = static_cast<char *>(
			mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		ASSERT_NE(place_, MAP_FAILED);
		memset(place_, 'p', BYTES);
	}
	// A file that holds other bytes at each address.
	static void have_other_memory()
	{
		other_memory = memfd_create("other", MFD_CLOEXEC);
		ASSERT_GE(other_memory, 0);
		ASSERT_EQ(ftruncate(other_memory, INT64_MAX & -4096), 0);
	}
	void protect(int protection)
	{
		ASSERT_EQ(mprotect(place_, BYTES, protection), 0);
	}
	void expect_copies()
	{
		const std::string written(BYTES, 'w');
		std::string read(BYTES, '?');

		EXPECT_TRUE(own_memory_read(read.data(), place_, BYTES));
		EXPECT_EQ(read, std::string(BYTES, 'p'));
		EXPECT_TRUE(own_memory_write(place_, written.data(), BYTES));
		protect(PROT_READ);
		EXPECT_EQ(std::string(place_, BYTES), written);
	}
	void expect_none()
	{
		std::string bytes(BYTES, '?');

		EXPECT_FALSE(own_memory_read(bytes.data(), place_, BYTES));
		EXPECT_FALSE(own_memory_write(place_, bytes.data(), BYTES));
		protect(PROT_READ);
		EXPECT_EQ(std::string(place_, BYTES), std::string(BYTES, 'p'));
	}

      private:
	char *place_ = nullptr;
};

TEST_F(OwnMemory, IsCopiedByAFileWhereTheKernelLacksTheCall)
{
	passing_child({}, [this] {
		ASSERT_TRUE(refuse_call(SYS_process_vm_readv, ENOSYS));
		protect(PROT_NONE);
		expect_copies();
	});
}

TEST_F(OwnMemory, IsCopiedByTheProcessorWhereTheFileIsOtherMemory)
{
	passing_child({}, [this] {
		ASSERT_TRUE(refuse_call(SYS_process_vm_readv, ENOSYS));
		have_other_memory();
		expect_copies();
	});
}

TEST_F(OwnMemory, ThatIsProtectedCannotBeCopiedWhereTheFileIsOtherMemory)
{
	passing_child({}, [this] {
		have_other_memory();
		protect(PROT_NONE);
		expect_none();
	});
}

} // namespace
