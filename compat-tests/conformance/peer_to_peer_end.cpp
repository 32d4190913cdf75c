// SPDX-License-Identifier: BSD-2-Clause
// Requests between equals that come to an end: by a timeout, by attributes that do not
// fit, by calls, by the loss of the other end; and the results that the ends get.
#include "peer_to_peer.h"

#include <memory>

using namespace peer_to_peer;

namespace
{

class PeerToPeerEnd : public EqualsTest
{
      protected:
	// While a thread waits for the outcome, `end` is called. The wait returns with that result.
	template <typename End> void expectEndsTheWait(Vi &vi, VIP_RETURN wanted, End end)
	{
		auto waited = inThread([&] { return outcome(vi); });
		letTimePass(20); // the thread is probably asleep
		ASSERT_EQ(VIP_SUCCESS, end());
		EXPECT_EQ(wanted, waited.get());
	}
};

// ---- time ----

// [functional: VipConnectPeerRequest VipConnectPeerWait VipConnectPeerDone] A request whose equal does not come times
// out when the asked time is over, at once if that is zero, and leaves its VI idle with its receives.
TEST_F(PeerToPeerEnd, NobodyAsksIsATimeoutAfterTheAskedTimeWithReceivesStillPosted)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi vi(nic);
		VIP_DESCRIPTOR *receive = postReceive(vi);
		constexpr VIP_ULONG longer = 2000;
		for (VIP_ULONG timeout : {VIP_ULONG{0}, VIP_ULONG{200}, longer})
			EXPECT_TRUE(tellsAbout(static_cast<double>(timeout), [&] {
				Stopwatch watch;
				EXPECT_EQ(VIP_SUCCESS, ask(vi, own, other, timeout));
				const bool blocks = watch.ms() >= longer;
				EXPECT_EQ(VIP_TIMEOUT, outcome(vi));
				return blocks ? 1e9 : watch.ms(); // also where it takes no longer in all
			}));
		ASSERT_EQ(VIP_SUCCESS, ask(vi, own, other, 100));
		EXPECT_TRUE(eventually([&] { return outcomeSoFar(vi) != VIP_NOT_DONE; }));
		EXPECT_EQ(VIP_TIMEOUT, outcomeSoFar(vi));
		expectAsBefore(vi, receive);
	});
}

// [functional: VipConnectPeerRequest] An infinite timeout, of 32 bits or of a whole VIP_ULONG, lasts until the other
// one asks.
TEST_F(PeerToPeerEnd, BothFormsOfInfiniteWaitUntilTheOtherAsks)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		for (VIP_ULONG forever : {VIP_ULONG{0xFFFFFFFF}, ~VIP_ULONG{0}}) {
			Vi one(nic), two(nic);
			ASSERT_EQ(VIP_SUCCESS, ask(one, own, other, forever));
			// A client does not look for a server this long.
			letTimePass(forever == 0xFFFFFFFF ? 2500 : 100);
			EXPECT_EQ(VIP_NOT_DONE, outcomeSoFar(one));
			ASSERT_NO_FATAL_FAILURE(expectMeeting(one, own, two, other));
		}
	});
}

// [functional: VipConnectPeerRequest VipConnectPeerWait VipQueryVi] When a timeout ends just as peers meet, an end that
// gets VIP_TIMEOUT is idle. An end that gets VIP_SUCCESS is connected, or in error if the other end has given up.
TEST_F(PeerToPeerEnd, TimeoutThatRacesWithSuccessLeavesBothEndsInOrder)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi one(nic), two(nic);
		for (VIP_ULONG i = 0; i < 24; i++) {
			SCOPED_TRACE(i);
			ASSERT_EQ(VIP_SUCCESS, ask(one, own, other, 1 + i % 8));
			ASSERT_EQ(VIP_SUCCESS, ask(two, other, own, 1 + i / 3));
			VIP_RETURN first = outcome(one), second = outcome(two);
			for (auto [vi, result, others] :
			     {std::make_tuple(&one, first, second), std::make_tuple(&two, second, first)}) {
				if (result == VIP_SUCCESS) {
					// The timeout of the other end came just before the
					// connection.
					EXPECT_TRUE(vi->becomes(others == VIP_SUCCESS ? VIP_STATE_CONNECTED
										      : VIP_STATE_ERROR));
				} else {
					EXPECT_EQ(VIP_TIMEOUT, result);
					EXPECT_EQ(VIP_STATE_IDLE, vi->state());
				}
			}
			ASSERT_EQ(VIP_SUCCESS, VipDisconnect(one));
			ASSERT_EQ(VIP_SUCCESS, VipDisconnect(two));
		}
		ASSERT_NO_FATAL_FAILURE(connectEquals(one, two));
		expectTalk(one, two);
	});
}

