// SPDX-License-Identifier: BSD-2-Clause
// Unreliable VIs after errors: these would break a reliable connection. Here the connection goes on, and later
// messages find the posted receives in their order.
//
// A message may be lost, so each is sent until it arrives.
#include "harness.h"

#include <atomic>
#include <functional>

using namespace harness;

namespace
{

constexpr unsigned kAttempts = 10;
constexpr VIP_ULONG kSecond = 1000; // the wait for a message that may be lost
constexpr VIP_UINT32 kRoom = 64;    // the size of most receives

class Unreliable : public NicTest
{
      protected:
	// Runs the body on a new connection, if the NIC has the level.
	void each(const std::function<void(Vi &, Vi &)> &body)
	{
		atEach(nic, {VIP_SERVICE_UNRELIABLE}, [&](VIP_RELIABILITY_LEVEL level) {
			Pair pair(nic, writable(ofLevel(level, most())));
			ASSERT_NO_FATAL_FAILURE(body(pair.a, pair.b));
		});
	}
	void expectConnected(Vi &a, Vi &b)
	{
		for (Vi *vi : {&a, &b}) {
			EXPECT_EQ(VIP_STATE_CONNECTED, vi->state());
			EXPECT_EQ(0U, nic.errors.count(*vi, VIP_ERROR_CONN_LOST));
		}
	}
	// Makes a new connection of the two VIs. Nothing of the former one remains, posted or under way.
	void connectAgain(Vi &a, Vi &b)
	{
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(b));
		VIP_DESCRIPTOR *d = nullptr;
		for (Vi *vi : {&a, &b})
			while (VipRecvDone(*vi, &d), d)
				EXPECT_EQ(VIP_UINT32{VIP_STATUS_DESC_FLUSHED_ERROR}, errorOf(d));
		ASSERT_TRUE(harness::connect(b, a));
		expectTalk(a, b);
	}
	VIP_UINT32 most() const
	{
		return nic.longMessage();
	}

	// Sends until the next receive of `to` is done.
	void deliver(Vi &from, Vi &to, const std::function<VIP_DESCRIPTOR *()> &make, VIP_MEM_HANDLE handle,
		     VIP_DESCRIPTOR **received)
	{
		for (unsigned i = 0; i < kAttempts; i++) {
			ASSERT_TRUE(isSent(from, make(), handle));
			if (VipRecvWait(to, kSecond, received) != VIP_TIMEOUT)
				return;
		}
		FAIL() << "lost " << kAttempts << " times";
	}
	// Sends a number until the next receive of `to` is done.
	void sendNumber(Vi &from, Vi &to, VIP_UINT32 number, VIP_DESCRIPTOR **received)
	{
		Pool pool(nic, 1, kRoom);
		auto make = [&] { return setImmediate(pool.message(0, kRoom), number); };
		deliver(from, to, make, pool.handle(), received);
	}
	// Sends a number until it arrives in the receive `in`.
	void deliverNumber(Vi &from, Vi &to, VIP_UINT32 number, VIP_DESCRIPTOR *in)
	{
		VIP_DESCRIPTOR *received = nullptr;
		ASSERT_NO_FATAL_FAILURE(sendNumber(from, to, number, &received));
		ASSERT_EQ(in, received);
		EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE), statusOf(received));
		EXPECT_EQ(number, received->CS.ImmediateData);
		EXPECT_EQ(kRoom, received->CS.Length);
	}
	void deliverNumberTo(Vi &from, Vi &to, VIP_UINT32 number)
	{
		Pool pool(nic, 1, kRoom);
		ASSERT_TRUE(pool.postReceive(to, 0, kRoom));
		deliverNumber(from, to, number, pool.descriptor(0));
	}
	void expectTalk(Vi &a, Vi &b)
	{
		ASSERT_NO_FATAL_FAILURE(deliverNumberTo(a, b, ++number_));
		ASSERT_NO_FATAL_FAILURE(deliverNumberTo(b, a, ++number_));
	}
	// Sends a number until it arrives. What was sent before may arrive first, also the same number once more.
	void deliverNumberPast(unsigned others, Vi &from, Vi &to, VIP_UINT32 number)
	{
		Pool in(nic, 1, kRoom);
		VIP_DESCRIPTOR *received = nullptr;
		for (unsigned i = 0; i <= others + kAttempts; i++) {
			ASSERT_TRUE(in.postReceive(to, 0, kRoom));
			ASSERT_NO_FATAL_FAILURE(sendNumber(from, to, number, &received));
			if (received->CS.Status == (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE) &&
			    received->CS.ImmediateData == number) {
				EXPECT_EQ(kRoom, received->CS.Length);
				return;
			}
		}
		FAIL() << "more has found receives than was sent";
	}
	// Sends a message that is longer than the next receive of `to`, which has room for 16 bytes.
	void sendTooMuch(Vi &from)
	{
		Pool pool(nic, 1, kRoom);
		ASSERT_TRUE(isSent(from, pool.message(0, kRoom), pool.handle()));
	}
	// The receive has too little room for a message. It is done with an error. Or the message was dropped, and
	// the receive takes the next message that fits.
	void takeShort(Vi &from, Vi &to, VIP_DESCRIPTOR *in, VIP_UINT32 room = 16)
	{
		VIP_DESCRIPTOR *d = nullptr;
		if (VipRecvWait(to, kSecond, &d) == VIP_TIMEOUT) {
			Pool pool(nic, 1, room);
			auto make = [&] { return pool.message(0, room); };
			ASSERT_NO_FATAL_FAILURE(deliver(from, to, make, pool.handle(), &d));
			ASSERT_EQ(in, d);
			EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(d));
			return;
		}
		ASSERT_EQ(in, d);
		EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE | VIP_STATUS_LENGTH_ERROR), statusOf(d));
	}

      private:
	VIP_UINT32 number_ = 1000;
};

