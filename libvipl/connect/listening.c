/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listening, and the requests that come, until VipConnectWait returns them.
 *
 * Servers accept and prepare between two waits. The NIC listens on for the grace time after a wait, and during an accept, in which
 * no grace time passes. It holds the requests that come during an accept, or in the first part of that time, for the next wait.
 * Later, or when it holds too many, it answers that the server is busy. The requester asks again, and so finds other servers, too.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/cancel.h"
#include "base/cause.h"
#include "base/config.h"
#include "base/deadline.h"
#include "base/log.h"
#include "connect.h"
#include "core/nic.h"

#define HELD_MOST    1024u /* of one discriminator */
#define HOLD_PART    20	   /* requests are held in the first of this number of parts of the grace time */
#define RECENT_WAITS 8	   /* the latest: listening takes ports, of which others want some, too */
#define RIVAL_NSEC   NSEC_PER_SEC /* a requester that has been told that the server is busy asks again far sooner than this */
#define TURN_NSEC    (100 * NSEC_PER_MSEC) /* a wait that finds no place to listen looks again after this */

static int64_t grace_nsec(void)
{
	return config()->grace_msec * NSEC_PER_MSEC;
}

static struct listener *find_listener(struct nic *nic, const struct discriminator *wanted)
{
	struct listener *listener;

	TAILQ_FOREACH(listener, &nic->listeners, in_nic)
		if (discriminator_equal(&listener->wanted, wanted))
			break;
	return listener;
}

/* NULL when there is none. */
static struct request *take_oldest(struct listener *listener)
{
	struct request *request = TAILQ_FIRST(&listener->held);

	if (request) {
		TAILQ_REMOVE(&listener->held, request, in_list);
		listener->held_count--;
	}
	return request;
}

static void release_held(struct listener *listener, enum message_code refusal)
{
	struct request *request;

	while ((request = take_oldest(listener)))
		request_refuse(request, refusal);
}

static bool is_in_use(const struct listener *listener)
{
	return listener->waiters || listener->accepting;
}

/* It is not in use. */
static void end_listener(struct listener *listener)
{
	TAILQ_REMOVE(&listener->nic->listeners, listener, in_nic);
	release_held(listener, MESSAGE_NO_MATCH);
	acceptor_close(listener->acceptor);
	pthread_cond_destroy(&listener->changed);
	free(listener);
}

static void end_more_than_recent(struct nic *nic)
{
	struct listener *listener;
	unsigned count = 0;

	TAILQ_FOREACH_REVERSE(listener, &nic->listeners, listeners, in_nic) {
		if (is_in_use(listener) || ++count <= RECENT_WAITS)
			continue;
		end_listener(listener);
		break;
	}
}

/* A wait, or an accept, is over; the listener may be so, too. */
static void remember_wait(struct listener *listener)
{
	struct nic *nic = listener->nic;
	int64_t now = clock_nsec(), grace = grace_nsec();

	TAILQ_REMOVE(&nic->listeners, listener, in_nic);
	TAILQ_INSERT_TAIL(&nic->listeners, listener, in_nic);
	if (listener->hold_ends <= now) /* else the agent looks then, and sees how it is */
		agent_wake(nic);
	listener->hold_ends = now + grace / HOLD_PART;
	listener->ends = now + grace;
	if (is_in_use(listener))
		return;
	if (grace && !object_retired(&nic->object) && !nic_is_lost(nic))
		end_more_than_recent(nic);
	else
		end_listener(listener);
}

int64_t listeners_serve(struct nic *nic)
{
	struct listener *listener = TAILQ_FIRST(&nic->listeners), *following;
	int64_t now = clock_nsec(), next = DEADLINE_NEVER;

	for (; listener; listener = following) {
		int64_t due = now < listener->hold_ends ? listener->hold_ends : listener->ends;

		following = TAILQ_NEXT(listener, in_nic);
		if (due > now && due < next)
			next = due;
		if (is_in_use(listener) || now < listener->hold_ends)
			continue;
		release_held(listener, MESSAGE_BUSY);
		if (now < listener->ends)
			continue;
		/* This thread may be late: whoever asked in time is told that the server is busy. */
		acceptor_serve(listener->acceptor);
		end_listener(listener);
	}
	return next;
}

/* File descriptors are the program's: the lower half of them shall be enough for all that we hold. */
static bool can_hold(const struct listener *listener, const struct request *request)
{
	struct rlimit most;

	if (listener->held_count < listener->waiters)
		return true;
	return listener->held_count < HELD_MOST && (is_in_use(listener) || clock_nsec() < listener->hold_ends) &&
	       !getrlimit(RLIMIT_NOFILE, &most) && (rlim_t)request->conversation.watched.fd < most.rlim_cur / 2;
}

enum message_code listeners_take(struct nic *nic, struct request *request)
{
	struct listener *listener = find_listener(nic, &request->conversation.wanted);

	if (!listener)
		return MESSAGE_NO_MATCH;
	if (listener->held_count >= listener->waiters)
		listener->missed_at = clock_nsec();
	if (!can_hold(listener, request))
		return MESSAGE_BUSY;
	TAILQ_INSERT_TAIL(&listener->held, request, in_list);
	listener->held_count++;
	pthread_cond_signal(&listener->changed);
	return 0;
}

bool listeners_have_more(struct nic *nic, const struct discriminator *wanted)
{
	const struct listener *listener = find_listener(nic, wanted);

	return listener && (listener->held_count > listener->waiters || deadline_left(listener->missed_at + RIVAL_NSEC));
}

