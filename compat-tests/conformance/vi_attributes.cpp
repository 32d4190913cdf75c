// SPDX-License-Identifier: BSD-2-Clause
// Changing the attributes of a VI: when it is allowed, its effect, and what does not change.
#include "harness.h"

#include <atomic>

using namespace harness;

namespace
{

VIP_VI_ATTRIBUTES attributesOf(VIP_VI_HANDLE vi)
{
	VIP_VI_ATTRIBUTES got{};
	VIP_VI_STATE state;
	VIP_BOOLEAN empty;
	EXPECT_EQ(VIP_SUCCESS, VipQueryVi(vi, &state, &got, &empty, &empty));
	return got;
}

void expectSame(const VIP_VI_ATTRIBUTES &expected, const VIP_VI_ATTRIBUTES &got)
{
	EXPECT_EQ(expected.ReliabilityLevel, got.ReliabilityLevel);
	EXPECT_EQ(expected.MaxTransferSize, got.MaxTransferSize);
	EXPECT_EQ(expected.QoS, got.QoS);
	EXPECT_EQ(expected.Ptag, got.Ptag);
	EXPECT_EQ(expected.EnableRdmaWrite, got.EnableRdmaWrite);
	EXPECT_EQ(expected.EnableRdmaRead, got.EnableRdmaRead);
}

VIP_VI_ATTRIBUTES writable()
{
	VIP_VI_ATTRIBUTES attributes = reliable();
	attributes.EnableRdmaWrite = VIP_TRUE;
	return attributes;
}

VIP_VI_ATTRIBUTES ofTag(VIP_PROTECTION_HANDLE tag)
{
	VIP_VI_ATTRIBUTES attributes = reliable();
	attributes.Ptag = tag;
	return attributes;
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
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(to, pool.message(0, 64), pool.handle()));
		VIP_DESCRIPTOR *out = pool.message(1, 64);
		setImmediate(out, number);
		paint(pool.buffer(1), 64, number);
		ASSERT_TRUE(harness::send(from, out, pool.handle()));
		ASSERT_EQ(0U, errorOf(out)) << statusOf(out);
		ASSERT_EQ(pool.descriptor(0), takeReceive(to));
		ASSERT_EQ(0U, errorOf(pool.descriptor(0))) << statusOf(pool.descriptor(0));
		EXPECT_EQ(number, pool.descriptor(0)->CS.ImmediateData);
		EXPECT_TRUE(painted(pool.buffer(0), 64, number));
	}
};

TEST_F(ViAttributes, CannotBeChangedUnlessTheViIsIdle)
{
	Vi vi(nic), peer(nic);
	std::string discriminator = freshDiscriminator();
	auto called = inThread([&] { return call(vi, discriminator); });
	VIP_CONN_HANDLE connection = nullptr;
	ASSERT_EQ(VIP_SUCCESS, waitOn(nic, discriminator, kPatience, &connection));
	EXPECT_EQ(VIP_INVALID_STATE, set(vi, writable())) << "connect-pending";
	ASSERT_EQ(VIP_SUCCESS, VipConnectAccept(connection, peer));
	ASSERT_TRUE(called.get());
	EXPECT_EQ(VIP_INVALID_STATE, set(vi, writable())) << "connected";
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(peer));
	ASSERT_TRUE(vi.becomes(VIP_STATE_ERROR));
	EXPECT_EQ(VIP_INVALID_STATE, set(vi, writable())) << "in error";
	expectSame(reliable(), attributesOf(vi));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(vi));
	EXPECT_EQ(VIP_SUCCESS, set(vi, writable())) << "idle again";
	expectSame(writable(), attributesOf(vi));
}

