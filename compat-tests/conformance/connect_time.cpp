// SPDX-License-Identifier: BSD-2-Clause
// The time that connecting takes: no answer, late answers, and the duration of each call.
#include "harness.h"

#include <list>

using namespace harness;

namespace
{

// The least grace time in which a server may begin to wait, in ms.
constexpr int kLateness = 300;
constexpr double kNever = 1e9; // ms

using ConnectTime = NicTest;

// [early: VipConnectRequest] A request without a server gets VIP_NO_MATCH, after a grace time in which a server may
// begin to wait, also if its timeout is infinite.
TEST_F(ConnectTime, NobodyWaitsIsNoMatchAfterAGraceTime)
{
	Vi vi(nic);
	constexpr VIP_ULONG longest = 6000;
	for (VIP_ULONG timeout : {longest, VIP_ULONG{VIP_INFINITE}}) {
		Stopwatch watch;
		EXPECT_EQ(VIP_NO_MATCH, requestTo(vi, freshDiscriminator(), timeout));
		EXPECT_GE(watch.ms(), kLateness) << "no time for a server that is about to wait";
		EXPECT_LE(watch.ms(), longest + kBusy);
		EXPECT_EQ(VIP_STATE_IDLE, vi.state());
	}
}

// [functional: VipConnectRequest] A request to a host without a server gets VIP_NO_MATCH and not a timeout, even if its
// timeout is short.
TEST_F(ConnectTime, NobodyWaitsIsNoMatchAndNotTimeoutAlsoWhenTheTimeoutIsShort)
{
	Vi vi(nic);
	for (VIP_ULONG timeout : {1000UL, 1500UL}) {
		EXPECT_TRUE(takesBetween(0, static_cast<double>(timeout) * 1.2 + 20, [&] {
			Stopwatch watch;
			VIP_RETURN rc = requestTo(vi, freshDiscriminator(), timeout);
			// On a busy machine the answer of the other end may be late.
			return rc == VIP_NO_MATCH ? watch.ms() : kNever;
		})) << "never beyond the timeout";
	}
}

// [early: VipConnectRequest VipPostRecv] A VI whose request failed is idle again. Its receives stay posted, and more
// can be posted.
TEST_F(ConnectTime, ViOfARequestInVainKeepsItsReceivesAndTakesMore)
{
	Pool pool(nic, 3, 64);
	Vi client(nic), server(nic);
	ASSERT_TRUE(pool.postReceive(client, 0, 64));
	ASSERT_EQ(VIP_NO_MATCH, requestTo(client, freshDiscriminator(), kPatience));
	ASSERT_TRUE(pool.postReceive(client, 1, 64));
	expectNone(VIP_NOT_DONE, VipRecvDone, client);
	ASSERT_TRUE(harness::connect(server, client));
	for (unsigned i : {0U, 1U}) {
		ASSERT_TRUE(pool.send(server, 2, 64));
		ASSERT_TRUE(isReceived(client, pool.descriptor(i)));
	}
}

// [early: VipConnectRequest VipConnectWait] A request matches a waiter when all bytes of the discriminator and their
// number are the same.
TEST_F(ConnectTime, WaiterOfAnotherDiscriminatorIsNoMatch)
{
	// Each differs from the waiter's in length or in one byte, also at the ends. None matches
	// the waiter's.
	std::string waited = freshDiscriminator(), changedEnd = waited, changedBegin = waited;
	changedEnd.back() ^= 1;
	changedBegin.front() ^= 1;
	VIP_CONN_HANDLE connection = nullptr;
	auto result = inThread([&] { return waitOn(nic, waited, 10000, &connection); });
	std::list<Thread> requesters; // at once, because each takes the grace time
	for (const std::string &asked : {changedEnd, changedBegin, waited + 'x', waited + '\0',
					 waited.substr(0, waited.size() - 1), std::string()})
		requesters.emplace_back([this, asked] {
			Vi vi(nic);
			EXPECT_EQ(VIP_NO_MATCH, requestTo(vi, asked, kPatience)) << asked;
		});
	requesters.clear();
	EXPECT_EQ(VIP_TIMEOUT, result.get()) << "the waiter got a request that is not for it";
}

// [functional: VipConnectWait] A server without a discriminator gets only requests without a discriminator.
TEST_F(ConnectTime, WaiterWithoutDiscriminatorMatchesOnlyRequestsWithoutOne)
{
	VIP_CONN_HANDLE connection = nullptr;
	auto result = inThread([&] { return waitOn(nic, "", kPatience, &connection); });
	Vi client(nic), server(nic);
	EXPECT_EQ(VIP_NO_MATCH, requestTo(client, freshDiscriminator(), kPatience));
	auto called = inThread([&] { return call(client, ""); });
	EXPECT_EQ(VIP_SUCCESS, result.get());
	EXPECT_EQ(VIP_SUCCESS, VipConnectAccept(connection, server));
	EXPECT_TRUE(called.get());
}

// [functional: VipConnectRequest VipConnectWait] A request finds a server that begins to wait a little later, or that
// is between two waits.
TEST_F(ConnectTime, ServerThatBeginsToWaitAfterTheRequestStartedIsFound)
{
	std::string discriminator = freshDiscriminator();
	for (int late : {kLateness, 50, 50}) {
		Vi server(nic), client(nic);
		auto called = inThread([&] { return call(client, discriminator); });
		letTimePass(late);
		EXPECT_TRUE(serve(server, discriminator));
		EXPECT_TRUE(called.get());
	}
}

// [early: VipConnectRequest VipConnectAccept] A request that is not answered in time times out, and its VI is idle; to
// accept it then is a timeout as well.
TEST_F(ConnectTime, WaiterThatNeverAcceptsIsATimeoutAfterTheAskedTime)
{
	Pool pool(nic, 1, 64);
	Vi client(nic), server(nic);
	ASSERT_TRUE(pool.postReceive(client, 0, 64));
	const auto ask = [&](VIP_ULONG timeout) {
		std::string discriminator = freshDiscriminator();
		VIP_RETURN requested = VIP_NOT_DONE;
		double took = 0;
		Thread requester([&] {
			Stopwatch watch;
			requested = requestTo(client, discriminator, timeout);
			took = watch.ms();
		});
		VIP_CONN_HANDLE connection = nullptr;
		EXPECT_EQ(VIP_SUCCESS, waitOn(nic, discriminator, kPatience, &connection));
		requester.join();
		EXPECT_EQ(VIP_TIMEOUT, requested);
		EXPECT_EQ(VIP_STATE_IDLE, client.state());
		expectNone(VIP_NOT_DONE, VipRecvDone, client); // its receive stays posted
		EXPECT_EQ(VIP_TIMEOUT, VipConnectAccept(connection, server)) << "the requester has given up";
		EXPECT_EQ(VIP_STATE_IDLE, server.state());
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipConnectAccept(connection, server)) << "the handle is used up";
		return took;
	};
	for (VIP_ULONG timeout : {500UL, 2000UL})
		EXPECT_TRUE(tellsAbout(static_cast<double>(timeout), [&] { return ask(timeout); }));
	EXPECT_TRUE(harness::connect(server, client)) << "both can be connected afterwards";
}

