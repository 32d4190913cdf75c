// SPDX-License-Identifier: BSD-2-Clause
// A program that closes all descriptors, or the standard ones, as daemons do, or lowers the limit on them, while it has a
// NIC.
#include "support.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <thread>
#include <unistd.h>

namespace
{

class LostFds : public Each<NicTest, const char *>
{
      protected:
	void open_and_connect()
	{
		open(GetParam());
		make_pair();
	}
	// A process that does nothing but wait takes thousandths of a second, and on a busy machine no more.
	void expect_rest(const Vi &vi, VIP_RETURN wanted = VIP_TIMEOUT)
	{
		const double before = seconds(CLOCK_PROCESS_CPUTIME_ID);

		EXPECT_EQ(recv_wait(vi, 1000).code, wanted);
		usleep(wanted == VIP_TIMEOUT ? 0 : 1000000);
		EXPECT_LT(seconds(CLOCK_PROCESS_CPUTIME_ID) - before, 0.1);
	}
};

std::vector<int> open_numbers()
{
	std::vector<int> numbers;

	for (int fd = 3; fd < 2048; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			numbers.push_back(fd);
	return numbers;
}

// Files of the program's with the very numbers that the library's had. Each of its epoll descriptors knows all of them.
class Replacements
{
      public:
	enum Kind { COUNTER, EPOLL, DATAGRAMS, STREAM, TIMER, KINDS };
	Replacements(const std::vector<int> &numbers, unsigned turn)
	{
		for (int number : numbers)
			files_.push_back({number, static_cast<Kind>((files_.size() + turn) % KINDS), -1});
		for (auto &file : files_)
			make(file);
		for (const auto &epoll : files_)
			for (const auto &file : files_)
				if (epoll.kind == EPOLL && file.kind != EPOLL) {
					EXPECT_EQ(change(epoll, EPOLL_CTL_ADD, file), 0);
				}
	}
	void expect_untouched() const
	{
		for (const auto &file : files_) {
			SCOPED_TRACE(testing::Message() << "number " << file.number << ", kind " << file.kind);
			uint64_t count;
			itimerspec time;
			char byte = 0;
			if (file.kind == COUNTER) {
				EXPECT_EQ(read(file.number, &count, sizeof(count)), -1) << "counted";
			} else if (file.kind == TIMER) {
				EXPECT_EQ(timerfd_gettime(file.number, &time), 0);
				EXPECT_EQ(time.it_value.tv_sec + time.it_value.tv_nsec, 0) << "set";
			} else if (file.kind != EPOLL) {
				EXPECT_EQ(recv(file.other, &byte, 1, MSG_DONTWAIT), -1) << "written to, or shut down";
				EXPECT_EQ(recv(file.number, &byte, 1, MSG_DONTWAIT | MSG_PEEK), 1) << "read";
				EXPECT_EQ(byte, 'x');
			}
			for (const auto &epoll : files_)
				if (epoll.kind == EPOLL && file.kind != EPOLL) {
					EXPECT_EQ(change(epoll, EPOLL_CTL_ADD, file), EEXIST) << "taken out of " << epoll.number;
				}
		}
	}

      private:
	struct File {
		int number;
		Kind kind;
		int other; // the other end of a socket
	};
	static void put(int fd, int number)
	{
		const int far = fcntl(fd, F_DUPFD, 300); // where no number is wanted

		close(fd);
		EXPECT_EQ(dup2(far, number), number);
		close(far);
	}
	static void make(File &file)
	{
		const int type = file.kind == STREAM ? SOCK_STREAM : SOCK_DGRAM;
		int ends[2];

		if (file.kind == COUNTER) {
			put(eventfd(0, EFD_NONBLOCK), file.number);
		} else if (file.kind == EPOLL) {
			put(epoll_create1(0), file.number);
		} else if (file.kind == TIMER) {
			put(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), file.number);
		} else {
			ASSERT_EQ(socketpair(AF_UNIX, type, 0, ends), 0);
			file.other = fcntl(ends[1], F_DUPFD, 400);
			close(ends[1]);
			put(ends[0], file.number);
			ASSERT_EQ(send(file.other, "x", 1, 0), 1);
		}
	}
	static int change(const File &epoll, int operation, const File &file)
	{
		epoll_event event{};

		event.events = EPOLLIN;
		return epoll_ctl(epoll.number, operation, file.number, &event) ? errno : 0;
	}
	std::vector<File> files_;
};

class AllFdsLost : public LostFds
{
      protected:
	// Then what takes no descriptor can be made until the NIC has failed.
	static bool has_no_channels()
	{
		return std::string(GetParam()) == "via_lo";
	}
	// The numbers of the library's.
	std::vector<int> open_and_list()
	{
		const std::vector<int> before = open_numbers();

		open_and_connect();
		std::vector<int> numbers = open_numbers();
		for (int fd : before)
			numbers.erase(std::find(numbers.begin(), numbers.end(), fd));
		return numbers;
	}
};

TEST_P(AllFdsLost, EndAllWaitsAndFailTheNic)
{
	passing_child({}, [this] {
		const std::vector<int> numbers = open_and_list();
		VIP_DESCRIPTOR *d = posted_receive(b, 0, {{memory.data(), 64}});
		auto waited = std::async(std::launch::async, [&] { return wait("nobody", VIP_INFINITE); });
		auto received = std::async(std::launch::async, [&] { return recv_wait(b, VIP_INFINITE); });

		syscall(SYS_close_range, 3, ~0U, 0);
		Replacements files(numbers, 0);
		EXPECT_EQ(received.get(), (Taken{VIP_DESCRIPTOR_ERROR, d}));
		EXPECT_EQ(waited.get(), VIP_ERROR_RESOURCE);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CATASTROPHIC));
		EXPECT_EQ(wait("nobody", VIP_INFINITE), VIP_ERROR_RESOURCE);
		EXPECT_EQ(request(a, "nobody", 100), VIP_INVALID_STATE);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_EQ(request(a, "nobody", VIP_INFINITE), VIP_ERROR_RESOURCE);
		EXPECT_EQ(recv_wait(a, VIP_INFINITE).code, VIP_ERROR_RESOURCE);

		expect_rest(a, VIP_ERROR_RESOURCE);
		close();
		files.expect_untouched();
	});
}

