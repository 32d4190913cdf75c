// SPDX-License-Identifier: BSD-2-Clause
// A child of fork() has none of its parent's objects.
#include "support.h"

#include <atomic>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

using Fork = NicTest;

// A child of a process with threads may do no more than this.
int refused(const std::function<VIP_RETURN()> &call)
{
	return call() != VIP_INVALID_PARAMETER;
}

TEST_F(Fork, TheParentsHandlesAreRefusedInTheChild)
{
	VIP_DESCRIPTOR *d, *done;
	VIP_NIC_ATTRIBUTES attributes;
	VIP_VI_HANDLE which;
	VIP_BOOLEAN is_recv;

	open();
	VIP_CQ_HANDLE cq = make_cq(8);
	make_pair();
	d = descriptor(0, {{memory.data(), 8}});
	pid_t pid = fork();
	if (!pid) {
		alarm(20);
		int bad = refused([&] { return VipQueryNic(nic, &attributes); });
		bad += 2 * refused([&] { return VipPostSend(a, d, memory.handle); });
		bad += 4 * refused([&] { return VipSendDone(a, &done); });
		bad += 8 * refused([&] { return VipRecvWait(b, 0, &done); });
		bad += 16 * refused([&] { return VipDisconnect(a); });
		bad += 32 * refused([&] { return VipCQDone(cq, &which, &is_recv); });
		bad += 64 * refused([&] { return VipCloseNic(nic); });
		_exit(bad);
	}
	int status = -1;
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	expect_traffic(a, b); // the parent's objects still work
}

bool has_socket_of_a_connection()
{
	for (int fd = STDERR_FILENO + 1; fd < 1024; fd++) {
		int type = 0, domain = 0;
		socklen_t length = sizeof(int);

		if (!getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) && !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) &&
		    (type == SOCK_SEQPACKET || (domain == AF_INET && type == SOCK_STREAM)))
			return true;
	}
	return false;
}

// Or else a peer would not hear of the parent's end. Nor of one that is just being made.
TEST_F(Fork, NoConnectionIsTheChilds)
{
	std::atomic<bool> is_over{false};

	open();
	a = make_vi();
	b = make_vi();
	auto connecting = std::async(std::launch::async, [&] {
		for (int i = 0; !is_over; i++) {
			connect(a, b, "forked " + std::to_string(i % 4));
			EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
			EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
		}
	});
	for (int i = 0; i < 300; i++) {
		pid_t pid = fork();
		if (!pid)
			_exit(has_socket_of_a_connection());
		int status = -1;
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_EQ(status, 0) << i;
	}
	is_over = true;
}

} // namespace
