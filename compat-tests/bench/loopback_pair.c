/*
 * The two processes of vip_loopback: making them, pinning them, meeting, and
 * noticing that the other one is gone. The parent is the client, its child is
 * the server.
 *
 * No wait is without an end: a spinning process looks at the clock, at the
 * shared word for failure, and at whether the other process lives; the server
 * dies with the client; and an alarm ends the client, if it is stuck in a
 * library.
 */
#include "loopback.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	SHARED_BYTES = 4096,
	QUIET_USEC = 10000,     /* who waits longer than that asks whether the other one lives */
	FAILED_LIMIT_MS = 1000, /* until a server is killed when the client has failed */
};

_Static_assert(sizeof(struct shared) <= SHARED_BYTES, "the shared memory is a page");

int fail(struct pair *pair, const char *format, ...)
{
	va_list arguments;

	/* One of the two fails first; what the other one says then is only noise. */
	if (atomic_exchange(&pair->shared->failed, true))
		return -1;
	fprintf(stderr, "vip_loopback: %s: ", pair->is_server ? "server" : "client");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	return -1;
}

double now_usec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

int pair_open(struct pair *pair, const struct settings *settings)
{
	void *room =
		mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (room == MAP_FAILED) {
		fprintf(stderr, "vip_loopback: no shared memory: %s\n", strerror(errno));
		return -1;
	}
	*pair = (struct pair){.settings = settings, .shared = room, .client = getpid()};
	return 0;
}

static int pin(struct pair *pair)
{
	int cpu = pair->settings->cpus[pair->is_server];
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		return fail(pair, "cannot run on CPU %d: %s", cpu, strerror(errno));
	return 0;
}

static void too_late(int signal)
{
	static const char text[] = "vip_loopback: the time limit is reached\n";
	ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)signal;
	(void)written;
	_exit(1);
}

int pair_fork(struct pair *pair)
{
	pid_t pid = fork();

	if (pid < 0)
		return fail(pair, "cannot start the server: %s", strerror(errno));
	if (pid) {
		pair->server = pid;
		signal(SIGALRM, too_late);
		alarm((unsigned int)pair->settings->time_limit);
		return pin(pair);
	}
	pair->is_server = true;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != pair->client) /* it died before the line above */
		_exit(1);
	return pin(pair);
}

/* A client that is gone is not asked for: then the server is gone, too. */
static bool server_gone(const struct pair *pair)
{
	siginfo_t info = {0};

	return !pair->is_server &&
	       !waitid(P_PID, (id_t)pair->server, &info, WEXITED | WNOHANG | WNOWAIT) &&
	       info.si_pid == pair->server;
}

int pair_look(struct pair *pair, struct patience *patience, const char *what)
{
	double now = now_usec();

	if (patience->since == 0)
		patience->since = now;
	if (now - patience->since < QUIET_USEC)
		return 0;
	if (atomic_load(&pair->shared->failed))
		return -1;
	if (server_gone(pair))
		return fail(pair, "the server is gone");
	if (now - patience->since > SILENCE_LIMIT_MS * 1e3)
		return fail(pair, "waited %d seconds for %s", SILENCE_LIMIT_MS / 1000, what);
	return 0;
}

int pair_meet(struct pair *pair)
{
	atomic_ulong *mine = &pair->shared->arrived[pair->is_server].word;
	atomic_ulong *other = &pair->shared->arrived[!pair->is_server].word;
	unsigned long meeting = atomic_fetch_add(mine, 1) + 1;
	struct patience patience = {0};

	while (atomic_load_explicit(other, memory_order_acquire) < meeting)
		if (keep_waiting(pair, &patience, "the other process"))
			return -1;
	return 0;
}

int pair_close(struct pair *pair, int result)
{
	double limit = now_usec() + (result ? FAILED_LIMIT_MS : SILENCE_LIMIT_MS) * 1e3;
	pid_t pid = 0;
	int status = 0;

	while (pair->server && (pid = waitpid(pair->server, &status, WNOHANG)) == 0) {
		if (now_usec() > limit)
			kill(pair->server, SIGKILL);
		usleep(1000);
	}
	if (pid && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
		result = fail(pair, "the server failed, wait status %d", status);
	munmap(pair->shared, SHARED_BYTES);
	return result;
}

unsigned long pair_preemptions(void)
{
	struct rusage client, server;

	if (getrusage(RUSAGE_SELF, &client) || getrusage(RUSAGE_CHILDREN, &server))
		return 0;
	return (unsigned long)(client.ru_nivcsw + server.ru_nivcsw);
}

/*
 * Plain pages, of whatever size the system gives unasked: what programs have
 * that do not think of it, and what the peers of bandwidth use as well.
 */
uint8_t *pages_new(struct pair *pair, size_t bytes)
{
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED) {
		fail(pair, "no memory for buffers: %s", strerror(errno));
		return NULL;
	}
	memset(pages, 0, bytes);
	return pages;
}

void pages_free(uint8_t *pages, size_t bytes)
{
	if (pages)
		munmap(pages, bytes);
}

static uint64_t pattern(size_t word, unsigned long message)
{
	return (message + 1) * 0x9e3779b97f4a7c15u + word;
}

void pattern_fill(uint8_t *data, size_t bytes, unsigned long message)
{
	for (size_t word = 0; word < bytes / sizeof(uint64_t); ++word) {
		uint64_t value = pattern(word, message);

		memcpy(data + word * sizeof(value), &value, sizeof(value));
	}
}

int pattern_check(struct pair *pair, const uint8_t *data, size_t bytes, unsigned long message)
{
	for (size_t word = 0; word < bytes / sizeof(uint64_t); ++word) {
		uint64_t value;

		memcpy(&value, data + word * sizeof(value), sizeof(value));
		if (value != pattern(word, message))
			return fail(pair, "streamed message %lu is wrong at byte %zu", message,
				    word * sizeof(value));
	}
	return 0;
}