struct listener *listener_accepts(struct nic *nic, const struct discriminator *wanted)
{
	struct listener *listener = find_listener(nic, wanted);

	if (listener)
		listener->accepting++;
	return listener;
}

void listener_has_accepted(struct listener *listener)
{
	if (!listener)
		return;
	listener->accepting--;
	remember_wait(listener);
}

/* NULL and errno: there is no memory. */
static struct listener *create_listener(struct nic *nic, const struct discriminator *wanted)
{
	struct listener *listener = zeroed(1, sizeof(*listener));

	if (!listener || condition_init(&listener->changed)) {
		free(listener);
		log_error_ratelimited("cannot wait for a connection: %s", failure(ENOMEM));
		errno = ENOMEM;
		return NULL;
	}
	listener->nic = nic;
	listener->wanted = *wanted;
	TAILQ_INIT(&listener->held);
	TAILQ_INSERT_TAIL(&nic->listeners, listener, in_nic);
	return listener;
}

/* NULL and errno, as of acceptor_open(). The program may have become another user, who has other places. */
static struct listener *listen_for(struct nic *nic, const struct discriminator *wanted)
{
	struct acceptor *acceptor = acceptor_open(nic->connector, wanted);
	struct listener *listener;

	if (!acceptor)
		return NULL;
	listener = find_listener(nic, wanted);
	if (listener)
		acceptor_close(listener->acceptor);
	else
		listener = create_listener(nic, wanted);
	if (listener)
		listener->acceptor = acceptor;
	else
		acceptor_close(acceptor);
	return listener;
}

static void sleep_until(struct nic *nic, int64_t time)
{
	const struct timespec at = nsec_timespec(time);

	pthread_mutex_unlock(&nic->lock);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	pthread_mutex_lock(&nic->lock);
}

/* The NIC's lock is held. Others may hold all places until their grace time ends. */
static VIP_RETURN listen_in_turn(struct nic *nic, const struct discriminator *wanted, int64_t deadline,
				 struct listener **listener)
{
	int64_t end = clock_nsec() + grace_nsec() + TURN_NSEC;

	while (!(*listener = listen_for(nic, wanted)) && errno == EADDRINUSE) {
		int64_t turn = clock_nsec() + TURN_NSEC;

		if (turn > end)
			break;
		sleep_until(nic, turn < deadline ? turn : deadline);
		if (object_retired(&nic->object))
			return VIP_INVALID_PARAMETER;
		if (!deadline_left(deadline))
			return VIP_TIMEOUT;
	}
	return *listener ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
}

/* The next request for a thread that waits; NULL when no requester is there: it says nothing more until it is answered. */
static struct request *take_held(struct listener *listener)
{
	struct request *request;

	while ((request = take_oldest(listener)) && !socket_is_quiet(&request->conversation.watched))
		request_refuse(request, MESSAGE_NO_MATCH);
	return request;
}

static void stop_waiting(struct listener *listener)
{
	listener->waiters--;
	remember_wait(listener);
}

/* The thread is cancelled. */
static void leave_listener(void *argument)
{
	struct listener *listener = argument;
	struct nic *nic = listener->nic;

	pthread_cond_signal(&listener->changed); /* it may have been woken for a request */
	stop_waiting(listener);
	pthread_mutex_unlock(&nic->lock);
	nic_put(nic);
}

/* The NIC's lock is held. On success there is a request, with a name. */
static VIP_RETURN await_request(struct nic *nic, const struct discriminator *wanted, int64_t deadline,
				struct request **request)
{
	struct listener *listener;
	VIP_RETURN rc = nic_is_lost(nic) ? VIP_ERROR_RESOURCE : listen_in_turn(nic, wanted, deadline, &listener);
	bool in_time = true;

	if (rc != VIP_SUCCESS)
		return rc;
	listener->waiters++;
	while (!(*request = take_held(listener)) && in_time && !object_retired(&nic->object) && !nic_is_lost(nic))
		in_time = cancel_condition_wait(&listener->changed, &nic->lock, deadline, leave_listener, listener) != ETIMEDOUT;
	stop_waiting(listener);
	if (object_retired(&nic->object))
		rc = VIP_INVALID_PARAMETER;
	else if (!*request)
		rc = nic_is_lost(nic) ? VIP_ERROR_RESOURCE : VIP_TIMEOUT;
	else if (object_publish(&(*request)->object, OBJECT_REQUEST))
		rc = VIP_ERROR_RESOURCE;
	if (rc == VIP_SUCCESS)
		TAILQ_INSERT_TAIL(&nic->requests, *request, in_list);
	else if (*request)
		request_refuse(*request, MESSAGE_BUSY);
	return rc;
}

VIP_RETURN listening_wait(struct nic *nic, const struct discriminator *wanted, int64_t deadline,
			  struct connect_info *peer, VIP_CONN_HANDLE *handle)
{
	struct request *request;
	VIP_RETURN rc;

	pthread_mutex_lock(&nic->lock);
	rc = await_request(nic, wanted, deadline, &request);
	if (rc == VIP_SUCCESS) {
		*peer = request->conversation.peer;
		*handle = object_handle(&request->object);
	}
	pthread_mutex_unlock(&nic->lock);
	return rc;
}

void listeners_close(struct nic *nic)
{
	struct listener *listener = TAILQ_FIRST(&nic->listeners), *following;

	for (; listener; listener = following) {
		following = TAILQ_NEXT(listener, in_nic);
		pthread_cond_broadcast(&listener->changed);
		if (!is_in_use(listener))
			end_listener(listener);
	}
}
