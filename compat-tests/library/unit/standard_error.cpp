// SPDX-License-Identifier: BSD-2-Clause
// Log lines, whatever has become of number 2: they are lost rather than waited for, and nothing else gets them.
#include "support.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <pty.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <thread>
#include <unistd.h>

// C++ cannot read base/log.h.
extern "C" void log_message(unsigned level, const char *format, ...);
#define log_error(line) log_message(0, line)

namespace
{

// A file without a name, with these flags.
int temporary(int flags)
{
	std::string name = testing::TempDir() + "standard_error.XXXXXX";
	int made = mkstemp(name.data()), fd = ::open(name.c_str(), flags);

	::close(made);
	unlink(name.c_str());
	return fd;
}

off_t size_of(int fd)
{
	struct stat file;

	return fstat(fd, &file) ? -1 : file.st_size;
}

// In a child of this process, whose signals are the default ones.
void child_lives(const std::function<void()> &body)
{
	Child child = in_child({}, [&] {
		for (int number : {SIGPIPE, SIGXFSZ, SIGTTOU})
			signal(number, SIG_DFL);
		body();
	});
	EXPECT_EQ(child.status, 0) << child.out;
}

TEST(StandardError, WithoutAReaderKillsNobody)
{
	child_lives([] {
		int ends[2];
		sigset_t pending;

		ASSERT_EQ(pipe(ends), 0);
		dup2(ends[1], STDERR_FILENO);
		::close(ends[0]);
		log_error("nobody reads this");
		ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		dup2(ends[1], STDERR_FILENO);
		::close(ends[0]);
		log_error("nobody reads this");
		EXPECT_EQ(sigpending(&pending), 0);
		EXPECT_FALSE(sigismember(&pending, SIGPIPE));
	});
}

TEST(StandardError, ASignalThatWasPendingBeforeStaysSo)
{
	child_lives([] {
		int ends[2];
		sigset_t pipe_signal, pending;

		sigemptyset(&pipe_signal);
		sigaddset(&pipe_signal, SIGPIPE);
		pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
		raise(SIGPIPE);
		ASSERT_EQ(pipe(ends), 0);
		dup2(ends[1], STDERR_FILENO);
		::close(ends[0]);
		log_error("nobody reads this");
		EXPECT_EQ(sigpending(&pending), 0);
		EXPECT_TRUE(sigismember(&pending, SIGPIPE));
	});
}

TEST(StandardError, AFileThatMayNotGrowKillsNobody)
{
	child_lives([] {
		const struct rlimit nothing = {0, RLIM_INFINITY};

		dup2(temporary(O_WRONLY), STDERR_FILENO);
		setrlimit(RLIMIT_FSIZE, &nothing);
		log_error("there is no room for this");
		EXPECT_EQ(size_of(STDERR_FILENO), 0);
	});
}

std::string read_line(int fd)
{
	std::string line;
	char c;

	while (read(fd, &c, 1) == 1 && c != '\n')
		line += c;
	return line;
}

// Makes it take no more, and returns how many bytes it holds. The kernel moves on what a terminal has, so that is stopped.
size_t fill(int fd)
{
	std::string filling(4096, 'x');
	size_t filled = 0;
	ssize_t length;

	if (isatty(fd)) {
		EXPECT_EQ(tcflow(fd, TCOOFF), 0);
		return 0;
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (size_t size = filling.size(); size; size /= 2)
		while ((length = write(fd, filling.data(), size)) > 0)
			filled += static_cast<size_t>(length);
	fcntl(fd, F_SETFL, 0);
	return filled;
}

void make_room(int writer, int reader, size_t filled)
{
	std::string filling(4096, 'x');

	if (isatty(writer)) {
		EXPECT_EQ(tcflow(writer, TCOON), 0);
	}
	while (filled)
		filled -= static_cast<size_t>(read(reader, filling.data(), std::min(filled, filling.size())));
}

// A child that waits is killed by its alarm.
void expect_no_wait(int writer, int reader, bool lower_limit = false)
{
	const struct rlimit none = {0, 0};
	const size_t filled = fill(writer);

	dup2(writer, STDERR_FILENO);
	if (lower_limit)
		setrlimit(RLIMIT_NOFILE, &none);
	log_error("the first");
	log_error("the second");
	make_room(writer, reader, filled);
	log_error("the third");
	EXPECT_EQ(read_line(reader).substr(0, 49), "vipl: error: (2 lines were lost before) the third");
}

TEST(StandardError, OneLostLineIsCountedInTheSingular)
{
	child_lives([] {
		int ends[2];

		ASSERT_EQ(pipe(ends), 0);
		const size_t filled = fill(ends[1]);
		dup2(ends[1], STDERR_FILENO);
		log_error("the first");
		make_room(ends[1], ends[0], filled);
		log_error("the second");
		EXPECT_EQ(read_line(ends[0]), "vipl: error: (1 line was lost before) the second");
	});
}

TEST(StandardError, IsNotWaitedForWhenItIsFull)
{
	child_lives([] {
		int ends[2];

		ASSERT_EQ(pipe(ends), 0);
		expect_no_wait(ends[1], ends[0]);
	});
	child_lives([] {
		int ends[2];

		ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		expect_no_wait(ends[1], ends[0]);
	});
	child_lives([] {
		int outer, inner;

		ASSERT_EQ(openpty(&outer, &inner, nullptr, nullptr, nullptr), 0);
		expect_no_wait(inner, outer);
	});
	child_lives([] { // no further descriptor, and poll() fails
		int ends[2];

		ASSERT_EQ(pipe(ends), 0);
		expect_no_wait(ends[1], ends[0], true);
	});
}

TEST(StandardError, DoesNotNeedTheProgramsStdio)
{
	Child child = in_child({}, [] {
		flockfile(stderr);
		std::thread([] { log_error("another thread"); }).join();
	});
	EXPECT_EQ(child.status, 0);
	EXPECT_NE(child.err.find("another thread"), std::string::npos);
}

// What a program may have opened after it has closed its standard files.
TEST(StandardError, IsNoOtherFileThatHasItsNumber)
{
	const std::pair<const char *, std::function<int()>> files[] = {
		{"read and written", [] { return temporary(O_RDWR); }},
		{"to be closed by exec()", [] { return temporary(O_WRONLY | O_CLOEXEC); }},
		{"written", [] { return temporary(O_WRONLY); }},
	};

	for (const auto &[name, make] : files) {
		SCOPED_TRACE(name);
		child_lives([&make = make] {
			for (int fd = 0; fd <= STDERR_FILENO; fd++)
				::close(fd);
			log_error("nobody hears this");
			const int null = ::open("/dev/null", O_RDONLY), zero = ::open("/dev/zero", O_RDONLY);
			EXPECT_EQ(null, STDIN_FILENO);
			EXPECT_EQ(zero, STDOUT_FILENO);
			const int made = make(), flags = fcntl(made, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0;
			const int fd = fcntl(made, F_DUPFD, 10);
			dup3(fd, STDERR_FILENO, flags);
			log_error("this neither");
			EXPECT_EQ(size_of(STDERR_FILENO), 0);
		});
	}
	child_lives([] {
		uint64_t count = 0;

		dup2(eventfd(0, EFD_NONBLOCK), STDERR_FILENO);
		log_error("this would count");
		EXPECT_EQ(read(STDERR_FILENO, &count, sizeof(count)), -1) << count;
	});
	child_lives([] {
		int ends[2];
		char byte;

		ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		::close(STDERR_FILENO);
		log_error("nobody hears this");
		dup2(ends[1], STDERR_FILENO);
		log_error("this neither");
		EXPECT_EQ(recv(ends[0], &byte, 1, MSG_DONTWAIT), -1);
	});
}

TEST(StandardError, MayBeRedirectedAtAnyTime)
{
	child_lives([] { // with standard output, by a daemon
		for (int fd = 0; fd <= STDERR_FILENO; fd++)
			::close(fd);
		log_error("nobody hears this");
		const int fd = fcntl(temporary(O_RDWR), F_DUPFD, 10);
		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		log_error("this");
		EXPECT_GT(size_of(fd), 0);
	});
	child_lives([] { // while it was open
		const int fd = temporary(O_WRONLY);
		dup2(fd, STDERR_FILENO);
		log_error("this");
		EXPECT_GT(size_of(fd), 0);
	});
	child_lives([] {
		const int fd = fcntl(temporary(O_WRONLY | O_APPEND), F_DUPFD, 10);
		::close(STDERR_FILENO);
		log_error("nobody hears this");
		dup2(fd, STDERR_FILENO);
		log_error("this");
		EXPECT_GT(size_of(fd), 0);
	});
}

} // namespace
