// SPDX-License-Identifier: BSD-2-Clause
// Opening NICs, querying and closing them.
#include "harness.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

using namespace harness;

namespace
{

size_t entriesOf(const char *directory)
{
	using std::filesystem::directory_iterator;
	return static_cast<size_t>(std::distance(directory_iterator(directory), directory_iterator()));
}

class NicHandle : public NicTest
{
      protected:
	VIP_RETURN opens(const char *name)
	{
		VIP_NIC_HANDLE handle = nullptr;
		VIP_RETURN result = VipOpenNic(name, &handle);
		if (result == VIP_SUCCESS) {
			EXPECT_NE(nullptr, handle);
			EXPECT_EQ(VIP_SUCCESS, VipCloseNic(handle));
		}
		return result;
	}
	void expectWorks(Nic &use)
	{
		Pair pair(use);
		expectTalk(pair.a, pair.b);
	}
};

// [early: VipQueryNic] A NIC reports its name, its address and its limits. The limits are at least those that programs
// assume.
TEST_F(NicHandle, LimitsAreThoseThatProgramsRelyOn)
{
	const VIP_NIC_ATTRIBUTES &limits = nic.attributes();
	EXPECT_NE(nullptr, memchr(limits.Name, 0, sizeof limits.Name)) << "the name does not end";
	EXPECT_NE('\0', limits.Name[0]);
	const char *asked = getenv("VIPL_ADDRESS_BYTES"); // 6 by default, as programs assume
	EXPECT_EQ(asked ? atoi(asked) : 6, limits.NicAddressLen);
	ASSERT_NE(nullptr, limits.LocalNicAddress);
	EXPECT_NE(std::string(limits.NicAddressLen, '\0'), nic.address());
	EXPECT_TRUE(limits.ThreadSafe);
	EXPECT_GE(limits.MaxDiscriminatorLen, 16);
	EXPECT_GE(limits.MaxTransferSize, 65536U);
	EXPECT_LE(limits.MaxTransferSize, 512U << 20) << "programs multiply it in an int";
	EXPECT_GE(limits.MaxDescriptorsPerQueue, 1024U);
	EXPECT_GE(limits.MaxSegmentsPerDesc, 252U);
	EXPECT_LE(limits.MaxSegmentsPerDesc, 0xFFFFU) << "more than SegCount can say";
	EXPECT_GE(limits.MaxRegisterBlockBytes, limits.MaxTransferSize);
	EXPECT_GE(limits.MaxRegisterBytes, limits.MaxRegisterBlockBytes);
	EXPECT_GE(limits.MaxRegisterRegions, 1024U);
	EXPECT_GE(limits.MaxVI, 64U);
	EXPECT_GE(limits.MaxCQ, 1U);
	EXPECT_GE(limits.MaxCQEntries, 1024U);
	EXPECT_GE(limits.MaxPtags, 3U);
	EXPECT_GT(limits.NativeMTU, 0U);
	EXPECT_LE(limits.NativeMTU, limits.MaxTransferSize);
	EXPECT_TRUE(limits.ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_DELIVERY);
	EXPECT_EQ(0, limits.RDMAReadSupport & ~limits.ReliabilityLevelSupport) << "reads at levels that are not there";
	EXPECT_FALSE(limits.RDMAReadSupport & VIP_SERVICE_UNRELIABLE);
}

// [early: VipQueryNic] A NIC's attributes do not change while its handle is open.
TEST_F(NicHandle, AttributesAreTheSameForAsLongAsTheHandleIsOpen)
{
	Vi vi(nic);
	Region region(nic, 4096);
	VIP_NIC_ATTRIBUTES again;
	memset(&again, 0xEE, sizeof again);
	ASSERT_EQ(VIP_SUCCESS, VipQueryNic(nic, &again));
	const VIP_NIC_ATTRIBUTES &first = nic.attributes();
	EXPECT_STREQ(first.Name, again.Name);
	EXPECT_EQ(first.LocalNicAddress, again.LocalNicAddress);
	EXPECT_EQ(first.NicAddressLen, again.NicAddressLen);
	EXPECT_EQ(first.MaxVI, again.MaxVI);
	EXPECT_EQ(first.MaxRegisterBytes, again.MaxRegisterBytes);
	EXPECT_EQ(first.MaxRegisterRegions, again.MaxRegisterRegions);
	EXPECT_EQ(first.MaxTransferSize, again.MaxTransferSize);
	EXPECT_EQ(first.MaxDescriptorsPerQueue, again.MaxDescriptorsPerQueue);
	EXPECT_EQ(first.ReliabilityLevelSupport, again.ReliabilityLevelSupport);
}

// [functional: VipOpenNic] Every NIC name that programs use, of any maker, opens a NIC. VINIC without a number is the
// first one.
TEST_F(NicHandle, NamesOfHardwareThatIsGoneOpen)
{
	for (const char *name : {"nic0", "VINIC", "VINIC0", "/dev/via_eth0", "/dev/clanvi0"})
		EXPECT_EQ(VIP_SUCCESS, opens(name)) << name;
	EXPECT_EQ(Nic("VINIC0").address(), Nic("VINIC").address());
}

// [functional: VipOpenNic VipQueryNic] The names of the loopback device lead to a NIC whose network ends at this
// machine.
TEST_F(NicHandle, NamesOfTheLoopbackDeviceOpenAndReachThisMachineOnly)
{
	for (const char *name : {"via_lo", "/dev/via_lo", "/etc/via_lo"}) {
		Nic loopback(name);
		ASSERT_TRUE(loopback.opened()) << name;
		EXPECT_TRUE(loopback.isLoopback()) << name;
		EXPECT_EQ(hostAddress(loopback, {"\x7F\0\0\1", 4}), loopback.address()) << name;
	}
}

// [early: VipOpenNic] A name that no NIC has is an invalid parameter.
TEST_F(NicHandle, UnknownNameIsInvalid)
{
	std::string tooLong(5000, 'n');
	for (const char *name : {"no such nic", "", "/", "/dev/null", "nic-1", "nic0x", "%s%n", tooLong.c_str()})
		EXPECT_EQ(VIP_INVALID_PARAMETER, opens(name)) << name;
}

// [functional: VipOpenNic] Opening NICs by increasing numbers fails after the last one.
TEST_F(NicHandle, ProbingNic0Nic1AndSoOnEnds)
{
	int number = 0;
	VIP_RETURN result;
	while ((result = opens(("nic" + std::to_string(number)).c_str())) == VIP_SUCCESS)
		ASSERT_LT(++number, 256);
	EXPECT_GE(number, 1);
	// The name is valid but has no device, or is not valid. Programs take any failure as the
	// end of their search.
	EXPECT_TRUE(result == VIP_INVALID_PARAMETER || result == VIP_ERROR_RESOURCE) << testing::PrintToString(result);
}

// [functional: VipOpenNic VipCloseNic VipErrorCallback] Each opening of a NIC gives another handle, with objects and an
// error handler of its own.
TEST_F(NicHandle, SeveralHandlesOfOneNicAreIndependent)
{
	Nic other, third;
	EXPECT_NE(VIP_NIC_HANDLE{nic}, VIP_NIC_HANDLE{other});
	EXPECT_EQ(nic.address(), other.address());
	Pool mine(nic, 1, 64), others(other, 1, 64);
	Vi client(nic), server(other);
	ASSERT_TRUE(others.postReceive(server, 0, 64));
	ASSERT_TRUE(harness::connect(server, client));
	EXPECT_EQ(VIP_SUCCESS, third.close());
	paint(mine.buffer(0), 64, 1);
	ASSERT_TRUE(mine.send(client, 0, 64));
	ASSERT_EQ(others.descriptor(0), takeReceive(server));
	EXPECT_TRUE(painted(others.buffer(0), 64, 1));
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(client));
	EXPECT_TRUE(other.errors.reaches(server, 1));
	EXPECT_EQ(0U, nic.errors.count(server));
}

