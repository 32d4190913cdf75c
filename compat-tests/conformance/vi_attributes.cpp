// SPDX-License-Identifier: BSD-2-Clause
// Changing the attributes of VIs: when it is allowed, its effect, and what does not change.
#include "harness.h"

#include <atomic>

using namespace harness;

namespace
{

void expectSame(const VIP_VI_ATTRIBUTES &expected, const VIP_VI_ATTRIBUTES &got)
{
	EXPECT_EQ(expected.ReliabilityLevel, got.ReliabilityLevel);
	EXPECT_EQ(expected.MaxTransferSize, got.MaxTransferSize);
	EXPECT_EQ(expected.QoS, got.QoS);
	EXPECT_EQ(expected.Ptag, got.Ptag);
	EXPECT_EQ(expected.EnableRdmaWrite, got.EnableRdmaWrite);
	EXPECT_EQ(expected.EnableRdmaRead, got.EnableRdmaRead);
}

class ViAttributes : public NicTest
{
      protected:
	VIP_RETURN set(VIP_VI_HANDLE vi, VIP_VI_ATTRIBUTES attributes)
	{
		return VipSetViAttributes(vi, &attributes);
	}
	// Sends a message from the second slot into the first. Both VIs may use the memory.
	void expectMessage(Vi &from, Vi &to, Pool &pool, VIP_UINT32 number = 7)
	{
		ASSERT_TRUE(pool.postReceive(to, 0, 64));
		VIP_DESCRIPTOR *out = setImmediate(pool.message(1, 64), number);
		paint(pool.buffer(1), 64, number);
		ASSERT_TRUE(isSent(from, out, pool.handle()));
		ASSERT_TRUE(isReceived(to, pool.descriptor(0), VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE));
		EXPECT_EQ(number, pool.descriptor(0)->CS.ImmediateData);
		EXPECT_TRUE(painted(pool.buffer(0), 64, number));
	}
};

// [functional: VipSetViAttributes] The attributes of a VI that is connecting, connected or in error stay as they are;
// those of an idle one can be changed.
TEST_F(ViAttributes, CannotBeChangedUnlessTheViIsIdle)
{
	Vi vi(nic), peer(nic);
	PendingRequest request(vi);
	EXPECT_EQ(VIP_INVALID_STATE, set(vi, writable())) << "connect-pending";
	ASSERT_EQ(VIP_SUCCESS, VipConnectAccept(request.handle, peer));
	ASSERT_EQ(VIP_SUCCESS, request.requested.get());
	EXPECT_EQ(VIP_INVALID_STATE, set(vi, writable())) << "connected";
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(peer));
	ASSERT_TRUE(vi.becomes(VIP_STATE_ERROR));
	EXPECT_EQ(VIP_INVALID_STATE, set(vi, writable())) << "in error";
	expectSame(reliable(), vi.attributes());
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(vi));
	EXPECT_EQ(VIP_SUCCESS, set(vi, writable())) << "idle again";
	expectSame(writable(), vi.attributes());
}

// [functional: VipSetViAttributes VipQueryVi] Attributes that are refused change neither the result of VipQueryVi nor
// the VI's connection.
TEST_F(ViAttributes, ChangeThatFailsChangesNothing)
{
	Vi vi(nic, writable()), peer(nic, writable());
	VIP_VI_ATTRIBUTES level = reliable(1000), small = reliable(0),
			  large = reliable(nic.attributes().MaxTransferSize + 1), quality = reliable(1000),
			  wrong = ofTag(&wrong, reliable(1000)), gone = ofTag(makeTag(nic), reliable(1000));
	level.ReliabilityLevel = 3;
	quality.QoS = &quality;
	ASSERT_EQ(VIP_SUCCESS, VipDestroyPtag(nic, gone.Ptag));
	EXPECT_EQ(VIP_INVALID_RELIABILITY_LEVEL, set(vi, level));
	EXPECT_EQ(VIP_INVALID_MTU, set(vi, small));
	EXPECT_EQ(VIP_INVALID_MTU, set(vi, large));
	EXPECT_EQ(VIP_INVALID_QOS, set(vi, quality));
	EXPECT_EQ(VIP_INVALID_PTAG, set(vi, wrong));
	EXPECT_EQ(VIP_INVALID_PTAG, set(vi, gone));
	expectSame(writable(), vi.attributes());
	// The attributes of the VI's connection have not changed, either.
	ASSERT_TRUE(harness::connect(vi, peer));
	Pool pool(nic, 2, 64, memory(nullptr, VIP_TRUE));
	paint(pool.buffer(1), 64, 3);
	ASSERT_TRUE(isSent(peer, pool.write(1, 64, pool.buffer(0), pool.handle()), pool.handle(),
			   VIP_STATUS_OP_RDMA_WRITE));
	EXPECT_TRUE(eventually([&] { return painted(pool.buffer(0), 64, 3); }));
}