TEST_P(AllFdsLost, TheirNumbersAreTheProgramsAtOnce)
{
	for (unsigned turn = 0; turn < Replacements::KINDS; turn++)
		passing_child({}, [&] {
			const std::vector<int> numbers = open_and_list();
			VIP_CQ_HANDLE cq = make_cq(8);
			const Vi c = make_vi();

			auto received = std::async(std::launch::async, [&] { return recv_wait(b, 3000).code; });
			syscall(SYS_close_range, 3, ~0U, 0);
			Replacements files(numbers, turn);

			// Before the agent has seen it, or afterwards.
			post_recv(b, descriptor(0, {{memory.data(), 64}}));
			post_send(a, descriptor(1, {{memory.data(100), 8}}));
			send_done(a);
			wait("nobody", 0);
			VipDestroyCQ(cq);
			VipDestroyVi(c);
			EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
			files.expect_untouched();
			received.get();
			close();
			files.expect_untouched();
		});
}

// Also where files of the program have their numbers that no epoll takes.
TEST_P(AllFdsLost, AreTheReasonThatIsToldOfWhatCannotBeMade)
{
	for (bool are_others : {false, true}) {
		const Child child = passing_child({}, [&] {
			const std::vector<int> numbers = open_and_list();
			VIP_VI_HANDLE vi;
			VIP_CQ_HANDLE cq;

			syscall(SYS_close_range, 3, ~0U, 0);
			const int file = ::open("/proc/self/status", O_RDONLY);
			for (int number : numbers)
				if (are_others && number != file) {
					EXPECT_EQ(dup2(file, number), number);
				}
			if (has_no_channels()) {
				EXPECT_TRUE(errors.reach(VIP_ERROR_CATASTROPHIC));
			}
			EXPECT_EQ(VipCreateVi(nic, &vi_kind, nullptr, nullptr, &vi), VIP_ERROR_RESOURCE);
			EXPECT_EQ(VipCreateCQ(nic, 10, &cq), VIP_ERROR_RESOURCE);
			EXPECT_EQ(request(a, "nobody", 100), VIP_INVALID_STATE);
			EXPECT_TRUE(errors.reach(VIP_ERROR_CATASTROPHIC));
			close();
		});

		expect_said(child.err, std::string(has_no_channels() ? "has failed: epoll_wait()" : "no completion channel: epoll_ctl()") +
						   ": Bad file descriptor (the program has closed file descriptors of the library's)");
		EXPECT_EQ(child.err.find("has to allow"), std::string::npos) << child.err;
	}
}

