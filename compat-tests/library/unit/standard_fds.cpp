// SPDX-License-Identifier: BSD-2-Clause
// A program that has closed standard input, output and error, and may write to their numbers nevertheless: they are not
// those of memory that the loopback device shares, nor of its connections.
#include "support.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace
{

using StandardFds = NicTest;

bool is_connection(int fd)
{
	int type = 0;
	socklen_t size = sizeof(type), length = 0;

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_SEQPACKET &&
	       !getpeername(fd, nullptr, &length);
}

// What a write to 0, 1 or 2 would change, or send to a peer.
std::string writable()
{
	std::string found;

	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		const std::string link = "/proc/self/fd/" + std::to_string(fd);
		char name[256];
		const ssize_t length = readlink(link.c_str(), name, sizeof(name));

		if (length > 0 && !strncmp(name, "/memfd:", 7))
			found += std::string(name, static_cast<size_t>(length)) + " ";
		if (is_connection(fd))
			found += "a connection ";
	}
	return found;
}

TEST_F(StandardFds, AreNeitherSharedMemoryNorConnections)
{
	const std::string door = "standard" + std::to_string(getpid());
	std::future<VIP_RETURN> requested;
	VIP_CONN_HANDLE conn = nullptr;
	VIP_CQ_HANDLE cq = nullptr;
	const std::function<void()> steps[] = {
		[&] { ASSERT_EQ(VipOpenNic("via_lo", &nic), VIP_SUCCESS); },
		[&] {
			cq = make_cq(8);
			a = make_vi(nullptr, cq);
			b = make_vi(nullptr, cq);
			ASSERT_EQ(wait(door, 0, &conn), VIP_TIMEOUT); // requests are held from now on
		},
		[&] {
			requested = request_async(a, door, "127.0.0.1");
			ASSERT_EQ(wait(door, PATIENCE, &conn), VIP_SUCCESS);
		},
		[&] {
			ASSERT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
			ASSERT_EQ(requested.get(), VIP_SUCCESS);
		},
	};

	// They are closed before each of the steps.
	for (size_t closed = 0; closed < std::size(steps); closed++) {
		Child child = in_child({}, [&] {
			const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 100);

			for (size_t i = 0; i < std::size(steps); i++) {
				for (int fd = 0; i == closed && fd <= STDERR_FILENO; fd++)
					::close(fd);
				steps[i]();
				dprintf(out, "%s", writable().c_str());
			}
		});
		EXPECT_EQ(child.status, 0) << closed;
		EXPECT_EQ(child.out, "") << closed;
	}
}

} // namespace