// [functional: VipPostSend] On an unreliable connection a message without a receive is lost, and nothing else happens.
TEST_F(Unreliable, MessageWithoutAReceiveIsDropped)
{
	for (VIP_UINT32 bytes : {0U, 48U, 4096U, 65536U})
		each([&](Vi &a, Vi &b) {
			Pool pool(nic, 1, bytes);
			for (VIP_UINT32 i = 0; i < 2; i++) {
				VIP_DESCRIPTOR *d = setImmediate(pool.message(0, bytes), i);
				ASSERT_TRUE(isSent(a, d, pool.handle()));
				letTimePass(kQuiet);
				// A dropped message does not come later for the receive that is posted now.
				ASSERT_NO_FATAL_FAILURE(expectTalk(a, b));
			}
			// The receiver may get an error for the lost message.
			for (Vi *vi : {&a, &b})
				EXPECT_EQ(nic.errors.count(*vi), nic.errors.count(*vi, VIP_ERROR_RECVQ_EMPTY));
			expectConnected(a, b);
		});
}

// [functional: VipPostSend VipPostRecv] On an unreliable connection a message too long for its receive harms no later
// one.
TEST_F(Unreliable, MessageLongerThanItsReceiveHarmsNoLaterOne)
{
	for (auto [room, bytes] : {std::make_pair(0U, 1U), {48U, 49U}, {4096U, 65536U}}) {
		SCOPED_TRACE(testing::Message() << bytes << " bytes into " << room);
		VIP_UINT32 fits = room, size = bytes;
		each([&](Vi &a, Vi &b) {
			Pool pool(nic, 2, 65536);
			VIP_DESCRIPTOR *in = pool.postReceive(b, 0, fits);
			paint(pool.buffer(1), size, 1);
			ASSERT_TRUE(isSent(a, pool.message(1, size), pool.handle()));
			ASSERT_NO_FATAL_FAILURE(takeShort(a, b, in, fits));
			EXPECT_TRUE(untouched(pool.buffer(0) + fits, 65536 - fits));
			for (int i = 0; i < 3; i++)
				ASSERT_NO_FATAL_FAILURE(expectTalk(a, b));
			expectConnected(a, b);
		});
	}
}

