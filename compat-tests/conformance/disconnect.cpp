// SPDX-License-Identifier: BSD-2-Clause
// The end of a connection: which descriptors are flushed, in which order, and what each side
// learns.
#include "harness.h"

using namespace harness;

namespace
{

constexpr VIP_UINT32 kFlushedReceive = VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR;
constexpr VIP_UINT32 kFlushedSend = VIP_STATUS_OP_SEND | VIP_STATUS_DESC_FLUSHED_ERROR;
// The time in ms to look for something that must not come.
constexpr int kQuiet = 300;

class Disconnect : public PairTest
{
      protected:
	void post(Vi &vi, Pool &pool, unsigned first, unsigned count)
	{
		for (unsigned i = first; i < first + count; i++)
			ASSERT_EQ(VIP_SUCCESS, VipPostRecv(vi, pool.message(i, 64), pool.handle()));
	}
	// All receives are on the queue already, flushed and in order. Nothing else is on it.
	void expectFlushed(Vi &vi, Pool &pool, unsigned first, unsigned count)
	{
		VIP_DESCRIPTOR *d = nullptr;
		for (unsigned i = first; i < first + count; i++) {
			ASSERT_EQ(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &d)) << i;
			ASSERT_EQ(pool.descriptor(i), d);
			EXPECT_EQ(status(kFlushedReceive), statusOf(d));
		}
		EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &d));
		EXPECT_EQ(nullptr, d);
	}
	// When that end disconnects, a thread that is blocked in VipRecvWait gets the receive of b.
	void expectFlushesToABlockedThread(Vi &disconnecting)
	{
		Pool pool(nic, 1, 64);
		post(b(), pool, 0, 1);
		VIP_DESCRIPTOR *d = nullptr;
		auto result = inThread([&] { return VipRecvWait(b(), VIP_INFINITE, &d); });
		letTimePass(50);
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(disconnecting));
		EXPECT_EQ(VIP_DESCRIPTOR_ERROR, result.get());
		EXPECT_EQ(pool.descriptor(0), d);
		EXPECT_EQ(status(kFlushedReceive), statusOf(pool.descriptor(0)));
	}
	bool becomes(Vi &vi, VIP_VI_STATE state)
	{
		return eventually([&] { return vi.state() == state; });
	}
};

TEST_F(Disconnect, FlushesPostedReceivesInTheOrderOfPosting)
{
	Pool pool(nic, 8, 64);
	post(a(), pool, 0, 8);
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	EXPECT_EQ(VIP_STATE_IDLE, a().state());
	expectFlushed(a(), pool, 0, 8);
}

TEST_F(Disconnect, LeavesEverySendDoneInTheOrderOfPosting)
{
	constexpr unsigned count = 16;
	constexpr VIP_UINT32 size = 65472;
	Pool receives(nic, count, size), sends(nic, count, size);
	for (unsigned i = 0; i < count; i++)
		ASSERT_EQ(VIP_SUCCESS,
			  VipPostRecv(b(), receives.message(i, size), receives.handle()));
	for (unsigned i = 0; i < count; i++)
		ASSERT_EQ(VIP_SUCCESS, VipPostSend(a(), sends.message(i, size), sends.handle()));
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
	EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipSendDone(a(), &d));
	EXPECT_EQ(nullptr, d);
}

TEST_F(Disconnect, MessagesDeliveredBeforeItAreNotLost)
{
	Pool pool(nic, 6, 64);
	post(b(), pool, 0, 5);
	for (unsigned i = 0; i < 3; i++) {
		VIP_DESCRIPTOR *d = pool.message(5, 64);
		setImmediate(d, i);
		ASSERT_TRUE(harness::send(a(), d, pool.handle()));
		ASSERT_EQ(0U, errorOf(d)) << statusOf(d);
	}
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	ASSERT_TRUE(becomes(b(), VIP_STATE_ERROR));
	for (unsigned i = 0; i < 5; i++) {
		ASSERT_EQ(pool.descriptor(i), takeReceive(b()));
		EXPECT_EQ(status(i < 3 ? VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE
				       : kFlushedReceive),
			  statusOf(pool.descriptor(i)));
		if (i < 3) {
			EXPECT_EQ(i, pool.descriptor(i)->CS.ImmediateData);
		}
	}
}

