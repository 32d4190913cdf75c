/* SPDX-License-Identifier: BSD-2-Clause */
// What vip_faults is asked to do.
#pragma once

#include <vipl.h>

#include <cstdint>
#include <string>

namespace faults
{

// How this side is connected, and where it is to be when the fault comes.
enum class Role {
	Serve, // VipConnectWait and VipConnectAccept
	Call,  // VipConnectRequest
	Equal  // VipConnectPeerRequest and VipConnectPeerWait
};
enum class Act {
	Traffic, // messages both ways
	Idle,    // connected, and in no call
	Sleep,   // in VipRecvWait(VIP_INFINITE)
	Hold     // as server: has the request, and does not accept it until SIGUSR1 comes
};
// What a sender does wrong at one message, to show that the receiver notices.
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
	double seconds = 5; // from the first connection on; then this side ends in good order
	uint64_t messages = UINT64_MAX; // or after so many of its own on one connection
	double rate = 1e9;              // messages a second, at most
	uint32_t largest = 20000;       // bytes of a message
	uint64_t seed = 1;              // of what messages contain; the same on both sides
	VIP_ULONG timeout = 20000;      // ms, of the calls that connect
	bool unordered = false;         // data may come twice, and late: that is counted
	bool reconnect = false;         // after a break it connects anew and goes on
	bool stay = false;              // when all is released, until SIGUSR1 comes
	unsigned limit = 600;           // seconds, after which the process ends itself
	Spoil spoil = Spoil::Nothing;
};

} // namespace faults