// [functional: VipPostSend] On an unreliable connection a refused RDMA write writes nothing, and harms nothing.
TEST_F(Unreliable, RdmaWriteThatIsRefusedLeavesBothConnected)
{
	each([&](Vi &a, Vi &b) {
		makeTag(nic); // another name of the default tag
		Region target(nic, 4096, memory(nullptr, VIP_TRUE)), closed(nic, 4096),
			apart(nic, 4096, memory(makeTag(nic), VIP_TRUE));
		Pool pool(nic, 1, 64);
		paint(pool.buffer(0), 64, 1);
		Pair closedPair(nic, ofLevel(VIP_SERVICE_UNRELIABLE));
		// VIA leaves open whether the initiator learns of it.
		auto write = [&](Vi &from, Vi &to, void *place, VIP_MEM_HANDLE handle) {
			VIP_DESCRIPTOR *d = pool.write(0, 64, place, handle);
			ASSERT_TRUE(harness::send(from, d, pool.handle()));
			EXPECT_TRUE(errorOf(d) == 0 || errorOf(d) == VIP_STATUS_RDMA_PROT_ERROR) << statusOf(d);
			letTimePass(kQuiet);
			ASSERT_NO_FATAL_FAILURE(expectTalk(from, to));
			expectConnected(from, to);
		};
		write(a, b, target.data(), 0);
		write(a, b, closed.data(), closed.handle());
		write(a, b, apart.data(), apart.handle());
		write(closedPair.a, closedPair.b, target.data(), target.handle());
		for (const Region *region : {&target, &closed, &apart})
			EXPECT_TRUE(untouched(region->data(), 64));
		write(a, b, target.data() + target.size() - 63, target.handle());
	});
}

// [functional: VipPostSend VipDisconnect] On an unreliable VI, too, a send names registered memory.
TEST_F(Unreliable, SendFromAnUnknownHandleIsAProtectionError)
{
	each([&](Vi &a, Vi &b) {
		Pool pool(nic, 1, 64);
		VIP_DESCRIPTOR *d = pool.message(0, 64);
		d->DS[0].Local.Handle = 0xDEADBEEF;
		ASSERT_TRUE(isSent(a, d, pool.handle(), VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR));
		// VIA leaves open whether the VI can go on. It can always be connected anew.
		VIP_VI_STATE state = a.state();
		EXPECT_TRUE(state == VIP_STATE_CONNECTED || state == VIP_STATE_ERROR) << testing::PrintToString(state);
		ASSERT_NO_FATAL_FAILURE(connectAgain(a, b));
	});
}

// [functional: VipPostSend VipPostRecv] After messages that are too long, an unreliable connection goes on, and its
// receives are used in their order.
TEST_F(Unreliable, AfterAMessageThatIsTooLongReceivesAreUsedInTheirOrder)
{
	constexpr VIP_UINT32 rounds = 3, eachRound = 8;
	each([&](Vi &a, Vi &b) {
		Pool pool(nic, rounds * eachRound, kRoom);
		for (VIP_UINT32 i = 0; i < rounds * eachRound; i++)
			ASSERT_TRUE(pool.postReceive(b, i, i % eachRound ? kRoom : 16));
		for (VIP_UINT32 i = 0; i < rounds * eachRound; i++) {
			SCOPED_TRACE(testing::Message() << "receive " << i);
			if (i % eachRound) {
				ASSERT_NO_FATAL_FAILURE(deliverNumber(a, b, i, pool.descriptor(i)));
				continue;
			}
			ASSERT_NO_FATAL_FAILURE(sendTooMuch(a));
			ASSERT_NO_FATAL_FAILURE(takeShort(a, b, pool.descriptor(i)));
		}
		expectConnected(a, b);
	});
}

