/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * other_host.c - connects the launchers of two hosts by TCP. The first host sends the job's number.
 * Later each sends the addresses of its processes.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "layer.h"
#include "programs.h"

#define FOR_MEETING 120 /* seconds until the other host's launcher listens, or answers */
#define PAUSE       100000 /* microseconds */

struct hello {
	int job, here;
	unsigned int seed;
};

static int other = -1;

static int complain(const char *what)
{
	fprintf(stderr, "the other host: %s\n", what);
	return -1;
}

static int send_all(const void *data, size_t length)
{
	return send(other, data, length, MSG_NOSIGNAL) == (ssize_t)length ? 0 : -1;
}

/* Calls recv() again when the launcher's timer interrupts it. */
static int receive_all(void *data, size_t length)
{
	double end = mp_now() + FOR_MEETING;
	size_t got = 0;
	ssize_t bytes;

	while (got < length) {
		bytes = recv(other, (char *)data + got, length - got, 0);
		if (bytes > 0)
			got += bytes;
		else if (bytes == 0 || errno != EINTR || mp_now() > end)
			return -1;
	}
	return 0;
}

static void limit_waits(int file)
{
	struct timeval limit = {FOR_MEETING, 0};

	/* Also applies to accept. */
	setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

static int wait_at(const struct addrinfo *own)
{
	int one = 1;
	int listener = socket(own->ai_family, own->ai_socktype, 0);
	int result = -1;

	if (listener < 0)
		return -1;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	limit_waits(listener);
	if (!bind(listener, own->ai_addr, own->ai_addrlen) && !listen(listener, 1))
		result = accept(listener, NULL, NULL);
	close(listener);
	return result;
}

/* Tries again, because the other launcher may not listen yet. */
static int connect_to(const struct addrinfo *where)
{
	double end = mp_now() + FOR_MEETING;
	int file;

	do {
		file = socket(where->ai_family, where->ai_socktype, 0);
		if (file >= 0 && !connect(file, where->ai_addr, where->ai_addrlen))
			return file;
		if (file >= 0)
			close(file);
		usleep(PAUSE);
	} while (mp_now() < end);
	return -1;
}

static int find(const struct settings *with)
{
	struct addrinfo hints, *found;

	memset(&hints, 0, sizeof(hints));
	hints.ai_family = AF_INET;
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = with->other_host ? 0 : AI_PASSIVE;
	if (getaddrinfo(with->other_host, with->port, &hints, &found))
		return complain("its address cannot be found");
	other = with->other_host ? connect_to(found) : wait_at(found);
	freeaddrinfo(found);
	if (other < 0)
		return complain("cannot be reached");
	limit_waits(other);
	return 0;
}

int other_host_meet(struct settings *with, struct plan *plan)
{
	struct hello mine, theirs;

	if (find(with))
		return -1;
	mine.job = with->job;
	mine.here = with->here;
	mine.seed = plan->seed;
	if (send_all(&mine, sizeof(mine)) || receive_all(&theirs, sizeof(theirs)))
		return complain("says nothing");
	if (theirs.here != mine.here)
		return complain("has another number of processes");
	if (with->other_host) {
		with->job = theirs.job;
		plan->seed = theirs.seed;
		with->first = with->here;
	}
	with->size = 2 * with->here;
	return 0;
}

int other_host_exchange(struct host *hosts)
{
	struct host *theirs = hosts + (settings.first ? 0 : settings.here);
	size_t length = settings.here * sizeof(*hosts);
	int result = send_all(hosts + settings.first, length) || receive_all(theirs, length);

	close(other);
	return result ? complain("its processes did not start") : 0;
}
