// SPDX-License-Identifier: BSD-2-Clause
// Invalid handles and NULL pointers: the result is VIP_INVALID_PARAMETER, and never a crash.
#include "every_call.h"

#include <cstring>

using namespace harness;

namespace
{

class Functions : public NicTest, protected CallArguments
{
      protected:
	void SetUp() override
	{
		ASSERT_NO_FATAL_FAILURE(NicTest::SetUp());
		fill(nic);
	}
};

// Each function has a test, so that the result contains its name.
class Handle : public Functions, public testing::WithParamInterface<CallArguments::Call>
{
      protected:
	void expectInvalid(void *invalid, const char *what)
	{
		EXPECT_EQ(VIP_INVALID_PARAMETER, GetParam().call(*this, invalid)) << what;
	}
};

TEST_P(Handle, ThatIsNoneIsInvalid)
{
	expectInvalid(nullptr, "NULL");
	expectInvalid(reinterpret_cast<void *>(0x1), "0x1");
	expectInvalid(reinterpret_cast<void *>(-1), "all ones");
	expectInvalid(reinterpret_cast<void *>(uintptr_t{1} << 20), "1 MiB");
	expectInvalid(reinterpret_cast<void *>(~uintptr_t{0} / 2 & ~uintptr_t{63}),
		      "half of all ones");

	alignas(64) char stack[4096] = {};
	std::vector<char> heap(4096, '\xFF');
	expectInvalid(stack, "a stack address");
	expectInvalid(stack + 1, "an odd stack address");
	expectInvalid(heap.data(), "a heap address");
	expectInvalid(reinterpret_cast<void *>(expectTalk), "a function");
}

TEST_P(Handle, OfAnotherKindIsInvalid)
{
	if (GetParam().kind != kNic)
		expectInvalid(nic, "a NIC handle");
	if (GetParam().kind != kVi)
		expectInvalid(*vi, "a VI handle");
	if (GetParam().kind != kCq)
		expectInvalid(cq, "a CQ handle");
	expectInvalid(tag, "a tag");
}

TEST_P(Handle, OfAnObjectThatIsGoneIsInvalid)
{
	VIP_NIC_HANDLE oldNic = nullptr;
	VIP_VI_HANDLE oldVi = makeVi(nic);
	VIP_CQ_HANDLE oldCq = makeCq(nic, 8);
	ASSERT_EQ(VIP_SUCCESS, VipOpenNic(nicName(), &oldNic));
	ASSERT_EQ(VIP_SUCCESS, VipCloseNic(oldNic));
	ASSERT_EQ(VIP_SUCCESS, VipDestroyVi(oldVi));
	ASSERT_EQ(VIP_SUCCESS, VipDestroyCQ(oldCq));
	expectInvalid(oldNic, "a closed NIC");
	expectInvalid(oldVi, "a destroyed VI");
	expectInvalid(oldCq, "a destroyed CQ");
}

INSTANTIATE_TEST_SUITE_P(Of, Handle, testing::ValuesIn(CallArguments::kCalls),
			 [](const auto &function) { return std::string(function.param.name); });

// The functions' other arguments.
using Arguments = Functions;

TEST_F(Arguments, HandlesOfAnotherNicHandle)
{
	Nic other;
	ASSERT_TRUE(other.opened());
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCreateVi(other, &attributes, cq, nullptr, &made))
		<< "a CQ of another handle";
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCreateVi(other, &attributes, nullptr, cq, &made));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipDeregisterMem(other, pool->data(), pool->handle()));
	EXPECT_EQ(VIP_INVALID_PTAG, VipDestroyPtag(other, tag));
	attributes.Ptag = tag;
	EXPECT_EQ(VIP_INVALID_PTAG, VipCreateVi(other, &attributes, nullptr, nullptr, &made));
}

TEST_F(Arguments, HandleOfADestroyedViNamesNoLaterObject)
{
	VIP_VI_HANDLE gone = makeVi(nic);
	ASSERT_EQ(VIP_SUCCESS, VipDestroyVi(gone));
	for (int i = 0; i < 300; i++) {
		ASSERT_EQ(VIP_SUCCESS, VipCreateVi(nic, &attributes, nullptr, nullptr, &made));
		ASSERT_EQ(VIP_INVALID_PARAMETER,
			  VipQueryVi(gone, &state, &attributes, &empty, &empty))
			<< i;
		ASSERT_EQ(VIP_SUCCESS, VipDestroyVi(made));
	}
}

TEST_F(Arguments, CreateViWithACqThatIsNone)
{
	for (void *wrong : {reinterpret_cast<void *>(0x1), static_cast<void *>(bytes),
			    VIP_VI_HANDLE{*vi}, VIP_NIC_HANDLE{nic}}) {
		EXPECT_EQ(VIP_INVALID_PARAMETER,
			  VipCreateVi(nic, &attributes, wrong, nullptr, &made));
		EXPECT_EQ(VIP_INVALID_PARAMETER,
			  VipCreateVi(nic, &attributes, nullptr, wrong, &made));
	}
}

