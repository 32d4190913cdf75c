/* SPDX-License-Identifier: BSD-2-Clause */
/* An open VI NIC, and what belongs to it. */
#ifndef VIPL_NIC_H
#define VIPL_NIC_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/sleeper.h"
#include "cq.h"
#include "device.h"
#include "handlers.h"
#include "object.h"
#include "region_table.h"
#include "vi.h"

#define MAX_TRANSFER	 0x800000u /* bytes */
#define PRIVATE_CHANNELS CHANNELS_MOST /* CQs that get one of their own; the rest share */

struct connector;
struct listener;
struct request;

/*
 * A protection tag is a protection domain of the device. The first tag that a program creates shares the default tag's domain,
 * because programs mix a tag that they created with NULL.
 */
struct tag {
	struct object object;
	LIST_ENTRY(tag) in_nic;
	struct device_domain *domain;
	unsigned users; /* VIs and regions; guarded by the NIC's lock */
	bool is_alias;
};

/* The NIC's service thread: service/agent.c. */
struct agent {
	pthread_t thread;
	struct sleeper sleeper;
	int status_fd; /* where vip_stat asks, or -1 */
	atomic_bool stop;
	_Atomic int64_t turned; /* the time of its last turn, or of another thread's in its place */
	/* The NIC's lock guards these. */
	int backlog_msec;    /* between two looks at backlogs */
	bool ignores_status; /* it does not watch status_fd */
};

/*
 * Completions for programs that do not poll, but watch the Status of their descriptors in memory. With VIPL_PROGRESS=on
 * the agent polls all CQs, and sleeps on their channels: progress.c.
 */
struct progress {
	int channels_fd; /* readable when a channel is; -1: the program polls */
};

struct nic {
	struct object object;
	struct device *device;
	struct connector *connector;
	VIP_NIC_ATTRIBUTES attributes;
	uint8_t local_address[LONG_HOST_LEN];
	struct in6_addr host;
	struct agent agent;
	struct progress progress;
	struct notifier *notifier;
	struct region_table regions;
	pthread_mutex_t changing_regions; /* one at a time; comes before the NIC's lock */
	pthread_rwlock_t copying; /* held for reading while the processor copies from or to regions */

	pthread_mutex_t lock; /* guards what follows, and all that is marked [nic] */
	struct tag default_tag;
	bool has_alias;
	_Atomic int gone;    /* the error by which a file of the device has said that it is gone; 0: none */
	atomic_bool failed;  /* the device; only closing the NIC helps */
	atomic_bool is_over; /* and its connections have ended: a wait for completions that goes on is in vain */
	atomic_bool has_faults; /* VIs are broken or stalled, and the agent has not looked since */
	unsigned changes;    /* of the device's addresses, LIDs and partitions that it has told of */
	int64_t link_ends;   /* its port is down: when connections end, unless it is up by then; 0: it is not */
	LIST_HEAD(, tag) tags;
	LIST_HEAD(, vi) vis, ending;
	LIST_HEAD(, cq) cqs;
	TAILQ_HEAD(, request) requests;
	TAILQ_HEAD(listeners, listener) listeners; /* the longest without a wait first: listening.c */
	struct channel *channels[PRIVATE_CHANNELS];
};

static inline struct nic *nic_get(VIP_NIC_HANDLE handle)
{
	return object_get(handle, OBJECT_NIC);
}

static inline void nic_put(struct nic *nic)
{
	object_put(&nic->object);
}

/* [nic] The tag a program named (NULL: the default one), or NULL. */
static inline struct tag *tag_find(struct nic *nic, VIP_PROTECTION_HANDLE handle)
{
	struct tag *tag;

	if (!handle)
		return &nic->default_tag;
	LIST_FOREACH(tag, &nic->tags, in_nic)
		if (object_handle(&tag->object) == handle)
			return tag;
	return NULL;
}

static inline const struct device_ops *ops_of(const struct vi *vi)
{
	return vi->nic->device->ops;
}

/* The device has failed, the program has closed its descriptors, or a filter refuses a call: nothing can be connected any more. */
static inline bool nic_is_lost(const struct nic *nic)
{
	return atomic_load(&nic->failed) || atomic_load(&nic->gone) || sleeper_is_lost(&nic->agent.sleeper);
}

/* Makes the agent look at the device and at all CQs once more. */
static inline void agent_wake(struct nic *nic)
{
	sleeper_wake(&nic->agent.sleeper);
}

/* From any thread, which has set `broken` or `stalled` of a VI: the agent breaks or revives it. */
static inline void nic_has_faults(struct nic *nic)
{
	if (!atomic_exchange(&nic->has_faults, true)) /* else it has still to look */
		agent_wake(nic);
}

/* From any thread: a read of one of the device's files has said by this error that it is gone. The agent fails the NIC. */
static inline void nic_lose(struct nic *nic, int error)
{
	int none = 0;

	atomic_compare_exchange_strong(&nic->gone, &none, error);
	agent_wake(nic);
}

/* 0 or errno. */
int progress_start(struct nic *nic);
void progress_end(struct nic *nic);
/* [nic] Takes what has come; `rings`: a channel is readable. Returns msec until it has to be called again, or -1. */
int progress_serve(struct nic *nic, bool rings);

#endif
