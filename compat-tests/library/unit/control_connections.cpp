// SPDX-License-Identifier: BSD-2-Clause
// Control connections, tested by a hand-written peer: which end connects, which messages are sent, and which are
// believed.
#include "controlled.h"

#include <cstdlib>

namespace
{

// A control connection that a peer makes to this port. Each end has had the other one's hello.
Control greeted(const char *host, uint16_t to, uint16_t own)
{
	Control control(host, to);

	control.send(WIRE_HELLO, {own, 0, 0, 0});
	EXPECT_EQ(control.next(), WIRE_HELLO);
	return control;
}

// The queue pairs that the next two questions are about.
std::set<uint32_t> asked_twice(Control &control)
{
	std::set<uint32_t> asked;

	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(control.next(), WIRE_ASK);
		asked.insert(control.fields.to);
	}
	return asked;
}

// This is set before main(). The kernel must not find a silent peer before the library does.
const int patient = setenv("VIPL_KEEPALIVE_SEC", "3600", 1);

TEST_F(ControlConnections, AreMadeByWhoAcceptsToThePortInTheRequest)
{
	ControlListener listener;
	auto s = connect_to(b, listener.port);
	Control control = listener.accept();

	EXPECT_EQ(s->code, WIRE_ACCEPT);
	EXPECT_NE(s->extra.port, 0);
	ASSERT_EQ(control.next(), WIRE_HELLO);
	EXPECT_EQ(control.fields.port, s->extra.port) << "it says where it takes them itself";
	control.send(WIRE_HELLO, {listener.port, 0, 0, 0});
	expect_connected(control);
}

TEST_F(ControlConnections, AreNotMadeWithWhoTakesNone)
{
	auto s = connect_to(b, 0);

	EXPECT_EQ(fake_calls("connect"), 0u);
	expect_state(b, VIP_STATE_CONNECTED);
}

TEST_F(ControlConnections, AreNotMadeWithinANic)
{
	a = make_vi();
	connect(a, b);
	expect_traffic(a, b);
	EXPECT_EQ(fake_calls("connect"), 0u);
}

TEST_F(ControlConnections, AreMadeOnceForAllVis)
{
	ControlListener listener;
	Vi other = make_vi();
	auto s = connect_to(b, listener.port), t = connect_to(other, listener.port, PEER_QP + 1);

	EXPECT_EQ(fake_calls("connect"), 1u);
	Control control = listener.accept_up();
	expect_connected(control);
}

TEST_F(ControlConnections, ThatCannotBeMadeAreDoneWithout)
{
	ControlListener listener;

	for (const char *function : {"socket", "bind", "connect"}) {
		Vi vi = make_vi();
		fake_fail(function, 1, ENETUNREACH);
		auto s = connect_to(vi, listener.port);
		expect_state(vi, VIP_STATE_CONNECTED);
		EXPECT_FALSE(listener.has_come(0)) << function;
		EXPECT_EQ(VipDisconnect(vi), VIP_SUCCESS);
	}
	uint16_t nobody = listener.port;
	listener.close();
	auto s = connect_to(b, nobody);
	Control control = greeted("10.9.9.1", s->extra.port, nobody);
	expect_connected(control);
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST), 0) << "who refuses may have a firewall";
}

// The peer may have been too busy to read our hello, or the port may belong to another program.
TEST_F(ControlConnections, ThatEndBeforeTheHelloAreTriedAgain)
{
	ControlListener listener;
	auto s = connect_to(b, listener.port);

	listener.accept().close();
	Control again = listener.accept_up();
	expect_connected(again);
}

// A proxy behaves in this way. The library makes a ping by rdma_cm before it tries again.
TEST_F(ControlConnections, ThatEndBeforeTheHelloAgainAreNotTriedAtOnce)
{
	ControlListener listener;
	auto s = connect_to(b, listener.port);
	uint64_t before = fake_calls("rdma_connect");

	listener.accept().close();
	listener.accept().close();
	EXPECT_TRUE(eventually([&] { return fake_calls("rdma_connect") > before; }));
	EXPECT_EQ(fake_calls("connect"), 2u);
	expect_state(b, VIP_STATE_CONNECTED);
}