// [functional: VipConnectPeerRequest] A host that does not exist is not reachable, or does not answer in time; the
// request does not block.
TEST_F(PeerToPeerEnd, HostThatIsNotThereIsNotReachableOrATimeout)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi vi(nic);
		Stopwatch watch;
		// A NIC may learn at once, later or never that no route leads there. The loopback
		// NIC knows at once.
		constexpr VIP_ULONG timeout = 4000;
		EXPECT_TRUE(takesBetween(0, timeout * 0.9, [&] {
			watch = Stopwatch();
			VIP_RETURN result = ask(vi, own, other, timeout, hostThatIsNotThere());
			const double asked = watch.ms();
			EXPECT_EQ(nic.isLoopback() ? VIP_NOT_REACHABLE : VIP_SUCCESS, result);
			if (result == VIP_SUCCESS) {
				result = outcome(vi);
				EXPECT_TRUE(result == VIP_NOT_REACHABLE || result == VIP_TIMEOUT)
					<< testing::PrintToString(result);
			}
			return asked;
		})) << "it does not block";
		EXPECT_LE(watch.ms(), timeout + kBusy);
		EXPECT_EQ(VIP_STATE_IDLE, vi.state());
	});
}

// ---- what does not fit ----

// [functional: VipConnectPeerRequest VipConnectPeerWait] Peers with different maximum transfer sizes or reliability
// levels both get VIP_REJECT, and are idle with their receives.
TEST_F(PeerToPeerEnd, AttributesThatDifferAreARejectOnBothEndsWithReceivesStillPosted)
{
	auto expectRejects = [&](const VIP_VI_ATTRIBUTES &others) {
		eitherWay([&](const std::string &own, const std::string &other) {
			Vi one(nic), two(nic, others);
			VIP_DESCRIPTOR *here = postReceive(one, 0), *there = postReceive(two, 1);
			ASSERT_EQ(VIP_SUCCESS, ask(one, own, other));
			ASSERT_NO_FATAL_FAILURE(expectMeeting(one, own, two, other, VIP_REJECT));
			expectAsBefore(one, here);
			expectAsBefore(two, there);
		});
	};
	expectRejects(reliable(kTransferSize / 2));
	// If the NIC lacks a level there is no VI of it, and nothing can mismatch.
	atEach(nic, {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_RECEPTION},
	       [&](VIP_RELIABILITY_LEVEL level) { expectRejects(ofLevel(level)); });
}

// [functional: VipConnectPeerRequest] A peer that asks for its own name is an invalid parameter.
TEST_F(PeerToPeerEnd, AddressCannotBeConnectedWithItself)
{
	Nic second;
	std::string name = freshDiscriminator();
	Vi one(nic), two(second);
	EXPECT_EQ(VIP_INVALID_PARAMETER, ask(one, name, name));
	EXPECT_EQ(VIP_INVALID_PARAMETER, ask(two, name, name));
	EXPECT_EQ(VIP_STATE_IDLE, one.state());
	EXPECT_EQ(VIP_INVALID_STATE, outcomeSoFar(one)) << "nothing was asked for";
}

// [functional: VipConnectPeerRequest] Too long a discriminator, or a host address of another length, is an invalid
// parameter.
TEST_F(PeerToPeerEnd, AddressesThatTheNicDoesNotKnowAreInvalid)
{
	Vi vi(nic);
	Names names;
	std::string tooLong(nic.attributes().MaxDiscriminatorLen + 1U, 'x'), shortHost("\1\2", 2);
	EXPECT_EQ(VIP_INVALID_PARAMETER, ask(vi, tooLong, names.other));
	EXPECT_EQ(VIP_INVALID_PARAMETER, ask(vi, names.own, tooLong));
	EXPECT_EQ(VIP_INVALID_PARAMETER, ask(vi, names.own, names.other, kPatience, shortHost));
	EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}

// ---- states ----

