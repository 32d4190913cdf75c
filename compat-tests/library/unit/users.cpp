// SPDX-License-Identifier: BSD-2-Clause
// Whose process a peer is, in a user namespace, where the process has no /proc.
#include "old_kernel.h"
#include "support.h"

#include <cerrno>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

extern "C" {
#include "base/user.h"
}

namespace
{

#ifdef SYS_fchown32
constexpr unsigned FCHOWN = SYS_fchown32;
#else
constexpr unsigned FCHOWN = SYS_fchown;
#endif

// Two processes without a mapping look like one user, so neither may take the other for its own.
TEST(Users, WithoutAMappingAreNoUserAlsoWhereToChangeAnOwnerOnlySeemsToSucceed)
{
	if (!has_filters())
		GTEST_SKIP() << "no filters of system calls";
	passing_child({}, [] {
		uid_t user = 0;
		int ends[2];

		ASSERT_EQ(unshare(CLONE_NEWUSER), 0) << errno;
		ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		ASSERT_TRUE(refuse_call(SYS_openat, ENOENT) && refuse_call(FCHOWN, 0));
		EXPECT_FALSE(user_of_peer(ends[0], &user, nullptr)) << user;
	});
}

} // namespace
