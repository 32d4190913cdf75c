// SPDX-License-Identifier: BSD-2-Clause
// Habits of ending connections and programs, and of cleaning up, or of not doing so.
#include "harness.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unistd.h>

using namespace harness;

namespace
{

using Ending = NicTest;

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
	for (const std::string how : {"disconnect", "close", "exit", "kill"}) {
		SCOPED_TRACE(how);
		Peer peer("leaves");
		Vi vi(nic); // no descriptor is posted
		ASSERT_TRUE(peer.call(vi));
		peer.channel.expect("connected");
		if (how == "kill")
			peer.kill();
		else
			peer.channel.put(how);
		EXPECT_TRUE(leavesConnected(vi));
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(vi));
		if (how == "disconnect" || how == "close")
			peer.channel.put("exit");
		if (how != "kill")
			peer.finish();
	}
}

// The two loops by which programs empty a queue. Each returns the number of descriptors.
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

// ---- programs whose handler of asynchronous errors ends them, or takes every call for a catastrophe ----

using ErrorHandler = NicTest;

// Connects with the test, and with itself. The end of the latter connection calls the handler.
VIP_PEER(endsInItsErrorHandler)
{
	static auto *nic = new Nic;
	static auto *own = new Pair(*nic);
	static auto *vi = new Vi(*nic);
	std::string how = test.get();
	ASSERT_TRUE(test.serve(*vi));
	test.expect("end");
	for (int number : {SIGABRT, SIGSEGV})
		std::signal(number, [](int) { _exit(0); }); // the test expects this signal
	auto abortion = [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) { abort(); };
	auto fault = [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) { raise(SIGSEGV); };
	auto end = [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) { exit(0); };
	VIP_ERROR_HANDLER handler = end;
	if (how == "abort")
		handler = abortion;
	else if (how == "fault")
		handler = fault;
	VipErrorCallback(*nic, nullptr, handler);
	VipDisconnect(own->a);
	VIP_DESCRIPTOR *d;
	VipSendWait(own->b, kPatience, &d);
	ADD_FAILURE() << "it goes on";
}

TEST_F(ErrorHandler, MayEndTheProcessByExitAbortOrFaultAndItsPeersAreTold)
{
	for (const char *how : {"exit", "abort", "fault"}) {
		SCOPED_TRACE(how);
		Peer peer("endsInItsErrorHandler");
		peer.channel.put(how);
		Vi vi(nic);
		ASSERT_TRUE(peer.call(vi));
		peer.channel.put("end");
		EXPECT_TRUE(nic.errors.reaches(vi, 1));
		EXPECT_EQ(1U, nic.errors.count(vi, VIP_ERROR_CONN_LOST));
		peer.finish();
	}
}

// Does things that are not errors of the NIC: failed attempts, waits that time out, and an ordinary
// connection.
void doWhatFailsInOrder(Nic &nic)
{
	Pool pool(nic, 3, 64);
	Vi client(nic), server(nic);
	VIP_DESCRIPTOR *d;
	EXPECT_EQ(VIP_NO_MATCH, requestTo(client, freshDiscriminator(), kPatience)); // after the grace time
	std::string name = freshDiscriminator();
	VIP_CONN_HANDLE connection = nullptr;
	EXPECT_EQ(VIP_TIMEOUT, waitOn(nic, name, 1, &connection));
	Thread refused([&] { EXPECT_EQ(VIP_REJECT, requestTo(client, name, kPatience)); });
	EXPECT_EQ(VIP_SUCCESS, waitOn(nic, name, kPatience, &connection));
	EXPECT_EQ(VIP_SUCCESS, VipConnectReject(connection));
	refused.join();
	EXPECT_TRUE(pool.postSend(client, 0, 64));
	EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipSendDone(client, &d)) << "flushed";
	EXPECT_TRUE(pool.postReceive(server, 1, 64));
	EXPECT_EQ(VIP_TIMEOUT, VipRecvWait(server, 1, &d));
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(server));
}

TEST_F(ErrorHandler, IsNotCalledInAProgramThatEndsInOrder)
{
	Peer first("leaves"), second("leaves");
	Nic own;
	std::atomic<int> calls{0};
	ASSERT_EQ(VIP_SUCCESS, VipErrorCallback(own, &calls, [](VIP_PVOID context, VIP_ERROR_DESCRIPTOR *) {
			  ++*static_cast<std::atomic<int> *>(context);
		  }));
	doWhatFailsInOrder(own);
	{
		Vi ended(own), left(own);
		ASSERT_TRUE(first.call(ended));
		ASSERT_TRUE(second.call(left));
		first.channel.expect("connected");
		second.channel.expect("connected");
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(ended));
		first.channel.put("disconnect");
		first.channel.put("exit");
		first.finish();
		EXPECT_EQ(VIP_STATE_IDLE, ended.state());
		EXPECT_EQ(VIP_SUCCESS, VipDestroyVi(ended));
		EXPECT_EQ(0, calls) << "before its end";
		EXPECT_EQ(VIP_SUCCESS, own.close()); // also ends the other connection
	}
	second.channel.put("exit");
	second.finish();
	EXPECT_EQ(0, calls);
}

// A handler whose first call waits until the test lets it go on.
struct Busy {
	static void handle(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
	{
		auto *self = static_cast<Busy *>(context);
		self->errors.handler(&self->errors, error);
		std::lock_guard<std::mutex> wait(self->mayGoOn);
	}
	Errors errors;
	std::mutex mayGoOn;
};

TEST_F(ErrorHandler, IsNotCalledForAViOnceItIsDisconnectedThoughThePeerWentBefore)
{
	Busy busy; // in use until the NIC is closed
	Nic own;
	Pool pool(own, 1, 64);
	auto *odd = reinterpret_cast<VIP_DESCRIPTOR *>(pool.data() + 32);
	ASSERT_EQ(VIP_SUCCESS, VipErrorCallback(own, &busy, Busy::handle));
	Pair pair(own);
	Vi first(own), last(own);
	std::unique_lock<std::mutex> hold(busy.mayGoOn);
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipPostSend(first, odd, pool.handle()));
	EXPECT_TRUE(busy.errors.reaches(first, 1)); // the handler is in that call
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(pair.b));
	EXPECT_TRUE(pair.a.becomes(VIP_STATE_ERROR));
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(pair.a));
	hold.unlock();
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipPostSend(last, odd, pool.handle()));
	EXPECT_TRUE(busy.errors.reaches(last, 1)); // errors come in their order
	EXPECT_EQ(0U, busy.errors.count(pair.a));
	EXPECT_EQ(0U, busy.errors.count(pair.b));
}

} // namespace
