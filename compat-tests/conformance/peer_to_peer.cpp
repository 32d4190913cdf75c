// SPDX-License-Identifier: BSD-2-Clause
// Connections between equals: each end requests the other one (peer-to-peer). An end that requests another peer is not
// connected.
#include "peer_to_peer.h"

#include <memory>

using namespace peer_to_peer;

namespace
{

using PeerToPeer = EqualsTest;

// ---- connecting ----

// [functional: VipConnectPeerRequest VipConnectPeerWait] A peer-to-peer request does not block: one thread can make
// both, by one handle of the NIC or by two, and then wait for both outcomes. Peers can be connected at every
// reliability level that the NIC has.
TEST_F(PeerToPeer, OneThreadConnectsTwoVisOfAnyLevel)
{
	Nic second;
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		for (Nic *others : {&nic, &second})
			eitherWay([&](const std::string &own, const std::string &other) {
				Vi one(nic, ofLevel(level)), two(*others, ofLevel(level));
				ASSERT_EQ(VIP_SUCCESS, ask(one, own, other));
				ASSERT_NO_FATAL_FAILURE(expectMeeting(one, own, two, other));
				EXPECT_EQ(VIP_STATE_CONNECTED, one.state());
				EXPECT_EQ(VIP_STATE_CONNECTED, two.state());
				expectTalk(one, two, level);
			});
	});
}

// [functional: VipConnectPeerRequest VipConnectPeerDone VipQueryVi] A VI whose equal has not asked yet is
// connect-pending, and VipConnectPeerDone says so without blocking; afterwards it returns the outcome.
TEST_F(PeerToPeer, DoneTellsNotDoneUntilTheOtherAsksAndThenTheOutcome)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi one(nic), two(nic);
		ASSERT_EQ(VIP_SUCCESS, ask(one, own, other));
		EXPECT_EQ(VIP_STATE_CONNECT_PENDING, one.state());
		letTimePass(50);
		EXPECT_EQ(VIP_NOT_DONE, outcomeSoFar(one));
		EXPECT_EQ(VIP_STATE_CONNECT_PENDING, one.state());
		ASSERT_EQ(VIP_SUCCESS, ask(two, other, own));
		// No pause comes before it, as in programs.
		for (Vi *vi : {&one, &two}) {
			VIP_RETURN result;
			Stopwatch watch;
			while ((result = outcomeSoFar(*vi)) == VIP_NOT_DONE && watch.ms() < double{kPatience}) {
			}
			EXPECT_EQ(VIP_SUCCESS, result);
			EXPECT_EQ(VIP_STATE_CONNECTED, vi->state());
		}
		expectTalk(one, two);
	});
}

// Requests with the timeout that the test sends, and tells the outcome.
VIP_PEER(equal)
{
	Nic nic;
	std::string own = test.get(), other = test.get();
	Pool pool(nic, 1, 64);
	Vi vi(nic);
	test.put("ready");
	VIP_ULONG timeout = test.getNumber();
	ASSERT_EQ(VIP_SUCCESS, ask(vi, own, other, timeout, test.host()));
	test.put("asked");
	VIP_RETURN result = outcome(vi);
	if (result == VIP_SUCCESS) {
		auto last = static_cast<VIP_UINT32>(own.back());
		ASSERT_TRUE(isSent(vi, setImmediate(pool.empty(0), last), pool.handle()));
	}
	test.put(result);
	test.expect("received");
}

// [functional: VipConnectPeerRequest VipConnectPeerWait] Of two processes either may ask first.
TEST_F(PeerToPeer, ProcessesConnectInEitherOrderOfTheirCalls)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		for (bool first : {false, true}) {
			SCOPED_TRACE(first ? "it asks first" : "it asks last");
			Equal peer(other, own);
			Vi vi(nic);
			VIP_DESCRIPTOR *receive = postReceive(vi);
			const std::string &host = peer.channel.host();
			auto askNow = [&] { ASSERT_EQ(VIP_SUCCESS, ask(vi, own, other, kPatience, host)); };
			if (first)
				askNow();
			letTimePass(first ? 100 : 0); // the first end looks in vain for some time
			peer.ask();
			letTimePass(first ? 0 : 100);
			if (!first)
				askNow();
			ASSERT_EQ(VIP_SUCCESS, outcome(vi));
			ASSERT_EQ(receive, takeReceive(vi));
			EXPECT_EQ(static_cast<VIP_UINT32>(other.back()), receive->CS.ImmediateData);
			EXPECT_EQ(VIP_SUCCESS, peer.outcome());
			peer.end();
		}
	});
}

constexpr unsigned kMany = 12;

// Returns one of many names. In every second pair the name here is the lesser one.
std::string nameOf(const std::string &base, unsigned pair, bool here)
{
	return base + "." + std::to_string(pair) + ((pair % 2 == 0) == here ? "a" : "b");
}

