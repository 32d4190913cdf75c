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

struct Requester {
	Requester()
	{
		VIP_VI_ATTRIBUTES attributes{};
		EXPECT_EQ(VipOpenNic("via_lo", &nic), VIP_SUCCESS);
		attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
		attributes.MaxTransferSize = 1024;
		EXPECT_EQ(VipCreateVi(nic, &attributes, nullptr, nullptr, &vi), VIP_SUCCESS);
	}
	VIP_RETURN request(const char *host, const std::string &wanted) const
	{
		VIP_VI_ATTRIBUTES theirs;
		return VipConnectRequest(vi, Address("127.0.0.1", "me").get(), Address(host, wanted).get(), PATIENCE,
					 &theirs);
	}
	VIP_NIC_HANDLE nic = nullptr;
	VIP_VI_HANDLE vi = nullptr;
};

TEST(Shortage, OfFileDescriptorsIsNotThatAHostIsUnreachable)
{
	Child child = in_child(SETTINGS, [] {
		Requester requester;
		int next = dup(0);
		close(next);
		limit_files(static_cast<rlim_t>(next));
		EXPECT_EQ(requester.request("127.0.0.2", "nobody"), VIP_ERROR_RESOURCE);
	});

	EXPECT_EQ(child.status, 0) << child.out << child.err;
	EXPECT_NE(child.err.find("(see ulimit -n)"), std::string::npos) << child.err;
}

// What processes of a user have sent, and nobody has received, counts against the limit of files. Root has no such limit.
void fill(int socket)
{
	std::vector<int> fds(50, 0);
	std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
	char byte = 0;
	iovec place = {&byte, 1};
	msghdr message{};
	message.msg_iov = &place;
	message.msg_iovlen = 1;
	message.msg_control = control.data();
	message.msg_controllen = control.size();
	cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
	memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
	while (sendmsg(socket, &message, MSG_DONTWAIT) >= 0)
		;
	EXPECT_EQ(errno, ETOOMANYREFS);
}

TEST(Shortage, OfDescriptorsUnderWayIsNotThatNobodyWaits)
{
	Child child = in_child(SETTINGS, [] {
		const std::string door = "shortage" + std::to_string(getpid());
		int ends[2];

		if (!geteuid()) {
			ASSERT_EQ(setgid(65534), 0);
			ASSERT_EQ(setuid(65534), 0);
		}
		Requester requester;
		Gate gate(VIA_LO, door); // it takes none
		ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
		limit_files(100);
		fill(ends[0]);
		EXPECT_EQ(requester.request("127.0.0.1", door), VIP_ERROR_RESOURCE);
	});

	EXPECT_EQ(child.status, 0) << child.out << child.err;
	EXPECT_NE(child.err.find("is one stopped?"), std::string::npos) << child.err;
}

} // namespace
