// SPDX-License-Identifier: BSD-2-Clause
// A program that closes all descriptors, as daemons do, or lowers the limit on them, while it has a NIC.
#include "support.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace
{

// Of the process, which does nothing but wait: thousandths of a second, and on a busy machine no more.
double processor_seconds()
{
	struct rusage used;
	getrusage(RUSAGE_SELF, &used);
	return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	       static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

class LostFds : public Each<NicTest, const char *>
{
      protected:
	const char *address() const
	{
		return strcmp(GetParam(), "via_lo") ? "10.9.9.1" : "127.0.0.1";
	}
	void open_and_connect()
	{
		VIP_CONN_HANDLE conn;

		ASSERT_EQ(VipOpenNic(GetParam(), &nic), VIP_SUCCESS);
		ASSERT_EQ(VipErrorCallback(nic, &errors, Errors::handler), VIP_SUCCESS);
		ASSERT_EQ(memory.add(nic), VIP_SUCCESS);
		a = make_vi();
		b = make_vi();
		const std::string door = "lost" + std::to_string(getpid());
		auto requested = request_async(a, door, address());
		ASSERT_EQ(wait(door, PATIENCE, &conn), VIP_SUCCESS);
		ASSERT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
		ASSERT_EQ(requested.get(), VIP_SUCCESS);
	}
	void in_child_of_its_own(const std::function<void()> &body)
	{
		Child child = in_child({}, body);
		EXPECT_EQ(child.status, 0) << child.out << child.err;
	}
};

// Files of the program's, of all kinds, which have the numbers of the library's now.
class Files
{
      public:
	Files()
	{
		for (int i = 0; i < 40; i++) {
			fds_.push_back(memfd_create("file", 0));
			fds_.push_back(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
			fds_.push_back(epoll_create1(EPOLL_CLOEXEC));
			fds_.push_back(socket(AF_UNIX, SOCK_DGRAM, 0));
		}
	}
	void expect_untouched() const
	{
		for (size_t i = 0; i < fds_.size(); i++) {
			struct stat file;
			uint64_t count;

			ASSERT_EQ(fstat(fds_[i], &file), 0) << "closed: " << i;
			EXPECT_EQ(file.st_size, 0) << "written to: " << i;
			if (i % 4 == 1) {
				EXPECT_EQ(read(fds_[i], &count, sizeof(count)), -1) << "counted: " << i;
			}
		}
	}

      private:
	std::vector<int> fds_;
};

class AllFdsLost : public LostFds
{
};

TEST_P(AllFdsLost, EndAllWaitsAndFailTheNic)
{
	in_child_of_its_own([this] {
		VIP_DESCRIPTOR *done = nullptr;
		VIP_CONN_HANDLE conn;

		open_and_connect();
		VIP_DESCRIPTOR *d = descriptor(0, {{memory.data(), 64}});
		ASSERT_EQ(post_recv(b, d), VIP_SUCCESS);
		auto waited = std::async(std::launch::async, [&] { return wait("nobody", VIP_INFINITE, &conn); });
		auto received = std::async(std::launch::async, [&] { return VipRecvWait(b, VIP_INFINITE, &done); });

		syscall(SYS_close_range, 3, ~0U, 0);
		Files files;
		EXPECT_EQ(received.get(), VIP_DESCRIPTOR_ERROR);
		EXPECT_EQ(done, d);
		EXPECT_EQ(waited.get(), VIP_ERROR_RESOURCE);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CATASTROPHIC));
		EXPECT_EQ(wait("nobody", VIP_INFINITE, &conn), VIP_ERROR_RESOURCE);
		EXPECT_EQ(request(a, "nobody", 100, address()), VIP_INVALID_STATE);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_EQ(request(a, "nobody", VIP_INFINITE, address()), VIP_ERROR_RESOURCE);

		const double before = processor_seconds();
		EXPECT_EQ(VipSendWait(a, 1000, &done), VIP_TIMEOUT);
		EXPECT_LT(processor_seconds() - before, 0.1);
		close();
		files.expect_untouched();
	});
}

TEST_P(AllFdsLost, AreNotClosedASecondTime)
{
	in_child_of_its_own([this] {
		open_and_connect();
		syscall(SYS_close_range, 3, ~0U, 0);
		Files files;
		close();
		files.expect_untouched();
	});
}

int memory_files(void (*change)(int fd))
{
	int count = 0;
	for (int fd = 0; fd < 1024; fd++) {
		char name[64] = "";
		if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof(name) - 1) < 0 ||
		    strncmp(name, "/memfd:vipl-", 12))
			continue;
		count++;
		change(fd);
	}
	return count;
}

// What a process says of a file holds for all that have it.
TEST_P(AllFdsLost, OfMemoryThatPeersHaveAreClosedWhateverAPeerSaysOfIt)
{
	in_child_of_its_own([this] {
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
	in_child_of_its_own([this] {
		const struct rlimit none = {0, 0};
		VIP_DESCRIPTOR *done;

		open_and_connect();
		setrlimit(RLIMIT_NOFILE, &none);
		double before = processor_seconds();
		EXPECT_EQ(VipRecvWait(b, 1000, &done), VIP_TIMEOUT);
		EXPECT_LT(processor_seconds() - before, 0.1);

		VIP_DESCRIPTOR *d = descriptor(0, {{memory.data(), 64}});
		ASSERT_EQ(post_recv(b, d), VIP_SUCCESS);
		auto received = std::async(std::launch::async, [&] { return VipRecvWait(b, VIP_INFINITE, &done); });
		VIP_DESCRIPTOR *s = descriptor(1, {{memory.data(100), 8}});
		ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
		EXPECT_EQ(received.get(), VIP_SUCCESS);
		expect_sent(a, s);
		before = processor_seconds();
		EXPECT_EQ(VipRecvWait(b, 1000, &done), VIP_TIMEOUT);
		EXPECT_LT(processor_seconds() - before, 0.1);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, b));
		close();
	});
}

// The fake of libibverbs does not bear it.
INSTANTIATE_TEST_SUITE_P(Devices, AllFdsLost, testing::Values("via_lo"),
			 [](const auto &device) { return std::string(device.param); });
INSTANTIATE_TEST_SUITE_P(Devices, LostFds, testing::Values("via_lo", "nic0"),
			 [](const auto &device) { return std::string(device.param); });

} // namespace
