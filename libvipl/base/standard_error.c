/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines to standard error.
 *
 * Their reader may have stopped, or be gone. So the kernel writes without waiting, if it can: by RWF_NOWAIT, or MSG_DONTWAIT
 * for sockets. Pipes of older kernels, and terminals, are opened once more with O_NONBLOCK, because the program and others
 * share the open file. All else is written as it is: a regular file that is opened once more would be written at its beginning.
 *
 * The C library converts times under a lock, which a child of fork() may find taken for ever. So it is asked once, for the
 * difference of local time from UTC, and the date is computed here. Each line has the difference, so it is right even after
 * summer time has begun.
 *
 * Some programs close standard error, and the next file that they open gets its number. Others redirect it. Nothing tells one
 * from the other, so is_standard_error() judges by what number 2 is now.
 */
#include "standard_error.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cancel.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif
#define TRIES 3 /* where there is room, and another writer was in the way */

#define DAY	      86400
#define PROGRAM_ROOM  33
#define DAYS_TO_1970  719468 /* from 1 March of year 0: a year that begins in March ends with its leap day */
#define DAYS_IN_400Y  146097
#define DAYS_IN_YEARS(years) (365 * (years) + (years) / 4 - (years) / 100 + (years) / 400)

static atomic_bool was_closed;
static bool is_stamped;	  /* this and the next one are written once, before the first line */
static long seconds_east; /* of UTC */
static atomic_uint dropped; /* lines, since the last one that was written */

/* ---- what a line begins with ---- */

void standard_error_stamp(void)
{
	const int before = errno;
	struct timespec now;
	struct tm local;

	if (!clock_gettime(CLOCK_REALTIME, &now) && localtime_r(&now.tv_sec, &local))
		seconds_east = local.tm_gmtoff;
	is_stamped = true;
	errno = before;
}

/* The year, month and day of a number of days since 1970. */
static void date_of(int64_t days, int *year, int *month, int *day)
{
	int64_t since = days + DAYS_TO_1970, years = since * 400 / DAYS_IN_400Y + 1;
	int in_year, from_march;

	while (DAYS_IN_YEARS(years) > since)
		years--;
	in_year = (int)(since - DAYS_IN_YEARS(years));
	from_march = (5 * in_year + 2) / 153; /* five months from March on have 153 days, and so have the next five */
	*day = in_year - (153 * from_march + 2) / 5 + 1;
	*month = from_march < 10 ? from_march + 3 : from_march - 9;
	*year = (int)years + (*month <= 2);
}

/* The program may have written to its name. */
static void copy_name(char name[PROGRAM_ROOM])
{
	const char *from = program_invocation_short_name;
	size_t i = 0;

	for (; i < PROGRAM_ROOM - 1 && from[i]; i++)
		name[i] = from[i] > ' ' && from[i] < 127 ? from[i] : '?';
	name[i] = '\0';
}

size_t log_stamp(char text[LOG_STAMP_ROOM], const struct timespec *now)
{
	const int64_t since_1970 = (int64_t)now->tv_sec + seconds_east;
	const int64_t local = since_1970 > 0 ? since_1970 : 0; /* a clock that nobody has set, west of Greenwich */
	const unsigned second = (unsigned)(local % DAY), east = (unsigned)labs(seconds_east) / 60;
	struct utsname host = {.nodename = "?"};
	char program[PROGRAM_ROOM];
	int year, month, day, length;

	uname(&host);
	copy_name(program);
	date_of(local / DAY, &year, &month, &day);
	length = snprintf(text, LOG_STAMP_ROOM, "%04d-%02d-%02dT%02u:%02u:%02u.%03u%c%02u:%02u %.64s %s[%d] ", year, month, day,
			  second / 3600, second / 60 % 60, second % 60, (unsigned)(now->tv_nsec / 1000000),
			  seconds_east < 0 ? '-' : '+', east / 60, east % 60, host.nodename, program, (int)getpid());
	return length < LOG_STAMP_ROOM ? (size_t)length : LOG_STAMP_ROOM - 1;
}

/* ---- writing ---- */

void standard_error_look(void)
{
	if (fcntl(STDERR_FILENO, F_GETFD) < 0 && errno == EBADF)
		atomic_store(&was_closed, true);
}

/*
 * Standard error outlives exec(). What has the number when the library begins counts as standard error, and so does what
 * replaces it. But once the number was seen closed, its file must be a terminal, or the file of standard output, or opened for
 * appending. Any other file may have got the number by chance.
 */
static bool is_standard_error(const struct stat *file)
{
	int close_on_exec = fcntl(STDERR_FILENO, F_GETFD), flags = fcntl(STDERR_FILENO, F_GETFL);
	struct stat output;

	/* A filter of system calls may refuse to say the flags, too. */
	if ((close_on_exec >= 0 && close_on_exec & FD_CLOEXEC) || (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) ||
	    !(S_ISREG(file->st_mode) || S_ISCHR(file->st_mode) || S_ISFIFO(file->st_mode) || S_ISSOCK(file->st_mode)))
		return false;
	return !atomic_load(&was_closed) || flags & O_APPEND || isatty(STDERR_FILENO) ||
	       (!fstat(STDOUT_FILENO, &output) && output.st_dev == file->st_dev && output.st_ino == file->st_ino);
}