// [functional: VipConnectPeerDone VipConnectPeerWait] A VI that has not asked for a peer is in a wrong state for its
// outcome.
TEST_F(PeerToPeerEnd, WithoutARequestThereIsNoOutcome)
{
	Vi vi(nic);
	EXPECT_EQ(VIP_INVALID_STATE, outcomeSoFar(vi));
	EXPECT_EQ(VIP_INVALID_STATE, outcome(vi));
	Pair pair(nic);
	for (Vi *end : {&pair.a, &pair.b}) { // connected by a request of another kind
		EXPECT_EQ(VIP_INVALID_STATE, outcomeSoFar(*end));
		EXPECT_EQ(VIP_INVALID_STATE, outcome(*end));
	}
}

// [functional: VipConnectPeerDone VipConnectPeerWait VipDisconnect] The outcome can be asked for again, until the VI is
// disconnected.
TEST_F(PeerToPeerEnd, OutcomeStaysUntilTheViIsDisconnected)
{
	Vi one(nic), two(nic);
	ASSERT_NO_FATAL_FAILURE(connectEquals(one, two));
	EXPECT_EQ(VIP_SUCCESS, outcomeSoFar(one));
	EXPECT_EQ(VIP_SUCCESS, outcome(one));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(two));
	EXPECT_EQ(VIP_INVALID_STATE, outcomeSoFar(two));
	ASSERT_TRUE(one.becomes(VIP_STATE_ERROR));
	EXPECT_EQ(VIP_SUCCESS, outcome(one)) << "it had been connected";
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(one));
	EXPECT_EQ(VIP_INVALID_STATE, outcome(one));
	ASSERT_TRUE(harness::connect(one, two)) << "by a request of another kind";
	EXPECT_EQ(VIP_INVALID_STATE, outcomeSoFar(one));
	EXPECT_EQ(VIP_INVALID_STATE, outcomeSoFar(two));
}

// [functional: VipConnectPeerRequest VipConnectRequest VipConnectAccept VipDestroyVi] A connect-pending VI is in a
// wrong state for another connection and for its destruction, and such calls change nothing about its request.
TEST_F(PeerToPeerEnd, PendingViCanNeitherRequestNorAcceptNorBeDestroyed)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi equal(nic), right(nic), client(nic), server(nic);
		ASSERT_EQ(VIP_SUCCESS, ask(equal, own, other));
		EXPECT_EQ(VIP_INVALID_STATE, ask(equal, own, other));
		EXPECT_EQ(VIP_INVALID_STATE, requestTo(equal, freshDiscriminator(), 1000));
		EXPECT_EQ(VIP_INVALID_STATE, VipDestroyVi(equal));
		PendingRequest request(client);
		EXPECT_EQ(VIP_INVALID_STATE, VipConnectAccept(request.handle, equal));
		EXPECT_EQ(VIP_SUCCESS, VipConnectAccept(request.handle, server));
		EXPECT_EQ(VIP_SUCCESS, request.requested.get());
		EXPECT_EQ(VIP_NOT_DONE, outcomeSoFar(equal)) << "all that has changed nothing";
		ASSERT_NO_FATAL_FAILURE(expectMeeting(equal, own, right, other));
		expectTalk(equal, right);
		EXPECT_EQ(VIP_INVALID_STATE, ask(equal, own, other)) << "connected";
	});
}

// [functional: VipPostSend VipConnectPeerRequest] A send on a connect-pending VI is flushed, and its request goes on.
TEST_F(PeerToPeerEnd, SendOfAPendingViIsFlushed)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi vi(nic);
		ASSERT_EQ(VIP_SUCCESS, ask(vi, own, other));
		ASSERT_TRUE(isSent(vi, pool.empty(0), pool.handle(), VIP_STATUS_DESC_FLUSHED_ERROR));
		EXPECT_EQ(VIP_NOT_DONE, outcomeSoFar(vi));
	});
}

// [functional: VipDisconnect VipConnectPeerWait] To disconnect a connect-pending VI ends its request and the waits for
// it, and flushes its receives.
TEST_F(PeerToPeerEnd, DisconnectEndsAPendingRequestAndFlushes)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi one(nic), two(nic);
		VIP_DESCRIPTOR *receive = postReceive(one);
		ASSERT_EQ(VIP_SUCCESS, ask(one, own, other, VIP_INFINITE));
		ASSERT_NO_FATAL_FAILURE(expectEndsTheWait(one, VIP_INVALID_STATE, [&] { return VipDisconnect(one); }));
		EXPECT_EQ(VIP_STATE_IDLE, one.state());
		EXPECT_TRUE(isReceived(one, receive, VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR));
		ASSERT_EQ(VIP_SUCCESS, ask(two, other, own, 300));
		EXPECT_EQ(VIP_TIMEOUT, outcome(two)) << "nobody asks for it any more";
		ASSERT_NO_FATAL_FAILURE(connectEquals(one, two));
		expectTalk(one, two);
	});
}

