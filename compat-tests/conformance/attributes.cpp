// SPDX-License-Identifier: BSD-2-Clause
// Attributes and their bounds, and those of addresses.
#include "harness.h"

using namespace harness;

namespace
{

class Bounds : public NicTest
{
      protected:
	VIP_RETURN created(VIP_VI_ATTRIBUTES attributes)
	{
		VIP_VI_HANDLE vi = nullptr;
		VIP_RETURN result = VipCreateVi(nic, &attributes, nullptr, nullptr, &vi);
		if (result == VIP_SUCCESS) {
			EXPECT_EQ(VIP_SUCCESS, VipDestroyVi(vi));
		}
		return result;
	}
};

// [functional: VipSetViAttributes] VipSetViAttributes accepts and refuses the same attributes as VipCreateVi.
TEST_F(Bounds, SetViAttributesAnswersWhatCreateViAnswers)
{
	VIP_VI_ATTRIBUTES largest = reliable(nic.attributes().MaxTransferSize);
	VIP_VI_ATTRIBUTES tooLarge = reliable(nic.attributes().MaxTransferSize + 1);
	VIP_VI_ATTRIBUTES none = reliable(0), level = reliable(), quality = reliable(), read = reliable(),
			  tag = ofTag(reinterpret_cast<void *>(0x1));
	level.ReliabilityLevel = 3;
	quality.QoS = reinterpret_cast<void *>(0x1);
	read.EnableRdmaRead = VIP_TRUE;
	for (VIP_VI_ATTRIBUTES attributes : {largest, tooLarge, none, level, quality, tag, read}) {
		Vi idle(nic);
		EXPECT_EQ(created(attributes), VipSetViAttributes(idle, &attributes));
	}
}

// [early: VipCreateVi] A VI has one reliability level, one of those that the NIC supports.
TEST_F(Bounds, ReliabilityLevelIsExactlyOneOfTheSupported)
{
	VIP_VI_ATTRIBUTES attributes = reliable();
	for (VIP_RELIABILITY_LEVEL level : {0, 3, 6, 7, 8, 0x2000, 0xFFFF}) {
		attributes.ReliabilityLevel = level;
		EXPECT_EQ(VIP_INVALID_RELIABILITY_LEVEL, created(attributes)) << level;
	}
	for (VIP_RELIABILITY_LEVEL level : {1, 2, 4}) {
		attributes.ReliabilityLevel = level;
		bool supported = nic.attributes().ReliabilityLevelSupport & level;
		EXPECT_EQ(supported ? VIP_SUCCESS : VIP_INVALID_RELIABILITY_LEVEL, created(attributes)) << level;
	}
}

// [early: VipCreateVi] A VI's largest message has at least one byte, and at most as many as the NIC allows.
TEST_F(Bounds, MaxTransferSizeIsUpToTheNics)
{
	VIP_ULONG most = nic.attributes().MaxTransferSize;
	EXPECT_EQ(VIP_SUCCESS, created(reliable(most)));
	EXPECT_EQ(VIP_SUCCESS, created(reliable(1)));
	EXPECT_EQ(VIP_INVALID_MTU, created(reliable(most + 1)));
	EXPECT_EQ(VIP_INVALID_MTU, created(reliable(~VIP_ULONG{0})));
	EXPECT_EQ(VIP_INVALID_MTU, created(reliable(0)));
}

// [early: VipCreateVi VipDestroyPtag] A VI's tag is NULL or one that was made on the NIC handle.
TEST_F(Bounds, PtagIsNullOrATagOfTheNicHandle)
{
	VIP_VI_ATTRIBUTES attributes = reliable();
	Vi vi(nic);
	for (void *wrong : {reinterpret_cast<void *>(0x1), reinterpret_cast<void *>(-1),
			    static_cast<void *>(&attributes), VIP_NIC_HANDLE{nic}, VIP_VI_HANDLE{vi}}) {
		EXPECT_EQ(VIP_INVALID_PTAG, created(ofTag(wrong)));
		EXPECT_EQ(VIP_INVALID_PTAG, VipDestroyPtag(nic, wrong));
	}
}

// [functional: VipCreateVi VipSetViAttributes] RDMA reads can be enabled where the NIC supports them at the VI's
// reliability level, and only there.
TEST_F(Bounds, RdmaReadNeedsItsSupportAtTheLevel)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		Vi idle(nic);
		VIP_VI_ATTRIBUTES read = ofLevel(level);
		read.EnableRdmaRead = VIP_TRUE;
		bool supported = nic.attributes().RDMAReadSupport & level;
		EXPECT_EQ(supported ? VIP_SUCCESS : VIP_INVALID_RDMAREAD, created(read));
		EXPECT_EQ(supported ? VIP_SUCCESS : VIP_INVALID_RDMAREAD, VipSetViAttributes(idle, &read));
		EXPECT_EQ(supported ? level : VIP_SERVICE_RELIABLE_DELIVERY, idle.attributes().ReliabilityLevel);
	});
}

