// SPDX-License-Identifier: BSD-2-Clause
// Connecting on via_lo where the kernel has no more of something.
#include "line.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <vector>

namespace
{

const std::map<std::string, std::string> SETTINGS = {{"VIPL_GRACE_MSEC", "300"}};

void limit_files(rlim_t most)
{
	const rlimit limit = {most, most};
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

using Shortage = NicTest;

TEST_F(Shortage, OfFileDescriptorsIsNotThatAHostIsUnreachable)
{
	Child child = passing_child(SETTINGS, [this] {
		open("via_lo");
		a = make_vi();
		int next = dup(0);
		::close(next);
		limit_files(static_cast<rlim_t>(next));
		EXPECT_EQ(request(a, "nobody", PATIENCE, "127.0.0.2"), VIP_ERROR_RESOURCE);
	});

	EXPECT_NE(child.err.find("(see ulimit -n)"), std::string::npos) << child.err;
}

// What processes of a user have sent, and nobody has received, counts against the limit of files. Root has no such limit.
void fill(int socket)
{
	const std::vector<int> fds(50, 0);

	while (local_socket_send(socket, "", 1, fds.data(), 50))
		;
	EXPECT_EQ(errno, ETOOMANYREFS);
}

TEST_F(Shortage, OfDescriptorsUnderWayIsNotThatNobodyWaits)
{
	Child child = passing_child(SETTINGS, [this] {
		const std::string door = "shortage" + std::to_string(getpid());
		int ends[2];

		if (!geteuid()) {
			ASSERT_EQ(setgid(65534), 0);
			ASSERT_EQ(setuid(65534), 0);
		}
		open("via_lo");
		a = make_vi();
		Gate gate(VIA_LO, door); // it takes none
		ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
		limit_files(100);
		fill(ends[0]);
		EXPECT_EQ(request(a, door, PATIENCE), VIP_ERROR_RESOURCE);
	});

	EXPECT_NE(child.err.find("is one stopped?"), std::string::npos) << child.err;
}

} // namespace