// Requests all connections, the last ones first, and sends each number over its connection.
VIP_PEER(manyEquals)
{
	Nic nic;
	std::string base = test.get();
	Pool pool(nic, kMany, 64);
	std::vector<std::unique_ptr<Vi>> vis;
	for (unsigned i = 0; i < kMany; i++)
		vis.push_back(std::make_unique<Vi>(nic));
	for (unsigned i = kMany; i--;)
		ASSERT_EQ(VIP_SUCCESS,
			  ask(*vis[i], nameOf(base, i, false), nameOf(base, i, true), kPatience, test.host()));
	for (unsigned i = 0; i < kMany; i++) {
		ASSERT_EQ(VIP_SUCCESS, outcome(*vis[i])) << i;
		ASSERT_TRUE(isSent(*vis[i], setImmediate(pool.empty(i), i), pool.handle()));
	}
	test.expect("received");
}

// [functional: VipConnectPeerRequest VipConnectPeerWait] Many connections can be asked for at the same time; each end
// is connected with its own equal.
TEST_F(PeerToPeer, ManyConnectionsBetweenTwoProcessesAtOnce)
{
	Peer peer("manyEquals");
	std::string base = freshDiscriminator();
	Pool receives(nic, kMany, 64);
	std::vector<std::unique_ptr<Vi>> vis;
	peer.channel.put(base);
	for (unsigned i = 0; i < kMany; i++) {
		vis.push_back(std::make_unique<Vi>(nic));
		ASSERT_TRUE(receives.postReceive(*vis[i], i, 64));
		ASSERT_EQ(VIP_SUCCESS,
			  ask(*vis[i], nameOf(base, i, true), nameOf(base, i, false), kPatience, peer.channel.host()));
	}
	for (unsigned i = 0; i < kMany; i++) {
		ASSERT_EQ(VIP_SUCCESS, outcome(*vis[i])) << i;
		ASSERT_EQ(receives.descriptor(i), takeReceive(*vis[i]));
		EXPECT_EQ(i, receives.descriptor(i)->CS.ImmediateData) << "connected with the wrong VI";
	}
	peer.channel.put("received");
	peer.finish();
}

// [functional: VipConnectPeerRequest VipConnectPeerWait] Several VIs may ask under the same discriminator, each for
// another equal.
TEST_F(PeerToPeer, OneNameHasAConnectionWithEachOfSeveral)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Nic second; // a second handle, as another process of this host would have
		Vi one(nic), two(nic), toOne(nic), toTwo(second);
		ASSERT_EQ(VIP_SUCCESS, ask(toOne, own, other + "1"));
		ASSERT_EQ(VIP_SUCCESS, ask(toTwo, own, other + "2"));
		ASSERT_EQ(VIP_SUCCESS, ask(two, other + "2", own));
		ASSERT_EQ(VIP_SUCCESS, ask(one, other + "1", own));
		for (Vi *vi : {&one, &two, &toOne, &toTwo})
			ASSERT_EQ(VIP_SUCCESS, outcome(*vi));
		expectTalk(one, toOne);
		expectTalk(two, toTwo, 2);
	});
}

// [functional: VipConnectPeerRequest] Peers' discriminators are any bytes, also none, and are compared as a whole.
TEST_F(PeerToPeer, NamesOfEveryLength)
{
	std::string id = freshDiscriminator() + std::string("\0\xFF\x80\x7F", 4);
	size_t most = nic.attributes().MaxDiscriminatorLen;
	id.resize(most, 'x');
	for (size_t length : {size_t{0}, size_t{1}, most - 1}) {
		SCOPED_TRACE(length);
		Vi one(nic), two(nic);
		// One name is the beginning of the other.
		ASSERT_EQ(VIP_SUCCESS, ask(one, id.substr(0, length), id));
		ASSERT_NO_FATAL_FAILURE(expectMeeting(one, id.substr(0, length), two, id));
	}
}

// [functional: VipConnectPeerWait] Each end gets the VI attributes of the other end.
TEST_F(PeerToPeer, BothAreToldTheOthersAttributes)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi one(nic, writable(reliable(12345))), two(nic, reliable(12345));
		ASSERT_EQ(VIP_SUCCESS, ask(one, own, other));
		ASSERT_EQ(VIP_SUCCESS, ask(two, other, own));
		for (Vi *vi : {&one, &two}) {
			VIP_VI_ATTRIBUTES told{};
			ASSERT_EQ(VIP_SUCCESS, VipConnectPeerWait(*vi, &told));
			EXPECT_EQ(VIP_SERVICE_RELIABLE_DELIVERY, told.ReliabilityLevel);
			EXPECT_EQ(12345U, told.MaxTransferSize);
			EXPECT_EQ(vi == &one ? VIP_FALSE : VIP_TRUE, told.EnableRdmaWrite);
		}
	});
}

