// SPDX-License-Identifier: BSD-2-Clause
// Disconnecting, and the states of a VI: which descriptors are flushed, in which order, and what each side
// learns.
#include "harness.h"

using namespace harness;

namespace
{

constexpr VIP_UINT32 kFlushedReceive = VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR;
constexpr VIP_UINT32 kFlushedSend = VIP_STATUS_OP_SEND | VIP_STATUS_DESC_FLUSHED_ERROR;

class Disconnect : public PairTest
{
      protected:
	// All receives are on the queue already, flushed and in order. Nothing else is on it.
	void expectFlushed(Vi &vi, Pool &pool, unsigned first, unsigned count)
	{
		VIP_DESCRIPTOR *d = nullptr;
		for (unsigned i = first; i < first + count; i++) {
			ASSERT_EQ(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &d)) << i;
			ASSERT_EQ(pool.descriptor(i), d);
			EXPECT_EQ(status(kFlushedReceive), statusOf(d));
		}
		expectNone(VIP_DESCRIPTOR_ERROR, VipRecvDone, vi);
	}
};

// [early: VipDisconnect VipRecvDone] When VipDisconnect returns, the VI is idle and all posted receives are done,
// flushed, in the order of posting.
TEST_F(Disconnect, FlushesPostedReceivesInTheOrderOfPosting)
{
	Pool pool(nic, 8, 64);
	ASSERT_TRUE(pool.postReceives(a(), 8, 64));
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	EXPECT_EQ(VIP_STATE_IDLE, a().state());
	expectFlushed(a(), pool, 0, 8);
}

// [early: VipDisconnect VipSendDone] When VipDisconnect returns, every send is done: the first ones sent, perhaps, and
// all others flushed.
TEST_F(Disconnect, LeavesEverySendDoneInTheOrderOfPosting)
{
	constexpr unsigned count = 16;
	constexpr VIP_UINT32 size = 65472;
	Pool receives(nic, count, size), sends(nic, count, size);
	ASSERT_TRUE(receives.postReceives(b(), count, size));
	for (unsigned i = 0; i < count; i++)
		ASSERT_TRUE(sends.postSend(a(), i, size));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	// Some may have gone out before. After the first flushed one all are flushed.
	bool flushed = false;
	VIP_DESCRIPTOR *d = nullptr;
	for (unsigned i = 0; i < count; i++) {
		VIP_RETURN result = VipSendDone(a(), &d);
		ASSERT_EQ(sends.descriptor(i), d) << testing::PrintToString(result);
		flushed = flushed || result != VIP_SUCCESS;
		EXPECT_EQ(status(flushed ? kFlushedSend : VIP_STATUS_OP_SEND), statusOf(d)) << i;
		EXPECT_EQ(flushed ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS, result);
	}
	expectNone(VIP_DESCRIPTOR_ERROR, VipSendDone, a());
}

// The program sees the end by the VI's state, or makes no call on the VI between the messages and the end.
// [functional: VipDisconnect VipErrorCallback] Messages that were sent successfully before the disconnect are received,
// even if the program looks only after the end of the connection was reported.
TEST_F(Disconnect, MessagesDeliveredBeforeItAreNotLost)
{
	for (bool looks : {true, false}) {
		Pool pool(nic, 8, 64);
		Pair pair(nic);
		ASSERT_TRUE(pool.postReceives(pair.b, 5, 64));
		for (unsigned i = 0; i < 3; i++) {
			VIP_DESCRIPTOR *d = setImmediate(pool.message(5 + i, 64 - i), i);
			ASSERT_EQ(VIP_SUCCESS, VipPostSend(pair.a, d, pool.handle()));
		}
		for (unsigned i = 0; i < 3; i++)
			ASSERT_TRUE(isDone(pair.a, pool.descriptor(5 + i)));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(pair.a));
		ASSERT_TRUE(looks ? pair.b.becomes(VIP_STATE_ERROR) : nic.errors.reaches(pair.b, 1));
		for (unsigned i = 0; i < 3; i++) {
			VIP_DESCRIPTOR *d = pool.descriptor(i);
			ASSERT_TRUE(isReceived(pair.b, d, VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE));
			EXPECT_EQ(i, d->CS.ImmediateData);
			EXPECT_EQ(64 - i, d->CS.Length);
		}
		for (unsigned i = 3; i < 5; i++) {
			ASSERT_TRUE(isReceived(pair.b, pool.descriptor(i), kFlushedReceive));
			EXPECT_EQ(0U, pool.descriptor(i)->CS.Length);
		}
	}
}

