// SPDX-License-Identifier: BSD-2-Clause
// A program that installs a filter of system calls while it has a NIC open: each case refuses one call of those that the
// library makes. Nothing spins, nothing hangs, each call of VIPL returns a code that it may return, and where it fails a
// line of the log names the call that is refused. Not here is futex(), without which the C library has no locks.
#include "old_kernel.h"
#include "support.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 // they map memory of their own
#else
#define SANITIZED 0
#endif

namespace
{

struct Refused : Named {
	unsigned number;
	int error;
	const char *call;   // as the log names it, or its beginning
	const char *reason; // that the log tells
};

#define FAILING(name, error, reason) {#name "_" #error, SYS_##name, error, #name "(", reason}
#define CALL(name) {#name, SYS_##name, EPERM, #name "(", "has to allow it"}
#define UNKNOWN(name) {#name, SYS_##name, ENOSYS, #name "(", "has to allow it"}
const Refused CALLS[] = {
	CALL(accept4), UNKNOWN(bind), CALL(clone), CALL(clone3), CALL(connect), CALL(epoll_create1),
	CALL(epoll_ctl), UNKNOWN(epoll_pwait), {"eventfd2", SYS_eventfd2, EPERM, "eventfd(", "has to allow it"}, UNKNOWN(fallocate), CALL(fcntl), CALL(fstat), CALL(fstatfs),
	CALL(ftruncate), UNKNOWN(getrandom), CALL(getsockopt), CALL(listen), CALL(madvise),
	UNKNOWN(memfd_create), CALL(openat), CALL(pidfd_open), CALL(ppoll), CALL(pread64), CALL(process_vm_readv),
	CALL(process_vm_writev), CALL(pwrite64), CALL(pwritev), CALL(pwritev2), CALL(read), CALL(recvfrom),
	CALL(recvmsg), CALL(sendmsg), CALL(sendto), CALL(setsockopt), CALL(shutdown), CALL(socket), CALL(socketpair),
	CALL(timerfd_create), CALL(timerfd_settime), CALL(write),
	FAILING(accept4, EMFILE, "(see ulimit -n)"), FAILING(epoll_create1, EMFILE, "(see ulimit -n)"),
	FAILING(epoll_ctl, ENOSPC, "(see fs.epoll.max_user_watches)"), FAILING(epoll_ctl, ENOMEM, "memory of the machine"),
	FAILING(fallocate, ENOSPC, "memory of the machine"), FAILING(memfd_create, EMFILE, "(see ulimit -n)"),
	FAILING(memfd_create, ENFILE, "(see fs.file-max)"), FAILING(memfd_create, ENOMEM, "memory of the machine"),
	FAILING(sendmsg, ETOOMANYREFS, "is one stopped?"), FAILING(socket, EMFILE, "(see ulimit -n)"),
	FAILING(socket, ENFILE, "(see fs.file-max)"), FAILING(socket, ENOMEM, "memory of the machine"),
#if !SANITIZED
	CALL(mmap), FAILING(mmap, ENOMEM, "memory of the machine"),
#endif
#ifdef SYS_epoll_wait // not with every processor
	CALL(epoll_wait),
#endif
#ifdef SYS_newfstatat
	{"newfstatat", SYS_newfstatat, EPERM, "fstat(", "has to allow it"},
#endif
#ifdef SYS_poll
	CALL(poll),
#endif
};

// A thread that is there before the filter: perhaps there can be no other. It does one thing.
class Worker
{
      public:
	using Work = std::function<VIP_RETURN()>;
	std::future<VIP_RETURN> operator()(Work work)
	{
		order_.set_value(std::move(work));
		return std::move(result_);
	}

      private:
	std::promise<Work> order_;
	std::future<Work> work_ = order_.get_future();
	std::future<VIP_RETURN> result_ = std::async(std::launch::async, [this] { return work_.get()(); });
};

class Filters : public Each<NicTest, Refused>
{
      protected:
	static constexpr int SOMETHING_FAILED = 2; // the child's exit status
	static constexpr VIP_ULONG SOME_MSEC = 1500; // for what is tried, and may fail
	Worker *next = nullptr;
	bool has_failed = false;