TEST_F(Disconnect, MessagesDeliveredBeforeItAreNotLostWhenTheProgramLooksLater)
{
	Pool pool(nic, 8, 64);
	post(b(), pool, 0, 5);
	for (unsigned i = 0; i < 3; i++)
		ASSERT_EQ(VIP_SUCCESS, VipPostSend(a(), pool.message(5 + i, 64 - i), pool.handle()));
	for (unsigned i = 0; i < 3; i++)
		ASSERT_EQ(pool.descriptor(5 + i), takeSend(a()));
	for (unsigned i = 0; i < 3; i++)
		ASSERT_EQ(status(VIP_STATUS_OP_SEND), statusOf(pool.descriptor(5 + i)));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	// No call is made on the VI between the messages and the end.
	ASSERT_TRUE(nic.errors.reaches(b(), 1));
	for (unsigned i = 0; i < 5; i++) {
		ASSERT_EQ(pool.descriptor(i), takeReceive(b()));
		EXPECT_EQ(status(i < 3 ? VIP_STATUS_OP_RECEIVE : kFlushedReceive),
			  statusOf(pool.descriptor(i)));
		EXPECT_EQ(i < 3 ? 64 - i : 0U, pool.descriptor(i)->CS.Length);
	}
}

TEST_F(Disconnect, WhatWasDoneBeforeAndNotCollectedComesFirst)
{
	Pool pool(nic, 4, 64);
	VIP_CQ_HANDLE cq = makeCq(nic, 8);
	{
		Vi from(nic), to(nic, reliable(), nullptr, cq);
		post(to, pool, 0, 3);
		ASSERT_TRUE(harness::connect(to, from));
		ASSERT_TRUE(harness::send(from, pool.message(3, 64), pool.handle()));
		VIP_VI_HANDLE named = nullptr;
		VIP_BOOLEAN receive = VIP_FALSE;
		ASSERT_EQ(VIP_SUCCESS, VipCQWait(cq, kPatience, &named, &receive));
		// The first receive is done. A second message may still be on its way into the
		// receiver's memory. The test allows both results for it.
		ASSERT_TRUE(harness::send(from, pool.message(3, 64), pool.handle()));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(to));
		VIP_DESCRIPTOR *d = nullptr;
		EXPECT_EQ(VIP_SUCCESS, VipRecvDone(to, &d));
		ASSERT_EQ(pool.descriptor(0), d);
		EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(d));
		EXPECT_NE(VIP_NOT_DONE, VipRecvDone(to, &d));
		ASSERT_EQ(pool.descriptor(1), d);
		EXPECT_EQ(status(errorOf(d) ? kFlushedReceive : VIP_STATUS_OP_RECEIVE),
			  statusOf(d));
		expectFlushed(to, pool, 2, 1);
	}
	EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
}

TEST_F(Disconnect, TwiceIsFineAndOfAnIdleViToo)
{
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	Vi idle(nic);
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(idle));
	EXPECT_EQ(VIP_STATE_IDLE, idle.state());
}

TEST_F(Disconnect, OfAnIdleViLeavesItsReceivesPosted)
{
	Pool pool(nic, 1, 64);
	Vi idle(nic);
	post(idle, pool, 0, 1);
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(idle));
	VIP_DESCRIPTOR *d;
	EXPECT_EQ(VIP_NOT_DONE, VipRecvDone(idle, &d));
}

TEST_F(Disconnect, OfBothSidesAtOnce)
{
	Pool pool(nic, 8, 64);
	post(a(), pool, 0, 4);
	post(b(), pool, 4, 4);
	Thread other([&] { EXPECT_EQ(VIP_SUCCESS, VipDisconnect(b())); });
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	other.join();
	EXPECT_EQ(VIP_STATE_IDLE, a().state());
	EXPECT_EQ(VIP_STATE_IDLE, b().state());
	expectFlushed(a(), pool, 0, 4);
	expectFlushed(b(), pool, 4, 4);
}

TEST_F(Disconnect, PeersViGoesToErrorByItselfAndItsReceivesAreFlushedInOrder)
{
	Pool pool(nic, 8, 64);
	post(b(), pool, 0, 8);
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	ASSERT_TRUE(becomes(b(), VIP_STATE_ERROR));
	for (unsigned i = 0; i < 8; i++) {
		ASSERT_EQ(pool.descriptor(i), takeReceive(b(), Mode::Polling));
		EXPECT_EQ(status(kFlushedReceive), statusOf(pool.descriptor(i)));
	}
	VIP_DESCRIPTOR *d = pool.descriptor(0);
	EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipRecvDone(b(), &d));
	EXPECT_EQ(nullptr, d);
}

