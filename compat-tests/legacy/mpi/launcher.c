/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * launcher.c - starts a process for each rank, sends each the addresses of all, and waits until
 * they have ended. It never opens a NIC, so each process opens its own. If a process takes too long
 * the launcher makes it print what it waits for. Then it kills the process if it does not end.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "layer.h"
#include "programs.h"

#define FOR_START     120.0 /* seconds until all processes have opened their NIC */
#define AFTER_FAILURE 3.0   /* seconds until the others end by themselves */
#define AFTER_REQUEST 20.0  /* seconds until they have printed what they wait for */

volatile unsigned int *arrivals;

static struct child {
	pid_t process; /* 0: it has ended */
	int to, from;
} children[MAX_PROCESSES];
static int alive, failed;

/* The signal handler of a child that has taken too long. */
static void tell_and_end(int signal_number)
{
	(void)signal_number;
	progress_describe(2);
	_exit(2);
}

static void tick(int signal_number)
{
	(void)signal_number;
}

static void catch_signal(int number, void (*handler)(int))
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = handler;
	sigaction(number, &action, NULL);
}

/* `rank` counts from this host's first rank, here and below. */
static int start(int rank, const struct plan *plan)
{
	int down[2], up[2];
	pid_t process;
	int i;

	if (pipe(down) || pipe(up) || (process = fork()) < 0) {
		perror("cannot start a process");
		return -1;
	}
	if (process == 0) {
		for (i = 0; i < rank; ++i) {
			close(children[i].to);
			close(children[i].from);
		}
		close(down[1]);
		close(up[0]);
		catch_signal(SIGTERM, tell_and_end);
		settings.rank = settings.first + rank;
		exit(run(plan, up[1], down[0]));
	}
	close(down[0]);
	close(up[1]);
	children[rank].process = process;
	children[rank].to = down[1];
	children[rank].from = up[0];
	++alive;
	return 0;
}

static int hear_from(const struct child *child, struct host *host, double end)
{
	ssize_t bytes;

	do
		bytes = read(child->from, host, sizeof(*host));
	while (bytes < 0 && errno == EINTR && mp_now() < end);
	return bytes == sizeof(*host) ? 0 : -1;
}

/*
 * Reads the addresses of all processes, also of the other host, and sends them to all. A process
 * that cannot open its NIC sends nothing, and closes its pipe.
 */
static int exchange(int size)
{
	struct host hosts[MAX_PROCESSES];
	double end = mp_now() + FOR_START;
	int result = 0;
	int i;

	memset(hosts, 0, sizeof(hosts));
	for (i = 0; i < size; ++i)
		if (hear_from(&children[i], &hosts[settings.first + i], end))
			result = -1;
	if (!result && settings.port)
		result = other_host_exchange(hosts);
	for (i = 0; i < size; ++i) {
		if (!result &&
		    write(children[i].to, hosts, settings.size * sizeof(hosts[0])) < 0)
			result = -1;
		close(children[i].to);
		close(children[i].from);
	}
	return result;
}

static void signal_all(int size, int number)
{
	int i;

	for (i = 0; i < size; ++i)
		if (children[i].process)
			kill(children[i].process, number);
}

static void note_end(int size, pid_t process, int status)
{
	int i;

	for (i = 0; i < size; ++i)
		if (children[i].process == process) {
			children[i].process = 0;
			--alive;
			if (!status)
				return;
			++failed;
			if (WIFSIGNALED(status))
				fprintf(stderr, "rank %d was ended by signal %d\n",
					settings.first + i, WTERMSIG(status));
			else
				fprintf(stderr, "rank %d failed, status %d\n", settings.first + i,
					WEXITSTATUS(status));
		}
}

static void wait_for_all(int size, int limit)
{
	double end = mp_now() + limit;
	int asked = 0, failed_before = 0;
	pid_t process;
	int status;

	while (alive) {
		process = waitpid(-1, &status, 0);
		if (process > 0)
			note_end(size, process, status);
		else if (errno != EINTR)
			break;
		if (failed && !failed_before && mp_now() + AFTER_FAILURE < end)
			end = mp_now() + AFTER_FAILURE;
		failed_before = failed;
		if (mp_now() < end || !alive)
			continue;
		if (!asked)
			fprintf(stderr, "%d processes have taken too long:\n", alive);
		signal_all(size, asked ? SIGKILL : SIGTERM);
		asked = 1;
		end = mp_now() + AFTER_REQUEST;
	}
}

int launch(struct settings *with, const struct plan *plan, int limit)
{
	struct itimerval second = {{1, 0}, {1, 0}};
	int i;

	settings = *with;
	arrivals = mmap(NULL, MAX_PROCESSES * sizeof(*arrivals), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (arrivals == MAP_FAILED) {
		perror("cannot share memory");
		return 1;
	}
	for (i = 0; i < settings.size; ++i)
		if (i < settings.first || i >= settings.first + settings.here)
			arrivals[i] = ~0U;
	catch_signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < settings.here; ++i)
		if (start(i, plan)) {
			signal_all(i, SIGKILL);
			return 1;
		}
	catch_signal(SIGALRM, tick);
	/* Interrupts read and waitpid each second, to look at the clock. */
	setitimer(ITIMER_REAL, &second, NULL);
	if (exchange(settings.here))
		++failed;
	wait_for_all(settings.here, limit);
	return failed != 0;
}