	// A step has ended with this code. It succeeds, or fails as it may.
	void expect(const char *step, VIP_RETURN code, std::initializer_list<VIP_RETURN> failures)
	{
		has_failed |= code != VIP_SUCCESS;
		EXPECT_TRUE(code == VIP_SUCCESS || std::find(failures.begin(), failures.end(), code) != failures.end())
			<< step << ": " << testing::PrintToString(code);
	}
	// The other threads have nothing to do now. Beside this thread, which takes 50 ms of a processor's time, one that
	// spins would get as much, however busy the machine is.
	static void rest(const char *when)
	{
		std::mutex mutex;
		std::unique_lock<std::mutex> lock(mutex);
		std::condition_variable never;
		never.wait_for(lock, std::chrono::milliseconds(100)); // until ticks end
		const double all = seconds(CLOCK_PROCESS_CPUTIME_ID), own = seconds(CLOCK_THREAD_CPUTIME_ID);
		double used = 0;

		while (used < 0.05)
			used = seconds(CLOCK_THREAD_CPUTIME_ID) - own;
		EXPECT_LT(seconds(CLOCK_PROCESS_CPUTIME_ID) - all - used, 0.02) << "at rest: " << when;
	}
	void talk(VIP_VI_HANDLE from, VIP_VI_HANDLE to, size_t length, bool sleeps)
	{
		VIP_DESCRIPTOR *r = descriptor(0, {{memory.data(100000), 65000}}), *s = descriptor(1, {{memory.data(), length}});

		expect("VipPostRecv", post_recv(to, r), {});
		auto received = (*next++)([&] { return recv_wait(to, VIP_INFINITE).code; });
		if (sleeps)
			rest("a thread waits");
		expect("VipPostSend", post_send(from, s), {});
		expect("VipSendWait", send_wait(from, VIP_INFINITE).code, {VIP_DESCRIPTOR_ERROR});
		expect("VipRecvWait", received.get(), {VIP_DESCRIPTOR_ERROR});
	}
	void copy(VIP_VI_HANDLE vi, VIP_UINT16 operation, size_t length)
	{
		VIP_DESCRIPTOR *d = write_descriptor(2, memory.data(100000), {memory.data(), length});

		d->CS.Control = operation;
		expect("VipPostSend", post_send(vi, d), {});
		expect("VipSendWait of RDMA", send_wait(vi, VIP_INFINITE).code, {VIP_DESCRIPTOR_ERROR});
	}
	void open_and_connect(const std::string &door)
	{
		ASSERT_EQ(VipOpenNic("via_lo", &nic), VIP_SUCCESS);
		ASSERT_EQ(VipErrorCallback(nic, &errors, Errors::handler), VIP_SUCCESS);
		ASSERT_EQ(memory.add(nic, nullptr, true, true), VIP_SUCCESS);
		vi_kind.EnableRdmaRead = vi_kind.EnableRdmaWrite = VIP_TRUE;
		a = make_vi();
		b = make_vi();
		auto requested = (*next++)([&] { return request(a, door, VIP_INFINITE, "127.0.0.1"); });
		ASSERT_EQ(wait(door, VIP_INFINITE), VIP_SUCCESS);
		ASSERT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
		ASSERT_EQ(requested.get(), VIP_SUCCESS);
	}
	void make_others(VIP_CQ_HANDLE cq)
	{
		const auto handler = [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {};
		VIP_MEM_ATTRIBUTES none{};
		VIP_MEM_HANDLE handle;

		expect("VipCQNotify", VipCQNotify(cq, nullptr, handler), {VIP_ERROR_RESOURCE});
		expect("VipCreateCQ", VipCreateCQ(nic, 10, &cq), {VIP_ERROR_RESOURCE});
		VIP_VI_HANDLE vi;
		expect("VipCreateVi", VipCreateVi(nic, &vi_kind, nullptr, nullptr, &vi), {VIP_ERROR_RESOURCE});
		expect("VipRegisterMem", VipRegisterMem(nic, memory.data(), 100, &none, &handle), {VIP_ERROR_RESOURCE});
	}
	void connect_others(VIP_VI_HANDLE from, VIP_VI_HANDLE to, const std::string &door)
	{
		auto requested = (*next++)([&] { return request(from, door, 2 * SOME_MSEC, "127.0.0.1"); });
		const VIP_RETURN waited = wait(door, SOME_MSEC);

		expect("VipConnectWait", waited, {VIP_TIMEOUT, VIP_ERROR_RESOURCE});
		if (waited == VIP_SUCCESS)
			expect("VipConnectAccept", VipConnectAccept(conn, to), {VIP_TIMEOUT, VIP_ERROR_RESOURCE});
		expect("VipConnectRequest", requested.get(), {VIP_TIMEOUT, VIP_NO_MATCH, VIP_REJECT, VIP_ERROR_RESOURCE});
	}
	// A line has the call, its error and the reason, and none has another call with that error.
	static void expect_told(const std::string &log)
	{
		const std::string error = std::string(": ") + strerror(GetParam().error);
		std::istringstream lines(log);
		bool is_told = false;

		for (std::string line; std::getline(lines, line);) {
			if (line.find(error) == std::string::npos)
				continue;
			EXPECT_NE(line.find(GetParam().call), std::string::npos) << "another call is named: " << line;
			is_told |= line.find(GetParam().reason) != std::string::npos;
		}
		EXPECT_TRUE(is_told) << GetParam().call << " and \"" << GetParam().reason << "\" are not in: " << log;
	}
	// In the child.
	void do_everything()
	{
		const std::string door = "filters" + std::to_string(getpid());

		next = new Worker[4]; // to connect twice, and to receive twice
		open_and_connect(door);
		VIP_CQ_HANDLE cq = make_cq(10);
		Vi c = make_vi(), d = make_vi(nullptr, cq);
		if (HasFatalFailure())
			return;
		ASSERT_TRUE(refuse_call(GetParam().number, GetParam().error));
		talk(a, b, 8, true);
		talk(b, a, 60000, false);
		for (VIP_UINT16 operation : {VIP_CONTROL_OP_RDMAWRITE, VIP_CONTROL_OP_RDMAREAD}) {
			copy(a, operation, 8);
			copy(b, operation, 60000);
		}
		make_others(cq);
		connect_others(c, d, door);
		rest("connecting");
		expect("VipDisconnect", VipDisconnect(a), {});
		expect_state(b, VIP_STATE_ERROR);
		rest("disconnecting");
		expect("VipCloseNic", VipCloseNic(nic), {});
		nic = nullptr;
	}
};

TEST_P(Filters, AreAnsweredWithACodeAndALineThatNamesTheCall)
{
	if (!has_filters())
		GTEST_SKIP() << "no filters of system calls";
	Child child = in_child({{"VIPL_GRACE_MSEC", "300"}}, [this] {
		try {
			do_everything();
		} catch (const std::exception &failure) { // else it would run the next test
			ADD_FAILURE() << failure.what();
		}
		fflush(stdout);
		_exit(HasFailure() ? 1 : has_failed ? SOMETHING_FAILED : 0);
	});

	ASSERT_TRUE(WIFEXITED(child.status)) << "a hang, or a crash: " << child.status << child.out << child.err;
	EXPECT_TRUE(child.status == 0 || WEXITSTATUS(child.status) == SOMETHING_FAILED) << child.out << child.err;
	if (child.status)
		expect_told(child.err);
}

TEST_P(Filters, ThatAreThereBeforeANicIsOpenedAreNamed)
{
	const Child child = in_child({}, [] {
		VIP_NIC_HANDLE none;

		_exit(!refuse_call(GetParam().number, GetParam().error) || VipOpenNic("via_lo", &none) == VIP_SUCCESS ? 0 : 1);
	});

	if (child.status)
		expect_told(child.err);
	for (unsigned needed : {SYS_epoll_create1, SYS_memfd_create, SYS_timerfd_create})
		EXPECT_TRUE(child.status || GetParam().number != needed) << "there is a NIC without it";
}

// A thread of the program has a filter of its own: the agent wakes the peer in its place.
using Confined = NicTest;

TEST_F(Confined, AThreadThatMayNotWakeItsPeerSendsNevertheless)
{
	passing_child({}, [this] {
		open("via_lo");
		make_pair();
		for (int i = 0; i < 3; i++) {
			VIP_DESCRIPTOR *r = posted_receive(b, 0, {{memory.data(), 64}});
			auto received = std::async(std::launch::async, [&] { return recv_wait(b); });

			std::thread([&] { // it alone
				EXPECT_TRUE(refuse_call(SYS_sendmsg, EPERM, 0));
				posted_send(a, 1, {{memory.data(100), 8}});
			}).join();
			EXPECT_EQ(received.get(), (Taken{VIP_SUCCESS, r}));
			expect_sent(a, at(1));
		}
		EXPECT_EQ(errors.count(VIP_ERROR_CATASTROPHIC), 0);
		close();
	});
}

// Nobody polls, so only a wake-up tells of the message.
TEST_F(Confined, TheAgentWakesThePeerInPlaceOfAThreadThatMayNot)
{
	passing_child({}, [this] {
		open("via_lo");
		make_pair();
		const VIP_DESCRIPTOR *r = posted_receive(b, 0, {{memory.data(), 64}});

		await_rest();
		std::thread([&] { // it alone
			EXPECT_TRUE(refuse_call(SYS_sendto, EPERM, 0) && refuse_call(SYS_sendmsg, EPERM, 0));
			posted_send(a, 1, {{memory.data(100), 8}});
		}).join();
		EXPECT_TRUE(eventually([&] { return is_done(r); }));
		close();
	});
}

TEST(OldKernel, WithoutASealIsNamed)
{
	const Child child = passing_child({}, [] {
		VIP_NIC_HANDLE none;

		if (be_before_5_1())
			EXPECT_EQ(VipOpenNic("via_lo", &none), VIP_ERROR_RESOURCE);
		else
			fputs("fcntl(F_ADD_SEALS, F_SEAL_FUTURE_WRITE): Invalid argument (it needs Linux 5.1)", stderr);
	});

	expect_said(child.err, "fcntl(F_ADD_SEALS, F_SEAL_FUTURE_WRITE): Invalid argument (it needs Linux 5.1)");
}

INSTANTIATE_TEST_SUITE_P(Calls, Filters, testing::ValuesIn(CALLS), ByName());

} // namespace
