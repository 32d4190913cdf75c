/* SPDX-License-Identifier: BSD-2-Clause */
/* Where threads sleep until a completion comes. Several CQs may share one channel. */
#ifndef VIPL_CHANNEL_H
#define VIPL_CHANNEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/sleeper.h"
#include "device.h"

struct channel {
	struct device *device;
	struct device_channel *device_channel;
	struct sleeper sleeper; /* who leads */
	int device_fd;
	int epoll_fd; /* that it is in; -1: none */
	pthread_mutex_t lock; /* guards what follows, and the `announced` of its CQs */
	pthread_cond_t changed;
	bool has_leader; /* one of the sleepers reads the channel for all */
	unsigned sleepers;
	unsigned cqs;	  /* that use it; guarded by the NIC's lock */
	unsigned watched; /* CQs of these; guarded by the notifier's lock */
};

/*
 * `always_fd`: as of sleeper_init(). `epoll_fd`: one that becomes readable when the channel does, for channels_look(),
 * or -1. NULL and errno on failure.
 */
struct channel *channel_create(struct device *device, int always_fd, int epoll_fd);
void channel_destroy(struct channel *channel);

/* Sleeps until cq->announced is no longer `seen`; false at the deadline. */
bool channel_wait(struct channel *channel, struct cq *cq, uint32_t seen, int64_t deadline);

#define CHANNELS_MOST	64u /* that channels_look() looks at */
#define ARM_RETRY_MSEC	100 /* until a device that could not announce completions is asked again */

/*
 * Takes announcements that have come, for threads that sleep, from all channels in an epoll descriptor. `data.ptr` of an
 * event is the channel, which stays. It does not sleep itself.
 */
void channels_look(int epoll_fd);

/* Wakes all threads that wait for this CQ, so that they look again. */
void channel_kick(struct channel *channel, struct cq *cq);

#endif
