// SPDX-License-Identifier: BSD-2-Clause
// The agent of a NIC gets the processor late. By then times are over, but in the sockets is what came in time: that is heard, and
// nothing is given up. Each test is of one stage of connecting.
#include "conversation.h"
#include "process.h"
#include "settings.h"

#include <atomic>
#include <ctime>
#include <sys/epoll.h>

extern "C" __thread bool thread_is_agent; // of base/thread.h, which C++ cannot read

namespace
{

// While this is set agents that have slept until an event stay behind that.
std::atomic<bool> holds_agents{false};
std::atomic<unsigned> agents_held{0};
// While this is set agents do not look by themselves once a second, but sleep until they are woken.
std::atomic<bool> agents_sleep_on{false};
std::atomic<unsigned> agents_asleep{0};
// While this is set connect() succeeds later, where it would at once over TCP.
std::atomic<bool> connects_slowly{false};
// By which the library's clock is ahead of the system's, in nanoseconds: it jumps, though no time has passed.
std::atomic<long long> ahead{0};

void clock_jump(int msec)
{
	ahead += msec * 1000000LL;
}

timespec shifted(const timespec *time, long long by)
{
	constexpr long long sec = 1000000000;
	const long long all = time->tv_sec * sec + time->tv_nsec + by;

	return {static_cast<time_t>(all / sec), static_cast<long>(all % sec)};
}

} // namespace

// The linker puts these in place of the C library's.
extern "C" {
int __real_epoll_wait(int epoll_fd, epoll_event *events, int most, int msec);
int __wrap_epoll_wait(int epoll_fd, epoll_event *events, int most, int msec)
{
	const bool is_held_here = thread_is_agent && msec; // else it only looks, perhaps with a lock
	const bool sleeps_on = is_held_here && msec >= 1000 && agents_sleep_on; // an agent sleeps no longer: base/sleeper.c
	const timespec look = {0, 1000000};

	agents_asleep += sleeps_on;
	const int count = __real_epoll_wait(epoll_fd, events, most, sleeps_on ? -1 : msec), error = errno;
	agents_asleep -= sleeps_on;
	if (is_held_here && holds_agents) {
		agents_held++;
		while (holds_agents)
			nanosleep(&look, nullptr);
		agents_held--;
	}
	errno = error;
	return count;
}

int __real_connect(int fd, const sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const sockaddr *address, socklen_t length)
{
	if (__real_connect(fd, address, length))
		return -1;
	if (!connects_slowly || address->sa_family == AF_UNIX)
		return 0;
	errno = EINPROGRESS;
	return -1;
}

int __real_clock_gettime(clockid_t clock, timespec *now);
int __wrap_clock_gettime(clockid_t clock, timespec *now)
{
	const int result = __real_clock_gettime(clock, now);

	if (clock == CLOCK_MONOTONIC)
		*now = shifted(now, ahead);
	return result;
}

int __real_clock_nanosleep(clockid_t clock, int flags, const timespec *time, timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const timespec *time, timespec *left)
{
	const timespec at = flags & TIMER_ABSTIME ? shifted(time, -ahead) : *time;

	return __real_clock_nanosleep(clock, flags, &at, left);
}

int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const timespec *time);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const timespec *time)
{
	const timespec at = shifted(time, -ahead);

	return __real_pthread_cond_timedwait(condition, mutex, &at);
}
}