static bool has_room(void)
{
	struct timespec at_once = {0};
	fd_set fds;

	/* The limit on descriptors may be 0, at which poll() fails. */
	FD_ZERO(&fds);
	FD_SET(STDERR_FILENO, &fds);
	return pselect(STDERR_FILENO + 1, NULL, &fds, NULL, &at_once, NULL) > 0;
}

/*
 * Through an open file of our own, which does not wait. Without one, as a process may lack /proc, look first. O_APPEND: by now
 * another thread may have made number 2 a regular file.
 */
static ssize_t write_anew(const struct stat *file, const char *line, size_t length)
{
	int fd = -1, error;
	ssize_t written;

	errno = 0;
	if (S_ISFIFO(file->st_mode) || isatty(STDERR_FILENO))
		fd = openat(AT_FDCWD, "/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno != ENXIO && has_room() ? write(STDERR_FILENO, line, length) : -1;
	written = write(fd, line, length);
	error = errno;
	close(fd);
	errno = error;
	return written;
}

static ssize_t write_at_once(const struct stat *file, const char *line, size_t length)
{
	struct iovec all = {(void *)(uintptr_t)line, length};
	ssize_t written;

	if (S_ISSOCK(file->st_mode))
		return sendto(STDERR_FILENO, line, length, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
	if (S_ISREG(file->st_mode))
		return write(STDERR_FILENO, line, length);
	written = pwritev2(STDERR_FILENO, &all, 1, -1, RWF_NOWAIT);
	if (written < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EPERM))
		return write_anew(file, line, length);
	return written;
}

/* Takes the signal that a write has raised, which is sent to the thread that has written. */
static void take_signal(int number, const sigset_t *pending_before)
{
	struct timespec at_once = {0};
	sigset_t raised;

	if (sigismember(pending_before, number))
		return;
	sigemptyset(&raised);
	sigaddset(&raised, number);
	while (sigtimedwait(&raised, NULL, &at_once) < 0 && errno == EINTR)
		;
}

/* A filter of system calls may refuse fstat(), and a time may be too late for it. What is known is enough. */
static mode_t kind_without_status(void)
{
	struct statfs system;
	socklen_t length = sizeof(int);

	if (fcntl(STDERR_FILENO, F_GETPIPE_SZ) > 0)
		return S_IFIFO;
	if (isatty(STDERR_FILENO))
		return S_IFCHR;
	if (!getsockopt(STDERR_FILENO, SOL_SOCKET, SO_TYPE, &(int){0}, &length))
		return S_IFSOCK;
	if (!fstatfs(STDERR_FILENO, &system) && system.f_type == ANON_INODE_FS_MAGIC) /* an eventfd, for instance */
		return 0;
	return S_IFREG;
}

/* False when the line is lost. */
static bool write_line(const char *line, size_t length)
{
	sigset_t raised, before, pending;
	ssize_t written = -1;
	struct stat file = {0};

	if (fstat(STDERR_FILENO, &file)) {
		if (errno == EBADF) {
			atomic_store(&was_closed, true);
			return false;
		}
		file.st_mode = kind_without_status();
	}
	if (!is_standard_error(&file))
		return false;
	sigemptyset(&raised);
	sigaddset(&raised, SIGPIPE); /* no reader */
	sigaddset(&raised, SIGXFSZ); /* a file as large as ulimit -f */
	sigaddset(&raised, SIGTTOU); /* a terminal in whose background this process is */
	pthread_sigmask(SIG_BLOCK, &raised, &before);
	sigpending(&pending);
	for (unsigned i = 0; i < TRIES; i++) {
		written = write_at_once(&file, line, length);
		if (written >= 0 || errno != EAGAIN || !has_room())
			break;
	}
	if (written < 0 && errno == EPIPE)
		take_signal(SIGPIPE, &pending);
	else if (written < 0 && errno == EFBIG)
		take_signal(SIGXFSZ, &pending);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return written >= 0;
}

void standard_error_line(const char *level, const char *format, va_list args)
{
	unsigned lost = atomic_exchange(&dropped, 0);
	int saved = errno, cancel = cancel_hold(); /* the caller may hold locks */
	char line[640 + LOG_STAMP_ROOM];
	struct timespec now = {0};
	size_t length = 0;

	if (is_stamped && !clock_gettime(CLOCK_REALTIME, &now))
		length = log_stamp(line, &now);
	length += (size_t)snprintf(line + length, sizeof(line) - length, "vipl: %s: ", level);
	if (lost)
		length += (size_t)snprintf(line + length, sizeof(line) - length, "(%u line%s lost before) ", lost,
					   lost == 1 ? " was" : "s were");
	length += (size_t)vsnprintf(line + length, sizeof(line) - length, format, args);
	if (length >= sizeof(line))
		length = sizeof(line) - 1;
	line[length++] = '\n';
	/* One call, and so one write(): lines of several threads and processes do not mix. */
	if (!write_line(line, length))
		atomic_fetch_add(&dropped, lost + 1);
	cancel_resume(cancel);
	errno = saved;
}
