/* SPDX-License-Identifier: BSD-2-Clause */
// Each function that takes a handle, and arguments that are valid.
#pragma once

#include "harness.h"

namespace harness
{

enum Kind { kNic, kVi, kCq, kConnection };

struct CallArguments {
	struct Call {
		const char *name;
		Kind kind; // of its handle
		// Calls the function with valid arguments except the handle.
		VIP_RETURN (*call)(CallArguments &f, void *handle);
		friend void PrintTo(const Call &call, std::ostream *out)
		{
			*out << call.name;
		}
	};
	static const Call kCalls[40];

	void fill(Nic &nic);

	VIP_NIC_HANDLE on = nullptr;
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

inline constexpr auto ignore = [](auto...) {}; // a handler of any kind

inline void CallArguments::fill(Nic &nic)
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

#define CALL(kind, name, ...) \
	{#name, kind, []([[maybe_unused]] CallArguments &f, void *h) { return name(__VA_ARGS__); }}
inline const CallArguments::Call CallArguments::kCalls[] = {
	CALL(kNic, VipCloseNic, h),
	CALL(kNic, VipQueryNic, h, &f.nicAttributes),
	CALL(kNic, VipCreatePtag, h, &f.tag),
	CALL(kNic, VipDestroyPtag, h, f.tag),
	CALL(kNic, VipRegisterMem, h, f.bytes, 64, nullptr, &f.handle),
	CALL(kNic, VipDeregisterMem, h, f.pool->data(), f.pool->handle()),
	CALL(kNic, VipQueryMem, h, f.pool->data(), f.pool->handle(), &f.rights),
	CALL(kNic, VipSetMemAttributes, h, f.pool->data(), f.pool->handle(), &f.rights),
	CALL(kNic, VipErrorCallback, h, nullptr, ignore),
	CALL(kNic, VipQuerySystemManagementInfo, h, VIP_SMI_AUTODISCOVERY, &f.list),
	CALL(kNic, VipCreateVi, h, &f.attributes, nullptr, nullptr, &f.made),
	CALL(kNic, VipCreateCQ, h, 8, &f.made),
	CALL(kNic, VipConnectWait, h, f.local->get(), 1, f.remote->get(), &f.attributes, &f.made),
	CALL(kNic, VipNSInit, h, nullptr),
	CALL(kNic, VipNSShutdown, h),
	CALL(kNic, VipNSGetHostByName, h, f.name, f.remote->get(), 0),
	CALL(kNic, VipNSGetHostByAddr, h, f.local->get(), f.name, &f.length),

	CALL(kVi, VipDestroyVi, h),
	CALL(kVi, VipQueryVi, h, &f.state, &f.attributes, &f.empty, &f.empty),
	CALL(kVi, VipSetViAttributes, h, &f.attributes),
	CALL(kVi, VipDisconnect, h),
	CALL(kVi, VipPostSend, h, f.pool->message(0, 8), f.pool->handle()),
	CALL(kVi, VipPostRecv, h, f.pool->message(0, 8), f.pool->handle()),
	CALL(kVi, VipSendDone, h, &f.descriptor),
	CALL(kVi, VipRecvDone, h, &f.descriptor),
	CALL(kVi, VipSendWait, h, 1, &f.descriptor),
	CALL(kVi, VipRecvWait, h, 1, &f.descriptor),
	CALL(kVi, VipSendNotify, h, nullptr, ignore),
	CALL(kVi, VipRecvNotify, h, nullptr, ignore),
	CALL(kVi, VipConnectRequest, h, f.local->get(), f.remote->get(), 1, &f.attributes),
	CALL(kVi, VipConnectPeerRequest, h, f.local->get(), f.remote->get(), 1),
	CALL(kVi, VipConnectPeerDone, h, &f.attributes),
	CALL(kVi, VipConnectPeerWait, h, &f.attributes),

	CALL(kCq, VipDestroyCQ, h),
	CALL(kCq, VipResizeCQ, h, 16),
	CALL(kCq, VipCQDone, h, &f.made, &f.empty),
	CALL(kCq, VipCQWait, h, 1, &f.made, &f.empty),
	CALL(kCq, VipCQNotify, h, nullptr, ignore),

	CALL(kConnection, VipConnectAccept, h, *f.vi),
	CALL(kConnection, VipConnectReject, h),
};
#undef CALL

} // namespace harness
