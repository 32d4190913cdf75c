// SPDX-License-Identifier: BSD-2-Clause
// Requests that are at fault: whatever comes first of the device's event, its completion, its answer and the end, the requester is
// told what was wrong, and so is the target if an event tells it.
#include "support.h"

namespace
{

const VIP_UINT32 WRITES = VIP_STATUS_OP_RDMA_WRITE, READS = VIP_STATUS_OP_RDMA_READ;

// What the device tells of a refused operation.
enum class Event { NONE, FIRST, QUIET, LAST };
// When it answers: before anybody can do anything, when somebody has looked at the queue pair for some times, or never.
enum class Answer { AT_ONCE, LATE, NEVER };

struct Order : Named {
	Event event;
	Answer answer;
	bool has_receive, is_polled; // the target has a receive, and polls before the agent knows anything
};

class Refused : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		vi_kind.EnableRdmaWrite = true;
		open();
		allow_reads();
		vi_kind.EnableRdmaRead = false;
		make_pair();
	}
	VIP_DESCRIPTOR *post_refused(bool is_read)
	{
		VIP_DESCRIPTOR *d = write_descriptor(0, memory.data(), {memory.data(100), 8});
		if (is_read)
			d->CS.Control = VIP_CONTROL_OP_RDMAREAD;
		d->DS[0].Remote.Handle = 0xDEADBEEF;
		EXPECT_EQ(post_send(a, d), VIP_SUCCESS);
		return d;
	}
	void tell(Event event)
	{
		if (event == Event::FIRST || event == Event::LAST)
			fake_async_event_qp(IBV_EVENT_QP_ACCESS_ERR, b.qp);
		else if (event == Event::QUIET)
			fake_quiet_event_qp(IBV_EVENT_QP_ACCESS_ERR, b.qp);
	}
	void expect_told_once(const Vi &vi, VIP_ERROR_CODE code)
	{
		EXPECT_TRUE(errors.reach(code, vi));
		EXPECT_EQ(VipDisconnect(vi), VIP_SUCCESS);
		EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST, vi) + errors.count(VIP_ERROR_RDMAW_PROT, vi), 1);
	}
};

using RefusedInOrder = Each<Refused, std::tuple<Order, bool>>;