// [functional: VipSetViAttributes VipConnectWait] VipConnectWait returns the attributes that the requester's VI has
// now.
TEST_F(ViAttributes, ArePartOfTheNextRequest)
{
	Vi client(nic), server(nic, reliable(4096));
	Address remote(nic);
	ASSERT_EQ(VIP_SUCCESS, set(client, writable(reliable(4096))));
	Told told =
		connectBy(server, client, {nic.address(), freshDiscriminator()}, {nic.address(), "x"}, remote.get());
	EXPECT_EQ(VIP_SERVICE_RELIABLE_DELIVERY, told.server.ReliabilityLevel);
	EXPECT_EQ(4096U, told.server.MaxTransferSize);
	EXPECT_TRUE(told.server.EnableRdmaWrite);
	EXPECT_FALSE(told.server.EnableRdmaRead);
}

// [functional: VipSetViAttributes VipConnectRequest] A VI that was given another reliability level connects with one
// that was made with it, and keeps that level's promises.
TEST_F(ViAttributes, OfAnyLevelAreThoseOfTheNextConnection)
{
	Pool pool(nic, 2, 64);
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		Vi changed(nic), made(nic, ofLevel(level));
		ASSERT_EQ(VIP_SUCCESS, set(changed, ofLevel(level)));
		ASSERT_TRUE(harness::connect(changed, made));
		ASSERT_NO_FATAL_FAILURE(expectMessage(changed, made, pool));
		ASSERT_NO_FATAL_FAILURE(expectMessage(made, changed, pool));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(changed));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(made));
		// A message without a receive is an error, except at the unreliable level.
		ASSERT_TRUE(harness::connect(made, changed));
		ASSERT_TRUE(pool.send(changed, 1, 64));
		bool lives = level == VIP_SERVICE_UNRELIABLE;
		EXPECT_EQ(lives ? 0U : VIP_STATUS_REMOTE_DESC_ERROR, errorOf(pool.descriptor(1)));
		EXPECT_TRUE(changed.becomes(lives ? VIP_STATE_CONNECTED : VIP_STATE_ERROR));
	});
}

// [functional: VipSetViAttributes VipConnectAccept] A request of another level or maximum transfer size stays pending,
// and is accepted by the VI that was refused once it was given the requester's attributes.
TEST_F(ViAttributes, AcceptingViMayBeChangedToFitAPendingRequest)
{
	Pool pool(nic, 2, 64);
	auto expectFits = [&](const VIP_VI_ATTRIBUTES &wanted, VIP_RETURN refusal) {
		Vi server(nic), client(nic, wanted);
		PendingRequest request(client);
		EXPECT_EQ(refusal, VipConnectAccept(request.handle, server));
		EXPECT_EQ(VIP_SUCCESS, set(server, wanted));
		EXPECT_EQ(VIP_SUCCESS, VipConnectAccept(request.handle, server));
		ASSERT_EQ(VIP_SUCCESS, request.requested.get());
		ASSERT_NO_FATAL_FAILURE(expectMessage(client, server, pool));
	};
	expectFits(reliable(kTransferSize / 2), VIP_INVALID_MTU);
	atEach(nic, {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_RECEPTION},
	       [&](VIP_RELIABILITY_LEVEL level) { expectFits(ofLevel(level), VIP_INVALID_RELIABILITY_LEVEL); });
}