// [functional: VipConnectReject] A request can be rejected although the requester has given up.
TEST_F(ConnectTime, RejectOfARequesterThatHasGivenUpSucceeds)
{
	Vi client(nic);
	PendingRequest request(client, 500);
	EXPECT_EQ(VIP_TIMEOUT, request.requested.get());
	EXPECT_EQ(VIP_SUCCESS, VipConnectReject(request.handle));
}

// [functional: VipConnectRequest] A host that does not exist is not reachable, or does not answer in time.
TEST_F(ConnectTime, HostThatIsNotThereIsNotReachableOrDoesNotAnswer)
{
	// The address is of a network for documentation. A NIC may know at once that no route leads
	// to it. The loopback NIC knows this at once.
	std::string nobody = hostAddress(nic, {"\xC0\0\2\1", 4});
	Vi vi(nic);
	constexpr VIP_ULONG timeout = 3000;
	EXPECT_TRUE(takesBetween(0, timeout + 5000, [&] {
		Stopwatch watch;
		VIP_RETURN result = requestTo(vi, freshDiscriminator(), timeout, nobody);
		EXPECT_TRUE(result == VIP_NOT_REACHABLE || (result == VIP_TIMEOUT && !nic.isLoopback()))
			<< testing::PrintToString(result);
		return watch.ms();
	}));
	EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}