// [functional: VipPostSend VipPostRecv] After a message that is too long the receiver can still send, even before it
// has looked at the failed receive.
TEST_F(Unreliable, AfterAMessageThatIsTooLongTheReceiverCanStillSend)
{
	each([&](Vi &a, Vi &b) {
		Pool pool(nic, 1, 16);
		for (VIP_UINT32 i = 0; i < 2; i++) {
			ASSERT_TRUE(pool.postReceive(b, 0, 16));
			ASSERT_NO_FATAL_FAILURE(sendTooMuch(a));
			ASSERT_NO_FATAL_FAILURE(deliverNumberTo(b, a, i));
			ASSERT_NO_FATAL_FAILURE(takeShort(a, b, pool.descriptor(0)));
			ASSERT_NO_FATAL_FAILURE(deliverNumberTo(a, b, i));
		}
		expectConnected(a, b);
	});
}

// Many messages of a stream do not fit, and neither end waits for the other.
// [functional: VipPostSend VipRecvWait] What arrives in a stream of messages, some of them too long, is whole and in
// order.
TEST_F(Unreliable, WhatArrivesAmongMessagesThatAreTooLongIsWholeAndInOrder)
{
	constexpr VIP_UINT32 count = 400;
	constexpr unsigned receives = 16;
	each([&](Vi &a, Vi &b) {
		Pool pool(nic, receives, kRoom);
		VIP_UINT32 last = 0, whole = 0, refused = 0;
		EXPECT_TRUE(pool.postReceives(b, receives, 16));
		std::atomic<bool> sent{false};
		Thread sender([&] {
			Pool own(nic, 1, kRoom);
			for (VIP_UINT32 i = 1; i <= count; i++) {
				VIP_DESCRIPTOR *d = own.message(0, i % 7 ? 16 : kRoom);
				paint(own.buffer(0), kRoom, i);
				setImmediate(d, i);
				if (!harness::send(a, d, own.handle()))
					break;
				EXPECT_EQ(0U, errorOf(d)) << statusOf(d);
			}
			sent = true;
		});
		for (unsigned next = 0;; next = (next + 1) % receives) {
			VIP_DESCRIPTOR *d = nullptr;
			bool over = sent;
			VIP_RETURN result = VipRecvWait(b, kSecond, &d);
			if (result == VIP_TIMEOUT && over)
				break;
			if (result == VIP_TIMEOUT) {
				next = (next + receives - 1) % receives;
				continue;
			}
			ASSERT_EQ(pool.descriptor(next), d) << testing::PrintToString(result);
			if (errorOf(d)) {
				ASSERT_EQ(VIP_UINT32{VIP_STATUS_LENGTH_ERROR}, errorOf(d));
				refused++;
			} else {
				EXPECT_GT(d->CS.ImmediateData, last) << "twice, or out of order";
				last = d->CS.ImmediateData;
				EXPECT_TRUE(painted(pool.buffer(next), 16, last));
				whole++;
			}
			EXPECT_TRUE(pool.postReceive(b, next, 16));
		}
		sender.join();
		EXPECT_GT(whole, 0U);
		EXPECT_LE(whole + refused, count);
		expectConnected(a, b);
		ASSERT_NO_FATAL_FAILURE(connectAgain(a, b));
	});
}

// These have made the connections of some devices stop receiving.
// [functional: VipPostSend] An RDMA write whose immediate data finds no receive harms no later message.
TEST_F(Unreliable, WritesWhoseImmediateDataFindsNoReceiveHarmNoLaterMessage)
{
	each([&](Vi &a, Vi &b) {
		Region target(nic, most(), memory(nullptr, VIP_TRUE));
		Pool pool(nic, 1, most());
		for (VIP_UINT32 size : {0U, 1U, 5000U, 65536U}) {
			SCOPED_TRACE(testing::Message() << size << " bytes");
			for (VIP_UINT32 i = 0; i < 4; i++)
				ASSERT_TRUE(isSent(a, setImmediate(pool.write(0, size, target), i), pool.handle(),
						   VIP_STATUS_OP_RDMA_WRITE));
			// A write is done when it has left. It may arrive after the next receive is posted.
			ASSERT_NO_FATAL_FAILURE(deliverNumberPast(4, a, b, size));
			ASSERT_NO_FATAL_FAILURE(deliverNumberPast(0, b, a, size));
		}
		expectConnected(a, b);
	});
}