// [functional: VipDisconnect VipRecvDone] Descriptors that were done before the disconnect keep their status, and come
// before the flushed ones.
TEST_F(Disconnect, WhatWasDoneBeforeAndNotCollectedComesFirst)
{
	Pool pool(nic, 4, 64);
	Cq cq(nic, 8);
	Vi from(nic), to(nic, reliable(), nullptr, cq);
	ASSERT_TRUE(pool.postReceives(to, 3, 64));
	ASSERT_TRUE(harness::connect(to, from));
	ASSERT_TRUE(pool.send(from, 3, 64));
	VIP_VI_HANDLE named = nullptr;
	VIP_BOOLEAN receive = VIP_FALSE;
	ASSERT_EQ(VIP_SUCCESS, VipCQWait(cq, kPatience, &named, &receive));
	// The first receive is done. A second message may still be on its way into the
	// receiver's memory. The test allows both results for it.
	ASSERT_TRUE(pool.send(from, 3, 64));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(to));
	VIP_DESCRIPTOR *d = nullptr;
	EXPECT_EQ(VIP_SUCCESS, VipRecvDone(to, &d));
	ASSERT_EQ(pool.descriptor(0), d);
	EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(d));
	EXPECT_NE(VIP_NOT_DONE, VipRecvDone(to, &d));
	ASSERT_EQ(pool.descriptor(1), d);
	EXPECT_EQ(status(errorOf(d) ? kFlushedReceive : VIP_STATUS_OP_RECEIVE), statusOf(d));
	expectFlushed(to, pool, 2, 1);
}

// [early: VipDisconnect] To disconnect an idle VI succeeds and changes nothing.
TEST_F(Disconnect, TwiceIsFineAndOfAnIdleViToo)
{
	Pool pool(nic, 1, 64);
	Vi idle(nic);
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	ASSERT_TRUE(pool.postReceives(idle, 1, 64));
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(idle));
	EXPECT_EQ(VIP_STATE_IDLE, idle.state());
	expectNone(VIP_NOT_DONE, VipRecvDone, idle); // its receive stays posted
}

// [functional: VipDisconnect] Both sides may disconnect at the same time.
TEST_F(Disconnect, OfBothSidesAtOnce)
{
	Pool pool(nic, 8, 64);
	ASSERT_TRUE(pool.postReceives(a(), 4, 64));
	ASSERT_TRUE(pool.postReceives(b(), 4, 64, 4));
	Thread other([&] { EXPECT_EQ(VIP_SUCCESS, VipDisconnect(b())); });
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	other.join();
	EXPECT_EQ(VIP_STATE_IDLE, a().state());
	EXPECT_EQ(VIP_STATE_IDLE, b().state());
	expectFlushed(a(), pool, 0, 4);
	expectFlushed(b(), pool, 4, 4);
}

// [early: VipDisconnect VipQueryVi] At every level a VI whose peer disconnects goes to the error state without a call
// of its program, and is flushed.
TEST_F(Disconnect, PeersViGoesToErrorByItselfAndItsReceivesAreFlushedInOrder)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		Pool pool(nic, 8, 64);
		Pair pair(nic, ofLevel(level));
		ASSERT_TRUE(pool.postReceives(pair.b, 8, 64));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(pair.a));
		ASSERT_TRUE(pair.b.becomes(VIP_STATE_ERROR));
		for (unsigned i = 0; i < 8; i++)
			ASSERT_TRUE(isReceived(pair.b, pool.descriptor(i), kFlushedReceive, Mode::Polling));
		expectNone(VIP_DESCRIPTOR_ERROR, VipRecvDone, pair.b);
	});
}

// [functional: VipRecvWait VipDisconnect] A blocked wait gets its descriptor, flushed, when the peer disconnects, or
// another thread of its own side.
TEST_F(Disconnect, ThreadBlockedInRecvWaitGetsTheFlushedDescriptor)
{
	for (bool isPeer : {true, false}) {
		Pool pool(nic, 1, 64);
		Pair pair(nic);
		ASSERT_TRUE(pool.postReceives(pair.b, 1, 64));
		VIP_DESCRIPTOR *d = nullptr;
		auto result = inThread([&] { return VipRecvWait(pair.b, VIP_INFINITE, &d); });
		letTimePass(50);
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(isPeer ? pair.a : pair.b));
		EXPECT_EQ(VIP_DESCRIPTOR_ERROR, result.get());
		EXPECT_EQ(pool.descriptor(0), d);
		EXPECT_EQ(status(kFlushedReceive), statusOf(pool.descriptor(0)));
	}
}

