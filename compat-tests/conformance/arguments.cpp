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

// Calls every function with valid arguments except the handle under test.
class Functions : public NicTest
{
      protected:
	struct Call {
		const char *name;
		Kind kind;
		std::function<VIP_RETURN(void *)> call;
	};

	Functions()
	{
		auto add = [this](const char *function, Kind kind,
				  std::function<VIP_RETURN(void *)> call) {
			calls.push_back({function, kind, std::move(call)});
		};
		add("VipCloseNic", kNic, [](void *h) { return VipCloseNic(h); });
		add("VipQueryNic", kNic,
		    [this](void *h) { return VipQueryNic(h, &nicAttributes); });
		add("VipCreatePtag", kNic, [this](void *h) { return VipCreatePtag(h, &tag); });
		add("VipDestroyPtag", kNic, [this](void *h) { return VipDestroyPtag(h, tag); });
		add("VipRegisterMem", kNic,
		    [this](void *h) { return VipRegisterMem(h, bytes, 64, nullptr, &handle); });
		add("VipDeregisterMem", kNic,
		    [this](void *h) { return VipDeregisterMem(h, pool->data(), pool->handle()); });
		add("VipQueryMem", kNic, [this](void *h) {
			return VipQueryMem(h, pool->data(), pool->handle(), &rights);
		});
		add("VipSetMemAttributes", kNic, [this](void *h) {
			return VipSetMemAttributes(h, pool->data(), pool->handle(), &rights);
		});
		add("VipErrorCallback", kNic,
		    [](void *h) { return VipErrorCallback(h, nullptr, ignoreError); });
		add("VipQuerySystemManagementInfo", kNic, [this](void *h) {
			return VipQuerySystemManagementInfo(h, VIP_SMI_AUTODISCOVERY, &list);
		});
		add("VipCreateVi", kNic, [this](void *h) {
			return VipCreateVi(h, &attributes, nullptr, nullptr, &made);
		});
		add("VipCreateCQ", kNic, [this](void *h) { return VipCreateCQ(h, 8, &made); });
		add("VipConnectWait", kNic, [this](void *h) {
			return VipConnectWait(h, local->get(), 1, remote->get(), &attributes,
					      &made);
		});
		add("VipNSInit", kNic, [](void *h) { return VipNSInit(h, nullptr); });
		add("VipNSShutdown", kNic, [](void *h) { return VipNSShutdown(h); });
		add("VipNSGetHostByName", kNic,
		    [this](void *h) { return VipNSGetHostByName(h, name, remote->get(), 0); });
		add("VipNSGetHostByAddr", kNic,
		    [this](void *h) { return VipNSGetHostByAddr(h, local->get(), name, &length); });

		add("VipDestroyVi", kVi, [](void *h) { return VipDestroyVi(h); });
		add("VipQueryVi", kVi,
		    [this](void *h) { return VipQueryVi(h, &state, &attributes, &empty, &empty); });
		add("VipSetViAttributes", kVi,
		    [this](void *h) { return VipSetViAttributes(h, &attributes); });
		add("VipDisconnect", kVi, [](void *h) { return VipDisconnect(h); });
		add("VipPostSend", kVi, [this](void *h) {
			return VipPostSend(h, pool->message(0, 8), pool->handle());
		});
		add("VipPostRecv", kVi, [this](void *h) {
			return VipPostRecv(h, pool->message(0, 8), pool->handle());
		});
		add("VipSendDone", kVi, [this](void *h) { return VipSendDone(h, &descriptor); });
		add("VipRecvDone", kVi, [this](void *h) { return VipRecvDone(h, &descriptor); });
		add("VipSendWait", kVi, [this](void *h) { return VipSendWait(h, 1, &descriptor); });
		add("VipRecvWait", kVi, [this](void *h) { return VipRecvWait(h, 1, &descriptor); });
		add("VipSendNotify", kVi,
		    [](void *h) { return VipSendNotify(h, nullptr, ignoreDescriptor); });
		add("VipRecvNotify", kVi,
		    [](void *h) { return VipRecvNotify(h, nullptr, ignoreDescriptor); });
		add("VipConnectRequest", kVi, [this](void *h) {
			return VipConnectRequest(h, local->get(), remote->get(), 1, &attributes);
		});
		add("VipConnectPeerRequest", kVi, [this](void *h) {
			return VipConnectPeerRequest(h, local->get(), remote->get(), 1);
		});
		add("VipConnectPeerDone", kVi,
		    [this](void *h) { return VipConnectPeerDone(h, &attributes); });
		add("VipConnectPeerWait", kVi,
		    [this](void *h) { return VipConnectPeerWait(h, &attributes); });

		add("VipDestroyCQ", kCq, [](void *h) { return VipDestroyCQ(h); });
		add("VipResizeCQ", kCq, [](void *h) { return VipResizeCQ(h, 16); });
		add("VipCQDone", kCq, [this](void *h) { return VipCQDone(h, &made, &empty); });
		add("VipCQWait", kCq, [this](void *h) { return VipCQWait(h, 1, &made, &empty); });
		add("VipCQNotify", kCq,
		    [](void *h) { return VipCQNotify(h, nullptr, ignoreCompletion); });

		add("VipConnectAccept", kConnection,
		    [this](void *h) { return VipConnectAccept(h, *vi); });
		add("VipConnectReject", kConnection, [](void *h) { return VipConnectReject(h); });
	}

