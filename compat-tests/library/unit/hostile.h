// SPDX-License-Identifier: BSD-2-Clause
// VIs on via_lo that are connected with ends which are not of this library.
#pragma once

#include "line.h"

#include <memory>

class HostileTest : public NicTest
{
      protected:
	// An end that is not of this library.
	struct Peer {
		std::unique_ptr<hostile_peer, decltype(&hostile_peer_close)> memory{nullptr, hostile_peer_close};
		std::unique_ptr<Line> line;
		hostile_peer *get() const
		{
			return memory.get();
		}
	};
	void connect_hostile(Vi &vi, Peer &peer, const std::string &name, size_t receives = kReceives)
	{
		vi = make_vi(nullptr, cq);
		for (size_t i = 0; i < receives; i++)
			posted_receive(vi, posted++, {{memory.data(), 16}});
		auto accepted = accept_hostile(vi, peer, name);
		EXPECT_TRUE(peer.line->say(MESSAGE_CONFIRM));
		EXPECT_EQ(accepted.get(), VIP_SUCCESS);
	}
	// The call does not return until the peer confirms.
	std::future<VIP_RETURN> accept_hostile(VIP_VI_HANDLE vi, Peer &peer, const std::string &name)
	{
		// On the loopback device all processes of this host meet, those of other tests as well.
		const std::string door = name + std::to_string(getpid());
		auto accepted = std::async(std::launch::async, [=] { return accept_one(nic, door, vi); });
		Spoken request(VIA_LO, MESSAGE_REQUEST, door);

		request.bytes.flags = static_cast<uint8_t>(vi_kind.ReliabilityLevel);
		peer.line = std::make_unique<Line>(VIA_LO, door);
		EXPECT_TRUE(peer.line->say(request));
		EXPECT_EQ(peer.line->next(), MESSAGE_ACCEPT);
		const std::vector<int> &fds = peer.line->fds_of_last;
		EXPECT_EQ(fds.size(), 3u) << "regions, page and link";
		peer.memory.reset(hostile_peer_open(peer.line->last.description, fds.at(1), fds.at(2)));
		EXPECT_TRUE(peer.memory);
		return accepted;
	}
	// Sends a message as an honest peer does, or with this stamp.
	static void send(const Peer &peer, uint32_t stamp)
	{
		hostile_peer_publish(peer.get(), stamp, false);
		hostile_peer_announce(peer.get());
	}
	static void send(const Peer &peer)
	{
		send(peer, hostile_peer_stamp(peer.get()));
	}
	// Ends as a process that is killed.
	static void end(Peer &peer)
	{
		peer.line.reset();
		peer.memory.reset();
	}

	static constexpr size_t kReceives = 32;
	VIP_CQ_HANDLE cq = nullptr;
	size_t posted = 0;
};