// [early: VipConnectWait] A wait for a request ends with a timeout when the asked time is over, not before and not much
// later. It does not block if that is zero.
TEST_F(ConnectTime, WaitTimesOutAfterTheAskedTime)
{
	for (VIP_ULONG timeout : {0UL, 200UL, 1000UL}) {
		VIP_CONN_HANDLE connection;
		EXPECT_TRUE(takesAbout(static_cast<double>(timeout), [&] {
			EXPECT_EQ(VIP_TIMEOUT, waitOn(nic, freshDiscriminator(), timeout, &connection));
		}));
	}
}

// [functional: VipConnectRequest] A request needs time.
TEST_F(ConnectTime, RequestWithTimeoutZeroIsInvalid)
{
	Vi vi(nic);
	EXPECT_EQ(VIP_INVALID_PARAMETER, requestTo(vi, freshDiscriminator(), 0));
	EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}

// [functional: VipConnectWait VipConnectRequest] An infinite timeout, of 32 bits or of a whole VIP_ULONG, never ends.
TEST_F(ConnectTime, BothFormsOfInfiniteWaitUntilTheOtherSideComes)
{
	for (VIP_ULONG forever : {VIP_ULONG{0xFFFFFFFF}, ~VIP_ULONG{0}}) {
		Vi server(nic), client(nic);
		std::string discriminator = freshDiscriminator();
		auto requested = inThread([&] {
			letTimePass(100); // a wait that returns at once has returned
			return requestTo(client, discriminator, forever);
		});
		VIP_CONN_HANDLE connection = nullptr;
		VIP_RETURN waited = waitOn(nic, discriminator, forever, &connection);
		EXPECT_EQ(VIP_SUCCESS, waited);
		letTimePass(100); // the requester waits for an answer meanwhile
		if (waited == VIP_SUCCESS) {
			EXPECT_EQ(VIP_STATE_CONNECT_PENDING, client.state());
			EXPECT_EQ(VIP_SUCCESS, VipConnectAccept(connection, server));
		}
		EXPECT_EQ(VIP_SUCCESS, requested.get());
	}
}

// [functional: VipConnectRequest] A request that is repeated until a server waits leads to a connection.
TEST_F(ConnectTime, RetryingOnNoMatchFindsTheServerWhenItComes)
{
	Vi server(nic), client(nic);
	std::string discriminator = freshDiscriminator();
	VIP_RETURN requested = VIP_NOT_DONE;
	int tries = 0;
	Thread requester([&] {
		Stopwatch watch;
		// A try ends with a timeout if the waiter took it just before its end.
		do
			requested = requestTo(client, discriminator, 200);
		while ((requested == VIP_NO_MATCH || requested == VIP_TIMEOUT) && ++tries &&
		       watch.ms() < double{kPatience});
	});
	letTimePass(kLateness);
	VIP_CONN_HANDLE connection = nullptr;
	// A try may end just between the wait and the accept. Then the server waits for the next
	// one.
	VIP_RETURN accepted = VIP_TIMEOUT;
	for (Stopwatch watch; accepted == VIP_TIMEOUT && watch.ms() < double{kPatience};) {
		if (waitOn(nic, discriminator, 1000, &connection) != VIP_SUCCESS)
			continue;
		accepted = VipConnectAccept(connection, server);
	}
	EXPECT_EQ(VIP_SUCCESS, accepted);
	requester.join();
	EXPECT_EQ(VIP_SUCCESS, requested);
	EXPECT_GT(tries, 0);
}

// [functional: VipConnectRequest] A request to a server whose process has exited gets VIP_NO_MATCH.
TEST_F(ConnectTime, ProcessThatExitedWhileItWaitedIsNoMatch)
{
	std::string discriminator = freshDiscriminator();
	Peer peer("waiterForEver");
	peer.channel.put(discriminator);
	peer.channel.expect("waiting");
	peer.kill();
	Vi vi(nic);
	EXPECT_EQ(VIP_NO_MATCH, requestTo(vi, discriminator, kPatience, peer.channel.host()));
}

VIP_PEER(waiterForEver)
{
	Nic nic;
	std::string discriminator = test.get();
	VIP_CONN_HANDLE connection;
	EXPECT_EQ(VIP_TIMEOUT, waitOn(nic, discriminator, 50, &connection)); // the first wait may set up things
	test.put("waiting");
	waitOn(nic, discriminator, VIP_INFINITE, &connection);
}

} // namespace