// [functional: VipConnectPeerRequest] The local host is the NIC's, whatever its address says.
TEST_F(PeerToPeer, GarbageInTheLocalHostAddressIsIgnored)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		std::string low(nic.attributes().NicAddressLen, '\0'), high(nic.attributes().NicAddressLen, '\xEE');
		Vi one(nic), two(nic);
		Address ownHere(low, own), otherThere(nic.address(), other);
		ASSERT_EQ(VIP_SUCCESS, VipConnectPeerRequest(one, ownHere.get(), otherThere.get(), kPatience));
		Address otherHere(high, other), ownThere(nic.address(), own);
		ASSERT_EQ(VIP_SUCCESS, VipConnectPeerRequest(two, otherHere.get(), ownThere.get(), kPatience));
		EXPECT_EQ(VIP_SUCCESS, outcome(one));
		EXPECT_EQ(VIP_SUCCESS, outcome(two));
	});
}

// [functional: VipConnectPeerRequest] A peer can be asked for at any address that the NIC's host has in the NIC's
// network.
TEST_F(PeerToPeer, EveryAddressOfTheNicsHostLeadsToIt)
{
	for (const std::string &host : nic.addresses()) {
		SCOPED_TRACE(testing::PrintToString(host));
		Names names;
		Vi one(nic), two(nic);
		ASSERT_EQ(VIP_SUCCESS, ask(one, names.own, names.other, kPatience, host));
		ASSERT_EQ(VIP_SUCCESS, ask(two, names.other, names.own, kPatience, host));
		EXPECT_EQ(VIP_SUCCESS, outcome(one));
		EXPECT_EQ(VIP_SUCCESS, outcome(two));
	}
}

// [functional: VipConnectPeerRequest VipPostRecv] Receives posted before and during the request take the first messages
// in their order.
TEST_F(PeerToPeer, ReceivesPostedWhilePendingAreUsedInOrder)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi one(nic), two(nic);
		VIP_DESCRIPTOR *before = postReceive(one, 0);
		ASSERT_EQ(VIP_SUCCESS, ask(one, own, other));
		VIP_DESCRIPTOR *meanwhile = postReceive(one, 1);
		ASSERT_EQ(VIP_SUCCESS, ask(two, other, own));
		ASSERT_EQ(VIP_SUCCESS, outcome(two));
		ASSERT_TRUE(pool.send(two, 2, 1));
		ASSERT_TRUE(pool.send(two, 2, 2));
		EXPECT_EQ(before, takeReceive(one));
		EXPECT_EQ(1U, before->CS.Length);
		EXPECT_EQ(meanwhile, takeReceive(one));
		EXPECT_EQ(2U, meanwhile->CS.Length);
		EXPECT_EQ(VIP_SUCCESS, outcome(one));
	});
}

// [functional: VipConnectPeerRequest VipDisconnect] Two peers can be connected and disconnected any number of times.
TEST_F(PeerToPeer, OneViPairManyTimesWithDataEachTime)
{
	Vi one(nic), two(nic);
	for (unsigned i = 0; i < 20; i++) {
		SCOPED_TRACE(i);
		ASSERT_NO_FATAL_FAILURE(connectEquals(i % 2 ? one : two, i % 2 ? two : one));
		ASSERT_NO_FATAL_FAILURE(expectTalk(one, two, i));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(i % 3 ? one : two));
		ASSERT_EQ(VIP_SUCCESS, VipDisconnect(i % 3 ? two : one));
	}
}

// [functional: VipConnectPeerRequest VipConnectPeerDone VipConnectRequest] Requests whose peers do not come hold up no
// other connection.
TEST_F(PeerToPeer, ManyThatWaitDoNotHoldUpOthers)
{
	std::vector<std::unique_ptr<Vi>> waiting;
	Vi lost(nic);
	ask(lost, "a", "b", VIP_INFINITE, hostThatIsNotThere()); // does not succeed
	for (unsigned i = 0; i < 8; i++) {
		Names names;
		waiting.push_back(std::make_unique<Vi>(nic));
		ASSERT_EQ(VIP_SUCCESS, ask(*waiting.back(), i % 2 ? names.own : names.other,
					   i % 2 ? names.other : names.own, VIP_INFINITE));
	}
	Pair clientAndServer(nic);
	Vi one(nic), two(nic);
	ASSERT_NO_FATAL_FAILURE(connectEquals(one, two));
	expectTalk(one, two);
	for (auto &vi : waiting)
		EXPECT_EQ(VIP_NOT_DONE, outcomeSoFar(*vi));
}

// ---- requests to a peer, and VipConnectWait ----

