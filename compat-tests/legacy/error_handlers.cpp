// SPDX-License-Identifier: BSD-2-Clause
// Programs whose handler of asynchronous errors ends them, or takes every call for a catastrophe.
#include "harness.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <unistd.h>

using namespace harness;

namespace
{

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

// Counts the handler's calls.
struct Calls {
	explicit Calls(Nic &nic)
	{
		EXPECT_EQ(VIP_SUCCESS, VipErrorCallback(nic, this, count));
	}
	static void count(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *)
	{
		static_cast<Calls *>(context)->seen++;
	}
	std::atomic<int> seen{0};
};

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
	Calls calls(own);
	doWhatFailsInOrder(own);
	{
		Vi ended(own), left(own);
		ASSERT_TRUE(first.call(ended));
		ASSERT_TRUE(second.call(left));
		first.channel.expect("connected");
		second.channel.expect("connected");
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(ended));
		first.channel.put("disconnect");
		first.finish();
		EXPECT_EQ(VIP_STATE_IDLE, ended.state());
		EXPECT_EQ(VIP_SUCCESS, VipDestroyVi(ended));
		EXPECT_EQ(0, calls.seen) << "before its end";
		EXPECT_EQ(VIP_SUCCESS, own.close()); // also ends the other connection
	}
	second.channel.put("exit");
	second.finish();
	EXPECT_EQ(0, calls.seen);
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
