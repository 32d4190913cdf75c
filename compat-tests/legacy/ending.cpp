// SPDX-License-Identifier: BSD-2-Clause
// Habits of ending connections and cleaning up, or of not doing so.
#include "leaving.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

using namespace harness;

namespace
{

using Ending = NicTest;

// Releases nothing, unless the test orders it.
VIP_PEER(leaves)
{
	static auto *nic = new Nic;
	static auto *vis = new std::vector<std::unique_ptr<Vi>>;
	std::string how;
	while ((how = test.get()) == "connect") {
		vis->push_back(std::make_unique<Vi>(*nic));
		ASSERT_TRUE(test.serve(*vis->back()));
		test.put("connected");
	}
	if (how == "disconnect") {
		for (auto &vi : *vis)
			EXPECT_EQ(VIP_SUCCESS, VipDisconnect(*vi));
	}
	if (how == "close") {
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
		Leaving peer;
		Vi vi(nic); // no descriptor is posted
		ASSERT_TRUE(peer.connect(vi));
		if (!strcmp(how, "kill"))
			peer.kill();
		else
			peer.tell(how);
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

// One side, by plain calls, with memory that the program uses again afterwards.
struct Side {
	static constexpr size_t kBytes = 8192;
	static constexpr unsigned kReceives = 8;
	explicit Side(Nic &of)
	    : nic(of), data(static_cast<VIP_UCHAR *>(aligned_alloc(4096, kBytes)))
	{
		memset(data, 0, kBytes);
		EXPECT_EQ(VIP_SUCCESS, VipRegisterMem(nic, data, kBytes, nullptr, &handle));
		cq = makeCq(nic, 1);
		vi = makeVi(nic, cq);
		for (unsigned i = 0; i < kReceives; i++) {
			auto *d = reinterpret_cast<VIP_DESCRIPTOR *>(data + i * 64);
			d->CS.SegCount = 1;
			setSegment(d, 0, data + 4096 + i * 64, 64, handle);
			EXPECT_EQ(VIP_SUCCESS, VipPostRecv(vi, d, handle));
		}
	}
	~Side()
	{
		free(data);
	}
	void cleanUp(unsigned disconnects)
	{
		for (unsigned i = 0; i < disconnects; i++)
			EXPECT_EQ(VIP_SUCCESS, VipDisconnect(vi));
		EXPECT_EQ(VIP_SUCCESS, VipDestroyVi(vi));
		EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
		EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, data, handle));
		memset(data, 0, kBytes); // a later write into it would be noticed
	}
	Nic &nic;
	VIP_UCHAR *data;
	VIP_MEM_HANDLE handle = 0;
	VIP_CQ_HANDLE cq = nullptr;
	VIP_VI_HANDLE vi = nullptr;
};

TEST_F(Ending, ViThenCqThenMemoryWithReceivesLeftWhoeverDisconnectsFirst)
{
	for (unsigned disconnects : {1U, 2U})
		for (bool peerFirst : {false, true}) {
			SCOPED_TRACE(testing::Message() << disconnects << ", " << peerFirst);
			Pool pool(nic, 2, 64);
			Vi peer(nic);
			Side side(nic);
			std::string name = freshDiscriminator();
			Thread server([&] { EXPECT_TRUE(serve(peer, name)); });
			Address local(nic.address(), name), remote(nic.address(), name);
			VIP_VI_ATTRIBUTES attributes;
			ASSERT_EQ(VIP_SUCCESS, VipConnectRequest(side.vi, local.get(), remote.get(),
								 kPatience, &attributes));
			server.join();
			paint(pool.buffer(0), 64, 1);
			// The program never takes one of the messages.
			ASSERT_TRUE(pool.send(peer, 0, 64));
			if (peerFirst) {
				ASSERT_EQ(VIP_SUCCESS, VipDisconnect(peer));
			}
			side.cleanUp(disconnects);
			paint(pool.buffer(1), 64, 2);
			// It may be sent before the peer learns of the end.
			ASSERT_TRUE(pool.send(peer, 1, 64));
			EXPECT_TRUE(untouched(side.data, Side::kBytes));
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