// [functional: VipConnectWait VipConnectPeerRequest] VipConnectWait never gets a peer-to-peer request.
TEST_F(PeerToPeer, WaitNeverTakesARequestBetweenEquals)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		VIP_CONN_HANDLE connection = nullptr;
		auto waited = inThread([&] { return waitOn(nic, other, 600, &connection); });
		Vi vi(nic);
		ASSERT_EQ(VIP_SUCCESS, ask(vi, own, other, 500));
		EXPECT_EQ(VIP_TIMEOUT, outcome(vi));
		EXPECT_EQ(VIP_TIMEOUT, waited.get());
	});
}

// [functional: VipConnectRequest VipConnectPeerRequest] A client's request finds no match where there is a peer only,
// under whatever name it asks.
TEST_F(PeerToPeer, RequestNeverConnectsToOneThatAsksForAnother)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi equal(nic), client(nic), namesake(nic), right(nic);
		ASSERT_EQ(VIP_SUCCESS, ask(equal, own, other));
		auto requested = inThread([&] { return requestTo(client, own, kPatience); });
		// It is not connected even if its own name is the name that the other end requests.
		Address local(nic.address(), other), remote(nic.address(), own);
		VIP_VI_ATTRIBUTES attributes;
		EXPECT_EQ(VIP_NO_MATCH, VipConnectRequest(namesake, local.get(), remote.get(), kPatience, &attributes));
		EXPECT_EQ(VIP_NO_MATCH, requested.get());
		EXPECT_EQ(VIP_NOT_DONE, outcomeSoFar(equal));
		ASSERT_NO_FATAL_FAILURE(expectMeeting(equal, own, right, other));
		expectTalk(equal, right);
	});
}

// [functional: VipConnectWait VipConnectRequest VipConnectPeerRequest] A waiter for clients and a peer may have the
// same discriminator; each gets the requests of its kind.
TEST_F(PeerToPeer, WaiterAndEqualOfTheSameNameGetEachItsOwn)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi equal(nic), server(nic), client(nic), right(nic);
		auto served = inThread([&] { return serve(server, own); });
		ASSERT_EQ(VIP_SUCCESS, ask(equal, own, other));
		EXPECT_TRUE(call(client, own));
		EXPECT_TRUE(served.get());
		EXPECT_EQ(VIP_NOT_DONE, outcomeSoFar(equal));
		ASSERT_NO_FATAL_FAILURE(expectMeeting(equal, own, right, other));
		expectTalk(server, client);
		expectTalk(equal, right, 2);
	});
}

// Waits under a name for any client, and accepts it.
VIP_PEER(waiterForAnybody)
{
	Nic nic;
	std::string name = test.get();
	VIP_CONN_HANDLE connection;
	EXPECT_EQ(VIP_TIMEOUT, waitOn(nic, name, 50, &connection)); // may set up things
	Vi vi(nic);
	test.put("ready");
	EXPECT_TRUE(serve(vi, name));
	test.put("served");
	test.expect("done");
}

// [functional: VipConnectWait VipConnectRequest VipConnectPeerRequest] A waiter for clients and a peer with the same
// discriminator may be two processes of a host, and either may come first. Each gets the requests of its kind.
TEST_F(PeerToPeer, WaiterOfAnotherProcessAndEqualOfTheSameNameGetEachItsOwn)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		for (bool waiterFirst : {false, true}) {
			Equal equal(own, other);
			Peer waiter("waiterForAnybody"); // on the same host
			if (!waiterFirst)
				equal.ask();
			waiter.channel.put(own);
			waiter.channel.expect("ready");
			if (waiterFirst)
				equal.ask();
			Vi client(nic), right(nic);
			VIP_DESCRIPTOR *receive = postReceive(right);
			ASSERT_EQ(VIP_SUCCESS, ask(right, other, own, kPatience, equal.channel.host()));
			EXPECT_EQ(VIP_SUCCESS, outcome(right));
			EXPECT_TRUE(call(client, own, waiter.channel.host()));
			waiter.channel.expect("served");
			ASSERT_EQ(receive, takeReceive(right));
			EXPECT_EQ(static_cast<VIP_UINT32>(own.back()), receive->CS.ImmediateData);
			EXPECT_EQ(VIP_SUCCESS, equal.outcome());
			waiter.channel.put("done");
			equal.end();
			waiter.finish();
		}
	});
}

// [functional: VipConnectPeerRequest VipConnectPeerWait] Peers are connected only if each asks for the other.
TEST_F(PeerToPeer, OneThatAsksForAThirdIsNotTaken)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi one(nic), two(nic);
		ASSERT_EQ(VIP_SUCCESS, ask(one, own, other, 300));
		ASSERT_EQ(VIP_SUCCESS, ask(two, other, own + "x", 300));
		EXPECT_EQ(VIP_TIMEOUT, outcome(one));
		EXPECT_EQ(VIP_TIMEOUT, outcome(two));
	});
}

} // namespace
