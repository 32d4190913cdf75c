// SPDX-License-Identifier: BSD-2-Clause
// Invalid handles and NULL pointers: the result is VIP_INVALID_PARAMETER, and never a crash.
#include "harness.h"

#include <cstring>

using namespace harness;

namespace
{

void ignoreError(VIP_PVOID, VIP_ERROR_DESCRIPTOR *)
{
}
void ignoreDescriptor(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
{
}
void ignoreCompletion(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN)
{
}

enum Kind { kNic, kVi, kCq, kConnection };

class Functions : public NicTest
{
      public:
	struct Call {
		const char *name;
		Kind kind;
		VIP_RETURN (*call)(Functions &f, void *handle);
		friend void PrintTo(const Call &call, std::ostream *out)
		{
			*out << call.name;
		}
	};
	static const Call kCalls[];

      protected:
	void SetUp() override
	{
		ASSERT_NO_FATAL_FAILURE(NicTest::SetUp());
		pool = std::make_unique<Pool>(nic, 4, 64);
		vi = std::make_unique<Vi>(nic);
		local = std::make_unique<Address>(nic.address(), freshDiscriminator());
		remote = std::make_unique<Address>(nic);
		attributes = reliable();
		cq = makeCq(nic, 8);
		tag = makeTag(nic);
	}
	void TearDown() override
	{
		vi.reset();
		pool.reset();
	}

	std::unique_ptr<Pool> pool;
	std::unique_ptr<Vi> vi;
	std::unique_ptr<Address> local, remote;
	VIP_CQ_HANDLE cq = nullptr;
	VIP_PROTECTION_HANDLE tag = nullptr;
	VIP_NIC_ATTRIBUTES nicAttributes{};
	VIP_VI_ATTRIBUTES attributes{};
	VIP_MEM_ATTRIBUTES rights{};
	VIP_MEM_HANDLE handle = 0;
	VIP_DESCRIPTOR *descriptor = nullptr;
	VIP_AUTODISCOVERY_LIST list{};
	VIP_VI_STATE state = VIP_STATE_IDLE;
	VIP_BOOLEAN empty = 0;
	VIP_ULONG length = sizeof name;
	void *made = nullptr;
	char name[256] = "localhost", bytes[64] = {};
};

// Calls every function with valid arguments except the handle under test.
const Functions::Call Functions::kCalls[] = {
	{"VipCloseNic", kNic, [](Functions &, void *h) { return VipCloseNic(h); }},
	{"VipQueryNic", kNic,
	 [](Functions &f, void *h) { return VipQueryNic(h, &f.nicAttributes); }},
	{"VipCreatePtag", kNic, [](Functions &f, void *h) { return VipCreatePtag(h, &f.tag); }},
	{"VipDestroyPtag", kNic, [](Functions &f, void *h) { return VipDestroyPtag(h, f.tag); }},
	{"VipRegisterMem", kNic,
	 [](Functions &f, void *h) { return VipRegisterMem(h, f.bytes, 64, nullptr, &f.handle); }},
	{"VipDeregisterMem", kNic,
	 [](Functions &f, void *h) {
		 return VipDeregisterMem(h, f.pool->data(), f.pool->handle());
	 }},
	{"VipQueryMem", kNic,
	 [](Functions &f, void *h) {
		 return VipQueryMem(h, f.pool->data(), f.pool->handle(), &f.rights);
	 }},
	{"VipSetMemAttributes", kNic,
	 [](Functions &f, void *h) {
		 return VipSetMemAttributes(h, f.pool->data(), f.pool->handle(), &f.rights);
	 }},
	{"VipErrorCallback", kNic,
	 [](Functions &, void *h) { return VipErrorCallback(h, nullptr, ignoreError); }},
	{"VipQuerySystemManagementInfo", kNic,
	 [](Functions &f, void *h) {
		 return VipQuerySystemManagementInfo(h, VIP_SMI_AUTODISCOVERY, &f.list);
	 }},
	{"VipCreateVi", kNic,
	 [](Functions &f, void *h) {
		 return VipCreateVi(h, &f.attributes, nullptr, nullptr, &f.made);
	 }},
	{"VipCreateCQ", kNic, [](Functions &f, void *h) { return VipCreateCQ(h, 8, &f.made); }},
	{"VipConnectWait", kNic,
	 [](Functions &f, void *h) {
		 return VipConnectWait(h, f.local->get(), 1, f.remote->get(), &f.attributes,
				       &f.made);
	 }},
	{"VipNSInit", kNic, [](Functions &, void *h) { return VipNSInit(h, nullptr); }},
	{"VipNSShutdown", kNic, [](Functions &, void *h) { return VipNSShutdown(h); }},
	{"VipNSGetHostByName", kNic,
	 [](Functions &f, void *h) { return VipNSGetHostByName(h, f.name, f.remote->get(), 0); }},
	{"VipNSGetHostByAddr", kNic,
	 [](Functions &f, void *h) {
		 return VipNSGetHostByAddr(h, f.local->get(), f.name, &f.length);
	 }},

	{"VipDestroyVi", kVi, [](Functions &, void *h) { return VipDestroyVi(h); }},
	{"VipQueryVi", kVi,
	 [](Functions &f, void *h) {
		 return VipQueryVi(h, &f.state, &f.attributes, &f.empty, &f.empty);
	 }},
	{"VipSetViAttributes", kVi,
	 [](Functions &f, void *h) { return VipSetViAttributes(h, &f.attributes); }},
	{"VipDisconnect", kVi, [](Functions &, void *h) { return VipDisconnect(h); }},
	{"VipPostSend", kVi,
	 [](Functions &f, void *h) {
		 return VipPostSend(h, f.pool->message(0, 8), f.pool->handle());
	 }},
	{"VipPostRecv", kVi,
	 [](Functions &f, void *h) {
		 return VipPostRecv(h, f.pool->message(0, 8), f.pool->handle());
	 }},
	{"VipSendDone", kVi, [](Functions &f, void *h) { return VipSendDone(h, &f.descriptor); }},
	{"VipRecvDone", kVi, [](Functions &f, void *h) { return VipRecvDone(h, &f.descriptor); }},
	{"VipSendWait", kVi,
	 [](Functions &f, void *h) { return VipSendWait(h, 1, &f.descriptor); }},
	{"VipRecvWait", kVi,
	 [](Functions &f, void *h) { return VipRecvWait(h, 1, &f.descriptor); }},
	{"VipSendNotify", kVi,
	 [](Functions &, void *h) { return VipSendNotify(h, nullptr, ignoreDescriptor); }},
	{"VipRecvNotify", kVi,
	 [](Functions &, void *h) { return VipRecvNotify(h, nullptr, ignoreDescriptor); }},
	{"VipConnectRequest", kVi,
	 [](Functions &f, void *h) {
		 return VipConnectRequest(h, f.local->get(), f.remote->get(), 1, &f.attributes);
	 }},
	{"VipConnectPeerRequest", kVi,
	 [](Functions &f, void *h) {
		 return VipConnectPeerRequest(h, f.local->get(), f.remote->get(), 1);
	 }},
	{"VipConnectPeerDone", kVi,
	 [](Functions &f, void *h) { return VipConnectPeerDone(h, &f.attributes); }},
	{"VipConnectPeerWait", kVi,
	 [](Functions &f, void *h) { return VipConnectPeerWait(h, &f.attributes); }},

	{"VipDestroyCQ", kCq, [](Functions &, void *h) { return VipDestroyCQ(h); }},
	{"VipResizeCQ", kCq, [](Functions &, void *h) { return VipResizeCQ(h, 16); }},
	{"VipCQDone", kCq, [](Functions &f, void *h) { return VipCQDone(h, &f.made, &f.empty); }},
	{"VipCQWait", kCq,
	 [](Functions &f, void *h) { return VipCQWait(h, 1, &f.made, &f.empty); }},
	{"VipCQNotify", kCq,
	 [](Functions &, void *h) { return VipCQNotify(h, nullptr, ignoreCompletion); }},

	{"VipConnectAccept", kConnection,
	 [](Functions &f, void *h) { return VipConnectAccept(h, *f.vi); }},
	{"VipConnectReject", kConnection, [](Functions &, void *h) { return VipConnectReject(h); }},
};

// Each function has a test, so that the result contains its name.
class Handle : public Functions, public testing::WithParamInterface<Functions::Call>
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
	expectInvalid(reinterpret_cast<void *>(ignoreError), "a function");
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

INSTANTIATE_TEST_SUITE_P(Of, Handle, testing::ValuesIn(Functions::kCalls),
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