TEST_F(Arguments, AcceptWithAViThatIsNone)
{
	Vi client(nic);
	PendingRequest request(client);
	for (void *wrong : {static_cast<void *>(nullptr), reinterpret_cast<void *>(0x1), static_cast<void *>(bytes),
			    VIP_NIC_HANDLE{nic}, cq, request.handle})
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipConnectAccept(request.handle, wrong));
	VIP_DESCRIPTOR *none;
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipRecvDone(request.handle, &none)) << "a VI it is not";
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipDestroyCQ(request.handle)) << "nor a CQ";
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCloseNic(request.handle)) << "nor a NIC";
	EXPECT_EQ(VIP_SUCCESS, VipConnectReject(request.handle)) << "the request is still pending";
	EXPECT_EQ(VIP_REJECT, request.requested.get());
}

TEST_F(Arguments, NullPointersInOpeningAndQueryingANic)
{
	VIP_NIC_HANDLE opened;
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipOpenNic(nullptr, &opened));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipOpenNic(nicName(), nullptr));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipQueryNic(nic, nullptr));
}

TEST_F(Arguments, NullPointersInTags)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCreatePtag(nic, nullptr));
}

TEST_F(Arguments, NullPointersInRegistering)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipRegisterMem(nic, nullptr, 64, nullptr, &handle));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipRegisterMem(nic, bytes, 64, nullptr, nullptr));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, nullptr, pool->handle()));
}

TEST_F(Arguments, NullPointersInAttributesOfMemory)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipQueryMem(nic, pool->data(), pool->handle(), nullptr));
	EXPECT_EQ(VIP_INVALID_PARAMETER,
		  VipSetMemAttributes(nic, pool->data(), pool->handle(), nullptr));
}

TEST_F(Arguments, NullPointersInVis)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCreateVi(nic, nullptr, nullptr, nullptr, &made));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCreateVi(nic, &attributes, nullptr, nullptr, nullptr));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipQueryVi(*vi, nullptr, &attributes, &empty, &empty));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipQueryVi(*vi, &state, nullptr, &empty, &empty));
}

TEST_F(Arguments, NullPointersInAttributesOfVis)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipSetViAttributes(*vi, nullptr));
}

TEST_F(Arguments, NullPointersInPosting)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipPostSend(*vi, nullptr, pool->handle()));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipPostRecv(*vi, nullptr, pool->handle()));
}

TEST_F(Arguments, NullPointersInDoneAndWait)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipSendDone(*vi, nullptr));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipRecvDone(*vi, nullptr));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipSendWait(*vi, 1, nullptr));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipRecvWait(*vi, 1, nullptr));
}

TEST_F(Arguments, NullPointersInNotify)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipSendNotify(*vi, bytes, nullptr));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipRecvNotify(*vi, bytes, nullptr));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCQNotify(cq, bytes, nullptr));
}

TEST_F(Arguments, NullPointersInConnecting)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER,
		  VipConnectWait(nic, nullptr, 1, remote->get(), &attributes, &made));
	EXPECT_EQ(VIP_INVALID_PARAMETER,
		  VipConnectWait(nic, local->get(), 1, nullptr, &attributes, &made));
	EXPECT_EQ(VIP_INVALID_PARAMETER,
		  VipConnectWait(nic, local->get(), 1, remote->get(), &attributes, nullptr));
	EXPECT_EQ(VIP_INVALID_PARAMETER,
		  VipConnectRequest(*vi, nullptr, remote->get(), 1, &attributes));
	EXPECT_EQ(VIP_INVALID_PARAMETER,
		  VipConnectRequest(*vi, local->get(), nullptr, 1, &attributes));
}

TEST_F(Arguments, NullPointersInConnectingPeers)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipConnectPeerRequest(*vi, nullptr, remote->get(), 1));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipConnectPeerRequest(*vi, local->get(), nullptr, 1));
}

TEST_F(Arguments, NullPointersInCompletionQueues)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCreateCQ(nic, 8, nullptr));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCQDone(cq, nullptr, &empty));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCQDone(cq, &made, nullptr));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCQWait(cq, 1, nullptr, &empty));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCQWait(cq, 1, &made, nullptr));
}

TEST_F(Arguments, NullPointersInNames)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipNSGetHostByName(nic, nullptr, remote->get(), 0));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipNSGetHostByName(nic, name, nullptr, 0));
}

TEST_F(Arguments, NullPointersInNamesOfAddresses)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, nullptr, name, &length));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, local->get(), nullptr, &length));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(nic, local->get(), name, nullptr));
}

TEST_F(Arguments, NullPointersInSystemManagement)
{
	EXPECT_EQ(VIP_INVALID_PARAMETER,
		  VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, nullptr));
}

TEST_F(Arguments, TypeOfSystemManagementInformationThatIsNone)
{
	for (VIP_ULONG type : {VIP_ULONG{0}, VIP_ULONG{2}, ~VIP_ULONG{0}})
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipQuerySystemManagementInfo(nic, type, &list));
	// The library may have an answer, too little room for it here, or no answer.
	VIP_RETURN told = VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list);
	EXPECT_TRUE(told == VIP_SUCCESS || told == VIP_ERROR_RESOURCE ||
		    told == VIP_ERROR_NOT_SUPPORTED)
		<< testing::PrintToString(told);
}

} // namespace
