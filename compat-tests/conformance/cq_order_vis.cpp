// SPDX-License-Identifier: BSD-2-Clause
// The order of a completion queue over several VIs: it names their completions in the order in which they happened.
//
// The other end sends on one VI after the other, and each time waits until the send is done. At Reliable
// Reception the message is in this end's memory then, so its completion has happened before the next message
// is sent. At Reliable Delivery a send may be done earlier, but adapters complete the receive first. At
// Unreliable a send over a network is done when it has left, and messages of two VIs may overtake each other,
// as they do on soft-RoCE of Linux 6.12, which handles each queue pair by itself. So Unreliable is tested over
// via_lo alone.
#include "cq_order.h"

#include <memory>

using namespace harness;

namespace
{

// Rounds without coordination: there is a receive for each message.
constexpr unsigned kBatch = 50;

using CqOrderOfVis = NicTest;

VIP_PEER(cqOrderSender)
{
	Nic nic;
	auto level = static_cast<VIP_RELIABILITY_LEVEL>(test.getNumber());
	auto onA = static_cast<unsigned>(test.getNumber());
	Vi a(nic, ofLevel(level)), b(nic, ofLevel(level));
	Pool out(nic, 1, 16);
	ASSERT_TRUE(test.call(a));
	ASSERT_TRUE(test.call(b));
	auto sendOn = [&](Vi &vi) {
		ASSERT_TRUE(isSent(vi, out.message(0, 16), out.handle(), VIP_STATUS_OP_SEND, Mode::Polling));
	};
	for (std::string order = test.get(); order != "end"; order = test.get()) {
		beginTimeLimit();
		for (unsigned round = 0; round < kBatch; round++) {
			for (unsigned i = 0; i < onA; i++)
				ASSERT_NO_FATAL_FAILURE(sendOn(a));
			ASSERT_NO_FATAL_FAILURE(sendOn(b));
		}
		if (order == "tell")
			test.put("sent");
	}
}

// In each round `onA` messages come on A, then one on B.
void expectOrder(Nic &nic, VIP_RELIABILITY_LEVEL level, unsigned onA)
{
	Peer other("cqOrderSender");
	Cq cq(nic, 1024);
	Vi a(nic, ofLevel(level), nullptr, cq);
	// Nothing comes on these. A library may know some VIs of a completion queue better than others.
	std::vector<std::unique_ptr<Vi>> between;
	for (unsigned i = 0; i < 20; i++)
		between.push_back(std::make_unique<Vi>(nic, ofLevel(level), nullptr, cq));
	Vi b(nic, ofLevel(level), nullptr, cq);
	Pool pool(nic, kBatch * (onA + 1), 16);
	other.channel.put(level);
	other.channel.put(onA);
	ASSERT_TRUE(other.serve(a));
	ASSERT_TRUE(other.serve(b));
	for (OrderRounds batches(kBatch); batches.next();) {
		for (unsigned i = 0; i < kBatch * (onA + 1); i++)
			ASSERT_TRUE(pool.postReceive((i + 1) % (onA + 1) ? a : b, i, 16));
		// The messages are taken as they come, or when all have come.
		bool late = batches.number() % 2;
		other.channel.put(late ? "tell" : "go");
		if (late)
			other.channel.expect("sent");
		for (unsigned i = 0; i < kBatch * (onA + 1); i++) {
			Named named = cq.take();
			ASSERT_TRUE(named.descriptor);
			ASSERT_EQ(pool.descriptor(i), named.descriptor)
				<< "round " << batches.number() * kBatch + i / (onA + 1) << ", message "
				<< i % (onA + 1) << (late ? ", taken late" : ", taken as it came");
			ASSERT_EQ(0U, errorOf(named.descriptor)) << statusOf(named.descriptor);
		}
	}
	EXPECT_TRUE(cq.isEmpty());
	other.channel.put("end");
	other.finish();
}

// [functional: VipCQWait] A completion queue is first in, first out over several VIs: if a peer sends on one VI, once
// or four times, waits until the sends are done, and then sends on another VI, the messages are named in this order.
// Unreliable messages may overtake each other in a network.
TEST_F(CqOrderOfVis, OneOrFourOnOneAndThenOneOnAnother)
{
	for (unsigned onA : {1U, 4U}) {
		if (nic.isLoopback())
			expectOrder(nic, VIP_SERVICE_UNRELIABLE, onA);
		atEach(nic, {VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION},
		       [&](VIP_RELIABILITY_LEVEL level) { expectOrder(nic, level, onA); });
	}
}

} // namespace
