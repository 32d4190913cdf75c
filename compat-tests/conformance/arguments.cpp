// SPDX-License-Identifier: BSD-2-Clause
// Arguments: for invalid handles and NULL pointers the result is VIP_INVALID_PARAMETER, and never a crash.
#include "every_call.h"

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

// [functional: *] A value that never was a handle is an invalid parameter to every function, and never a crash.
TEST_P(Handle, ThatIsNoneIsInvalid)
{
	expectInvalid(nullptr, "NULL");
	expectInvalid(reinterpret_cast<void *>(0x1), "0x1");
	expectInvalid(reinterpret_cast<void *>(-1), "all ones");
	expectInvalid(reinterpret_cast<void *>(uintptr_t{1} << 20), "1 MiB");
	expectInvalid(reinterpret_cast<void *>(~uintptr_t{0} / 2 & ~uintptr_t{63}), "half of all ones");

	alignas(64) char stack[4096] = {};
	std::vector<char> heap(4096, '\xFF');
	expectInvalid(stack, "a stack address");
	expectInvalid(stack + 1, "an odd stack address");
	expectInvalid(heap.data(), "a heap address");
	expectInvalid(reinterpret_cast<void *>(expectTalk), "a function");
}

// [functional: *] The handle of an object of another kind is an invalid parameter.
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

// [functional: *] The handle of an object that was destroyed is an invalid parameter.
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

// Calls of a function with NULL for one of its pointers, and valid arguments otherwise.
struct NullCalls {
	const char *function;
	std::vector<VIP_RETURN (*)(CallArguments &f)> calls;
	friend void PrintTo(const NullCalls &calls, std::ostream *out)
	{
		*out << calls.function;
	}
};

#define CALL(expression) [](CallArguments &f) -> VIP_RETURN { return (void)f, expression; }
const NullCalls kNullCalls[] = {
	{"VipOpenNic", {CALL(VipOpenNic(nullptr, &f.made)), CALL(VipOpenNic(nicName(), nullptr))}},
	{"VipQueryNic", {CALL(VipQueryNic(f.on, nullptr))}},
	{"VipCreatePtag", {CALL(VipCreatePtag(f.on, nullptr))}},
	{"VipRegisterMem",
	 {CALL(VipRegisterMem(f.on, nullptr, 64, nullptr, &f.handle)),
	  CALL(VipRegisterMem(f.on, f.bytes, 64, nullptr, nullptr))}},
	{"VipDeregisterMem", {CALL(VipDeregisterMem(f.on, nullptr, f.pool->handle()))}},
	{"VipQueryMem", {CALL(VipQueryMem(f.on, f.pool->data(), f.pool->handle(), nullptr))}},
	{"VipSetMemAttributes", {CALL(VipSetMemAttributes(f.on, f.pool->data(), f.pool->handle(), nullptr))}},
	{"VipCreateVi",
	 {CALL(VipCreateVi(f.on, nullptr, nullptr, nullptr, &f.made)),
	  CALL(VipCreateVi(f.on, &f.attributes, nullptr, nullptr, nullptr))}},
	{"VipQueryVi",
	 {CALL(VipQueryVi(*f.vi, nullptr, &f.attributes, &f.empty, &f.empty)),
	  CALL(VipQueryVi(*f.vi, &f.state, nullptr, &f.empty, &f.empty))}},
	{"VipSetViAttributes", {CALL(VipSetViAttributes(*f.vi, nullptr))}},
	{"VipPostSend", {CALL(VipPostSend(*f.vi, nullptr, f.pool->handle()))}},
	{"VipPostRecv", {CALL(VipPostRecv(*f.vi, nullptr, f.pool->handle()))}},
	{"VipSendDone", {CALL(VipSendDone(*f.vi, nullptr))}},
	{"VipRecvDone", {CALL(VipRecvDone(*f.vi, nullptr))}},
	{"VipSendWait", {CALL(VipSendWait(*f.vi, 1, nullptr))}},
	{"VipRecvWait", {CALL(VipRecvWait(*f.vi, 1, nullptr))}},
	{"VipSendNotify", {CALL(VipSendNotify(*f.vi, f.bytes, nullptr))}},
	{"VipRecvNotify", {CALL(VipRecvNotify(*f.vi, f.bytes, nullptr))}},
	{"VipCQNotify", {CALL(VipCQNotify(f.cq, f.bytes, nullptr))}},
	{"VipConnectWait",
	 {CALL(VipConnectWait(f.on, nullptr, 1, f.remote->get(), &f.attributes, &f.made)),
	  CALL(VipConnectWait(f.on, f.local->get(), 1, nullptr, &f.attributes, &f.made)),
	  CALL(VipConnectWait(f.on, f.local->get(), 1, f.remote->get(), &f.attributes, nullptr))}},
	{"VipConnectRequest",
	 {CALL(VipConnectRequest(*f.vi, nullptr, f.remote->get(), 1, &f.attributes)),
	  CALL(VipConnectRequest(*f.vi, f.local->get(), nullptr, 1, &f.attributes))}},
	{"VipConnectPeerRequest",
	 {CALL(VipConnectPeerRequest(*f.vi, nullptr, f.remote->get(), 1)),
	  CALL(VipConnectPeerRequest(*f.vi, f.local->get(), nullptr, 1))}},
	{"VipConnectPeerDone", {CALL(VipConnectPeerDone(*f.vi, nullptr))}},
	{"VipConnectPeerWait", {CALL(VipConnectPeerWait(*f.vi, nullptr))}},
	{"VipCreateCQ", {CALL(VipCreateCQ(f.on, 8, nullptr))}},
	{"VipCQDone", {CALL(VipCQDone(f.cq, nullptr, &f.empty)), CALL(VipCQDone(f.cq, &f.made, nullptr))}},
	{"VipCQWait", {CALL(VipCQWait(f.cq, 1, nullptr, &f.empty)), CALL(VipCQWait(f.cq, 1, &f.made, nullptr))}},
	{"VipNSGetHostByName",
	 {CALL(VipNSGetHostByName(f.on, nullptr, f.remote->get(), 0)),
	  CALL(VipNSGetHostByName(f.on, f.name, nullptr, 0))}},
	{"VipNSGetHostByAddr",
	 {CALL(VipNSGetHostByAddr(f.on, nullptr, f.name, &f.length)),
	  CALL(VipNSGetHostByAddr(f.on, f.local->get(), nullptr, &f.length)),
	  CALL(VipNSGetHostByAddr(f.on, f.local->get(), f.name, nullptr))}},
	{"VipQuerySystemManagementInfo", {CALL(VipQuerySystemManagementInfo(f.on, VIP_SMI_AUTODISCOVERY, nullptr))}},
};
#undef CALL

