// SPDX-License-Identifier: BSD-2-Clause
// A peer on via_lo that has died, while a child of its own lives on with its memory and its sockets, as after vfork().
#include "support.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

class Outlived : public NicTest
{
      protected:
	void SetUp() override // no fake
	{
	}
	void TearDown() override
	{
	}
	// The child of clone(). It shares the memory, so it does nothing else. It ends with who has the other end.
	static int wait_for_the_end(void *end)
	{
		char byte;

		while (read(*static_cast<int *>(end), &byte, 1) < 0)
			;
		_exit(0);
	}
	[[noreturn]] void be_peer(const std::string &door, int ready, int end)
	{
		static char stack[65536] __attribute__((aligned(64)));
		VIP_CONN_HANDLE conn = nullptr;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		open("via_lo");
		a = make_vi();
		EXPECT_EQ(wait(door, PATIENCE, &conn), VIP_SUCCESS);
		EXPECT_EQ(VipConnectAccept(conn, a), VIP_SUCCESS);
		EXPECT_GT(clone(wait_for_the_end, stack + sizeof(stack), CLONE_VM | SIGCHLD, &end), 0);
		EXPECT_EQ(write(ready, "", 1), 1);
		for (;;)
			pause();
	}
	void connect_and_outlive()
	{
		const std::string door = "outlived" + std::to_string(getpid());
		int ready[2], end[2];
		char byte;

		ASSERT_EQ(pipe(ready) | pipe(end), 0);
		const pid_t peer = fork(); // while there is one thread
		if (!peer) {
			::close(end[1]);
			be_peer(door, ready[1], end[0]);
		}
		open("via_lo");
		a = make_vi();
		ASSERT_EQ(request(a, door, VIP_INFINITE), VIP_SUCCESS);
		ASSERT_EQ(read(ready[0], &byte, 1), 1);
		ASSERT_EQ(kill(peer, SIGKILL), 0);
		ASSERT_EQ(waitpid(peer, nullptr, 0), peer);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
		expect_state(a, VIP_STATE_ERROR);
		EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
	}
};

TEST_F(Outlived, APeerIsLostThoughItsMemoryAndItsSocketsLiveOn)
{
	Child child = in_child({{"VIPL_GRACE_MSEC", "8000"}}, [this] { connect_and_outlive(); });

	EXPECT_EQ(child.status, 0) << child.out << child.err;
}

} // namespace