// [early: VipPostSend VipPostRecv] On a VI that is not connected a send is flushed at once and never sent, and a
// receive waits.
TEST_F(Disconnect, SendOnAnIdleViIsFlushedAtOnceAndAReceiveStays)
{
	Pool pool(nic, 4, 64);
	Vi idle(nic), server(nic);
	VIP_DESCRIPTOR *d = nullptr;
	ASSERT_TRUE(pool.postReceives(idle, 1, 64));
	ASSERT_TRUE(pool.postSend(idle, 1, 64));
	EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipSendDone(idle, &d));
	EXPECT_EQ(pool.descriptor(1), d);
	EXPECT_EQ(status(kFlushedSend), statusOf(pool.descriptor(1)));
	expectNone(VIP_NOT_DONE, VipRecvDone, idle);
	EXPECT_EQ(VIP_STATE_IDLE, idle.state());
	// The send is not delivered later.
	ASSERT_TRUE(pool.postReceive(server, 2, 64));
	ASSERT_TRUE(harness::connect(server, idle));
	ASSERT_TRUE(pool.send(idle, 3, 33));
	ASSERT_TRUE(isReceived(server, pool.descriptor(2)));
	EXPECT_EQ(33U, pool.descriptor(2)->CS.Length);
}

// [functional: VipPostSend VipPostRecv] On a VI in the error state whatever is posted is flushed at once.
TEST_F(Disconnect, BothQueuesOfAViInErrorFlushAtOnce)
{
	Pool pool(nic, 3, 64);
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	ASSERT_TRUE(b().becomes(VIP_STATE_ERROR));
	VIP_DESCRIPTOR *d = nullptr;
	ASSERT_TRUE(pool.postSend(b(), 0, 64));
	EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipSendDone(b(), &d));
	EXPECT_EQ(pool.descriptor(0), d);
	EXPECT_EQ(status(kFlushedSend), statusOf(pool.descriptor(0)));
	for (unsigned i : {1U, 2U}) {
		ASSERT_TRUE(pool.postReceive(b(), i, 64));
		EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipRecvDone(b(), &d));
		EXPECT_EQ(pool.descriptor(i), d);
		EXPECT_EQ(status(kFlushedReceive), statusOf(pool.descriptor(i)));
	}
	EXPECT_EQ(VIP_STATE_ERROR, b().state());
}

// [functional: VipDisconnect VipConnectRequest] VipDisconnect leads out of the error state; before it the VI cannot be
// connected.
TEST_F(Disconnect, ViInErrorIsIdleAfterDisconnectAndCanBeConnectedAgain)
{
	Pool pool(nic, 2, 64);
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	ASSERT_TRUE(b().becomes(VIP_STATE_ERROR));
	EXPECT_EQ(VIP_INVALID_STATE, requestTo(b(), freshDiscriminator(), 1000)) << "in error, not idle";
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(b()));
	EXPECT_EQ(VIP_STATE_IDLE, b().state());
	ASSERT_TRUE(pool.postReceives(b(), 1, 64));
	ASSERT_TRUE(harness::connect(a(), b()));
	ASSERT_TRUE(pool.send(a(), 1, 64));
	ASSERT_TRUE(isReceived(b(), pool.descriptor(0)));
}

// [early: VipDestroyVi] Only an idle VI can be destroyed.
TEST_F(Disconnect, DestroyNeedsAnIdleVi)
{
	EXPECT_EQ(VIP_INVALID_STATE, VipDestroyVi(a())) << "connected";
	EXPECT_EQ(VIP_STATE_CONNECTED, a().state());
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	ASSERT_TRUE(b().becomes(VIP_STATE_ERROR));
	EXPECT_EQ(VIP_INVALID_STATE, VipDestroyVi(b())) << "in error";
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(b()));
}

// [early: VipDestroyVi] A VI is destroyed together with what is posted or not collected on it.
TEST_F(Disconnect, DestroyOfAnIdleViDropsItsReceives)
{
	Pool pool(nic, 4, 64);
	VIP_VI_HANDLE vi = makeVi(nic);
	ASSERT_TRUE(pool.postReceives(vi, 3, 64));
	ASSERT_TRUE(pool.postSend(vi, 3, 64)); // flushed, and not collected
	EXPECT_EQ(VIP_SUCCESS, VipDestroyVi(vi));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipDestroyVi(vi));
}

} // namespace