TEST_F(ViAttributes, ChangeThatFailsChangesNothing)
{
	Vi vi(nic, writable()), peer(nic, writable());
	VIP_VI_ATTRIBUTES level = reliable(1000), small = reliable(0),
			  large = reliable(nic.attributes().MaxTransferSize + 1),
			  quality = reliable(1000), wrong = reliable(1000), gone = reliable(1000);
	level.ReliabilityLevel = 3;
	quality.QoS = &quality;
	wrong.Ptag = &wrong;
	gone.Ptag = makeTag(nic);
	ASSERT_EQ(VIP_SUCCESS, VipDestroyPtag(nic, gone.Ptag));
	EXPECT_EQ(VIP_INVALID_RELIABILITY_LEVEL, set(vi, level));
	EXPECT_EQ(VIP_INVALID_MTU, set(vi, small));
	EXPECT_EQ(VIP_INVALID_MTU, set(vi, large));
	EXPECT_EQ(VIP_INVALID_QOS, set(vi, quality));
	EXPECT_EQ(VIP_INVALID_PTAG, set(vi, wrong));
	EXPECT_EQ(VIP_INVALID_PTAG, set(vi, gone));
	expectSame(writable(), attributesOf(vi));
	// The attributes of the VI's connection have not changed, either.
	ASSERT_TRUE(harness::connect(vi, peer));
	VIP_MEM_ATTRIBUTES open = memory(nullptr, VIP_TRUE);
	Pool pool(nic, 2, 64, &open);
	paint(pool.buffer(1), 64, 3);
	VIP_DESCRIPTOR *d = pool.write(1, 64, pool.buffer(0), pool.handle());
	ASSERT_TRUE(harness::send(peer, d, pool.handle()));
	EXPECT_EQ(0U, errorOf(d)) << statusOf(d);
	EXPECT_TRUE(eventually([&] { return painted(pool.buffer(0), 64, 3); }));
}

TEST_F(ViAttributes, RdmaReadNeedsItsSupportAtTheLevel)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		Vi vi(nic);
		VIP_VI_ATTRIBUTES read = ofLevel(level);
		read.EnableRdmaRead = VIP_TRUE;
		bool supported = nic.attributes().RDMAReadSupport & level;
		EXPECT_EQ(supported ? VIP_SUCCESS : VIP_INVALID_RDMAREAD, set(vi, read));
		expectSame(supported ? read : reliable(), attributesOf(vi));
	});
}

TEST_F(ViAttributes, ReceivesPostedBeforeAChangeStayInTheirOrder)
{
	constexpr unsigned count = 40;
	Pool pool(nic, 2 * count, 64);
	Vi vi(nic), peer(nic, reliable(4096));
	VIP_VI_ATTRIBUTES other = writable();
	for (unsigned i = 0; i < count; i++) {
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(vi, pool.message(i, 64), pool.handle()));
		other.EnableRdmaWrite = !other.EnableRdmaWrite;
		if (i % 10 == 5) {
			ASSERT_EQ(VIP_SUCCESS, set(vi, other));
		}
	}
	ASSERT_EQ(VIP_SUCCESS, set(vi, reliable(4096)));
	ASSERT_TRUE(harness::connect(vi, peer));
	for (unsigned i = 0; i < count; i++) {
		VIP_DESCRIPTOR *out = pool.message(count + i, 64);
		setImmediate(out, i);
		paint(pool.buffer(count + i), 64, i);
		ASSERT_EQ(VIP_SUCCESS, VipPostSend(peer, out, pool.handle()));
	}
	for (unsigned i = 0; i < count; i++) {
		ASSERT_EQ(pool.descriptor(i), takeReceive(vi));
		ASSERT_EQ(status(VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE),
			  statusOf(pool.descriptor(i)));
		EXPECT_EQ(i, pool.descriptor(i)->CS.ImmediateData);
		EXPECT_TRUE(painted(pool.buffer(i), 64, i));
	}
}

TEST_F(ViAttributes, ArePartOfTheNextRequest)
{
	Vi client(nic), server(nic, reliable(4096));
	VIP_VI_ATTRIBUTES changed = reliable(4096), told{};
	changed.EnableRdmaWrite = VIP_TRUE;
	ASSERT_EQ(VIP_SUCCESS, set(client, changed));
	std::string discriminator = freshDiscriminator();
	auto requested = inThread([&] { return requestTo(client, discriminator, kPatience); });
	Address local(nic.address(), discriminator), remote(nic);
	VIP_CONN_HANDLE connection = nullptr;
	ASSERT_EQ(VIP_SUCCESS, VipConnectWait(nic, local.get(), kPatience, remote.get(), &told,
					      &connection));
	EXPECT_EQ(changed.ReliabilityLevel, told.ReliabilityLevel);
	EXPECT_EQ(4096U, told.MaxTransferSize);
	EXPECT_TRUE(told.EnableRdmaWrite);
	EXPECT_FALSE(told.EnableRdmaRead);
	EXPECT_EQ(VIP_SUCCESS, VipConnectAccept(connection, server));
	EXPECT_EQ(VIP_SUCCESS, requested.get());
}

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
		ASSERT_TRUE(harness::send(changed, pool.message(1, 64), pool.handle()));
		bool lives = level == VIP_SERVICE_UNRELIABLE;
		EXPECT_EQ(lives ? 0U : VIP_STATUS_REMOTE_DESC_ERROR,
				 errorOf(pool.descriptor(1)));
		EXPECT_TRUE(changed.becomes(lives ? VIP_STATE_CONNECTED : VIP_STATE_ERROR));
	});
}

