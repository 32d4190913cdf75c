// SPDX-License-Identifier: BSD-2-Clause
// Log lines, whatever has become of number 2: they are lost rather than waited for, and nothing else gets them.
#include "old_kernel.h"
#include "support.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <pty.h>
#include <regex>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <thread>
#include <sys/utsname.h>
#include <unistd.h>

// C++ cannot read base/log.h.
extern "C" void log_message(unsigned level, const char *format, ...);
extern "C" {
#include "base/standard_error.h"
}
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
	passing_child({}, [&] {
		for (int number : {SIGPIPE, SIGXFSZ, SIGTTOU})
			signal(number, SIG_DFL);
		body();
	});
}

// What standard error may be, and its other end.
struct Ends {
	int reader = -1, writer = -1;
};

Ends make_pipe()
{
	int ends[2];

	EXPECT_EQ(pipe(ends), 0);
	return {ends[0], ends[1]};
}

Ends make_socket()
{
	int ends[2];

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	return {ends[0], ends[1]};
}

Ends make_terminal()
{
	Ends ends;

	EXPECT_EQ(openpty(&ends.reader, &ends.writer, nullptr, nullptr, nullptr), 0);
	return ends;
}

void lose_reader(const Ends &ends)
{
	dup2(ends.writer, STDERR_FILENO);
	::close(ends.reader);
	log_error("nobody reads this");
}

bool is_pending(int number)
{
	sigset_t pending;

	EXPECT_EQ(sigpending(&pending), 0);
	return sigismember(&pending, number);
}

TEST(StandardError, WithoutAReaderKillsNobody)
{
	for (Ends (*make)() : {make_pipe, make_socket})
		child_lives([=] {
			lose_reader(make());
			EXPECT_FALSE(is_pending(SIGPIPE));
		});
}