TEST_F(Disconnect, LostConnectionIsReportedOnceAndOnlyToTheSideThatDidNotDisconnect)
{
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	ASSERT_TRUE(nic.errors.reaches(b(), 1));
	VIP_ERROR_DESCRIPTOR error = nic.errors.first(b());
	EXPECT_EQ(VIP_ERROR_CONN_LOST, error.ErrorCode);
	EXPECT_EQ(VIP_RESOURCE_VI, error.ResourceCode);
	EXPECT_EQ(nic, error.NicHandle);
	EXPECT_TRUE(becomes(b(), VIP_STATE_ERROR));
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(b()));
	EXPECT_FALSE(nic.errors.reaches(a(), 1, kQuiet)) << "told of its own disconnect";
	EXPECT_FALSE(nic.errors.reaches(b(), 2, kQuiet)) << "told twice";
}

TEST_F(Disconnect, ThreadBlockedInRecvWaitGetsTheFlushedDescriptorWhenThePeerDisconnects)
{
	expectFlushesToABlockedThread(a());
}

TEST_F(Disconnect, ThreadBlockedInRecvWaitGetsTheFlushedDescriptorOfItsOwnSidesDisconnect)
{
	expectFlushesToABlockedThread(b());
}

TEST_F(Disconnect, SendOnAnIdleViIsFlushedAtOnceAndAReceiveStays)
{
	Pool pool(nic, 2, 64);
	Vi idle(nic);
	VIP_DESCRIPTOR *d = nullptr;
	post(idle, pool, 0, 1);
	ASSERT_EQ(VIP_SUCCESS, VipPostSend(idle, pool.message(1, 64), pool.handle()));
	EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipSendDone(idle, &d));
	EXPECT_EQ(pool.descriptor(1), d);
	EXPECT_EQ(status(kFlushedSend), statusOf(pool.descriptor(1)));
	EXPECT_EQ(VIP_NOT_DONE, VipRecvDone(idle, &d));
	EXPECT_EQ(VIP_STATE_IDLE, idle.state());
}

TEST_F(Disconnect, SendOnAnIdleViIsNotDeliveredOnceItIsConnected)
{
	Pool pool(nic, 3, 64);
	Vi client(nic), server(nic);
	VIP_DESCRIPTOR *d = pool.message(1, 64);
	setImmediate(d, 1);
	ASSERT_TRUE(harness::send(client, d, pool.handle()));
	post(server, pool, 0, 1);
	ASSERT_TRUE(harness::connect(server, client));
	d = pool.message(2, 64);
	setImmediate(d, 2);
	ASSERT_TRUE(harness::send(client, d, pool.handle()));
	ASSERT_EQ(pool.descriptor(0), takeReceive(server));
	EXPECT_EQ(2U, pool.descriptor(0)->CS.ImmediateData);
}

TEST_F(Disconnect, BothQueuesOfAViInErrorFlushAtOnce)
{
	Pool pool(nic, 3, 64);
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	ASSERT_TRUE(becomes(b(), VIP_STATE_ERROR));
	VIP_DESCRIPTOR *d = nullptr;
	ASSERT_EQ(VIP_SUCCESS, VipPostSend(b(), pool.message(0, 64), pool.handle()));
	EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipSendDone(b(), &d));
	EXPECT_EQ(pool.descriptor(0), d);
	EXPECT_EQ(status(kFlushedSend), statusOf(pool.descriptor(0)));
	for (unsigned i : {1U, 2U}) {
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(b(), pool.message(i, 64), pool.handle()));
		EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipRecvDone(b(), &d));
		EXPECT_EQ(pool.descriptor(i), d);
		EXPECT_EQ(status(kFlushedReceive), statusOf(pool.descriptor(i)));
	}
	EXPECT_EQ(VIP_STATE_ERROR, b().state());
}

TEST_F(Disconnect, ViInErrorIsIdleAfterDisconnectAndCanBeConnectedAgain)
{
	Pool pool(nic, 2, 64);
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	ASSERT_TRUE(becomes(b(), VIP_STATE_ERROR));
	EXPECT_EQ(VIP_INVALID_STATE, requestTo(b(), freshDiscriminator(), 1000))
		<< "in error, not idle";
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(b()));
	EXPECT_EQ(VIP_STATE_IDLE, b().state());
	post(b(), pool, 0, 1);
	ASSERT_TRUE(harness::connect(a(), b()));
	ASSERT_TRUE(harness::send(a(), pool.message(1, 64), pool.handle()));
	ASSERT_EQ(pool.descriptor(0), takeReceive(b()));
	EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(pool.descriptor(0)));
}

