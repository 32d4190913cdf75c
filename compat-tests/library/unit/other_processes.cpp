// SPDX-License-Identifier: BSD-2-Clause
// The other end is a process of this library that is stopped, or killed, or that ends while a child of it lives on, forked or with
// its memory, at each step of a conversation.
#include "conversation.h"
#include "process.h"

namespace
{

enum class Fate { Killed, Forked, Sharing };
const char *const FATES[] = {"killed", "forked", "sharing"};

// Each test is for these fates. The NIC of the test is opened when the other process is there already.
class OtherProcess : public NicTest, public testing::WithParamInterface<Fate>
{
      protected:
	void SetUp() override
	{
		static int count;

		NicTest::SetUp();
		name = "p" + std::to_string(count++) + "-" + std::to_string(getpid());
	}
	void open_local()
	{
		open("via_lo");
		a = make_vi();
	}
	VIP_RETURN request_it(VIP_ULONG ms = PATIENCE)
	{
		return request(a, name, ms);
	}
	VIP_RETURN request_until_found()
	{
		VIP_RETURN rc = VIP_NO_MATCH;

		for (int tries = 0; tries < 100 && rc == VIP_NO_MATCH; tries++)
			rc = request_it();
		return rc;
	}
	// At the step that it stands in, the process meets its fate.
	void meet(Process &process)
	{
		process.expect_step();
		if (GetParam() != Fate::Killed)
			process.expect_step(); // its child is there
		process.end();
	}
	// The child's part of that. It ends there.
	void reach(Process &process)
	{
		process.step();
		if (GetParam() == Fate::Forked)
			process.beget();
		else if (GetParam() == Fate::Sharing)
			process.beget_sharing();
		process.await_order();
	}
	void expect_its_end()
	{
		expect_lost(a);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	}
	std::string name;
};

TEST_P(OtherProcess, AServerEndsWhileItWaits)
{
	Process server([&](Process &self) {
		open_local();
		auto waited = std::async(std::launch::async, [&] { return wait(name, VIP_INFINITE); });
		Line line(VIA_LO, name); // it listens now
		reach(self);
	});

	meet(server);
	open_local();
	EXPECT_EQ(request_it(), VIP_NO_MATCH) << "nobody holds its socket";
}

TEST_P(OtherProcess, AServerEndsBeforeItAnswers)
{
	Process server([&](Process &self) {
		open_local();
		EXPECT_EQ(wait(name, PATIENCE), VIP_SUCCESS);
		reach(self);
	});

	open_local();
	std::atomic<bool> is_over{false};
	auto requested = std::async(std::launch::async, [&] {
		VIP_RETURN rc;

		do // until the server is there, and once more
			rc = request_it();
		while (rc == VIP_NO_MATCH && !is_over);
		return rc;
	});
	meet(server);
	is_over = true;
	EXPECT_EQ(requested.get(), VIP_NO_MATCH);
}

TEST_P(OtherProcess, ARequesterEndsBeforeItIsAnswered)
{
	Process requester([&](Process &self) {
		open_local();
		auto requested = std::async(std::launch::async, [&] { return request_until_found(); });
		self.await_order(); // the server has the request
		reach(self);
	});

	open_local();
	ASSERT_EQ(wait(name, PATIENCE), VIP_SUCCESS);
	requester.order();
	meet(requester);
	EXPECT_EQ(VipConnectAccept(conn, a), VIP_TIMEOUT);
}

using ConnectedProcess = OtherProcess;

TEST_P(ConnectedProcess, AServerEnds)
{
	Process server([&](Process &self) {
		open_local();
		EXPECT_EQ(accept_one(nic, name, a), VIP_SUCCESS);
		reach(self);
	});

	open_local();
	ASSERT_EQ(request_until_found(), VIP_SUCCESS);
	meet(server);
	expect_its_end();
}

std::string name_of(const testing::TestParamInfo<Fate> &info)
{
	return FATES[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Fates, OtherProcess, testing::Values(Fate::Killed, Fate::Forked), name_of);
INSTANTIATE_TEST_SUITE_P(Fates, ConnectedProcess, testing::Values(Fate::Killed, Fate::Forked, Fate::Sharing), name_of);

// ---- stopped: nothing is lost, and what is bounded by time ends ----

using StoppedProcess = OtherProcess;

TEST_P(StoppedProcess, AServerIsStoppedWhileItWaits)
{
	Process server([&](Process &self) {
		open_local();
		auto accepted = std::async(std::launch::async, [&] { return accept_one(nic, name, a); });
		Line line(VIA_LO, name);
		self.step();
		EXPECT_EQ(accepted.get(), VIP_SUCCESS);
		self.step();
		self.await_order();
	});

	server.expect_step();
	server.end(SIGSTOP);
	open_local();
	EXPECT_EQ(request_it(300), VIP_TIMEOUT) << "it listens, and does not answer";
	auto requested = std::async(std::launch::async, [&] { return request_until_found(); });
	server.kill(SIGCONT);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	server.expect_step();
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
}

TEST_P(StoppedProcess, APeerIsStoppedWhenConnected)
{
	Process server([&](Process &self) {
		open_local();
		EXPECT_EQ(accept_one(nic, name, a), VIP_SUCCESS);
		self.step();
		expect_lost(a);
		self.step();
		self.await_order();
	});

	open_local();
	ASSERT_EQ(request_until_found(), VIP_SUCCESS);
	server.expect_step();
	server.end(SIGSTOP);
	EXPECT_EQ(state_of(a), VIP_STATE_CONNECTED);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS) << "it does not wait for the peer";
	server.kill(SIGCONT);
	server.expect_step();
}

INSTANTIATE_TEST_SUITE_P(Fates, StoppedProcess, testing::Values(Fate::Killed),
			 [](const auto &) { return std::string("stopped"); });

} // namespace
