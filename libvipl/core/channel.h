/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where threads sleep until a completion comes, if the device has channels. Several CQs may share one. On other devices they sleep
 * at words in memory: cq_arm_sleeper() of device.h.
 */
#ifndef VIPL_CHANNEL_H
#define VIPL_CHANNEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/sleeper.h"
#include "device.h"

struct channel {
	struct nic *nic;
	struct device_channel *device_channel;
	struct sleeper sleeper; /* the leader sleeps here */
	int device_fd;
	pthread_mutex_t lock; /* guards what follows, and the `announced` of its CQs */
	TAILQ_HEAD(sleepers, sleeping) sleepers; /* threads that have not been called, the longest asleep first */
	struct sleeping *leader; /* the thread that reads the channel for all, or is about to; NULL: there is none */
	unsigned cqs;	  /* that use it; guarded by the NIC's lock */
	unsigned watched; /* CQs of these; guarded by the notifier's lock */
};

/* [nic] The channel for one more CQ, which counts itself in `cqs`. NULL and errno on failure. */
struct channel *channel_for_cq(struct nic *nic);
/* [nic] A CQ leaves the channel. */
void channel_release(struct nic *nic, struct channel *channel);

/*
 * Sleeps until the thread is called, or the deadline. Does not sleep if cq->announced is no longer `seen`.
 *
 * Each announcement and each kick calls one of the CQ's sleepers, and all `choosy` ones, which wait for a descriptor of one
 * queue of a VIPL CQ. Until the called thread has looked, no other one is called. So that thread looks, and kicks if it
 * leaves something to others.
 */
void channel_wait(struct channel *channel, struct cq *cq, bool is_choosy, uint32_t seen, int64_t deadline);

#define CHANNELS_MOST	64u /* that channels_look() looks at */
#define ARM_RETRY_MSEC	100 /* until a device that could not announce completions is asked again */

/*
 * Takes the announcements of all channels in an epoll descriptor, and calls sleepers for them. `data.ptr` of an event is
 * the channel, which stays meanwhile. Does not sleep.
 */
void channels_look(int epoll_fd);

/* Calls a thread that sleeps for the CQ, and all choosy ones; or all. The channel's lock is held. */
void channel_call(struct channel *channel, struct cq *cq, bool all);

#endif
