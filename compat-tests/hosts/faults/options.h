/* SPDX-License-Identifier: BSD-2-Clause */
// The options of vip_faults.
#pragma once

#include <vipl.h>

#include <cstdint>
#include <string>

namespace faults
{

// Role: how this side connects. Act: what it does when the fault comes.
enum class Role {
	Serve, // VipConnectWait and VipConnectAccept
	Call,  // VipConnectRequest
	Equal  // VipConnectPeerRequest and VipConnectPeerWait
};
enum class Act {
	Traffic, // messages both ways
	Idle,    // connected, and in no call
	Sleep,   // in VipRecvWait(VIP_INFINITE)
	Hold     // a server that has the request, and does not accept it until SIGUSR1 comes
};
// The fault that a sender makes in one message, to show that the receiver notices it.
enum class Spoil { Nothing, Byte, Missing, Twice };

struct Options {
	Role role = Role::Serve;
	Act act = Act::Traffic;
	std::string nic;             // its name
	std::string host;            // where the peer is; "" is this host
	std::string name = "faults"; // the discriminator that the server waits for
	std::string own = "caller";  // the caller's
	VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY;
	VIP_UINT16 operation = VIP_CONTROL_OP_SENDRECV;
	double seconds = 5; // after the first connection; then this side ends in good order
	// The most messages of its own on one connection; then it ends.
	uint64_t messages = UINT64_MAX;
	double rate = 1e9;              // messages a second, at most
	uint32_t largest = 20000;       // bytes of a message
	VIP_ULONG timeout = 20000;      // ms, for the calls that connect
	bool unordered = false;         // data may come twice and late, and is counted
	bool reconnect = false;         // connects anew after a break and goes on
	unsigned times = 1;             // connects so often, and ends each connection in good order
	unsigned limit = 600;           // seconds after which the process ends itself
	Spoil spoil = Spoil::Nothing;
};

} // namespace faults