int memory_files(void (*change)(int fd))
{
	int count = 0;
	for (const auto &file : std::filesystem::directory_iterator("/proc/self/fd")) {
		std::error_code has_gone;
		if (std::filesystem::read_symlink(file, has_gone).string().rfind("/memfd:vipl-", 0) != 0)
			continue;
		count++;
		change(std::stoi(file.path().filename()));
	}
	return count;
}

// What a process says of a file holds for all that have it.
TEST_P(AllFdsLost, OfMemoryThatPeersHaveAreClosedWhateverAPeerSaysOfIt)
{
	passing_child({}, [this] {
		VIP_CQ_HANDLE cq;

		open_and_connect();
		ASSERT_EQ(VipCreateCQ(nic, 16, &cq), VIP_SUCCESS);
		EXPECT_EQ(memory_files([](int fd) { EXPECT_EQ(fcntl(fd, F_SETSIG, 0), 0); }), 2);
		EXPECT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
		EXPECT_EQ(memory_files([](int) {}), 1);
		close();
		EXPECT_EQ(memory_files([](int) {}), 0);
	});
}

// A limit below the number of descriptors that somebody waits for.
TEST_P(LostFds, ALimitThatIsLoweredHindersNobody)
{
	passing_child({}, [this] {
		const struct rlimit none = {0, 0};

		open_and_connect();
		setrlimit(RLIMIT_NOFILE, &none);
		expect_rest(b);
		posted_receive(b, 0, {{memory.data(), 64}});
		auto received = std::async(std::launch::async, [&] { return recv_wait(b, VIP_INFINITE).code; });
		VIP_DESCRIPTOR *s = posted_send(a, 1, {{memory.data(100), 8}});
		EXPECT_EQ(received.get(), VIP_SUCCESS);
		expect_sent(a, s);
		expect_rest(b);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, b));
		close();
	});
}

// ---- standard input, output and error ----

// They, and files of the program that have their numbers, are those of nothing that the library has, nor of what
// libibverbs opens for it.
using StandardFds = Each<NicTest, const char *>;

std::string open_ones()
{
	std::string found;

	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		const std::string link = "/proc/self/fd/" + std::to_string(fd);
		char name[256];
		const ssize_t length = readlink(link.c_str(), name, sizeof(name));

		if (length > 0)
			found += std::string(name, static_cast<size_t>(length)) + " ";
	}
	return found;
}

TEST_P(StandardFds, AreNeverTheLibrarys)
{
	const std::string door = "standard" + std::to_string(getpid());
	const bool is_loopback = !strcmp(GetParam(), "via_lo");
	std::future<VIP_RETURN> requested;
	VIP_CQ_HANDLE cq = nullptr;
	const std::function<void()> steps[] = {
		[&] { ASSERT_EQ(VipOpenNic(GetParam(), &nic), VIP_SUCCESS); },
		[&] {
			cq = make_cq(8);
			a = make_vi(nullptr, cq);
			b = make_vi(nullptr, cq);
			ASSERT_EQ(wait(door, 0), VIP_TIMEOUT); // requests are held from now on
		},
		[&] {
			requested = request_async(a, door, is_loopback ? "127.0.0.1" : "10.9.9.1");
			ASSERT_EQ(wait(door, PATIENCE), VIP_SUCCESS);
		},
		[&] {
			ASSERT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
			ASSERT_EQ(requested.get(), VIP_SUCCESS);
		},
		[&] { ASSERT_EQ(VipCQNotify(cq, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {}), VIP_SUCCESS); },
		[&] { close(); },
	};

	// They are closed before each of the steps.
	for (size_t closed = 0; closed < std::size(steps); closed++) {
		Child child = passing_child({}, [&] {
			const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 100);

			for (size_t i = 0; i < std::size(steps); i++) {
				for (int fd = 0; i == closed && fd <= STDERR_FILENO; fd++)
					::close(fd);
				steps[i]();
				if (i >= closed)
					dprintf(out, "%s", open_ones().c_str());
			}
		});
		EXPECT_EQ(child.out, "") << closed;
	}
}

std::string device_of(const testing::TestParamInfo<const char *> &device)
{
	return device.param;
}

// The fake of libibverbs does not bear it.
INSTANTIATE_TEST_SUITE_P(Devices, AllFdsLost, testing::Values("via_lo"), device_of);
INSTANTIATE_TEST_SUITE_P(Devices, LostFds, testing::Values("via_lo", "nic0"), device_of);
INSTANTIATE_TEST_SUITE_P(Devices, StandardFds, testing::Values("via_lo", "nic0"), device_of);

} // namespace