// There are more writes than any send queue holds, each of many packets.
// [functional: VipPostSend VipRecvWait VipSendWait] Among many long RDMA writes, messages arrive in order, and all are
// done in the order of posting.
TEST_F(Unreliable, ManyLongWritesAndMessagesBetweenThemComeInOrder)
{
	constexpr VIP_UINT32 count = 24, size = 65536;
	each([&](Vi &a, Vi &b) {
		Region target(nic, count * size, memory(nullptr, VIP_TRUE));
		Pool writes(nic, count, size), sends(nic, count, 0), receives(nic, count, 0);
		for (VIP_UINT32 i = 0; i < count; i++) {
			ASSERT_EQ(VIP_SUCCESS, VipPostRecv(b, receives.empty(i), receives.handle()));
			paint(writes.buffer(i), size, i);
		}
		for (VIP_UINT32 i = 0; i < count; i++) {
			VIP_DESCRIPTOR *d = setImmediate(sends.empty(i), i);
			ASSERT_EQ(VIP_SUCCESS,
				  VipPostSend(a, writes.write(i, size, target, i * size), writes.handle()));
			ASSERT_EQ(VIP_SUCCESS, VipPostSend(a, d, sends.handle()));
		}
		// The program does not take the sends' completions while they are under way.
		VIP_DESCRIPTOR *d = nullptr;
		VIP_UINT32 next = 0, arrived = 0;
		while (arrived < count && VipRecvWait(b, 3 * kSecond, &d) != VIP_TIMEOUT) {
			ASSERT_EQ(receives.descriptor(arrived), d);
			ASSERT_GE(d->CS.ImmediateData, next);
			next = d->CS.ImmediateData + 1;
			arrived++;
		}
		EXPECT_GT(arrived, 0U);
		VIP_UINT32 whole = 0;
		for (VIP_UINT32 i = 0; i < next; i++)
			whole += painted(target.data() + i * size, size, i) ? 1 : 0;
		EXPECT_GT(whole, 0U) << "of " << next;
		for (VIP_UINT32 i = 0; i < count; i++) {
			ASSERT_TRUE(isDone(a, writes.descriptor(i), VIP_STATUS_OP_RDMA_WRITE));
			ASSERT_TRUE(isDone(a, sends.descriptor(i)));
		}
		expectConnected(a, b);
	});
}

// [functional: VipDisconnect VipSendWait] After a disconnect the first RDMA writes are done, perhaps, and all others
// flushed; the VI can be connected again.
TEST_F(Unreliable, DisconnectingInTheMiddleOfLongWritesFlushesTheRest)
{
	constexpr unsigned count = 8;
	each([&](Vi &a, Vi &b) {
		Region target(nic, most(), memory(nullptr, VIP_TRUE));
		Pool pool(nic, count, most());
		for (unsigned i = 0; i < count; i++)
			ASSERT_EQ(VIP_SUCCESS, VipPostSend(a, pool.write(i, most(), target), pool.handle()));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a));
		bool flushed = false;
		for (unsigned i = 0; i < count; i++) {
			VIP_DESCRIPTOR *d = takeSend(a);
			ASSERT_EQ(pool.descriptor(i), d);
			EXPECT_TRUE(errorOf(d) == VIP_STATUS_DESC_FLUSHED_ERROR || (errorOf(d) == 0 && !flushed))
				<< statusOf(d);
			flushed |= errorOf(d) != 0;
		}
		ASSERT_NO_FATAL_FAILURE(connectAgain(a, b));
	});
}

} // namespace
