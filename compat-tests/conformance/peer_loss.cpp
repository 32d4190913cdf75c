// SPDX-License-Identifier: BSD-2-Clause
// Peers that go away: the peer is another process, and it ends.
#include "harness.h"

using namespace harness;

namespace
{

constexpr unsigned kReceives = 4;
constexpr VIP_UINT32 kFlushed = VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR;

class PeerLoss : public NicTest
{
      protected:
	void SetUp() override
	{
		ASSERT_NO_FATAL_FAILURE(NicTest::SetUp());
		begin();
	}
	void begin()
	{
		pool = std::make_unique<Pool>(nic, kReceives + 1, 64);
		vi = std::make_unique<Vi>(nic);
		peer = std::make_unique<Peer>("leaves");
		ASSERT_TRUE(pool->postReceives(*vi, kReceives, 64));
		ASSERT_TRUE(peer->call(*vi));
		peer->channel.expect("connected");
		EXPECT_EQ(0U, nic.errors.count(*vi)) << "nothing has been lost yet";
	}
	void expectLost()
	{
		EXPECT_TRUE(nic.errors.reaches(*vi, 1, kPatience)) << "no asynchronous error";
		EXPECT_TRUE(eventually([&] { return vi->state() == VIP_STATE_ERROR; }));
		for (unsigned i = 0; i < kReceives; i++)
			ASSERT_TRUE(isReceived(*vi, pool->descriptor(i), kFlushed));
		expectNone(VIP_DESCRIPTOR_ERROR, VipRecvDone, *vi);
		EXPECT_FALSE(nic.errors.reaches(*vi, 2, 200)) << "told twice";
		EXPECT_EQ(1U, nic.errors.count(*vi, VIP_ERROR_CONN_LOST));
	}
	std::unique_ptr<Pool> pool;
	std::unique_ptr<Vi> vi;
	std::unique_ptr<Peer> peer;
};

// [functional: VipErrorCallback VipQueryVi] When the peer's process disconnects, closes its NIC, exits without
// releasing anything, or is killed, the VI soon goes to the error state, its descriptors are flushed, and the program's
// error handler is called.
TEST_F(PeerLoss, OfAPeerThatDisconnectsOrClosesItsNicOrExitsOrIsKilled)
{
	for (const std::string how : {"disconnect", "close", "exit", "kill"}) {
		SCOPED_TRACE(how);
		if (how == "kill")
			peer->kill();
		else
			peer->channel.put(how);
		ASSERT_NO_FATAL_FAILURE(expectLost());
		if (how == "kill")
			break;
		if (how != "exit")
			peer->channel.put("exit");
		peer->finish();
		ASSERT_NO_FATAL_FAILURE(begin());
	}
}

// [functional: VipRecvWait] A blocked wait gets its descriptor, flushed, when the peer is killed.
TEST_F(PeerLoss, PeerKilledWhileAThreadIsBlockedInRecvWait)
{
	using std::chrono::milliseconds;
	VIP_DESCRIPTOR *d = nullptr;
	auto result = inThread([&] { return VipRecvWait(*vi, VIP_INFINITE, &d); });
	EXPECT_EQ(std::future_status::timeout, result.wait_for(milliseconds(100))) << "before the peer was killed";
	peer->kill();
	ASSERT_EQ(std::future_status::ready, result.wait_for(milliseconds(kPatience)));
	EXPECT_EQ(VIP_DESCRIPTOR_ERROR, result.get());
	EXPECT_EQ(pool->descriptor(0), d);
	EXPECT_EQ(status(kFlushed), statusOf(pool->descriptor(0)));
}

// [functional: VipPostSend VipSendWait] Sends to a peer that has gone are done, with an error.
TEST_F(PeerLoss, SendsAfterThePeerWasKilledFailAndDoNotHang)
{
	peer->kill();
	ASSERT_TRUE(pool->postSend(*vi, kReceives, 64));
	ASSERT_EQ(pool->descriptor(kReceives), takeSend(*vi));
	// The error depends on whether the loss was known when the send was posted. The killed peer
	// had no receive posted, and that may have been noticed, too.
	VIP_UINT32 error = errorOf(pool->descriptor(kReceives));
	EXPECT_TRUE(error == VIP_STATUS_DESC_FLUSHED_ERROR || error == VIP_STATUS_TRANSPORT_ERROR ||
		    error == VIP_STATUS_REMOTE_DESC_ERROR)
		<< statusOf(pool->descriptor(kReceives));
}

// [functional: VipDisconnect VipConnectRequest] A VI that has lost its peer can be connected again.
TEST_F(PeerLoss, ViOfALostPeerCanBeConnectedAgain)
{
	peer->kill();
	expectLost();
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(*vi));
	Vi other(nic);
	ASSERT_TRUE(pool->postReceive(*vi, 0, 64));
	ASSERT_TRUE(harness::connect(other, *vi));
	ASSERT_TRUE(pool->send(other, kReceives, 64));
	ASSERT_TRUE(isReceived(*vi, pool->descriptor(0)));
}

} // namespace
