// SPDX-License-Identifier: BSD-2-Clause
// Bells that are rung with descriptors, which Linux allows before 6.16, while no thread can be had that takes them.
#include "local_socket.h"
#include "old_kernel.h"
#include "support.h"

#include <atomic>
#include <cstring>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace
{

constexpr int FDS = 0x10000; // the library keeps some far from those of programs

class Rung : public NicTest
{
      protected:
	// Of all bells of the process. No more fit into a bell.
	static int ring_with_descriptors()
	{
		int rings = 0;
		for (int fd = 0; fd < FDS; fd++) {
			sockaddr_un name{};
			socklen_t length = sizeof(name);
			if (getsockname(fd, reinterpret_cast<sockaddr *>(&name), &length) || name.sun_family != AF_UNIX ||
			    strncmp(name.sun_path + 1, "vipl-bell-", 10) != 0)
				continue;
			while (ring(name, length))
				rings++;
		}
		return rings;
	}
	static bool ring(const sockaddr_un &name, socklen_t length)
	{
		int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), zero = 0;
		bool is_sent = local_socket_send_to(from, "", 1, &zero, 1, &name, length);

		::close(from);
		return is_sent;
	}
};

TEST_F(Rung, WithDescriptorsThatNobodyTakesTheBellsAreLeftAloneAndMessagesCome)
{
	passing_child({}, [this] {
		VIP_DESCRIPTOR *done = nullptr;

		if (!be_before_6_16())
			return; // no filters
		open("via_lo");
		make_pair();
		VIP_DESCRIPTOR *d = posted_receive(b, 0, {{memory.data(), 64}});
		auto received = std::async(std::launch::async, [&] { return VipRecvWait(b, VIP_INFINITE, &done); });

		// On a busy machine a thread that spins gets little of the processor, and another one that spins as much.
		std::atomic<bool> spins = true;
		auto spinner = std::async(std::launch::async, [&] {
			while (spins)
				;
			return seconds(CLOCK_THREAD_CPUTIME_ID);
		});

		ASSERT_TRUE(have_no_more_threads());
		ASSERT_GE(ring_with_descriptors(), 3); // of the agent, a and b
		const double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
		VIP_DESCRIPTOR *none;
		EXPECT_EQ(VipSendWait(a, 1000, &none), VIP_TIMEOUT);
		const double used = seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
		spins = false;
		const double spun = spinner.get();
		EXPECT_LT(used - spun, spun / 2) << used << " s, of which " << spun << " s were spent by the test";

		VIP_DESCRIPTOR *s = posted_send(a, 1, {{memory.data(100), 8}});
		EXPECT_EQ(received.get(), VIP_SUCCESS);
		EXPECT_EQ(done, d);
		expect_sent(a, s);
		close();
	});
}

} // namespace