// [functional: VipSetViAttributes VipDisconnect] Attributes can be changed between all connections of a VI; each has
// those of the last change.
TEST_F(ViAttributes, ChangeBetweenConnectionsAgainAndAgain)
{
	Cq cq(nic, 16);
	Pool pool(nic, 2, 64, memory(nullptr, VIP_TRUE));
	Vi vi(nic, reliable(), cq, cq), peer(nic, writable());
	for (unsigned round = 0; round < 4; round++) {
		bool allowed = round % 2 == 0;
		ASSERT_EQ(VIP_SUCCESS, set(vi, allowed ? writable() : reliable()));
		ASSERT_TRUE(harness::connect(vi, peer));
		ASSERT_NO_FATAL_FAILURE(expectMessage(peer, vi, pool, round));
		paint(pool.buffer(1), 64, 100 + round);
		VIP_DESCRIPTOR *d = pool.write(1, 64, pool.buffer(0), pool.handle());
		ASSERT_TRUE(harness::send(peer, d, pool.handle()));
		EXPECT_EQ(allowed ? 0U : VIP_STATUS_RDMA_PROT_ERROR, errorOf(d));
		if (allowed) {
			EXPECT_TRUE(eventually([&] { return painted(pool.buffer(0), 64, 100 + round); }));
		}
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(vi));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(peer));
	}
}

// [functional: VipSetViAttributes VipPostSend] A send may be as long as the new maximum transfer size, and not longer.
TEST_F(ViAttributes, SmallerMaxTransferSizeHolds)
{
	Pool pool(nic, 2, 4096);
	Vi vi(nic), peer(nic, reliable(1000));
	ASSERT_EQ(VIP_SUCCESS, set(vi, reliable(1000)));
	ASSERT_TRUE(harness::connect(vi, peer));
	ASSERT_TRUE(pool.postReceive(peer, 0, 4096));
	ASSERT_TRUE(isSent(vi, pool.message(1, 1000), pool.handle()));
	ASSERT_TRUE(isSent(vi, pool.message(1, 1001), pool.handle(), VIP_STATUS_OP_SEND | VIP_STATUS_LENGTH_ERROR));
}

// [functional: VipSetViAttributes VipPostSend VipPostRecv] A VI may use the memory of its new tag, and that of the
// former one no longer.
TEST_F(ViAttributes, NewTagDecidesWhichMemoryMayBeUsed)
{
	makeTag(nic);
	VIP_PROTECTION_HANDLE separate = makeTag(nic);
	Pool before(nic, 2, 64), after(nic, 2, 64, memory(separate));
	Vi vi(nic), peer(nic, ofTag(separate));
	ASSERT_EQ(VIP_SUCCESS, set(vi, ofTag(separate)));
	ASSERT_TRUE(harness::connect(vi, peer));
	ASSERT_NO_FATAL_FAILURE(expectMessage(vi, peer, after));
	ASSERT_NO_FATAL_FAILURE(expectMessage(peer, vi, after));
	ASSERT_TRUE(
		isSent(vi, before.message(1, 64), before.handle(), VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR));
}

// [functional: VipSetViAttributes VipPostSend] Through a VI, peers may write to memory of its new tag, and to that of
// the former one no longer.
TEST_F(ViAttributes, NewTagDecidesWhatPeersMayWriteTo)
{
	makeTag(nic);
	VIP_PROTECTION_HANDLE separate = makeTag(nic);
	Pool pool(nic, 1, 64);
	Region before(nic, 4096, memory(nullptr, VIP_TRUE)), after(nic, 4096, memory(separate, VIP_TRUE));
	Vi target(nic, writable()), initiator(nic);
	ASSERT_EQ(VIP_SUCCESS, set(target, writable(ofTag(separate))));
	ASSERT_TRUE(harness::connect(target, initiator));
	paint(pool.buffer(0), 64, 1);
	VIP_DESCRIPTOR *d = pool.write(0, 64, after);
	ASSERT_TRUE(isSent(initiator, d, pool.handle(), VIP_STATUS_OP_RDMA_WRITE));
	EXPECT_TRUE(eventually([&] { return painted(after.data(), 64, 1); }));
	d = pool.write(0, 64, before);
	ASSERT_TRUE(isSent(initiator, d, pool.handle(), VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR));
	EXPECT_TRUE(untouched(before.data(), 64));
}