// The peer has made a control connection and then gone. So the library tries its own, which was put off.
TEST_F(ControlConnections, ThatWerePutOffAreTriedWhenTheOtherEnds)
{
	ControlListener listener;
	uint16_t port = listener.port;

	listener.close();
	auto s = connect_to(b, port);
	greeted("10.9.9.1", s->extra.port, port).close();
	expect_lost(b);
}

// A firewall does not behave in this way.
TEST_F(ControlConnections, ThatWereTakenAndThenAreRefusedAreTheEnd)
{
	ControlListener listener;
	auto s = connect_to(b, listener.port);
	Control control = listener.accept();

	listener.close();
	control.close();
	expect_lost(b);
}

// ---- the last message of a requester ----

TEST_F(ControlConnections, AskARequesterWhoseLastWordIsLate)
{
	ControlListener listener;
	auto s = answer_to(b, listener.port);
	Control control = listener.accept_up();

	ASSERT_EQ(control.next(), WIRE_ASK);
	EXPECT_EQ(control.fields.to, PEER_QP);
	EXPECT_EQ(control.fields.from, b.qp);
	wire_control_fields ask = control.fields, answer{0, PEER_QP, b.qp, ask.number + 1};
	for (wire_code code : {WIRE_GONE, WIRE_CONNECTED, WIRE_UNHEARD}) {
		control.send(code, answer); // a number of another attempt
		control.send(code, {0, PEER_QP + 1, b.qp, ask.number});
		control.send(code, {0, PEER_QP, b.qp + 1000, ask.number});
	}
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(control.next(), WIRE_GONE) << "of these connections we know nothing";
	ASSERT_EQ(control.next(), WIRE_ASK) << "none of these was an answer, and it asks again";
	EXPECT_EQ(control.fields.number, ask.number);
	EXPECT_EQ(fake_calls("rdma_notify"), 0u);
	EXPECT_EQ(state_of(b), VIP_STATE_CONNECT_PENDING);
	answer.number--;
	control.send(WIRE_CONNECTED, answer);
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
	expect_connected(control);
}

TEST_F(ControlConnections, EndAnAcceptWhoseRequesterIsGone)
{
	ControlListener listener;
	auto s = answer_to(b, listener.port);
	Control control = listener.accept_up();

	ASSERT_EQ(control.next(), WIRE_ASK);
	control.send(WIRE_GONE, {0, PEER_QP, b.qp, control.fields.number});
	expect_state(b, VIP_STATE_IDLE); // well before the time limit of an accept
	EXPECT_EQ(accepted.get(), VIP_TIMEOUT);
}

TEST_F(ControlConnections, ThatEndEndAnAcceptToo)
{
	ControlListener listener;
	auto s = answer_to(b, listener.port);

	listener.accept_up().close();
	expect_state(b, VIP_STATE_IDLE);
	EXPECT_EQ(accepted.get(), VIP_TIMEOUT);
}

// The requester may have the response already, and may take itself for connected.
TEST_F(ControlConnections, TellOfAnAcceptThatWasGivenUp)
{
	ControlListener listener;
	auto s = answer_to(b, listener.port);
	Control control = listener.accept_up();

	ASSERT_EQ(control.next(), WIRE_ASK);
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	EXPECT_NE(accepted.get(), VIP_SUCCESS);
	ASSERT_EQ(control.next_answer(), WIRE_GONE);
	EXPECT_EQ(control.fields.to, PEER_QP);
	control.send(WIRE_CONNECTED, {0, PEER_QP, b.qp, 5});
	ASSERT_EQ(control.next_answer(), WIRE_GONE) << "it is contradicted, too";
	EXPECT_EQ(control.fields.number, 5u);
}

