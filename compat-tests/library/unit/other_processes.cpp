// SPDX-License-Identifier: BSD-2-Clause
// The other end is a process of this library that is stopped, or killed, or that ends while a child of it lives on, forked or with
// its memory, at each step of a conversation.
#include "conversation.h"

#include <csignal>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

namespace
{

// A child, which tells of its steps by a byte each, and ends with this at the latest.
class Process
{
      public:
	explicit Process(const std::function<void(Process &)> &body)
	{
		EXPECT_EQ(pipe2(steps_, O_CLOEXEC) | pipe2(orders_, O_CLOEXEC), 0);
		fflush(stdout);
		pid_ = fork();
		if (pid_)
			return;
		alarm(50);
		body(*this);
		fflush(stdout);
		_exit(testing::Test::HasFailure() ? 1 : 0);
	}
	~Process()
	{
		kill(SIGKILL);
		waitpid(pid_, nullptr, 0);
		for (int fd : {steps_[0], steps_[1], orders_[0], orders_[1]}) // a child of the child ends by this
			close(fd);
	}
	Process(const Process &) = delete;
	Process &operator=(const Process &) = delete;
	void kill(int signal)
	{
		EXPECT_EQ(::kill(pid_, signal), 0);
	}
	// Kills it, and waits until it is gone.
	void end()
	{
		siginfo_t info;

		kill(SIGKILL);
		EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT), 0);
	}
	// Stops it, and waits until it stands.
	void stop()
	{
		siginfo_t info;

		kill(SIGSTOP);
		EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED), 0);
	}
	void order()
	{
		EXPECT_EQ(write(orders_[1], "", 1), 1);
	}
	void expect_step()
	{
		pollfd p = {steps_[0], POLLIN, 0};
		char byte;

		ASSERT_EQ(poll(&p, 1, PATIENCE), 1);
		EXPECT_EQ(read(steps_[0], &byte, 1), 1);
	}
	// These three are for the child.
	void step()
	{
		EXPECT_EQ(write(steps_[1], "", 1), 1);
	}
	void await_order()
	{
		char byte;

		close(orders_[1]);
		orders_[1] = -1;
		if (read(orders_[0], &byte, 1) != 1)
			_exit(1);
	}
	// Has a child that does nothing, and ends when the test lets go of the pipe.
	void beget()
	{
		if (fork())
			return;
		step();
		await_order();
		_exit(0);
	}

	// Has one that shares its memory, and its sockets, as after vfork().
	void beget_sharing()
	{
		static char stack[65536] __attribute__((aligned(64)));

		close(orders_[1]);
		orders_[1] = -1;
		if (clone(wait_for_the_end, stack + sizeof(stack), CLONE_VM | SIGCHLD, &orders_[0]) > 0)
			step();
		else // under QEMU's user mode only threads share memory
			beget();
	}

      private:
	static int wait_for_the_end(void *end) // and do nothing else
	{
		char byte;

		while (read(*static_cast<int *>(end), &byte, 1) < 0)
			;
		_exit(0);
	}
	pid_t pid_ = -1;
	int steps_[2], orders_[2];
};

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
	VIP_RETURN wait_and_accept(VIP_CONN_HANDLE *conn)
	{
		VIP_RETURN rc = wait(name, PATIENCE, conn);

		return rc == VIP_SUCCESS ? VipConnectAccept(*conn, a) : rc;
	}
	// At the step that it stands in, the process meets its fate.
	void meet(Process &process)
	{
		process.expect_step();
		if (GetParam() != Fate::Killed)
			process.expect_step(); // its child is there
		process.end();
	}
	// The child's part of that.
	void reach(Process &process)
	{
		process.step();
		if (GetParam() == Fate::Forked)
			process.beget();
		else if (GetParam() == Fate::Sharing)
			process.beget_sharing();
	}
	void expect_lost()
	{
		EXPECT_TRUE(eventually([&] { return state_of(a) == VIP_STATE_ERROR; }));
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	}
	std::string name;
};

TEST_P(OtherProcess, AServerEndsWhileItWaits)
{
	Process server([&](Process &self) {
		VIP_CONN_HANDLE conn;

		open_local();
		auto waited = std::async(std::launch::async, [&] { return wait(name, VIP_INFINITE, &conn); });
		Line line(VIA_LO, name); // it listens now
		reach(self);
		self.await_order();
	});

	meet(server);
	open_local();
	EXPECT_EQ(request_it(), VIP_NO_MATCH) << "nobody holds its socket";
}

TEST_P(OtherProcess, AServerEndsBeforeItAnswers)
{
	Process server([&](Process &self) {
		VIP_CONN_HANDLE conn;

		open_local();
		EXPECT_EQ(wait(name, PATIENCE, &conn), VIP_SUCCESS);
		reach(self);
		self.await_order();
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
		self.await_order();
	});
	VIP_CONN_HANDLE conn;

	open_local();
	ASSERT_EQ(wait(name, PATIENCE, &conn), VIP_SUCCESS);
	requester.order();
	meet(requester);
	EXPECT_EQ(VipConnectAccept(conn, a), VIP_TIMEOUT);
}

using ConnectedProcess = OtherProcess;

TEST_P(ConnectedProcess, AServerEnds)
{
	Process server([&](Process &self) {
		VIP_CONN_HANDLE conn;

		open_local();
		EXPECT_EQ(wait_and_accept(&conn), VIP_SUCCESS);
		reach(self);
		self.await_order();
	});

	open_local();
	ASSERT_EQ(request_until_found(), VIP_SUCCESS);
	meet(server);
	expect_lost();
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
		VIP_CONN_HANDLE conn;

		open_local();
		auto accepted = std::async(std::launch::async, [&] { return wait_and_accept(&conn); });
		Line line(VIA_LO, name);
		self.step();
		EXPECT_EQ(accepted.get(), VIP_SUCCESS);
		self.step();
		self.await_order();
	});

	server.expect_step();
	server.stop();
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
		VIP_CONN_HANDLE conn;

		open_local();
		EXPECT_EQ(wait_and_accept(&conn), VIP_SUCCESS);
		self.step();
		EXPECT_TRUE(eventually([&] { return state_of(a) == VIP_STATE_ERROR; }));
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
		self.step();
		self.await_order();
	});

	open_local();
	ASSERT_EQ(request_until_found(), VIP_SUCCESS);
	server.expect_step();
	server.stop();
	EXPECT_EQ(state_of(a), VIP_STATE_CONNECTED);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS) << "it does not wait for the peer";
	server.kill(SIGCONT);
	server.expect_step();
}

INSTANTIATE_TEST_SUITE_P(Fates, StoppedProcess, testing::Values(Fate::Killed),
			 [](const auto &) { return std::string("stopped"); });

} // namespace
