/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * launcher.c - starts a process for each rank of this host, and waits until they have ended. The
 * processes of all hosts call the first launcher by TCP, which tells each the addresses of all. No
 * launcher opens a NIC, so each process opens its own. If a process takes too long the launcher
 * makes it print what it waits for. Then it kills the process if it does not end.
 */
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "layer.h"

#define FOR_START     120 /* seconds until all processes have called, and opened their NIC */
#define AFTER_FAILURE 3   /* seconds until the others end by themselves */
#define AFTER_REQUEST 20  /* seconds until they have printed what they wait for */
#define PAUSE         100000 /* microseconds */

struct hello {
	int rank;
	struct host host;
};

static pid_t children[MAX_PROCESSES]; /* 0: it has ended */
static int failed;
static int to_launcher;

/* The attachment is bind() or connect(). */
static int open_socket(const char *host,
		       int (*attach)(int, const struct sockaddr *, socklen_t))
{
	struct timeval limit = {FOR_START, 0};
	struct addrinfo hints, *found;
	int one = 1;
	int file;

	memset(&hints, 0, sizeof(hints));
	hints.ai_family = AF_INET;
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = AI_PASSIVE;
	if (getaddrinfo(host, settings.port, &hints, &found))
		return -1;
	file = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (attach(file, found->ai_addr, found->ai_addrlen)) {
		close(file);
		file = -1;
	}
	freeaddrinfo(found);
	return file;
}

/* Without a port of the command line it listens at a free one, for this host only. */
static int listen_for_all(void)
{
	static char port[8];
	struct sockaddr_in own;
	socklen_t length = sizeof(own);
	int listener;

	if (!settings.port) {
		settings.port = "0";
		listener = open_socket(settings.launcher, bind);
	} else {
		listener = open_socket(NULL, bind);
	}
	if (listen(listener, MAX_PROCESSES) ||
	    getsockname(listener, (struct sockaddr *)&own, &length)) {
		perror("cannot listen");
		exit(1);
	}
	sprintf(port, "%d", ntohs(own.sin_port));
	settings.port = port;
	return listener;
}

/* Tries again, because the first launcher, on another host, may not listen yet. */
static void call_launcher(void)
{
	double end = mp_now() + FOR_START;

	while ((to_launcher = open_socket(settings.launcher, connect)) < 0) {
		if (mp_now() > end)
			mp_fail("no launcher at %s, port %s", settings.launcher, settings.port);
		usleep(PAUSE);
	}
}

static int send_all(int file, const void *data, size_t length)
{
	return send(file, data, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static int receive_all(int file, void *data, size_t length)
{
	return recv(file, data, length, MSG_WAITALL) == (ssize_t)length;
}

/* Tells the first launcher the address of this process, and gets those of all. */
void launcher_tell(const struct host *own)
{
	struct hello hello;

	doing = "the launcher to tell the addresses";
	hello.rank = settings.rank;
	hello.host = *own;
	if (!send_all(to_launcher, &hello, sizeof(hello)) ||
	    !receive_all(to_launcher, &table, sizeof(table)))
		mp_fail("the launcher told no addresses");
	close(to_launcher);
}

/* A process that cannot open its NIC says nothing, and closes its socket. */
static void exchange(int listener)
{
	int files[MAX_PROCESSES];
	struct hello hello;
	int i;

	table.job = (int)getpid();
	table.seed = settings.seed;
	for (i = 0; i < settings.size; ++i)
		files[i] = accept(listener, NULL, NULL);
	for (i = 0; i < settings.size; ++i)
		if (!receive_all(files[i], &hello, sizeof(hello)) || hello.rank < 0 ||
		    hello.rank >= settings.size)
			failed = 1;
		else
			table.hosts[hello.rank] = hello.host;
	for (i = 0; i < settings.size; ++i) {
		if (!failed && !send_all(files[i], &table, sizeof(table)))
			failed = 1;
		close(files[i]);
	}
	close(listener);
}

/* The signal handler of a process that has taken too long. */
static void tell_and_end(int number)
{
	(void)number;
	progress_describe();
	_exit(2);
}

/* The signal handler of a launcher whose processes have taken too long. */
static void end_all(int number)
{
	static int asked;
	int i;

	(void)number;
	for (i = 0; i < settings.here; ++i)
		if (children[i])
			kill(children[i], asked ? SIGKILL : SIGTERM);
	asked = 1;
	alarm(AFTER_REQUEST);
}

static void start(int i, int listener)
{
	children[i] = fork();
	if (children[i] < 0) {
		perror("cannot start a process");
		exit(1);
	}
	if (children[i] == 0) {
		close(listener);
		signal(SIGTERM, tell_and_end);
		settings.rank = settings.first + i;
		call_launcher();
		exit(run());
	}
}

static void note_end(pid_t process, int status)
{
	int i;

	for (i = 0; i < settings.here; ++i)
		if (children[i] == process) {
			children[i] = 0;
			if (!status)
				return;
			fprintf(stderr, "rank %d ended with status 0x%x\n", settings.first + i,
				(unsigned int)status);
			if (!failed)
				alarm(AFTER_FAILURE);
			failed = 1;
		}
}

int launch(int is_first)
{
	int listener = is_first ? listen_for_all() : -1;
	pid_t process;
	int status;
	int i;

	for (i = 0; i < settings.here; ++i)
		start(i, listener);
	signal(SIGALRM, end_all);
	alarm(FOR_START + settings.stall + 2 * settings.seconds);
	if (is_first)
		exchange(listener);
	while ((process = wait(&status)) > 0)
		note_end(process, status);
	return failed;
}
