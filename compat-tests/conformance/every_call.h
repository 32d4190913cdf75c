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

} // namespace harness