class NullPointer : public Functions, public testing::WithParamInterface<NullCalls>
{
};

// [early: *] NULL for a name, an address, a descriptor, memory, attributes, a handler or the place of an answer is an
// invalid parameter.
TEST_P(NullPointer, IsInvalid)
{
	for (size_t i = 0; i < GetParam().calls.size(); i++)
		EXPECT_EQ(VIP_INVALID_PARAMETER, GetParam().calls[i](*this)) << "pointer " << i;
}

INSTANTIATE_TEST_SUITE_P(Of, NullPointer, testing::ValuesIn(kNullCalls),
			 [](const auto &calls) { return std::string(calls.param.function); });

// The functions' other arguments.
using Arguments = Functions;

// [functional: VipCreateVi VipRegisterMem VipDestroyPtag VipDeregisterMem VipSetMemAttributes VipQueryMem] Tags, queues
// and regions of another NIC handle are not accepted.
TEST_F(Arguments, HandlesOfAnotherNicHandle)
{
	Nic other;
	VIP_UCHAR *data = pool->data();
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCreateVi(other, &attributes, cq, nullptr, &made));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipCreateVi(other, &attributes, nullptr, cq, &made));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipDeregisterMem(other, data, pool->handle()));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipSetMemAttributes(other, data, pool->handle(), &rights));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipQueryMem(other, data, pool->handle(), &rights));
	EXPECT_EQ(VIP_INVALID_PTAG, VipDestroyPtag(other, tag));
	attributes.Ptag = tag;
	EXPECT_EQ(VIP_INVALID_PTAG, VipCreateVi(other, &attributes, nullptr, nullptr, &made));
	rights.Ptag = makeTag(other);
	EXPECT_EQ(VIP_INVALID_PTAG, VipSetMemAttributes(nic, data, pool->handle(), &rights));
}

// [functional: VipCreateVi VipDestroyVi VipQueryVi] The handle of a destroyed object never becomes the handle of
// another object.
TEST_F(Arguments, HandleOfADestroyedViNamesNoLaterObject)
{
	VIP_VI_HANDLE gone = makeVi(nic);
	ASSERT_EQ(VIP_SUCCESS, VipDestroyVi(gone));
	for (int i = 0; i < 300; i++) {
		ASSERT_EQ(VIP_SUCCESS, VipCreateVi(nic, &attributes, nullptr, nullptr, &made));
		ASSERT_EQ(VIP_INVALID_PARAMETER, VipQueryVi(gone, &state, &attributes, &empty, &empty)) << i;
		ASSERT_EQ(VIP_SUCCESS, VipDestroyVi(made));
	}
}

// [functional: VipCreateVi] An invalid completion queue handle is an invalid parameter of VipCreateVi. NULL is allowed.
TEST_F(Arguments, CreateViWithACqThatIsNone)
{
	for (void *wrong :
	     {reinterpret_cast<void *>(0x1), static_cast<void *>(bytes), VIP_VI_HANDLE{*vi}, VIP_NIC_HANDLE{nic}}) {
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipCreateVi(nic, &attributes, wrong, nullptr, &made));
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipCreateVi(nic, &attributes, nullptr, wrong, &made));
	}
}

// [early: VipConnectAccept] A request cannot be accepted with an invalid VI handle, and stays pending.
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

// [full: VipQuerySystemManagementInfo] A kind of information that VIA does not have is an invalid parameter. For the
// kind that VIA has, a NIC returns its information, or that the room is too small, or that it has none.
TEST_F(Arguments, TypeOfSystemManagementInformationThatIsNone)
{
	for (VIP_ULONG type : {VIP_ULONG{0}, VIP_ULONG{2}, ~VIP_ULONG{0}})
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipQuerySystemManagementInfo(nic, type, &list));
	// The library may have an answer, too little room for it here, or no answer.
	VIP_RETURN told = VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list);
	EXPECT_TRUE(told == VIP_SUCCESS || told == VIP_ERROR_RESOURCE || told == VIP_ERROR_NOT_SUPPORTED)
		<< testing::PrintToString(told);
}

} // namespace