TEST_F(ViAttributes, AcceptingVisLevelMayBeChangedToFitAPendingRequest)
{
	Pool pool(nic, 2, 64);
	atEach(nic, {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_RECEPTION},
	       [&](VIP_RELIABILITY_LEVEL level) {
		       Vi server(nic), client(nic, ofLevel(level));
		       std::string discriminator = freshDiscriminator();
		       testing::AssertionResult called = testing::AssertionFailure();
		       Thread requester([&] { called = call(client, discriminator); });
		       VIP_CONN_HANDLE connection = nullptr;
		       ASSERT_EQ(VIP_SUCCESS,
				 waitOn(nic, discriminator, kPatience, &connection));
		       EXPECT_EQ(VIP_INVALID_RELIABILITY_LEVEL,
				 VipConnectAccept(connection, server));
		       EXPECT_EQ(VIP_SUCCESS, set(server, ofLevel(level)));
		       EXPECT_EQ(VIP_SUCCESS, VipConnectAccept(connection, server));
		       requester.join();
		       ASSERT_TRUE(called);
		       ASSERT_NO_FATAL_FAILURE(expectMessage(client, server, pool));
	       });
}

TEST_F(ViAttributes, ChangeBetweenConnectionsAgainAndAgain)
{
	VIP_CQ_HANDLE cq = makeCq(nic, 16);
	VIP_MEM_ATTRIBUTES open = memory(nullptr, VIP_TRUE);
	Pool pool(nic, 2, 64, &open);
	{
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
				EXPECT_TRUE(eventually([&] {
					return painted(pool.buffer(0), 64, 100 + round);
				}));
			}
			ASSERT_EQ(VIP_SUCCESS, VipDisconnect(vi));
			ASSERT_EQ(VIP_SUCCESS, VipDisconnect(peer));
		}
	}
	EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
}

TEST_F(ViAttributes, SmallerMaxTransferSizeHolds)
{
	Pool pool(nic, 2, 4096);
	Vi vi(nic), peer(nic, reliable(1000));
	ASSERT_EQ(VIP_SUCCESS, set(vi, reliable(1000)));
	ASSERT_TRUE(harness::connect(vi, peer));
	ASSERT_EQ(VIP_SUCCESS, VipPostRecv(peer, pool.message(0, 4096), pool.handle()));
	ASSERT_TRUE(harness::send(vi, pool.message(1, 1000), pool.handle()));
	EXPECT_EQ(status(VIP_STATUS_OP_SEND), statusOf(pool.descriptor(1)));
	ASSERT_TRUE(harness::send(vi, pool.message(1, 1001), pool.handle()));
	EXPECT_EQ(status(VIP_STATUS_OP_SEND | VIP_STATUS_LENGTH_ERROR),
		  statusOf(pool.descriptor(1)));
}

TEST_F(ViAttributes, NewTagDecidesWhichMemoryMayBeUsed)
{
	makeTag(nic);
	VIP_PROTECTION_HANDLE separate = makeTag(nic);
	VIP_MEM_ATTRIBUTES ofSeparate = memory(separate);
	Pool before(nic, 2, 64), after(nic, 2, 64, &ofSeparate);
	Vi vi(nic), peer(nic, ofTag(separate));
	ASSERT_EQ(VIP_SUCCESS, set(vi, ofTag(separate)));
	ASSERT_TRUE(harness::connect(vi, peer));
	ASSERT_NO_FATAL_FAILURE(expectMessage(vi, peer, after));
	ASSERT_NO_FATAL_FAILURE(expectMessage(peer, vi, after));
	ASSERT_TRUE(harness::send(vi, before.message(1, 64), before.handle()));
	EXPECT_EQ(status(VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR),
		  statusOf(before.descriptor(1)));
}

