// SPDX-License-Identifier: BSD-2-Clause
// Programs that lock all their memory, or whose default stack is larger than what there is.
#include "support.h"

#include <algorithm>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace
{

class Limits : public NicTest
{
      protected:
	// No more memory than the process has now and this.
	static void limit_memory(size_t more)
	{
		rlimit limit;
		long pages = 0;
		FILE *file = fopen("/proc/self/statm", "re");

		ASSERT_EQ(fscanf(file, "%ld", &pages), 1);
		fclose(file);
		limit.rlim_cur = limit.rlim_max = static_cast<size_t>(pages * sysconf(_SC_PAGESIZE)) + more;
		ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	}
	// A child with a default stack of this size, which glibc takes from the limit when the process begins.
	static Child child_with(size_t stack, size_t memory, const std::function<void()> &body)
	{
		return passing_child({}, [&] {
			pthread_attr_t attributes;

			pthread_attr_init(&attributes);
			ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack), 0);
			ASSERT_EQ(pthread_setattr_default_np(&attributes), 0);
			limit_memory(memory);
			body();
		});
	}
};

constexpr size_t MIB = 1 << 20;

TEST_F(Limits, TheDefaultStackMayBeLargerThanTheMemoryThatThereIs)
{
	Child child = child_with(512 * MIB, 128 * MIB, [this] {
		open("via_lo");
		VIP_CQ_HANDLE cq = make_cq(10);
		ASSERT_EQ(VipCQNotify(cq, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {}),
			  VIP_SUCCESS);
		close();
	});
}

// Later a page that is not there would be a signal.
TEST_F(Limits, OfMemoryAreToldWhoConnects)
{
	Child child = passing_child({}, [this] {
		const std::string name = std::to_string(getpid());
		Address one("127.0.0.1", "a" + name), other("127.0.0.1", "b" + name);
		VIP_VI_ATTRIBUTES peer;

		ASSERT_EQ(VipOpenNic("via_lo", &nic), VIP_SUCCESS);
		a = make_vi();
		b = make_vi();
		limit_memory(2 * MIB); // a connection in one process needs more
		EXPECT_EQ(VipConnectPeerRequest(a, one.get(), other.get(), 1000), VIP_SUCCESS);
		EXPECT_EQ(VipConnectPeerRequest(b, other.get(), one.get(), 1000), VIP_SUCCESS);
		const VIP_RETURN results[] = {VipConnectPeerWait(a, &peer), VipConnectPeerWait(b, &peer)};
		EXPECT_EQ(std::count(std::begin(results), std::end(results), VIP_SUCCESS), 0);
		EXPECT_GE(std::count(std::begin(results), std::end(results), VIP_ERROR_RESOURCE), 1);
		close();
	});
	EXPECT_NE(child.err.find("Cannot allocate memory"), std::string::npos) << child.err;
}

TEST_F(Limits, ThatForbidAThreadAreNamed)
{
	Child child = passing_child({}, [this] {
		const rlimit none = {0, 0};

		ASSERT_EQ(setrlimit(RLIMIT_NPROC, &none), 0);
		if (!geteuid()) { // no limit holds for root
			ASSERT_EQ(setresuid(65534, 65534, 65534), 0);
		}
		EXPECT_EQ(VipOpenNic("via_lo", &nic), VIP_ERROR_RESOURCE);
	});
	EXPECT_NE(child.err.find("ulimit -u, are limited to 0"), std::string::npos) << child.err;
}

} // namespace
