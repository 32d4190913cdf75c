// SPDX-License-Identifier: BSD-2-Clause
// Habits of ending connections and cleaning up, or of not doing so.
#include "harness.h"

#include <cstring>

using namespace harness;

namespace
{

using Ending = NicTest;

// Is connected until the test tells how to leave. It releases nothing, unless it is to do so.
VIP_PEER(leaves)
{
	static auto *nic = new Nic;
	static auto *vi = new Vi(*nic);
	ASSERT_TRUE(test.serve(*vi));
	test.put("connected");
	const std::string how = test.get();
	if (how == "disconnect") {
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(*vi));
	} else if (how == "close") {
		EXPECT_EQ(VIP_SUCCESS, nic->close());
	}
}

// Notices the end of the connection only by the VI's state, as some programs do.
testing::AssertionResult leavesConnected(const Vi &vi)
{
	Stopwatch watch;
	while (vi.state() == VIP_STATE_CONNECTED)
		if (watch.ms() > double{kPatience})
			return testing::AssertionFailure() << "connected for ever";
	return testing::AssertionSuccess();
}

TEST_F(Ending, OfTheOtherProcessIsSeenByQueryViAloneHoweverItLeaves)
{
	for (const char *how : {"disconnect", "close", "exit", "kill"}) {
		SCOPED_TRACE(how);
		Peer peer("leaves");
		Vi vi(nic); // no descriptor is posted
		ASSERT_TRUE(peer.call(vi));
		peer.channel.expect("connected");
		if (!strcmp(how, "kill"))
			peer.kill();
		else
			peer.channel.put(how);
		EXPECT_TRUE(leavesConnected(vi));
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(vi));
		if (strcmp(how, "kill"))
			peer.finish();
	}
}

// The two loops by which programs empty a queue. Each returns the number of descriptors.
using Done = VIP_RETURN (*)(VIP_VI_HANDLE, VIP_DESCRIPTOR **);
constexpr unsigned kTooMany = 1000;

unsigned untilThereIsNone(VIP_VI_HANDLE vi, Done done)
{
	unsigned count = 0;
	VIP_DESCRIPTOR *d;
	do {
		d = nullptr;
		done(vi, &d);
		count += d != nullptr;
	} while (d && count < kTooMany);
	return count;
}

unsigned whileDoneOrFlushed(VIP_VI_HANDLE vi, Done done)
{
	unsigned count = 0;
	VIP_DESCRIPTOR *d = nullptr;
	VIP_RETURN result;
	while ((result = done(vi, &d)) == VIP_SUCCESS || (result == VIP_DESCRIPTOR_ERROR && d))
		if (++count >= kTooMany)
			break;
	return count;
}

TEST_F(Ending, LoopsOfBothFormsEmptyTheQueuesAfterDisconnect)
{
	constexpr unsigned receives = 8, sends = 3;
	for (auto drain : {untilThereIsNone, whileDoneOrFlushed})
		for (bool peerFirst : {false, true}) {
			Pool pool(nic, receives + sends, 64);
			Pair pair(nic);
			ASSERT_TRUE(pool.postReceives(pair.a, receives, 64));
			for (unsigned i = 0; i < 2; i++)
				ASSERT_TRUE(pool.send(pair.b, receives, 64));
			if (peerFirst) {
				ASSERT_EQ(VIP_SUCCESS, VipDisconnect(pair.b));
				ASSERT_TRUE(leavesConnected(pair.a));
			}
			for (unsigned i = receives; i < receives + sends; i++)
				ASSERT_EQ(VIP_SUCCESS, // none of them finds a receive
					  VipPostSend(pair.a, pool.message(i, 64), pool.handle()));
			ASSERT_EQ(VIP_SUCCESS, VipDisconnect(pair.a));
			EXPECT_EQ(receives, drain(pair.a, VipRecvDone));
			EXPECT_EQ(sends, drain(pair.a, VipSendDone));
			EXPECT_EQ(0U, drain(pair.a, VipRecvDone)) << "of an empty queue";
			EXPECT_EQ(0U, drain(pair.a, VipSendDone));
		}
}

TEST_F(Ending, ViThenCqThenMemoryWithReceivesLeftWhoeverDisconnectsFirst)
{
	constexpr unsigned receives = 8;
	for (unsigned disconnects : {1U, 2U})
		for (bool peerFirst : {false, true}) {
			SCOPED_TRACE(testing::Message() << disconnects << ", " << peerFirst);
			Pool pool(nic, 2, 64), left(nic, receives, 64);
			Cq cq(nic, 1);
			Vi peer(nic), vi(nic, reliable(), cq, cq);
			ASSERT_TRUE(left.postReceives(vi, receives, 64));
			ASSERT_TRUE(harness::connect(peer, vi));
			paint(pool.buffer(0), 64, 1);
			// The program never takes one of the messages.
			ASSERT_TRUE(pool.send(peer, 0, 64));
			if (peerFirst) {
				ASSERT_EQ(VIP_SUCCESS, VipDisconnect(peer));
			}
			for (unsigned i = 0; i < disconnects; i++)
				EXPECT_EQ(VIP_SUCCESS, VipDisconnect(vi));
			EXPECT_EQ(VIP_SUCCESS, VipDestroyVi(vi));
			EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
			EXPECT_EQ(VIP_SUCCESS, left.deregister());
			// The program uses the memory again. A later write into it would be noticed.
			memset(left.data(), 0, left.size());
			paint(pool.buffer(1), 64, 2);
			// It may be sent before the peer learns of the end.
			ASSERT_TRUE(pool.send(peer, 1, 64));
			EXPECT_TRUE(untouched(left.data(), left.size()));
		}
}

// When it returns from main(), all objects are open and in use, and threads and handlers wait.
VIP_PEER(returnsFromMain)
{
	static auto *nic = new Nic;
	static auto *pool = new Pool(*nic, 4, 64);
	static auto *pair = new Pair(*nic), *notified = new Pair(*nic);
	static VIP_CQ_HANDLE cq;
	ASSERT_EQ(VIP_SUCCESS, VipCreateCQ(*nic, 1, &cq));
	static auto *onCq = new Vi(*nic, reliable(), cq, cq), *asking = new Vi(*nic);
	for (VIP_VI_HANDLE vi : {VIP_VI_HANDLE{pair->a}, VIP_VI_HANDLE{*onCq}}) {
		static unsigned slot;
		ASSERT_TRUE(pool->postReceive(vi, slot++, 64));
	}
	ASSERT_EQ(VIP_SUCCESS,
		  VipRecvNotify(notified->b, nullptr,
				[](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {}));
	std::thread([] {
		VIP_DESCRIPTOR *d;
		VipRecvWait(pair->a, VIP_INFINITE, &d);
	}).detach();
	std::thread([] {
		VIP_VI_HANDLE vi;
		VIP_BOOLEAN receive;
		VipCQWait(cq, VIP_INFINITE, &vi, &receive);
	}).detach();
	static const std::string name = freshDiscriminator();
	std::thread([] {
		VIP_CONN_HANDLE connection;
		waitOn(*nic, name, VIP_INFINITE, &connection);
	}).detach();
	std::thread([] { requestTo(*asking, name, VIP_INFINITE); }).detach();
	EXPECT_TRUE(asking->becomes(VIP_STATE_CONNECT_PENDING));
}

TEST_F(Ending, ProgramMayReturnFromMainWhileEverythingWaits)
{
	Peer peer("returnsFromMain");
	peer.finish();
}

} // namespace