// [functional: VipCloseNic] Closing a NIC releases all its objects and makes their handles invalid. The peers of its
// connections notice.
TEST_F(NicHandle, CloseReleasesEverythingThatIsStillOpen)
{
	Nic doomed;
	Pool pool(doomed, 4, 64);
	VIP_CQ_HANDLE cq = makeCq(doomed, 8);
	VIP_VI_HANDLE idle = makeVi(doomed, cq);
	makeTag(doomed);
	ASSERT_TRUE(pool.postReceive(idle, 0, 64));
	Vi connected(doomed, reliable(), nullptr, cq), peer(nic), requester(nic);
	ASSERT_TRUE(pool.postReceive(connected, 1, 64));
	ASSERT_TRUE(harness::connect(connected, peer));
	// A request was neither accepted nor rejected. Its requester must get an answer.
	std::string discriminator = freshDiscriminator();
	auto requested = inThread([&] { return requestTo(requester, discriminator, kPatience); });
	VIP_CONN_HANDLE pending = nullptr;
	EXPECT_EQ(VIP_SUCCESS, waitOn(doomed, discriminator, kPatience, &pending));

	VIP_VI_HANDLE connectedHandle = connected;
	EXPECT_EQ(VIP_SUCCESS, doomed.close());
	EXPECT_NE(VIP_SUCCESS, requested.get());
	EXPECT_TRUE(peer.becomes(VIP_STATE_ERROR)) << "the peer is told";
	EXPECT_EQ(0U, doomed.errors.count(connectedHandle)) << "told of its own closing";
	VIP_DESCRIPTOR *d;
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipRecvDone(idle, &d));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipRecvDone(connectedHandle, &d));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipDestroyVi(idle));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipDestroyCQ(cq));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipConnectReject(pending));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCloseNic(doomed));
	expectWorks(nic);
}