TEST_F(Disconnect, DestroyNeedsAnIdleVi)
{
	EXPECT_EQ(VIP_INVALID_STATE, VipDestroyVi(a())) << "connected";
	EXPECT_EQ(VIP_STATE_CONNECTED, a().state());
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	ASSERT_TRUE(becomes(b(), VIP_STATE_ERROR));
	EXPECT_EQ(VIP_INVALID_STATE, VipDestroyVi(b())) << "in error";
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(b()));
}

TEST_F(Disconnect, DestroyOfAnIdleViDropsItsReceives)
{
	Pool pool(nic, 4, 64);
	VIP_VI_ATTRIBUTES attributes = reliable();
	VIP_VI_HANDLE vi = nullptr;
	ASSERT_EQ(VIP_SUCCESS, VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
	for (unsigned i = 0; i < 3; i++)
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(vi, pool.message(i, 64), pool.handle()));
	ASSERT_EQ(VIP_SUCCESS, VipPostSend(vi, pool.message(3, 64),
					   pool.handle())); // flushed, and not collected
	EXPECT_EQ(VIP_SUCCESS, VipDestroyVi(vi));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipDestroyVi(vi));
}

TEST_F(Disconnect, MessageLongerThanTheReceiveBreaksTheConnection)
{
	Pool pool(nic, 4, 4096);
	for (auto [room, size] : {std::make_pair(63U, 64U), {0U, 1U}, {1024U, 4096U}}) {
		SCOPED_TRACE(testing::Message() << size << " bytes into " << room);
		Pair pair(nic);
		ASSERT_TRUE(pair.connected);
		VIP_DESCRIPTOR *in = pool.message(0, room), *next = pool.message(1, 64),
			       *out = pool.message(2, size);
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, in, pool.handle()));
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, next, pool.handle()));
		paint(pool.buffer(2), size, 1);
		ASSERT_TRUE(harness::send(pair.a, out, pool.handle()));
		EXPECT_EQ(status(VIP_STATUS_OP_SEND | VIP_STATUS_REMOTE_DESC_ERROR), statusOf(out));
		ASSERT_EQ(in, takeReceive(pair.b));
		EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE | VIP_STATUS_LENGTH_ERROR), statusOf(in));
		ASSERT_EQ(next, takeReceive(pair.b));
		EXPECT_EQ(status(kFlushedReceive), statusOf(next));
		EXPECT_TRUE(becomes(pair.a, VIP_STATE_ERROR));
		EXPECT_TRUE(becomes(pair.b, VIP_STATE_ERROR));
		EXPECT_EQ(0, pool.buffer(0)[room]) << "written past the receive";
	}
}

TEST_F(Disconnect, MessageWithoutAPostedReceiveBreaksTheConnection)
{
	Pool pool(nic, 2, 64);
	VIP_DESCRIPTOR *out = pool.message(0, 64);
	ASSERT_TRUE(harness::send(a(), out, pool.handle()));
	EXPECT_EQ(status(VIP_STATUS_OP_SEND | VIP_STATUS_REMOTE_DESC_ERROR), statusOf(out));
	EXPECT_TRUE(becomes(a(), VIP_STATE_ERROR));
	EXPECT_TRUE(becomes(b(), VIP_STATE_ERROR));
	// The error says that the receiver's queue was empty, if the NIC can know this; otherwise
	// it says that the connection was lost.
	ASSERT_TRUE(nic.errors.reaches(b(), 1));
	VIP_ERROR_CODE code = nic.errors.first(b()).ErrorCode;
	EXPECT_TRUE(code == VIP_ERROR_RECVQ_EMPTY || code == VIP_ERROR_CONN_LOST) << code;
}

TEST_F(Disconnect, MessageLongerThanMaxTransferSizeIsALengthError)
{
	Pool pool(nic, 2, 4096);
	Pair pair(nic, reliable(1024));
	ASSERT_TRUE(pair.connected);
	ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, pool.message(0, 4096), pool.handle()));
	VIP_DESCRIPTOR *out = pool.message(1, 1024);
	ASSERT_TRUE(harness::send(pair.a, out, pool.handle()));
	EXPECT_EQ(status(VIP_STATUS_OP_SEND), statusOf(out)) << "as long as is allowed";
	out = pool.message(1, 1025);
	ASSERT_TRUE(harness::send(pair.a, out, pool.handle()));
	EXPECT_EQ(status(VIP_STATUS_OP_SEND | VIP_STATUS_LENGTH_ERROR), statusOf(out));
}

} // namespace