namespace
{

constexpr int LONG_MSEC = 60000; // more than any time of the library here
constexpr int LATE_GRACE_MSEC = 10000;

class Late : public Conversation
{
      protected:
	void SetUp() override
	{
		Conversation::SetUp();
		EXPECT_EQ(request(a, name + "-nobody", PATIENCE), VIP_NO_MATCH) << "now the route is known";
		grace = std::make_unique<GraceTime>(LATE_GRACE_MSEC);
	}
	void TearDown() override
	{
		holds_agents = false;
		agents_sleep_on = false;
		connects_slowly = false;
		Conversation::TearDown();
	}
	// The agent has been woken for another reason, and does not go on. What comes now it does not know of.
	void hold_agent()
	{
		holds_agents = true;
		EXPECT_TRUE(eventually([&] {
			EXPECT_EQ(wait(name + "-other", 0), VIP_TIMEOUT);
			return agents_held > 0;
		}));
	}
	void answer_while_held(Line &line)
	{
		hold_agent();
		EXPECT_TRUE(line.say(MESSAGE_HERE));
		EXPECT_TRUE(line.say(spoken(MESSAGE_ACCEPT)));
	}
	void be_late(int msec = LONG_MSEC)
	{
		clock_jump(msec);
		holds_agents = false;
	}
	// The agent has looked at all times since this was called. It does so before it gives the lock back.
	void let_agent_look()
	{
		wait_in_vain(name + "-other");
		Line line(device(), name + "-other");
		EXPECT_TRUE(line.say(Spoken(device(), MESSAGE_PEER_REQUEST, name + "-other")));
		EXPECT_EQ(line.next(), MESSAGE_NO_MATCH);
		wait_in_vain(name + "-other");
	}
	void wait_in_vain(const std::string &door)
	{
		ASSERT_EQ(wait(door, 0), VIP_TIMEOUT);
	}
	Line asked()
	{
		Line line = call();

		EXPECT_TRUE(line.say(spoken(MESSAGE_REQUEST)));
		return line;
	}
	std::unique_ptr<GraceTime> grace;
	// What is said to a client that has not been refused.
	void expect_busy(Line &line)
	{
		EXPECT_EQ(line.next(), MESSAGE_BUSY);
	}
	void expect_accepted(Line &line, std::future<VIP_RETURN> &requested)
	{
		EXPECT_EQ(line.next(), MESSAGE_CONFIRM);
		EXPECT_EQ(requested.get(), VIP_SUCCESS);
	}
};

// ---- a requester ----

TEST_P(Late, ARequesterHearsThatItHasReachedAPlace)
{
	Gate gate(device(), name);

	hold_agent();
	connects_slowly = true;
	auto requested = request_here(VIP_INFINITE);
	Line line = gate.accept();
	be_late();
	ASSERT_EQ(line.next(), MESSAGE_REQUEST);
	EXPECT_TRUE(line.say(spoken(MESSAGE_ACCEPT)));
	expect_accepted(line, requested);
}

TEST_P(Late, ARequesterHearsTheAnswerThatCameInItsTime)
{
	for (VIP_ULONG msec : {VIP_ULONG{VIP_INFINITE}, VIP_ULONG{LONG_MSEC / 2}}) { // its own time is over, too
		Gate gate(device(), name);
		auto requested = request_here(msec);
		Line line = gate.accept();

		ASSERT_EQ(line.next(), MESSAGE_REQUEST);
		answer_while_held(line);
		be_late();
		expect_accepted(line, requested);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	}
}

// The thread that waits ends the attempt if the agent does not.
TEST_P(Late, AThreadWhoseTimeIsOverHearsTheAnswerThatCameInIt)
{
	Gate gate(device(), name);
	const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1000);
	auto requested = request_here(1000);
	Line line = gate.accept();

	ASSERT_EQ(line.next(), MESSAGE_REQUEST);
	answer_while_held(line);
	const bool is_in_time = std::chrono::steady_clock::now() < end;
	const VIP_RETURN rc = requested.get();
	EXPECT_TRUE(rc == VIP_SUCCESS || !is_in_time) << testing::PrintToString(rc);
}

TEST_P(Late, APeerHearsTheAnswerThatCameInItsTime)
{
	Address own("0.0.0.0", "a" + name), other(host, name);
	VIP_VI_ATTRIBUTES attributes;
	Gate gate(device(), name);

	ASSERT_EQ(VipConnectPeerRequest(a, own.get(), other.get(), LONG_MSEC / 2), VIP_SUCCESS);
	Line line = gate.accept();
	ASSERT_EQ(line.next(), MESSAGE_PEER_REQUEST);
	answer_while_held(line);
	be_late();
	EXPECT_EQ(line.next(), MESSAGE_CONFIRM);
	EXPECT_EQ(VipConnectPeerWait(a, &attributes), VIP_SUCCESS);
}

// ---- a server ----