TEST(StandardError, ASignalThatWasPendingBeforeStaysSo)
{
	child_lives([] {
		sigset_t pipe_signal;

		sigemptyset(&pipe_signal);
		sigaddset(&pipe_signal, SIGPIPE);
		pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
		raise(SIGPIPE);
		lose_reader(make_pipe());
		EXPECT_TRUE(is_pending(SIGPIPE));
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
size_t fillPipe(int fd)
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

// So many lines are lost, and the next one tells it. A child that waits is killed by its alarm.
void lose_lines(const Ends &ends, int count, const std::string &wanted, bool lower_limit = false)
{
	const struct rlimit none = {0, 0};
	const size_t filled = fillPipe(ends.writer);

	dup2(ends.writer, STDERR_FILENO);
	if (lower_limit) // no further descriptor, and poll() fails
		setrlimit(RLIMIT_NOFILE, &none);
	for (int i = 0; i < count; i++)
		log_error("one of these");
	make_room(ends.writer, ends.reader, filled);
	log_error("the last");
	EXPECT_EQ(read_line(ends.reader).substr(0, wanted.size()), wanted);
}

TEST(StandardError, IsNotWaitedForWhenItIsFull)
{
	child_lives([] { lose_lines(make_pipe(), 1, "vipl: error: (1 line was lost before) the last"); });
	for (Ends (*make)() : {make_pipe, make_socket, make_terminal})
		child_lives([=] { lose_lines(make(), 2, "vipl: error: (2 lines were lost before) the last"); });
	child_lives([] { lose_lines(make_pipe(), 2, "vipl: error: (2 lines were lost before) the last", true); });
}

TEST(StandardError, DoesNotNeedTheProgramsStdio)
{
	Child child = passing_child({}, [] {
		flockfile(stderr);
		std::thread([] { log_error("another thread"); }).join();
	});
	EXPECT_NE(child.err.find("another thread"), std::string::npos);
}

void close_standard_files(int first = STDIN_FILENO)
{
	for (int fd = first; fd <= STDERR_FILENO; fd++)
		::close(fd);
	log_error("nobody hears this");
}

// What a program may have opened after it has closed its standard files.
TEST(StandardError, IsNoOtherFileThatHasItsNumber)
{
	for (int how : {O_RDWR, O_WRONLY | O_CLOEXEC, O_WRONLY}) {
		SCOPED_TRACE(how);
		child_lives([=] {
			close_standard_files();
			const int null = ::open("/dev/null", O_RDONLY), zero = ::open("/dev/zero", O_RDONLY);
			EXPECT_EQ(null, STDIN_FILENO);
			EXPECT_EQ(zero, STDOUT_FILENO);
			const int fd = fcntl(temporary(how), F_DUPFD, 10);
			dup3(fd, STDERR_FILENO, how & O_CLOEXEC);
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
		const Ends ends = make_socket();
		char byte;

		::close(STDERR_FILENO);
		log_error("nobody hears this");
		dup2(ends.writer, STDERR_FILENO);
		log_error("this neither");
		EXPECT_EQ(recv(ends.reader, &byte, 1, MSG_DONTWAIT), -1);
	});
}

TEST(StandardError, MayBeRedirectedAtAnyTime)
{
	const struct {
		int first_closed, flags;
	} cases[] = {{STDIN_FILENO, O_RDWR}, // with standard output, by a daemon
		     {STDERR_FILENO, O_WRONLY | O_APPEND},
		     {STDERR_FILENO + 1, O_WRONLY}}; // while it was open

	for (const auto &each : cases)
		child_lives([&] {
			close_standard_files(each.first_closed);
			const int fd = fcntl(temporary(each.flags), F_DUPFD, 10);
			if (each.first_closed == STDIN_FILENO)
				dup2(fd, STDOUT_FILENO);
			dup2(fd, STDERR_FILENO);
			log_error("this");
			EXPECT_GT(size_of(fd), 0);
		});
}

// What fstat() calls.
bool refuse_status()
{
#ifdef SYS_fstat64
	if (!refuse_call(SYS_fstat64, EPERM))
		return false;
#endif
#ifdef SYS_newfstatat
	if (!refuse_call(SYS_newfstatat, EPERM))
		return false;
#endif
	return refuse_call(SYS_fstat, EPERM) && refuse_call(SYS_statx, EPERM);
}

// In a child that has no fstat().
void without_status(const std::function<void()> &body)
{
	child_lives([&] {
		struct stat unused;

		ASSERT_TRUE(refuse_status());
		ASSERT_NE(fstat(STDOUT_FILENO, &unused), 0);
		body();
	});
}

TEST(StandardError, KeepsWhatAFileHasWhereNothingTellsItsKind)
{
	if (!has_filters())
		GTEST_SKIP() << "no filters of system calls";
	for (int flags : {O_RDWR, O_RDWR | O_APPEND})
		without_status([=] {
			const std::string own = "the program's line\n";
			std::string found(64, ' ');

			dup2(temporary(flags), STDERR_FILENO);
			EXPECT_EQ(write(STDERR_FILENO, own.data(), own.size()), static_cast<ssize_t>(own.size()));
			log_error("this");
			log_error("that");
			found.resize(static_cast<size_t>(pread(STDERR_FILENO, found.data(), found.size(), 0)));
			EXPECT_EQ(found, own + "vipl: error: this\nvipl: error: that\n");
		});
}

TEST(StandardError, IsNotWaitedForWhereNothingTellsItsKind)
{
	if (!has_filters())
		GTEST_SKIP() << "no filters of system calls";
	for (Ends (*make)() : {make_pipe, make_socket, make_terminal})
		without_status([=] { lose_lines(make(), 2, "vipl: error: (2 lines were lost before) the last"); });
	without_status([] {
		uint64_t count = 0;

		dup2(eventfd(0, EFD_NONBLOCK), STDERR_FILENO);
		log_error("this would count");
		EXPECT_EQ(read(STDERR_FILENO, &count, sizeof(count)), -1) << count;
	});
}

// The stamp's time: seconds since 1970 in UTC, and milliseconds.
int64_t msec_of(const std::string &stamp)
{
	struct tm local = {};
	char sign = 0;
	int msec = 0, hours = 0, minutes = 0;
	const char *end = strptime(stamp.c_str(), "%Y-%m-%dT%H:%M:%S", &local);

	EXPECT_NE(end, nullptr) << stamp;
	EXPECT_EQ(sscanf(end ? end : "", ".%3d%c%2d:%2d ", &msec, &sign, &hours, &minutes), 4) << stamp;
	return (timegm(&local) - (sign == '-' ? -1 : 1) * (hours * 60 + minutes) * 60) * INT64_C(1000) + msec;
}

int64_t now_msec()
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

TEST(StandardError, LinesSayWhenOnWhichHostAndWhichProcess)
{
	struct utsname host;

	uname(&host);
	for (const auto &[zone, shown] : {std::pair("UTC0", "\\+00:00"), {"EAST-5:30", "\\+05:30"}, {"WEST3:30", "-03:30"}}) {
		const int64_t before = now_msec();
		Child child = passing_child({{"TZ", zone}}, [] {
			setenv("VIPL_LOG", "error", 1);
			tzset(); // this process knows its zone already
			log_error("it");
			printf("%d", getpid());
		});
		const std::regex wanted("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}" + std::string(shown) + " " +
					host.nodename + " unit_environment\\[" + child.out + "\\] vipl: error: it\n");

		EXPECT_TRUE(std::regex_match(child.err, wanted)) << child.err;
		EXPECT_GE(msec_of(child.err), before) << child.err;
		EXPECT_LE(msec_of(child.err), now_msec()) << child.err;
	}
}

TEST(StandardError, DatesAreRightOnEachDay)
{
	char stamp[LOG_STAMP_ROOM];

	for (int64_t day = 0; day < 365 * 140; day++) // to 2109: 2100 has no leap day
		for (int64_t second : {0, 86399}) {
			const struct timespec when = {static_cast<time_t>(day * 86400 + second), 7000000};

			EXPECT_LT(log_stamp(stamp, &when), sizeof(stamp));
			ASSERT_EQ(msec_of(stamp), when.tv_sec * INT64_C(1000) + 7) << stamp;
		}
}

TEST(StandardError, AProgramsNameIsShownWithoutControlCharactersAndNotLongerThanTheLineCanTake)
{
	passing_child({}, [] {
		char stamp[LOG_STAMP_ROOM];
		std::string name = "a b\n\x1b[31m\xff" + std::string(200, 'x');
		const struct timespec when = {};

		program_invocation_short_name = name.data();
		EXPECT_LT(log_stamp(stamp, &when), sizeof(stamp));
		EXPECT_NE(std::string(stamp).find(" a?b??[31m?xxxxxxxxxxxxxxxxxxxxxx["), std::string::npos) << stamp;
	});
}

} // namespace
