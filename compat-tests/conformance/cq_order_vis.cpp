// SPDX-License-Identifier: BSD-2-Clause
// A completion queue names completions of several VIs in the order in which they happened.
//
// The other end sends on one VI after the other, and each time waits until the send is done. At Reliable
// Reception the message is in this end's memory then, so its completion has happened before the next message
// is sent. At the other levels a send may be done earlier. There, too, the library has reported one send as
// done before the next is posted.
#include "cq_order.h"

using namespace harness;

namespace
{

// Rounds without coordination: there is a receive for each message.
constexpr unsigned kBatch = 50;

class CqOrderOfVis : public NicTest
{
      protected:
	// In each round `onA` messages come on A, then one on B.
	void expectOrder(VIP_RELIABILITY_LEVEL level, unsigned onA);
};

VIP_PEER(cqOrderSender)
{
	Nic nic;
	auto level = static_cast<VIP_RELIABILITY_LEVEL>(std::stoul(test.get()));
	auto onA = static_cast<unsigned>(std::stoul(test.get()));
	Vi a(nic, ofLevel(level)), b(nic, ofLevel(level));
	Pool out(nic, 1, 16);
	ASSERT_TRUE(call(a, test.get(), test.host()));
	ASSERT_TRUE(call(b, test.get(), test.host()));
	auto sendOn = [&](Vi &vi) {
		VIP_DESCRIPTOR *d =
			harness::send(vi, out.message(0, 16), out.handle(), Mode::Polling);
		ASSERT_TRUE(d);
		ASSERT_EQ(0U, errorOf(d)) << statusOf(d);
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

void CqOrderOfVis::expectOrder(VIP_RELIABILITY_LEVEL level, unsigned onA)
{
	Peer other("cqOrderSender");
	OrderedCq cq(nic);
	Vi a(nic, ofLevel(level), nullptr, cq), b(nic, ofLevel(level), nullptr, cq);
	Pool pool(nic, kBatch * (onA + 1), 16);
	std::string nameOfA = freshDiscriminator(), nameOfB = freshDiscriminator();
	for (const std::string &word :
	     {std::to_string(level), std::to_string(onA), nameOfA, nameOfB})
		other.channel.put(word);
	ASSERT_TRUE(serve(a, nameOfA));
	ASSERT_TRUE(serve(b, nameOfB));
	for (OrderRounds batches(kBatch); batches.next();) {
		for (unsigned i = 0; i < kBatch * (onA + 1); i++)
			ASSERT_EQ(VIP_SUCCESS, VipPostRecv((i + 1) % (onA + 1) ? a : b,
							   pool.message(i, 16), pool.handle()));
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

TEST_F(CqOrderOfVis, FourOnOneAndThenOneOnAnother)
{
	atEach(nic,
	       {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY,
		VIP_SERVICE_RELIABLE_RECEPTION},
	       [&](VIP_RELIABILITY_LEVEL level) { expectOrder(level, 4); });
}

TEST_F(CqOrderOfVis, OneOnOneAndThenOneOnAnother)
{
	atEach(nic,
	       {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY,
		VIP_SERVICE_RELIABLE_RECEPTION},
	       [&](VIP_RELIABILITY_LEVEL level) { expectOrder(level, 1); });
}

} // namespace