TEST_P(Late, AServerHearsTheRequestOfWhoHasConnected)
{
	wait_in_vain(name);
	Line line = call();
	let_hear();
	hold_agent();
	EXPECT_TRUE(line.say(spoken(MESSAGE_REQUEST)));
	be_late();
	expect_busy(line);
}

TEST_P(Late, AServerHearsTheRequestsOfACrowd)
{
	constexpr size_t kMost = 64; // without a request
	std::vector<Line> lines;

	const GraceTime longer(20 * PATIENCE); // so that all are held

	wait_in_vain(name);
	const auto before = static_cast<size_t>(descriptors());
	for (size_t i = 0; i < kMost; i++)
		lines.push_back(call());
	EXPECT_TRUE(eventually([&] { return static_cast<size_t>(descriptors()) == before + 2 * kMost; })); // both ends'
	hold_agent();
	Line last = call(); // is the first that the agent sees, and one more than it keeps
	for (Line &line : lines)
		EXPECT_TRUE(line.say(spoken(MESSAGE_REQUEST)));
	holds_agents = false;
	for (size_t i = 0; i < kMost; i++) {
		ASSERT_EQ(wait_for(), VIP_SUCCESS) << i;
		EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
	}
}

TEST_P(Late, AServerHearsTheConfirmation)
{
	auto accepted = accept_at(a);
	Line line = ask();

	hold_agent();
	EXPECT_TRUE(line.say(MESSAGE_CONFIRM));
	be_late();
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
}

// Their server may come back in a moment.
TEST_P(Late, AServerIsBusyForWhoHasAskedWithinItsGraceTime)
{
	wait_in_vain(name);
	hold_agent();
	Line line = asked();
	be_late();
	expect_busy(line);
}

TEST_P(Late, AServerIsBusyForWhoseRequestIsHeld)
{
	const GraceTime longer(20 * PATIENCE);

	wait_in_vain(name);
	Line line = asked();
	ASSERT_EQ(line.next(true), MESSAGE_HERE);
	let_agent_look();
	hold_agent();
	be_late(2 * 20 * static_cast<int>(PATIENCE));
	expect_busy(line);
}

// ---- an agent that says nothing ----

// It is perhaps only late.
TEST_P(Late, AServerKeepsTheRequestWhereNobodyElseListens)
{
	Gate gate(device(), name);
	auto requested = request_here(VIP_INFINITE);
	Line line = gate.accept();

	ASSERT_EQ(line.next(), MESSAGE_REQUEST);
	for (int i = 0; i < 5; i++) {
		clock_jump(LONG_MSEC);
		let_agent_look();
	}
	EXPECT_TRUE(line.say(MESSAGE_HERE));
	EXPECT_TRUE(line.say(spoken(MESSAGE_ACCEPT)));
	expect_accepted(line, requested);
}

TEST_P(Late, AServerLosesTheRequestToAnyOtherWhoListens)
{
	for (auto [first, second] : {std::pair(0, 3), std::pair(1, 0), std::pair(1, 2)}) {
		Gate gate(device(), name, first);
		auto requested = request_here(VIP_INFINITE);
		Line line = gate.accept();

		ASSERT_EQ(line.next(), MESSAGE_REQUEST);
		Gate other(device(), name, second);
		clock_jump(LONG_MSEC);
		wait_in_vain(name + "-other");
		Line look = other.accept(), next = other.accept();
		EXPECT_EQ(look.next(), Line::END);
		ASSERT_EQ(next.next(), MESSAGE_REQUEST) << first << second;
		EXPECT_EQ(line.next(), Line::END);
		EXPECT_TRUE(next.say(spoken(MESSAGE_ACCEPT)));
		expect_accepted(next, requested);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	}
}

// ---- a requester that does not confirm ----

TEST_P(Late, ARequesterHasTimeToConfirmWhileNobodyElseAsks)
{
	auto accepted = accept_at(a);
	Line line = ask();

	for (int i = 0; i < 2; i++) {
		clock_jump(3500);
		let_agent_look();
		EXPECT_EQ(state_of(a), VIP_STATE_CONNECT_PENDING);
	}
	EXPECT_TRUE(line.say(MESSAGE_CONFIRM));
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
}

