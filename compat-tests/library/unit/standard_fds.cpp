// SPDX-License-Identifier: BSD-2-Clause
// A program that has closed standard input, output and error, and may write to their numbers, or give them to files of
// its own: they are those of nothing that the library has, nor of what libibverbs opens for it.
#include "support.h"

#include <fcntl.h>
#include <unistd.h>

namespace
{

using StandardFds = Each<NicTest, const char *>;

std::string open_ones()
{
	std::string found;

	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		const std::string link = "/proc/self/fd/" + std::to_string(fd);
		char name[256];
		const ssize_t length = readlink(link.c_str(), name, sizeof(name));

		if (length > 0)
			found += std::string(name, static_cast<size_t>(length)) + " ";
	}
	return found;
}

TEST_P(StandardFds, AreNeverTheLibrarys)
{
	const std::string door = "standard" + std::to_string(getpid());
	const bool is_loopback = !strcmp(GetParam(), "via_lo");
	std::future<VIP_RETURN> requested;
	VIP_CONN_HANDLE conn = nullptr;
	VIP_CQ_HANDLE cq = nullptr;
	const std::function<void()> steps[] = {
		[&] { ASSERT_EQ(VipOpenNic(GetParam(), &nic), VIP_SUCCESS); },
		[&] {
			cq = make_cq(8);
			a = make_vi(nullptr, cq);
			b = make_vi(nullptr, cq);
			ASSERT_EQ(wait(door, 0, &conn), VIP_TIMEOUT); // requests are held from now on
		},
		[&] {
			requested = request_async(a, door, is_loopback ? "127.0.0.1" : "10.9.9.1");
			ASSERT_EQ(wait(door, PATIENCE, &conn), VIP_SUCCESS);
		},
		[&] {
			ASSERT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
			ASSERT_EQ(requested.get(), VIP_SUCCESS);
		},
		[&] { ASSERT_EQ(VipCQNotify(cq, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {}), VIP_SUCCESS); },
		[&] { close(); },
	};

	// They are closed before each of the steps.
	for (size_t closed = 0; closed < std::size(steps); closed++) {
		Child child = passing_child({}, [&] {
			const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 100);

			for (size_t i = 0; i < std::size(steps); i++) {
				for (int fd = 0; i == closed && fd <= STDERR_FILENO; fd++)
					::close(fd);
				steps[i]();
				if (i >= closed)
					dprintf(out, "%s", open_ones().c_str());
			}
		});
		EXPECT_EQ(child.out, "") << closed;
	}
}

INSTANTIATE_TEST_SUITE_P(Devices, StandardFds, testing::Values("via_lo", "nic0"),
			 [](const auto &device) { return std::string(device.param); });

} // namespace
