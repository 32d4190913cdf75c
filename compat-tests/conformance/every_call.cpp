// SPDX-License-Identifier: BSD-2-Clause
// The functions that take a handle.
#include "every_call.h"

namespace harness
{

static void ignoreError(VIP_PVOID, VIP_ERROR_DESCRIPTOR *)
{
}
static void ignoreDescriptor(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
{
}
static void ignoreCompletion(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN)
{
}

void CallArguments::fill(Nic &nic)
{
	on = nic;
	pool = std::make_unique<Pool>(nic, 4, 64);
	vi = std::make_unique<Vi>(nic);
	local = std::make_unique<Address>(nic.address(), freshDiscriminator());
	remote = std::make_unique<Address>(nic);
	attributes = reliable();
	cq = makeCq(nic, 8);
	tag = makeTag(nic);
}

const CallArguments::Call CallArguments::kCalls[] = {
	{"VipCloseNic", kNic, [](CallArguments &, void *h) { return VipCloseNic(h); }},
	{"VipQueryNic", kNic, [](CallArguments &f, void *h) { return VipQueryNic(h, &f.nicAttributes); }},
	{"VipCreatePtag", kNic, [](CallArguments &f, void *h) { return VipCreatePtag(h, &f.tag); }},
	{"VipDestroyPtag", kNic, [](CallArguments &f, void *h) { return VipDestroyPtag(h, f.tag); }},
	{"VipRegisterMem", kNic,
	 [](CallArguments &f, void *h) { return VipRegisterMem(h, f.bytes, 64, nullptr, &f.handle); }},
	{"VipDeregisterMem", kNic,
	 [](CallArguments &f, void *h) { return VipDeregisterMem(h, f.pool->data(), f.pool->handle()); }},
	{"VipQueryMem", kNic,
	 [](CallArguments &f, void *h) { return VipQueryMem(h, f.pool->data(), f.pool->handle(), &f.rights); }},
	{"VipSetMemAttributes", kNic,
	 [](CallArguments &f, void *h) { return VipSetMemAttributes(h, f.pool->data(), f.pool->handle(), &f.rights); }},
	{"VipErrorCallback", kNic, [](CallArguments &, void *h) { return VipErrorCallback(h, nullptr, ignoreError); }},
	{"VipQuerySystemManagementInfo", kNic,
	 [](CallArguments &f, void *h) { return VipQuerySystemManagementInfo(h, VIP_SMI_AUTODISCOVERY, &f.list); }},
	{"VipCreateVi", kNic,
	 [](CallArguments &f, void *h) { return VipCreateVi(h, &f.attributes, nullptr, nullptr, &f.made); }},
	{"VipCreateCQ", kNic, [](CallArguments &f, void *h) { return VipCreateCQ(h, 8, &f.made); }},
	{"VipConnectWait", kNic,
	 [](CallArguments &f, void *h) {
		 return VipConnectWait(h, f.local->get(), 1, f.remote->get(), &f.attributes, &f.made);
	 }},
	{"VipNSInit", kNic, [](CallArguments &, void *h) { return VipNSInit(h, nullptr); }},
	{"VipNSShutdown", kNic, [](CallArguments &, void *h) { return VipNSShutdown(h); }},
	{"VipNSGetHostByName", kNic,
	 [](CallArguments &f, void *h) { return VipNSGetHostByName(h, f.name, f.remote->get(), 0); }},
	{"VipNSGetHostByAddr", kNic,
	 [](CallArguments &f, void *h) { return VipNSGetHostByAddr(h, f.local->get(), f.name, &f.length); }},

	{"VipDestroyVi", kVi, [](CallArguments &, void *h) { return VipDestroyVi(h); }},
	{"VipQueryVi", kVi,
	 [](CallArguments &f, void *h) { return VipQueryVi(h, &f.state, &f.attributes, &f.empty, &f.empty); }},
	{"VipSetViAttributes", kVi, [](CallArguments &f, void *h) { return VipSetViAttributes(h, &f.attributes); }},
	{"VipDisconnect", kVi, [](CallArguments &, void *h) { return VipDisconnect(h); }},
	{"VipPostSend", kVi,
	 [](CallArguments &f, void *h) { return VipPostSend(h, f.pool->message(0, 8), f.pool->handle()); }},
	{"VipPostRecv", kVi,
	 [](CallArguments &f, void *h) { return VipPostRecv(h, f.pool->message(0, 8), f.pool->handle()); }},
	{"VipSendDone", kVi, [](CallArguments &f, void *h) { return VipSendDone(h, &f.descriptor); }},
	{"VipRecvDone", kVi, [](CallArguments &f, void *h) { return VipRecvDone(h, &f.descriptor); }},
	{"VipSendWait", kVi, [](CallArguments &f, void *h) { return VipSendWait(h, 1, &f.descriptor); }},
	{"VipRecvWait", kVi, [](CallArguments &f, void *h) { return VipRecvWait(h, 1, &f.descriptor); }},
	{"VipSendNotify", kVi, [](CallArguments &, void *h) { return VipSendNotify(h, nullptr, ignoreDescriptor); }},
	{"VipRecvNotify", kVi, [](CallArguments &, void *h) { return VipRecvNotify(h, nullptr, ignoreDescriptor); }},
	{"VipConnectRequest", kVi,
	 [](CallArguments &f,
	    void *h) { return VipConnectRequest(h, f.local->get(), f.remote->get(), 1, &f.attributes); }},
	{"VipConnectPeerRequest", kVi,
	 [](CallArguments &f, void *h) { return VipConnectPeerRequest(h, f.local->get(), f.remote->get(), 1); }},
	{"VipConnectPeerDone", kVi, [](CallArguments &f, void *h) { return VipConnectPeerDone(h, &f.attributes); }},
	{"VipConnectPeerWait", kVi, [](CallArguments &f, void *h) { return VipConnectPeerWait(h, &f.attributes); }},

	{"VipDestroyCQ", kCq, [](CallArguments &, void *h) { return VipDestroyCQ(h); }},
	{"VipResizeCQ", kCq, [](CallArguments &, void *h) { return VipResizeCQ(h, 16); }},
	{"VipCQDone", kCq, [](CallArguments &f, void *h) { return VipCQDone(h, &f.made, &f.empty); }},
	{"VipCQWait", kCq, [](CallArguments &f, void *h) { return VipCQWait(h, 1, &f.made, &f.empty); }},
	{"VipCQNotify", kCq, [](CallArguments &, void *h) { return VipCQNotify(h, nullptr, ignoreCompletion); }},

	{"VipConnectAccept", kConnection, [](CallArguments &f, void *h) { return VipConnectAccept(h, *f.vi); }},
	{"VipConnectReject", kConnection, [](CallArguments &, void *h) { return VipConnectReject(h); }},
};

} // namespace harness