// Only the request that was accepted may come again for the same VI.
TEST_F(ControlConnections, HaveAServerThatIsUnheardAcceptOnceMore)
{
	ControlListener listener;
	auto s = answer_to(b, listener.port);
	Control control = listener.accept_up();
	const std::string door = "door " + std::to_string(doors);

	ASSERT_EQ(control.next(), WIRE_ASK);
	control.send(WIRE_UNHEARD, {0, PEER_QP, b.qp, control.fields.number});
	EXPECT_EQ(s->next(), RDMA_CM_EVENT_REJECTED);
	for (int kind = 0; kind < 2; kind++) {
		wire_message message = kind ? good_request(door, "another one")
					    : good_request(door, "", WIRE_PEER_REQUEST);
		Stranger t(door, &message, sizeof(message), PEER_QP + 2);
		EXPECT_EQ(t.next(), RDMA_CM_EVENT_REJECTED) << kind;
	}
	expect_state(b, VIP_STATE_CONNECT_PENDING);
	wire_message message = good_request(door);
	Stranger again(door, &message, sizeof(message), PEER_QP);
	ASSERT_EQ(again.next(), RDMA_CM_EVENT_CONNECT_RESPONSE);
	EXPECT_EQ(rdma_establish(again.id), 0);
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
}

TEST_F(ControlConnections, TellARequesterThatItsPeerIsGone)
{
	ControlListener listener;
	auto s = connect_to(b, listener.port);
	Control control = listener.accept_up();

	control.send(WIRE_ASK, {0, PEER_QP, 4711, 5});
	ASSERT_EQ(control.next_answer(), WIRE_GONE) << "there is no such VI";
	EXPECT_EQ(control.fields.from, 4711u);
	EXPECT_EQ(control.fields.to, PEER_QP);
	EXPECT_EQ(control.fields.number, 5u);
	control.send(WIRE_ASK, {0, PEER_QP + 1, b.qp, 5});
	EXPECT_EQ(control.next_answer(), WIRE_GONE) << "its peer is another one";
	expect_connected(control);
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	ASSERT_EQ(control.next_answer(), WIRE_GONE);
	EXPECT_EQ(control.fields.from, b.qp);
	EXPECT_EQ(control.fields.to, PEER_QP);
	control.send(WIRE_ASK, {0, PEER_QP, b.qp, 5});
	EXPECT_EQ(control.next_answer(), WIRE_GONE) << "it is not connected any more";
}

TEST_F(ControlConnections, AreNotWaitedForWhereTheAdapterHasSeenAFirstMessage)
{
	auto s = answer_to(b, 0);

	fake_async_event_qp(IBV_EVENT_COMM_EST, b.qp);
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
	expect_state(b, VIP_STATE_CONNECTED);
}

// ---- the end of a connection ----

// Messages could not be sent while there was no control connection.
TEST_F(ControlConnections, AskWhetherConnectionsAreStillThereWhenTheyComeUp)
{
	ControlListener listener;
	auto s = connect_to(b, listener.port);
	Control control = listener.accept_up();

	ASSERT_EQ(control.next(), WIRE_ASK);
	EXPECT_EQ(control.fields.to, PEER_QP);
	EXPECT_EQ(control.fields.from, b.qp);
	control.send(WIRE_GONE, {0, PEER_QP, b.qp, control.fields.number});
	expect_lost(b);
}

TEST_F(ControlConnections, AskForAllThatAreConnectedWithThatNicOnly)
{
	ControlListener listener, other_listener;
	Vi x = make_vi(), y = make_vi();
	auto s = connect_to(b, listener.port), t = connect_to(x, listener.port, PEER_QP + 1),
	     u = connect_to(y, other_listener.port, PEER_QP + 2);
	Control control = listener.accept_up();

	EXPECT_EQ(asked_twice(control), (std::set<uint32_t>{PEER_QP, PEER_QP + 1}));
	expect_connected(control);
}

TEST_F(ControlConnections, TellOfTheEnd)
{
	ControlListener listener;
	auto s = connect_to(b, listener.port);
	Control control = listener.accept_up();

	expect_connected(control);
	control.send(WIRE_GONE, {0, PEER_QP, b.qp, psn});
	expect_lost(b);
}