// [functional: VipSetViAttributes VipDestroyPtag] The present tag of a VI cannot be destroyed. Its former tag can be
// destroyed.
TEST_F(ViAttributes, FormerTagIsFreeAndTheNewOneInUse)
{
	VIP_PROTECTION_HANDLE first = makeTag(nic), former = makeTag(nic), present = makeTag(nic);
	Vi vi(nic, ofTag(former));
	ASSERT_EQ(VIP_SUCCESS, set(vi, ofTag(present)));
	EXPECT_EQ(VIP_SUCCESS, VipDestroyPtag(nic, former));
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, present));
	EXPECT_EQ(VIP_INVALID_PTAG, set(vi, ofTag(former)));
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, present)) << "the VI has it still";
	ASSERT_EQ(VIP_SUCCESS, set(vi, ofTag(first)));
	EXPECT_EQ(VIP_SUCCESS, VipDestroyPtag(nic, present));
	ASSERT_EQ(VIP_SUCCESS, set(vi, ofTag(nullptr)));
	EXPECT_EQ(VIP_SUCCESS, VipDestroyPtag(nic, first));
}

// [functional: VipSetViAttributes VipRecvWait] A change of attributes ends no wait on the VI.
TEST_F(ViAttributes, ThreadThatWaitsOnTheViGoesOnWaiting)
{
	Pool pool(nic, 2, 64);
	Vi vi(nic), peer(nic, writable());
	ASSERT_TRUE(pool.postReceive(vi, 0, 64));
	std::atomic<VIP_DESCRIPTOR *> got{nullptr};
	Thread waiter([&] { got = takeReceive(vi); });
	letTimePass(50);
	EXPECT_EQ(VIP_SUCCESS, set(vi, writable()));
	EXPECT_EQ(nullptr, got.load());
	ASSERT_TRUE(harness::connect(vi, peer));
	ASSERT_TRUE(pool.send(peer, 1, 64));
	waiter.join();
	EXPECT_EQ(pool.descriptor(0), got.load());
	EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(pool.descriptor(0)));
}

// [functional: VipSetViAttributes VipPostRecv VipQueryVi] Other threads may post and query while attributes change.
// Receives stay posted, and take the first messages in their order. A query returns the old attributes or the new ones
// but no mixture.
TEST_F(ViAttributes, ChangeWhileOtherThreadsPostAndQuery)
{
	constexpr unsigned count = 600, changes = 30;
	Pool pool(nic, count + 1, 16);
	Vi vi(nic), peer(nic);
	std::atomic<bool> stop{false};
	Thread poster([&] { ASSERT_TRUE(pool.postReceives(vi, count, 16)); });
	Thread watcher([&] {
		while (!stop && !HasFailure()) {
			VIP_VI_ATTRIBUTES got = vi.attributes();
			EXPECT_EQ(got.EnableRdmaWrite ? 4000U : kTransferSize, got.MaxTransferSize) << "a mixture";
		}
	});
	for (unsigned i = 0; i < changes; i++) {
		EXPECT_EQ(VIP_SUCCESS, set(vi, i % 2 ? reliable() : writable(reliable(4000))));
	}
	poster.join();
	stop = true;
	watcher.join();
	ASSERT_EQ(VIP_SUCCESS, set(vi, reliable()));
	ASSERT_TRUE(harness::connect(vi, peer));
	for (unsigned i = 0; i < count; i++) {
		VIP_DESCRIPTOR *out = setImmediate(pool.message(count, 16), i);
		ASSERT_TRUE(harness::send(peer, out, pool.handle()));
		ASSERT_EQ(pool.descriptor(i), takeReceive(vi));
		ASSERT_EQ(i, pool.descriptor(i)->CS.ImmediateData);
	}
}

} // namespace