	void SetUp() override
	{
		NicTest::SetUp();
		if (HasFatalFailure())
			return;
		pool = std::make_unique<Pool>(nic, 4, 64);
		vi = std::make_unique<Vi>(nic);
		local = std::make_unique<Address>(nic.address(), freshDiscriminator());
		remote = std::make_unique<Address>(nic);
		attributes = reliable();
		ASSERT_EQ(VIP_SUCCESS, VipCreateCQ(nic, 8, &cq));
		ASSERT_EQ(VIP_SUCCESS, VipCreatePtag(nic, &tag));
	}
	void TearDown() override
	{
		vi.reset();
		pool.reset();
	}

	std::vector<Call> calls;
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

const char *const kFunctions[] = {"VipCloseNic",
				  "VipQueryNic",
				  "VipCreatePtag",
				  "VipDestroyPtag",
				  "VipRegisterMem",
				  "VipDeregisterMem",
				  "VipQueryMem",
				  "VipSetMemAttributes",
				  "VipErrorCallback",
				  "VipQuerySystemManagementInfo",
				  "VipCreateVi",
				  "VipCreateCQ",
				  "VipConnectWait",
				  "VipNSInit",
				  "VipNSShutdown",
				  "VipNSGetHostByName",
				  "VipNSGetHostByAddr",
				  "VipDestroyVi",
				  "VipQueryVi",
				  "VipSetViAttributes",
				  "VipDisconnect",
				  "VipPostSend",
				  "VipPostRecv",
				  "VipSendDone",
				  "VipRecvDone",
				  "VipSendWait",
				  "VipRecvWait",
				  "VipSendNotify",
				  "VipRecvNotify",
				  "VipConnectRequest",
				  "VipConnectPeerRequest",
				  "VipConnectPeerDone",
				  "VipConnectPeerWait",
				  "VipDestroyCQ",
				  "VipResizeCQ",
				  "VipCQDone",
				  "VipCQWait",
				  "VipCQNotify",
				  "VipConnectAccept",
				  "VipConnectReject"};

// Each function has a test, so that the result contains its name.
class Handle : public Functions, public testing::WithParamInterface<const char *>
{
      protected:
	void SetUp() override
	{
		Functions::SetUp();
		for (const Call &call : calls)
			if (!strcmp(call.name, GetParam()))
				function = &call;
		ASSERT_NE(nullptr, function);
	}
	void expectInvalid(void *invalid, const char *what)
	{
		EXPECT_EQ(VIP_INVALID_PARAMETER, function->call(invalid)) << what;
	}
	const Call *function = nullptr;
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
	if (function->kind != kNic)
		expectInvalid(nic, "a NIC handle");
	if (function->kind != kVi)
		expectInvalid(*vi, "a VI handle");
	if (function->kind != kCq)
		expectInvalid(cq, "a CQ handle");
	expectInvalid(tag, "a tag");
}

TEST_P(Handle, OfAnObjectThatIsGoneIsInvalid)
{
	VIP_NIC_HANDLE oldNic = nullptr;
	VIP_VI_HANDLE oldVi = nullptr;
	VIP_CQ_HANDLE oldCq = nullptr;
	ASSERT_EQ(VIP_SUCCESS, VipOpenNic(nicName(), &oldNic));
	ASSERT_EQ(VIP_SUCCESS, VipCreateVi(nic, &attributes, nullptr, nullptr, &oldVi));
	ASSERT_EQ(VIP_SUCCESS, VipCreateCQ(nic, 8, &oldCq));
	ASSERT_EQ(VIP_SUCCESS, VipCloseNic(oldNic));
	ASSERT_EQ(VIP_SUCCESS, VipDestroyVi(oldVi));
	ASSERT_EQ(VIP_SUCCESS, VipDestroyCQ(oldCq));
	expectInvalid(oldNic, "a closed NIC");
	expectInvalid(oldVi, "a destroyed VI");
	expectInvalid(oldCq, "a destroyed CQ");
}

INSTANTIATE_TEST_SUITE_P(Of, Handle, testing::ValuesIn(kFunctions),
			 [](const auto &function) { return std::string(function.param); });

// The functions' other arguments.
class Arguments : public Functions
{
};

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
	VIP_VI_HANDLE gone = nullptr;
	ASSERT_EQ(VIP_SUCCESS, VipCreateVi(nic, &attributes, nullptr, nullptr, &gone));
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
	std::string discriminator = freshDiscriminator();
	VIP_RETURN requested = VIP_NOT_DONE;
	Thread requester([&] { requested = requestTo(client, discriminator, kPatience); });
	VIP_CONN_HANDLE connection = nullptr;
	EXPECT_EQ(VIP_SUCCESS, waitOn(nic, discriminator, kPatience, &connection));
	for (void *wrong : {static_cast<void *>(nullptr), reinterpret_cast<void *>(0x1),
			    static_cast<void *>(bytes), VIP_NIC_HANDLE{nic}, cq, connection})
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipConnectAccept(connection, wrong));
	VIP_DESCRIPTOR *none;
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipRecvDone(connection, &none)) << "a VI it is not";
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipDestroyCQ(connection)) << "nor a CQ";
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCloseNic(connection)) << "nor a NIC";
	EXPECT_EQ(VIP_SUCCESS, VipConnectReject(connection)) << "the request is still pending";
	requester.join();
	EXPECT_EQ(VIP_REJECT, requested);
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