// [functional: VipCloseNic VipConnectPeerWait] To close a NIC ends its peer-to-peer requests and the waits for them.
TEST_F(PeerToPeerEnd, ClosingTheNicEndsAPendingRequestAndItsWait)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Nic second;
		Vi one(second), two(nic);
		ASSERT_EQ(VIP_SUCCESS, ask(one, own, other, VIP_INFINITE));
		ASSERT_NO_FATAL_FAILURE(expectEndsTheWait(one, VIP_INVALID_PARAMETER, [&] { return second.close(); }));
		ASSERT_EQ(VIP_SUCCESS, ask(two, other, own, 300));
		EXPECT_EQ(VIP_TIMEOUT, outcome(two)) << "nobody asks for it any more";
	});
}

// [functional: VipConnectPeerWait] Several threads may wait for one outcome. Each gets it.
TEST_F(PeerToPeerEnd, EachOfSeveralThreadsThatWaitIsTold)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Vi one(nic), two(nic);
		VIP_RETURN told[6];
		std::vector<std::unique_ptr<Thread>> threads;
		ASSERT_EQ(VIP_SUCCESS, ask(one, own, other));
		for (VIP_RETURN &each : told)
			threads.push_back(std::make_unique<Thread>([&] { each = outcome(one); }));
		ASSERT_EQ(VIP_SUCCESS, ask(two, other, own));
		threads.clear();
		for (VIP_RETURN each : told)
			EXPECT_EQ(VIP_SUCCESS, each);
	});
}

// ---- the other end goes away ----

// [functional: VipConnectPeerRequest VipConnectPeerWait] A peer whose process was killed asks no more, and another one
// can take its name.
TEST_F(PeerToPeerEnd, OneThatWasKilledWhileItAskedIsForgottenAndItsSuccessorFound)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		Equal first(other, own);
		first.ask(VIP_INFINITE);
		first.kill();
		Equal successor(other, own);
		const std::string &host = first.channel.host();
		Vi vi(nic);
		VIP_DESCRIPTOR *receive = postReceive(vi);
		ASSERT_EQ(VIP_SUCCESS, ask(vi, own, other, 300, host));
		EXPECT_EQ(VIP_TIMEOUT, outcome(vi));
		ASSERT_EQ(VIP_SUCCESS, ask(vi, own, other, kPatience, host));
		successor.ask();
		EXPECT_EQ(VIP_SUCCESS, outcome(vi));
		EXPECT_TRUE(isReceived(vi, receive, VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE));
		EXPECT_EQ(VIP_SUCCESS, successor.outcome());
		successor.end();
	});
}

// [functional: VipConnectPeerRequest VipConnectPeerWait] When a peer is killed just as they meet, the other end is in
// error, or connected with its successor, and its receives are there.
TEST_F(PeerToPeerEnd, OneThatIsKilledJustWhenTheyMeetLeavesTheOtherEndInOrder)
{
	eitherWay([&](const std::string &own, const std::string &other) {
		for (int i = 0; i < 4; i++) {
			beginTimeLimit();
			Equal peer(other, own);
			peer.ask(VIP_INFINITE);
			Equal successor(other, own);
			Vi vi(nic);
			VIP_DESCRIPTOR *receive = postReceive(vi);
			ASSERT_EQ(VIP_SUCCESS, ask(vi, own, other, kPatience, peer.channel.host()));
			peer.kill();
			// How far the connection was is unknown.
			successor.ask(1000);
			VIP_RETURN result = successor.outcome();
			EXPECT_EQ(VIP_SUCCESS, outcome(vi));
			EXPECT_EQ(receive, takeReceive(vi));
			if (result == VIP_SUCCESS) {
				EXPECT_EQ(0U, errorOf(receive)) << "receives stay posted";
			} else {
				EXPECT_EQ(VIP_TIMEOUT, result);
				EXPECT_TRUE(vi.becomes(VIP_STATE_ERROR));
			}
			successor.end();
		}
	});
}

} // namespace