TEST_F(ViAttributes, NewTagDecidesWhatPeersMayWriteTo)
{
	makeTag(nic);
	VIP_PROTECTION_HANDLE separate = makeTag(nic);
	VIP_MEM_ATTRIBUTES ofSeparate = memory(separate, VIP_TRUE),
			   ofDefault = memory(nullptr, VIP_TRUE);
	Pool pool(nic, 1, 64);
	Region before(nic, 4096, &ofDefault), after(nic, 4096, &ofSeparate);
	VIP_VI_ATTRIBUTES changed = ofTag(separate);
	changed.EnableRdmaWrite = VIP_TRUE;
	Vi target(nic, writable()), initiator(nic);
	ASSERT_EQ(VIP_SUCCESS, set(target, changed));
	ASSERT_TRUE(harness::connect(target, initiator));
	paint(pool.buffer(0), 64, 1);
	VIP_DESCRIPTOR *d = pool.write(0, 64, after.data(), after.handle());
	ASSERT_TRUE(harness::send(initiator, d, pool.handle()));
	EXPECT_EQ(status(VIP_STATUS_OP_RDMA_WRITE), statusOf(d));
	EXPECT_TRUE(eventually([&] { return painted(after.data(), 64, 1); }));
	d = pool.write(0, 64, before.data(), before.handle());
	ASSERT_TRUE(harness::send(initiator, d, pool.handle()));
	EXPECT_EQ(status(VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR), statusOf(d));
	EXPECT_TRUE(untouched(before.data(), 64));
}

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

TEST_F(ViAttributes, ThreadThatWaitsOnTheViGoesOnWaiting)
{
	Pool pool(nic, 2, 64);
	Vi vi(nic), peer(nic, writable());
	ASSERT_EQ(VIP_SUCCESS, VipPostRecv(vi, pool.message(0, 64), pool.handle()));
	std::atomic<VIP_DESCRIPTOR *> got{nullptr};
	Thread waiter([&] { got = takeReceive(vi); });
	letTimePass(50);
	EXPECT_EQ(VIP_SUCCESS, set(vi, writable()));
	EXPECT_EQ(nullptr, got.load());
	ASSERT_TRUE(harness::connect(vi, peer));
	ASSERT_TRUE(harness::send(peer, pool.message(1, 64), pool.handle()));
	waiter.join();
	EXPECT_EQ(pool.descriptor(0), got.load());
	EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(pool.descriptor(0)));
}

TEST_F(ViAttributes, ChangeWhileOtherThreadsPostAndQuery)
{
	constexpr unsigned count = 600, changes = 30;
	Pool pool(nic, count + 1, 16);
	Vi vi(nic), peer(nic);
	std::atomic<bool> stop{false};
	Thread poster([&] {
		for (unsigned i = 0; i < count; i++)
			ASSERT_EQ(VIP_SUCCESS, VipPostRecv(vi, pool.message(i, 16), pool.handle()));
	});
	Thread watcher([&] {
		while (!stop && !HasFailure()) {
			VIP_VI_ATTRIBUTES got = attributesOf(vi);
			EXPECT_EQ(got.EnableRdmaWrite ? 4000U : kTransferSize, got.MaxTransferSize)
				<< "a mixture";
		}
	});
	for (unsigned i = 0; i < changes; i++) {
		VIP_VI_ATTRIBUTES other = reliable(4000);
		other.EnableRdmaWrite = VIP_TRUE;
		EXPECT_EQ(VIP_SUCCESS, set(vi, i % 2 ? reliable() : other));
	}
	poster.join();
	stop = true;
	watcher.join();
	ASSERT_EQ(VIP_SUCCESS, set(vi, reliable()));
	ASSERT_TRUE(harness::connect(vi, peer));
	for (unsigned i = 0; i < count; i++) {
		VIP_DESCRIPTOR *out = pool.message(count, 16);
		setImmediate(out, i);
		ASSERT_TRUE(harness::send(peer, out, pool.handle()));
		ASSERT_EQ(pool.descriptor(i), takeReceive(vi));
		ASSERT_EQ(i, pool.descriptor(i)->CS.ImmediateData);
	}
}

} // namespace
