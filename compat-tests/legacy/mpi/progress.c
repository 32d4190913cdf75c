/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * progress.c - the only place that asks the CQ, and that waits. It never waits longer than
 * settings.stall.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "layer.h"

#define BURST      64  /* completions taken before the program goes on */
#define SPINS      50  /* looks that find nothing before it sleeps */
#define SLEEP      200 /* milliseconds */
#define LOOK_AGAIN 1000 /* looks between two checks when it never sleeps */

const char *volatile doing;
static double last_event; /* 0: a little while ago */
static int idle_looks;

double mp_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void say(const char *line)
{
	if (write(2, line, strlen(line)) < 0)
		_exit(3);
}

void mp_fail(const char *format, ...)
{
	char text[400];
	va_list arguments;
	int used = sprintf(text, "rank %d: ", settings.rank);

	va_start(arguments, format);
	vsnprintf(text + used, sizeof(text) - used - 1, format, arguments);
	va_end(arguments);
	strcat(text, "\n");
	say(text);
	exit(1);
}

/*
 * Prints what this process waits for. A signal handler calls it, too, so it must not use stdio's
 * streams.
 */
void progress_describe(void)
{
	char line[240];
	int i;

	snprintf(line, sizeof(line), "rank %d: waits for %s\n", settings.rank,
		 doing ? doing : "any of its requests");
	say(line);
	for (i = 0; i < settings.size; ++i) {
		const struct channel *channel = &channels[i];

		if (i == settings.rank)
			continue;
		snprintf(line, sizeof(line),
			 "rank %d:   to rank %d: %s, %d credits, owes %d, sent %u, received %u, "
			 "%d posted%s%s%s\n",
			 settings.rank, i, channel->link == CONNECTED ? "connected" : "not connected",
			 channel->credits, channel->owed, channel->sent, channel->received,
			 channel->posted_sends, channel->out.first ? ", more is queued" : "",
			 channel->wants_goodbye == 2 ? ", said goodbye" : "",
			 channel->got_goodbye ? ", got goodbye" : "");
		say(line);
	}
}

static void handle(VIP_VI_HANDLE vi, VIP_BOOLEAN is_receive)
{
	struct channel *channel = channel_of(vi);
	VIP_DESCRIPTOR *descriptor = NULL;
	VIP_RETURN code = is_receive ? VipRecvDone(vi, &descriptor) : VipSendDone(vi, &descriptor);

	if (!channel || !descriptor)
		mp_fail("the CQ named the %s queue to rank %d, and nothing is done there: %d",
			is_receive ? "receive" : "send", channel ? channel->peer : -1, (int)code);
	if ((code == VIP_SUCCESS) != !(descriptor->CS.Status & VIP_STATUS_ERROR_MASK))
		mp_fail("code %d and status 0x%x do not fit together", (int)code,
			(unsigned int)descriptor->CS.Status);
	if (is_receive)
		packets_received(channel, (struct slot *)descriptor);
	else
		packets_sent(channel, (struct slot *)descriptor);
}

static void note_event(void)
{
	idle_looks = 0;
	last_event = 0; /* the clock is read only when there is time for it */
}

int progress_poll(void)
{
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN is_receive;
	VIP_RETURN code;
	int events = 0;

	while (events < BURST && (code = VipCQDone(cq, &vi, &is_receive)) != VIP_NOT_DONE) {
		must(code, "VipCQDone");
		handle(vi, is_receive);
		++events;
	}
	if (events)
		note_event();
	return events;
}

static void check_for_trouble(void)
{
	double now = mp_now();

	nic_check_errors();
	if (last_event == 0)
		last_event = now;
	if (now - last_event < settings.stall)
		return;
	progress_describe();
	sleep(1); /* lets the other processes, which may wait as long, print their state first */
	mp_fail("nothing has come for %d seconds", settings.stall);
}

void mp_progress(void)
{
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN is_receive;
	VIP_RETURN code;

	if (progress_poll())
		return;
	++idle_looks;
	if (settings.only_poll) {
		if (idle_looks % LOOK_AGAIN == 0)
			check_for_trouble();
		sched_yield();
		return;
	}
	if (idle_looks < SPINS)
		return;
	code = VipCQWait(cq, SLEEP, &vi, &is_receive);
	if (code == VIP_TIMEOUT) {
		check_for_trouble();
		return;
	}
	must(code, "VipCQWait");
	note_event();
	handle(vi, is_receive);
}

void progress_until(const int *done, const char *what)
{
	const char *before = doing;

	doing = what;
	while (!*done)
		mp_progress();
	doing = before;
}
