/* SPDX-License-Identifier: BSD-2-Clause */
// Processes: the limit of file descriptors, whether threads sleep, and children that say how far they are.
#pragma once

#include "support.h"

#include <csignal>
#include <fstream>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

// Limits the number of file descriptors of this process.
class FileLimit
{
      public:
	explicit FileLimit(rlim_t most)
	{
		EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
		const rlimit now = {most, before.rlim_max};
		EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
	}
	~FileLimit()
	{
		setrlimit(RLIMIT_NOFILE, &before);
	}

      private:
	rlimit before{};
};

// The number of the next file descriptor. With it as a limit there can be no other.
inline rlim_t next_descriptor()
{
	const int next = dup(0);

	::close(next);
	return static_cast<rlim_t>(next);
}

inline bool sleeps(pid_t process, pid_t thread)
{
	std::ifstream file("/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) + "/stat");
	std::string line;

	return std::getline(file, line) && line.find(") S ") != std::string::npos;
}

// A child, which tells of its steps by a byte each, and gets orders by a byte each. It ends with this at the latest.
class Process
{
      public:
	explicit Process(const std::function<void(Process &)> &body)
	{
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
		fflush(stdout);
		pid_ = fork();
		close(ends_[pid_ != 0]);
		if (pid_)
			return;
		alarm(50);
		body(*this);
		fflush(stdout);
		_exit(testing::Test::HasFailure() ? 1 : 0);
	}
	~Process()
	{
		::kill(pid_, SIGKILL);
		waitpid(pid_, nullptr, 0);
		close(ends_[0]); // a child of the child ends by this
	}
	Process(const Process &) = delete;
	Process &operator=(const Process &) = delete;
	pid_t pid() const
	{
		return pid_;
	}
	void kill(int signal)
	{
		EXPECT_EQ(::kill(pid_, signal), 0);
	}
	// Kills it, and waits until it is gone; or stops it, and waits until it stands.
	void end(int signal = SIGKILL)
	{
		siginfo_t info;

		kill(signal);
		EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid_), &info, signal == SIGSTOP ? WSTOPPED : WEXITED | WNOWAIT), 0);
	}
	void order()
	{
		EXPECT_EQ(write(ends_[0], "", 1), 1);
	}
	void expect_step()
	{
		pollfd p = {ends_[0], POLLIN, 0};
		char byte;

		ASSERT_EQ(poll(&p, 1, PATIENCE), 1);
		EXPECT_EQ(read(ends_[0], &byte, 1), 1);
	}
	// The others are for the child.
	void step()
	{
		EXPECT_EQ(write(ends_[1], "", 1), 1);
	}
	void await_order()
	{
		char byte;

		if (read(ends_[1], &byte, 1) != 1)
			_exit(1);
	}
	// Has a child that does nothing, and ends when the test lets go of the socket.
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

		if (clone(wait_for_the_end, stack + sizeof(stack), CLONE_VM | SIGCHLD, &ends_[1]) > 0)
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
	int ends_[2]; // the test's, and the child's
};