// [functional: VipQueryVi VipSetViAttributes] VipQueryVi returns the attributes that the VI was given. A new VI is idle
// and its queues are empty.
TEST_F(Bounds, AttributesAreReadBackAsTheyWereCreatedOrSet)
{
	VIP_PROTECTION_HANDLE tag = makeTag(nic);
	VIP_VI_ATTRIBUTES given = writable(ofTag(tag, reliable(4321)));
	Vi created(nic, given), set(nic);
	EXPECT_EQ(VIP_SUCCESS, VipSetViAttributes(set, &given));
	for (Vi *vi : {&created, &set}) {
		SCOPED_TRACE(vi == &set ? "set" : "created");
		VIP_VI_ATTRIBUTES got{};
		VIP_VI_STATE state = VIP_STATE_ERROR;
		VIP_BOOLEAN sends = VIP_FALSE, receives = VIP_FALSE;
		ASSERT_EQ(VIP_SUCCESS, VipQueryVi(*vi, &state, &got, &sends, &receives));
		EXPECT_EQ(VIP_STATE_IDLE, state);
		EXPECT_EQ(given.ReliabilityLevel, got.ReliabilityLevel);
		EXPECT_EQ(given.MaxTransferSize, got.MaxTransferSize);
		EXPECT_EQ(given.Ptag, got.Ptag);
		EXPECT_EQ(VIP_TRUE, got.EnableRdmaWrite);
		EXPECT_EQ(VIP_FALSE, got.EnableRdmaRead);
		EXPECT_EQ(VIP_TRUE, sends);
		EXPECT_EQ(VIP_TRUE, receives);
	}
}

// [functional: VipConnectRequest VipConnectWait] A discriminator longer than the NIC's maximum is an invalid parameter.
TEST_F(Bounds, DiscriminatorLongerThanTheNicTakesIsInvalid)
{
	Vi vi(nic);
	std::string tooLong(nic.attributes().MaxDiscriminatorLen + 1U, 'x');
	EXPECT_EQ(VIP_INVALID_PARAMETER, requestTo(vi, tooLong, 100));
	VIP_CONN_HANDLE connection;
	EXPECT_EQ(VIP_INVALID_PARAMETER, waitOn(nic, tooLong, 100, &connection));
	Address local(nic.address(), tooLong), remote(nic.address(), "x");
	VIP_VI_ATTRIBUTES attributes;
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipConnectRequest(vi, local.get(), remote.get(), 100, &attributes));
	EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}

// [functional: VipConnectRequest] A host address of a length that the NIC does not know is an invalid parameter.
TEST_F(Bounds, HostAddressOfALengthThatTheNicDoesNotKnowIsInvalid)
{
	Vi vi(nic);
	EXPECT_EQ(VIP_INVALID_PARAMETER, requestTo(vi, "x", 100, nic.address().substr(0, 3)));
}

// [early: VipRegisterMem] A region has at least one byte, and at most as many as the NIC allows.
TEST_F(Bounds, RegionOfNoLengthOrBeyondTheNicsLimitIsInvalid)
{
	char byte;
	VIP_MEM_HANDLE handle;
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipRegisterMem(nic, &byte, 0, nullptr, &handle));
	if (nic.attributes().MaxRegisterBlockBytes < ~VIP_ULONG{0}) {
		VIP_ULONG tooLong = nic.attributes().MaxRegisterBlockBytes + 1;
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipRegisterMem(nic, &byte, tooLong, nullptr, &handle));
	}
}

// [functional: VipRegisterMem] Addresses without memory cannot be registered.
TEST_F(Bounds, MemoryThatIsNotThereCannotBeRegistered)
{
	VIP_MEM_HANDLE handle;
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipRegisterMem(nic, reinterpret_cast<void *>(4096), 4096, nullptr, &handle));
}

// [functional: VipCreateCQ] A completion queue has at least one entry, and at most as many as the NIC allows.
TEST_F(Bounds, CqOfNoEntriesIsInvalidAndOfTooManyAResourceError)
{
	VIP_CQ_HANDLE cq = nullptr;
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCreateCQ(nic, 0, &cq));
	VIP_ULONG most = nic.attributes().MaxCQEntries;
	ASSERT_LT(most, ~VIP_ULONG{0});
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipCreateCQ(nic, most + 1, &cq));
}

// [full: VipResizeCQ] A completion queue cannot be resized beyond the bounds of a new one.
TEST_F(Bounds, ResizeToNoEntriesIsInvalidAndToTooManyAResourceError)
{
	VIP_CQ_HANDLE cq = nullptr;
	VIP_ULONG most = nic.attributes().MaxCQEntries;
	ASSERT_EQ(VIP_SUCCESS, VipCreateCQ(nic, 1, &cq));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipResizeCQ(cq, 0));
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipResizeCQ(cq, most + 1));
	EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
}

} // namespace