TEST_P(RefusedInOrder, IsToldAtBothEnds)
{
	const auto [order, is_read] = GetParam();
	const Event event = order.event;
	const bool late = order.answer != Answer::AT_ONCE;

	if (order.has_receive)
		posted_receive(b, 1, {{memory.data(200), 8}});
	options([=](fake_options &o) { o.late_answers = true; });
	VIP_DESCRIPTOR *d = post_refused(is_read);
	if (order.answer == Answer::LATE)
		fake_before("ibv_query_qp", 3, [=] { fake_answer(b.qp); });
	if (!late && event == Event::LAST)
		fake_answer(b.qp);
	tell(event);
	if (!late)
		fake_answer(b.qp);
	if (order.is_polled)
		expect_received(b, at(1), VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_sent(a, d, (order.answer == Answer::NEVER ? VIP_STATUS_DESC_FLUSHED_ERROR : VIP_STATUS_RDMA_PROT_ERROR) |
				  (is_read ? READS : WRITES));
	expect_state(a, VIP_STATE_ERROR);
	expect_state(b, VIP_STATE_ERROR);
	if (order.has_receive && !order.is_polled)
		expect_received(b, at(1), VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_told_once(b, event == Event::NONE ? VIP_ERROR_CONN_LOST : VIP_ERROR_RDMAW_PROT);
	expect_told_once(a, VIP_ERROR_CONN_LOST);
	options([](fake_options &o) { o.late_answers = false; });
	fake_forget_faults();
	connect(a, b, "again");
	expect_traffic(a, b);
}

const Order orders[] = {
	{{"NoEvent"}, Event::NONE, Answer::AT_ONCE, false, false},
	{{"NoEventAndAReceiveIsFlushed"}, Event::NONE, Answer::AT_ONCE, true, true},
	{{"EventThenAnswer"}, Event::FIRST, Answer::AT_ONCE, false, false},
	{{"EventThenAnswerAndAReceiveIsFlushed"}, Event::FIRST, Answer::AT_ONCE, true, true},
	{{"EventLongBeforeTheAnswer"}, Event::FIRST, Answer::LATE, false, false},
	{{"EventLongBeforeTheAnswerAndAReceiveIsFlushed"}, Event::FIRST, Answer::LATE, true, false},
	{{"EventWithoutAnAnswer"}, Event::FIRST, Answer::NEVER, false, false},
	{{"FlushBeforeTheEventIsRead"}, Event::QUIET, Answer::AT_ONCE, true, true},
	{{"EndBeforeTheEventIsRead"}, Event::QUIET, Answer::AT_ONCE, false, false},
};

INSTANTIATE_TEST_SUITE_P(Orders, RefusedInOrder, testing::Combine(testing::ValuesIn(orders), testing::Bool()),
			 [](const auto &each) {
				 return std::string(std::get<bool>(each.param) ? "Read" : "Write") +
					std::get<Order>(each.param).name;
			 });

// The event may come behind all that follows from it, and then nothing is told twice.
TEST_F(Refused, AnEventAfterTheEndChangesNothing)
{
	expect_sent(a, post_refused(false), VIP_STATUS_RDMA_PROT_ERROR | WRITES);
	expect_state(b, VIP_STATE_ERROR);
	const uint64_t handled = fake_calls("ibv_ack_async_event");
	tell(Event::LAST);
	EXPECT_TRUE(eventually([&] { return fake_calls("ibv_ack_async_event") > handled; }));
	expect_told_once(b, VIP_ERROR_CONN_LOST);
	expect_told_once(a, VIP_ERROR_CONN_LOST);
	connect(a, b, "again");
	expect_traffic(a, b);
}

// The target's end may be known before the answer is: then the requester waits for that, and nobody tells it of the end.
TEST_F(Refused, TheRequesterIsNotToldOfTheEndBeforeItHasItsAnswer)
{
	options([](fake_options &o) { o.late_answers = o.hold_completions = true; });
	VIP_DESCRIPTOR *d = post_refused(false);
	fake_before("ibv_query_qp", 3, [=] { fake_answer(b.qp); });
	const uint64_t said = fake_calls("sendmsg");
	tell(Event::FIRST);
	expect_state(b, VIP_STATE_ERROR);
	expect_told_once(b, VIP_ERROR_RDMAW_PROT);
	EXPECT_EQ(fake_calls("sendmsg"), said);
	EXPECT_EQ(state_of(a), VIP_STATE_CONNECTED);
	options([](fake_options &o) { o.late_answers = o.hold_completions = false; });
	EXPECT_GE(fake_release(-1), 1);
	expect_sent(a, d, VIP_STATUS_RDMA_PROT_ERROR | WRITES);
	expect_told_once(a, VIP_ERROR_CONN_LOST);
}

// A receive that is too short is done before the sender has its answer, and who takes it ends the connection.
TEST_F(Refused, AMessageThatIsTooLongIsAnsweredBeforeTheEnd)
{
	VIP_DESCRIPTOR *r = posted_receive(b, 1, {{memory.data(200), 8}}), *other = posted_receive(b, 2, {});

	options([](fake_options &o) { o.late_answers = true; });
	VIP_DESCRIPTOR *d = posted_send(a, 0, {{memory.data(), 9}});
	fake_before("ibv_query_qp", 3, [=] { fake_answer(b.qp); });
	expect_received(b, r, VIP_STATUS_LENGTH_ERROR);
	EXPECT_EQ(state_of(b), VIP_STATE_ERROR) << "who is told finds the VI in ERROR";
	expect_received(b, other, VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_sent(a, d, VIP_STATUS_REMOTE_DESC_ERROR);
	expect_told_once(b, VIP_ERROR_CONN_LOST);
	expect_told_once(a, VIP_ERROR_CONN_LOST);
}

} // namespace