TEST_F(ControlConnections, TellOfTheEndOfThisConnectionOnly)
{
	ControlListener listener;
	auto s = connect_to(b, listener.port);
	Control control = listener.accept_up();

	control.send(WIRE_GONE, {0, PEER_QP, b.qp, psn + 100});
	control.send(WIRE_GONE, {0, PEER_QP, b.qp, 0});
	control.send(WIRE_GONE, {0, PEER_QP + 1, b.qp, psn});
	control.send(WIRE_GONE, {0, PEER_QP, b.qp + 1, psn});
	control.send(WIRE_UNHEARD, {0, PEER_QP, b.qp, psn});
	control.send(WIRE_CONNECTED, {0, PEER_QP, b.qp, psn});
	expect_connected(control);
}

TEST_F(ControlConnections, OfAnotherHostTellNothing)
{
	ControlListener listener;
	auto s = connect_to(b, listener.port);
	Control control = listener.accept_up();
	Control other = greeted("10.9.9.3", s->extra.port, listener.port);

	other.send(WIRE_GONE, {0, PEER_QP, b.qp, psn});
	other.send(WIRE_ASK, {0, PEER_QP, b.qp, 5});
	EXPECT_EQ(other.next_answer(), WIRE_GONE) << "nobody of that host is connected with it";
	expect_connected(control);
	other.close();
	/* The library has seen the end of `other` when it answers this one. */
	Control last = greeted("10.9.9.3", s->extra.port, 1);
	expect_connected(control);
}

TEST_F(ControlConnections, ThatThePeerClosesEndAllItsConnectionsAndNoOthers)
{
	ControlListener listener, other_listener;
	Vi x = make_vi(), other = make_vi(), y = make_vi(), z = make_vi(), none = make_vi();
	auto s = connect_to(b, listener.port), t = connect_to(x, listener.port, PEER_QP + 1);
	auto u = connect_to(other, other_listener.port, PEER_QP + 2);
	auto v = connect_to(none, 0, PEER_QP + 3);
	Control control = listener.accept_up(), other_control = other_listener.accept_up();

	connect(y, z);
	expect_connected(control);
	control.close();
	expect_lost(b);
	expect_lost(x);
	other_control.send(WIRE_ASK, {0, PEER_QP + 2, other.qp, psns[PEER_QP + 2]});
	EXPECT_EQ(other_control.next_answer(), WIRE_CONNECTED);
	for (const Vi &vi : {other, y, z, none})
		EXPECT_EQ(state_of(vi), VIP_STATE_CONNECTED);
	expect_traffic(y, z);
}

// Both ends may have made a control connection at the same time.
TEST_F(ControlConnections, OfWhichOneIsLeftAreEnough)
{
	ControlListener listener;
	auto s = connect_to(b, listener.port);
	Control first = listener.accept_up();
	Control second = greeted("10.9.9.1", s->extra.port, listener.port);

	expect_connected(first);
	first.close();
	expect_connected(second);
	/* The library has seen the end of `first` when it answers this one. */
	Control last = greeted("10.9.9.3", s->extra.port, 1);
	expect_connected(second);
	second.close();
	expect_lost(b);
}

// ---- silence: read() fails because of TCP's keepalive or user timeout ----

class SilentControlConnections : public ControlConnections
{
      protected:
	void TearDown() override
	{
		s.reset();
		ControlConnections::TearDown();
	}
	// Connects b. Its control connection then ends with this error.
	void fall_silent(ControlListener &listener, int error)
	{
		s = connect_to(b, listener.port);
		control = std::make_unique<Control>(listener.accept_up());
		expect_connected(*control);
		if (before_silence)
			before_silence();
		fake_fail("recv", 1, error);
		control->send_bytes("", 1); // makes the library read
	}
	std::function<void()> before_silence;
	std::unique_ptr<Stranger> s;
	std::unique_ptr<Control> control;
};

TEST_F(SilentControlConnections, AreTriedOnceMoreAndTheConnectionsStay)
{
	for (int error : {ETIMEDOUT, EHOSTUNREACH, ENETUNREACH}) {
		ControlListener listener;
		fall_silent(listener, error);
		Control again = listener.accept_up();
		expect_connected(again);
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
		s.reset();
		EXPECT_EQ(again.next_answer(), WIRE_GONE);
		b = make_vi();
	}
}

