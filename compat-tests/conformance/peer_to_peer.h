/* SPDX-License-Identifier: BSD-2-Clause */
// Declarations that the tests of peer-to-peer connections share.
#pragma once

#include "harness.h"

#include <utility>

namespace peer_to_peer
{

using namespace harness;

// Two fresh names. The first is the lesser.
struct Names {
	std::string own, other;
	Names() : own(freshDiscriminator()), other(own)
	{
		own += 'a';
		other += 'b';
	}
};

// `host` is the address of the other end's host; "" is the NIC's own.
inline VIP_RETURN ask(Vi &vi, const std::string &own, const std::string &other, VIP_ULONG timeout = kPatience,
		      const std::string &host = "")
{
	Address local(vi.nic().address(), own), remote(host.empty() ? vi.nic().address() : host, other);
	return VipConnectPeerRequest(vi, local.get(), remote.get(), timeout);
}

inline VIP_RETURN outcome(Vi &vi)
{
	VIP_VI_ATTRIBUTES attributes;
	return VipConnectPeerWait(vi, &attributes);
}

inline VIP_RETURN outcomeSoFar(Vi &vi)
{
	VIP_VI_ATTRIBUTES attributes;
	return VipConnectPeerDone(vi, &attributes);
}

// A process that requests a peer when the test orders it. Once connected, it sends the last character of its name.
struct Equal : Peer {
	Equal(const std::string &own, const std::string &other) : Peer("equal")
	{
		channel.put(own);
		channel.put(other);
		channel.expect("ready");
	}
	void ask(VIP_ULONG timeout = kPatience)
	{
		channel.put(timeout);
		channel.expect("asked");
	}
	VIP_RETURN outcome()
	{
		return static_cast<VIP_RETURN>(channel.getNumber());
	}
	void end()
	{
		channel.put("received");
		finish();
	}
};

class EqualsTest : public NicTest
{
      protected:
	// `one` has requested `other`, which requests `one` now. The outcome of both is `wanted`.
	static void expectMeeting(Vi &one, const std::string &itsName, Vi &other, const std::string &othersName,
				  VIP_RETURN wanted = VIP_SUCCESS)
	{
		ASSERT_EQ(VIP_SUCCESS, ask(other, othersName, itsName));
		ASSERT_EQ(wanted, outcome(one));
		ASSERT_EQ(wanted, outcome(other));
	}
	void connectEquals(Vi &one, Vi &other)
	{
		Names names;
		ASSERT_EQ(VIP_SUCCESS, ask(one, names.own, names.other));
		ASSERT_NO_FATAL_FAILURE(expectMeeting(one, names.own, other, names.other));
	}
	// The VI is idle, its receive is still posted, and a connection can use it.
	void expectAsBefore(Vi &vi, VIP_DESCRIPTOR *receive)
	{
		EXPECT_EQ(VIP_STATE_IDLE, vi.state());
		expectNone(VIP_NOT_DONE, VipRecvDone, vi);
		Vi other(nic, vi.attributes());
		ASSERT_NO_FATAL_FAILURE(connectEquals(vi, other));
		ASSERT_TRUE(harness::send(other, pool.empty(3), pool.handle()));
		EXPECT_EQ(receive, takeReceive(vi));
	}
	VIP_DESCRIPTOR *postReceive(Vi &vi, size_t slot = 0)
	{
		VIP_DESCRIPTOR *d = pool.message(slot, 64);
		EXPECT_EQ(VIP_SUCCESS, VipPostRecv(vi, d, pool.handle()));
		return d;
	}
	// Runs the body for an end with the lesser name, and for an end with the greater name.
	template <typename Body> void eitherWay(Body body)
	{
		for (bool swapped : {false, true}) {
			SCOPED_TRACE(swapped ? "the greater name" : "the lesser name");
			Names names;
			if (swapped)
				std::swap(names.own, names.other);
			ASSERT_NO_FATAL_FAILURE(body(names.own, names.other));
		}
	}
	// The address is of a network for documentation.
	std::string hostThatIsNotThere() const
	{
		return hostAddress(nic, {"\xC0\0\2\1", 4});
	}
	Pool pool{nic, 4, 64};
};

} // namespace peer_to_peer