// [functional: VipOpenNic VipCloseNic] A closed NIC leaves nothing behind in the process.
TEST_F(NicHandle, OpenedAndClosedFiftyTimesLeaksNeitherFilesNorThreads)
{
	auto cycle = [this](bool use) {
		Nic again;
		if (use)
			expectWorks(again);
		EXPECT_EQ(VIP_SUCCESS, again.close());
	};
	cycle(true); // makes what the library makes once per process
	size_t files = entriesOf("/proc/self/fd"), threads = entriesOf("/proc/self/task");
	for (int i = 0; i < 50; i++)
		ASSERT_NO_FATAL_FAILURE(cycle(i % 10 == 0));
	// A joined thread may take a moment to leave /proc.
	EXPECT_TRUE(eventually([&] { return entriesOf("/proc/self/task") <= threads; }))
		<< entriesOf("/proc/self/task") - threads << " threads more";
	EXPECT_TRUE(eventually([&] { return entriesOf("/proc/self/fd") <= files; }))
		<< entriesOf("/proc/self/fd") - files << " files more";
}

// [functional: VipDestroyVi VipDestroyCQ] Destroyed objects, and requests that failed, leave nothing behind in the
// process.
TEST_F(NicHandle, ObjectsMadeAndDestroyedAndRequestsInVainLeakNoFiles)
{
	auto cycle = [this] {
		Pool pool(nic, 1, 64);
		VIP_CQ_HANDLE cq = makeCq(nic, 8);
		{
			Vi vi(nic, reliable(), cq, cq), other(nic);
			requestTo(other, freshDiscriminator(), 100); // fails with any code
		}
		EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
	};
	cycle();
	size_t files = entriesOf("/proc/self/fd");
	for (int i = 0; i < 10; i++)
		ASSERT_NO_FATAL_FAILURE(cycle());
	EXPECT_TRUE(eventually([&] { return entriesOf("/proc/self/fd") <= files; }))
		<< entriesOf("/proc/self/fd") - files << " files more";
}

} // namespace