// A send may be the first call that finds the error.
TEST_F(SilentControlConnections, AreTriedOnceMoreAfterASendHasFailed)
{
	for (int error : {ETIMEDOUT, EHOSTUNREACH, EAGAIN}) {
		ControlListener listener;
		Vi x = make_vi();
		auto t = connect_to(b, listener.port), u = connect_to(x, listener.port, PEER_QP + 1);
		Control before = listener.accept_up();
		expect_connected(before);
		fake_fail("sendto", 1, error);
		EXPECT_EQ(VipDisconnect(x), VIP_SUCCESS);
		EXPECT_TRUE(before.is_reset()) << "an end would mean that this NIC is gone";
		Control again = listener.accept_up();
		expect_connected(again);
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
		EXPECT_EQ(again.next_answer(), WIRE_GONE);
		b = make_vi();
	}
}

// The socket has no room for all questions. The others follow when it has.
TEST_F(ControlConnections, AskForTheRestWhenThereIsRoom)
{
	ControlListener listener;
	Vi x = make_vi();
	auto s = connect_to(b, listener.port), t = connect_to(x, listener.port, PEER_QP + 1);
	Control control = listener.accept();

	ASSERT_EQ(control.next(), WIRE_HELLO);
	fake_fail("sendto", 2, EAGAIN);
	control.send(WIRE_HELLO, {listener.port, 0, 0, 0});
	EXPECT_EQ(asked_twice(control), (std::set<uint32_t>{PEER_QP, PEER_QP + 1}));
	expect_connected(control);
}

TEST_F(SilentControlConnections, ThatAreRefusedAreTheEnd)
{
	ControlListener listener;

	before_silence = [&] { listener.close(); };
	fall_silent(listener, ETIMEDOUT);
	expect_lost(b);
}

// The host does not answer any more.
TEST_F(SilentControlConnections, ThatStaySilentAreTheEnd)
{
	ControlListener listener("10.9.9.1", 0);
	std::vector<int> fillers;

	before_silence = [&] {
		/* These connections fill the listener's queue. */
		sockaddr_in to = tcp_address("10.9.9.1", listener.port);
		for (int i = 0; i < 4; i++) {
			fillers.push_back(
				socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
			::connect(fillers.back(), reinterpret_cast<sockaddr *>(&to), sizeof(to));
		}
	};
	fall_silent(listener, ETIMEDOUT);
	expect_lost(b);
	for (int fd : fillers)
		::close(fd);
}

TEST_F(SilentControlConnections, AreTheEndWhenNoRouteLeadsToThePeerAnyMore)
{
	ControlListener listener;

	before_silence = [] { fake_fail("connect", 1, ENETUNREACH); };
	fall_silent(listener, ETIMEDOUT);
	expect_lost(b);
}

// That this process has no room says nothing about the peer. It is tried once more, when there may be room.
TEST_F(SilentControlConnections, AreTriedAgainWhenThereIsNoFileDescriptor)
{
	ControlListener listener;

	before_silence = [] { fake_fail("socket", 1, EMFILE); };
	fall_silent(listener, ETIMEDOUT);
	Control again = listener.accept_up();
	expect_connected(again);
}

TEST_F(SilentControlConnections, ThatCouldNotBeTriedAgainAtOnceAreTheEndWhenRefused)
{
	ControlListener listener;

	before_silence = [&] {
		fake_fail("socket", 1, EMFILE);
		listener.close();
	};
	fall_silent(listener, ETIMEDOUT);
	expect_lost(b);
}

TEST_F(SilentControlConnections, AreNotTriedAgainWhenThePeerHasEndedThem)
{
	ControlListener listener;
	auto t = connect_to(b, listener.port);
	Control ending = listener.accept_up();

	expect_connected(ending);
	ending.close();
	expect_lost(b);
	EXPECT_FALSE(listener.has_come(0));
}

TEST_F(SilentControlConnections, OfAnotherNicAreNotTheEnd)
{
	ControlListener listener;
	auto u = connect_to(b, listener.port);
	Control mine = listener.accept_up();
	Control stranger = greeted("10.9.9.3", u->extra.port, listener.port);

	fake_fail("recv", 1, ECONNRESET);
	stranger.send_bytes("", 1);
	EXPECT_EQ(stranger.next_answer(), 0);
	expect_connected(mine);
}

} // namespace