TEST_P(Late, ARequesterHasLessTimeToConfirmWhileOthersAsk)
{
	auto accepted = accept_at(a);
	Line silent = ask(), other = asked();

	EXPECT_EQ(other.next(true), MESSAGE_HERE);
	let_agent_look();
	EXPECT_EQ(state_of(a), VIP_STATE_CONNECT_PENDING);
	clock_jump(3500);
	let_agent_look();
	EXPECT_EQ(state_of(a), VIP_STATE_IDLE);
	EXPECT_EQ(accepted.get(), VIP_TIMEOUT);
	EXPECT_EQ(silent.next(), Line::END);
}

// Longer than its grace time, which counts from the last wait.
TEST_P(Late, AServerListensWhileARequesterMakesItWait)
{
	const GraceTime shorter(4000);
	auto accepted = accept_at(a);
	Line line = ask();

	for (int i = 0; i < 2; i++) {
		clock_jump(3500);
		let_agent_look();
	}
	Line other = asked();
	let_agent_look();
	EXPECT_TRUE(line.say(MESSAGE_CONFIRM));
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
	b = make_vi();
	auto next = accept_at(b);
	EXPECT_EQ(other.next(), MESSAGE_ACCEPT) << "its request was held";
	EXPECT_TRUE(other.say(MESSAGE_CONFIRM));
	EXPECT_EQ(next.get(), VIP_SUCCESS);
	Line last = asked();
	expect_busy(last); // its grace time begins again
}

// It has given the requester up, or has died and come again.
TEST_P(Late, ARequesterWhoseConfirmationIsTooLateAsksAgain)
{
	Gate gate(device(), name);
	auto requested = request_here(VIP_INFINITE);
	{
		Line line = gate.accept();
		ASSERT_EQ(line.next(), MESSAGE_REQUEST);
		answer_while_held(line);
		line.reset();
	}
	be_late();
	Line line = gate.accept();
	ASSERT_EQ(line.next(), MESSAGE_REQUEST);
	EXPECT_TRUE(line.say(spoken(MESSAGE_ACCEPT)));
	expect_accepted(line, requested);
}

// ---- a connection that breaks ----

TEST_P(Late, AnErrorIsToldAndTheStateIsKnownAtOnce)
{
	for (bool asks : {true, false}) {
		b = make_vi();
		connect(a, b, name + (asks ? "-a" : "-d"));
		VIP_DESCRIPTOR *first = posted_receive(b, 0, {{memory.data(), 8}}),
			       *second = posted_receive(b, 1, {{memory.data(8), 8}});
		hold_agent();
		posted_send(a, 2, {{memory.data(64), 9}});
		expect_received(b, first, VIP_STATUS_LENGTH_ERROR);
		if (asks) {
			EXPECT_EQ(state_of(b), VIP_STATE_ERROR);
			EXPECT_EQ(recv_done(b), (Taken{VIP_DESCRIPTOR_ERROR, second}));
			expect_received(b, posted_receive(b, 3, {}), VIP_STATUS_DESC_FLUSHED_ERROR);
		}
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
		EXPECT_EQ(second->CS.Status & VIP_STATUS_ERROR_MASK, VIP_ULONG{VIP_STATUS_DESC_FLUSHED_ERROR});
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		holds_agents = false;
		while (!(recv_done(b) == Taken{VIP_DESCRIPTOR_ERROR}) || !(send_done(a) == Taken{VIP_DESCRIPTOR_ERROR}))
			;
		connect(a, b, name + "-n");
		expect_traffic(a, b);
		disconnect_pair();
	}
}

// It would see the error at its next look, too, which may be a second later.
TEST_P(Late, AnErrorWakesTheAgent)
{
	b = make_vi();
	connect(a, b, name);
	VIP_DESCRIPTOR *r = posted_receive(b, 0, {{memory.data(), 8}});
	agents_sleep_on = true;
	EXPECT_TRUE(eventually([] { return agents_asleep == 1; }));
	posted_send(a, 1, {{memory.data(64), 9}});
	expect_received(b, r, VIP_STATUS_LENGTH_ERROR);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, b));
	agents_sleep_on = false;
}

INSTANTIATE_TEST_SUITE_P(Devices, Late, testing::Values(&VIA_LO, &RDMA), device_name);

} // namespace
