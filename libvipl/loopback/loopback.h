/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loopback device: VIs of processes of one machine, connected by shared memory.
 *
 * Posting holds the queue's lock, polling the CQ's. So a thread that holds all four locks of an endpoint, those of its
 * queues and CQs, may change its link. ARCHITECTURE.md has the order of locks.
 */
#ifndef VIPL_LOOPBACK_H
#define VIPL_LOOPBACK_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/fd.h"
#include "base/thread.h"
#include "base/watch.h"
#include "cq_look.h"
#include "cq_page.h"
#include "device.h"
#include "link.h"

/* A page of our own, by which peers recognise this process. It holds the nonce. A child of fork() does not get it. */
struct nonce_page {
	uint8_t nonce[NONCE_BYTES];
	uint8_t written; /* peers write here, and nobody reads it */
};

struct loopback_device {
	struct device base;
	struct nic *nic;
	struct {
		pthread_mutex_t lock; /* guards what follows; no lock is taken while it is held */
		TAILQ_HEAD(, loopback_endpoint) endpoints; /* that the agent shall look at: lo_wake.c */
		_Atomic unsigned count; /* of these; read without the lock */
	} news;
	struct watch timer;
	atomic_bool ticks;	/* the timer ticks each 10 ms; if not, peers wake the agent */
	atomic_bool is_polled;	/* since the last tick; then `ticks` is true, too */
	unsigned quiet;		/* ticks without a poll; guarded by the NIC's lock */
	_Atomic uint32_t last_domain;
	_Atomic uint32_t dereg_epoch; /* counts deregistrations: cached regions are valid until it changes */
	struct nonce_page *nonce_page; /* NULL: no peer copies directly */
	/* The NIC's lock guards these. */
	LIST_HEAD(, peer_memory) peer_memories;
	struct peer_files peer_files;
	TAILQ_HEAD(, loopback_cq) cqs; /* of linked endpoints */

	pthread_mutex_t lock; /* guards what follows */
	LIST_HEAD(, loopback_endpoint) linked; /* changed with the NIC's lock, too: either may read */
	struct region_entries *regions; /* written here, read by peers */
	struct fd_shared regions_file;
	uint32_t next_region;  /* where the search for a free entry begins */
	uint32_t generations[TABLE_REGIONS]; /* of the entries */
};

struct loopback_domain {
	struct loopback_device *device;
	uint32_t number;
};

/* A queue that completes into a CQ with others. The CQ's lock guards all members but those that name another. */
struct loopback_source {
	atomic_bool is_called; /* shall be looked at: it is in the CQ's list of these */
	struct loopback_source *next_called;
	struct loopback_endpoint *endpoint;
	bool is_receive;
	bool in_heap;
	bool has_ended; /* no completion comes any more, and the rest is flushed */
	uint32_t stamp; /* of its next completion, while it is in the heap */
	uint32_t round; /* the last one that took something from it */
	uint32_t taken; /* the completions that were taken in that round */
	_Atomic uint32_t end; /* the stamp of flushed work */
};

/* The sources of a CQ and their state. The CQ's lock guards all members but those that name another. */
struct loopback_order {
	/* Threads without the lock read these: see order_is_empty(). */
	_Atomic(struct loopback_source *) called;
	atomic_bool is_filled; /* the heap or `pending` is not empty, or a poll is under way */

	struct loopback_source **heap;		  /* the sources with completions, by their stamps */
	unsigned count, sources;		  /* in the heap, and of the CQ */
	struct loopback_endpoint **receivers;	  /* by their numbers in the page; NULL: none */
	uint32_t receivers_room, next_queue;	  /* the size of the table; all queue numbers below are taken */
	LIST_HEAD(, loopback_endpoint) pending;	  /* with sends that are pending */
	uint32_t seen;				  /* the last good value of the page's counter, which peers can write */
	uint32_t round;				  /* counts rounds */
	uint32_t limit;				  /* this round takes stamps before this */
	bool in_round;				  /* this round is not over */
	bool has_warned;			  /* it has been logged that a peer wrote to the counter */
};

struct loopback_cq {
	/* These, and the first members of `order`, stay as they are when the CQ is gone: see device.h. */
	struct cq_look look;
	struct cq_page *page; /* NULL: it is for one queue */
	struct loopback_order order; /* if there is a page */

	struct cq *cq; /* named in reports */
	struct loopback_device *device;
	_Atomic uint32_t armed; /* lane_wait: what a send that is done has to do; threads may sleep at this word, too */
	atomic_bool has_sleepers; /* perhaps, at a word: loopback_cq_wake() has woken nobody since one has armed it */
	LIST_HEAD(, loopback_endpoint) senders, receivers; /* of a CQ for one queue; two while a VI changes */
	struct fd_shared page_file;

	/* loopback/lo_progress.c; guarded by the NIC's lock. */
	TAILQ_ENTRY(loopback_cq) in_device;
	unsigned ends; /* of linked endpoints that complete here */
	TAILQ_HEAD(, loopback_endpoint) linked; /* the endpoints whose receives complete here */
	unsigned links;				/* the length of that list */
};

/* A posted receive, in memory of our own: the published copy is for the peer only. */
struct loopback_receive {
	uint32_t room;
	uint32_t usable; /* so many bytes of it, from the start, were registered memory when it was posted */
	uint32_t alone;	 /* the same if it has one segment, else 0 */
	uint32_t dereg_epoch; /* the device's at that time */
	uint32_t count;
	uint32_t list; /* the place of its segments in the pool, if it has several: see keep_segments() */
	struct segment segment; /* the only one */
};

/* A send that needs the peer's help; the only one under way while it does. */
struct loopback_pending {
	enum {
		PENDING_SEND = 1,
		PENDING_WRITE,
		PENDING_READ,
		PENDING_RECEPTION,
		PENDING_ABORT,
		PENDING_END, /* of the connection: it is flushed then */
	} kind;
	uint32_t offset; /* bytes that are done */
	uint32_t piece;	 /* bytes that the peer has been asked for */
	uint32_t error;	 /* why it is given up */
	uint32_t number; /* of the message that the peer has to consume or answer, if `asked` */
	bool asked;
	struct device_send send;
};

/* Long arrays of an endpoint: only the pages that are touched take memory. */
struct loopback_arrays {
	struct loopback_receive receives[LANE_RECEIVES]; /* a ring */
	struct segment pool[LANE_POOL];			 /* of receives with several segments, as in the lane */
	struct segment pending[MAX_SEGMENTS];		 /* of the pending send */
};

#define SEND_STAMPS 128u /* a power of two; the most sends that are accepted and not reported */

/* Regions of receives that were posted before. */
#define CACHED_REGIONS 4u

struct cached_region {
	uint32_t handle;
	uint32_t dereg_epoch; /* the device's, before the region was looked up */
	uint64_t start, length;
};

/* What is known of the peer's accesses to our memory: lo_access.c. The device's lock guards it. */
struct peer_access {
	uint32_t number; /* the last value of the counter that was seen to be odd */
	int64_t seen;	 /* the first time at which it was */
	int64_t looked;	 /* the last time */
	int64_t waited;	 /* for this access */
	int64_t closed;	 /* from this time on none begins; 0: they do */
	bool is_given_up;
};

enum loopback_fault {
	FAULT_OF_PROTOCOL = 1, /* the peer violates the protocol */
	FAULT_IN_ACCESS, /* it does not end an access to our memory */
	FAULT_NO_PROCESS, /* the peer's process has ended, although another one may still have its socket */
	FAULT_NO_MEMORY,  /* for the next step of the lane */
};

struct loopback_endpoint {
	struct loopback_device *device;
	struct vi *vi;
	struct loopback_domain *domain;
	struct workqueue *send_queue, *receive_queue;
	struct loopback_cq *send_cq, *receive_cq;
	LIST_ENTRY(loopback_endpoint) in_send_cq, in_receive_cq; /* if that is for one queue */
	LIST_ENTRY(loopback_endpoint) in_linked;
	TAILQ_ENTRY(loopback_endpoint) in_cq_linked;

	/* From here to `arrays`: the connection, and the receives posted for it. loopback_endpoint_reset() zeroes it all. */
	atomic_bool stopped;
	struct link *link; /* NULL: none */
	bool is_careful;	/* the program may have protected its memory: copies_carefully() */
	bool shares;	   /* the peer's receive queue or our send queue is on a VIPL CQ */
	uint32_t short_most;	/* up to this length messages are inline, and copied without more care */
	atomic_bool must_wake_peer; /* the agent, in place of a thread that has failed to */
	_Atomic uint32_t fault; /* loopback_fault: the agent ends the connection for it */

	/* From the peer's description. */
	const struct region_entries *peer_regions;
	uint32_t peer_domain;
	struct cq_page *peer_page; /* of its receive CQ; NULL: that is for one queue */
	uint32_t peer_queue;	   /* the number in there */
	_Atomic uint32_t *peer_waits; /* lane_wait */
	struct peer_memory *peer_memory; /* NULL: it is not to be accessed */

	/* Sending: the send queue's lock guards it. */
	alignas(CACHE_LINE) struct lane *out;
	uint32_t taken;	  /* receives of the peer */
	uint32_t written; /* messages */
	uint32_t limit;	  /* messages before this have room, and their memory is there: lane_look() */
	uint64_t ring_written, ring_limit; /* the same of the ring: lane_ring_room() */
	uint64_t out_known;	    /* the steps that are known to be there */
	uint32_t accepted;	    /* sends */
	_Atomic uint32_t finished;  /* sends that have ended with success: see `failure` */
	_Atomic uint32_t failure;   /* how the one after `finished` ended, or 0 */
	_Atomic uint32_t stamped;   /* sends that have their stamps; the last one may not be finished yet */
	atomic_bool is_pending;	    /* posting sets it, and with it leaves the send to polling, which clears it */
	struct loopback_pending pending;
	uint32_t stamps[SEND_STAMPS]; /* of the sends that are finished and not reported; a ring */
	LIST_ENTRY(loopback_endpoint) in_pending; /* this and what follows: the send CQ's lock guards it */
	bool is_listed; /* in the CQ's list of endpoints with pending sends */
	bool failure_reported;
	_Atomic uint32_t reported;

	/* Receiving: the receive CQ's lock guards it. */
	alignas(CACHE_LINE) struct lane *in;
	_Atomic uint32_t read; /* messages */
	uint64_t ring_read;
	uint64_t in_known;	    /* the steps that are known to be there, apart from those for messages of posted receives */
	uint32_t completed; /* receives */
	uint32_t offset;    /* the bytes that have come of a message in parts */
	bool part_failed;   /* there is no place for it */
	bool rx_stopped;	    /* nothing is taken any more after an error */

	/* Posting receives: the receive queue's lock guards it. */
	alignas(CACHE_LINE) _Atomic uint32_t posted;
	uint32_t publish_limit; /* receives before this are published at once: see bring_entry() */
	uint32_t short_receive; /* receives of no more bytes have no details */
	uint32_t pool_used;	/* segments, with those left out at the pool's end */
	_Atomic uint32_t pool_free; /* up to here, because their receives are done: the receive CQ's lock guards it */
	uint64_t posting_known; /* the steps of `in` that are known to be there */
	struct loopback_arrays *arrays;
	struct cached_region region_cache[CACHED_REGIONS];

	alignas(CACHE_LINE) struct loopback_source sending; /* in the send CQ */
	alignas(CACHE_LINE) struct loopback_source receiving; /* in the receive CQ */
	uint32_t queue; /* its number in the page of that */

	/* Ending, and taking back memory: lo_access.c. */
	atomic_bool is_closing; /* no access of ours begins */
	atomic_bool is_copying; /* in an access of ours; the send queue's lock is held then, perhaps for ever */
	unsigned holders;	/* threads that have the endpoint without a lock; guarded by the device's lock */
	struct peer_access access;

	/* For the agent: lo_wake.c. */
	TAILQ_ENTRY(loopback_endpoint) in_news; /* these two are guarded by the lock of the news */
	bool has_news;

	/* Connecting: the NIC's lock guards it. */
	int link_fd; /* of a link that is not described yet, or -1 */
	int socket;  /* of the connection, while it stays, or -1; while there is a link one of the endpoint's locks is enough */
	struct connect_info own, peer;
};

/*
 * True if the kernel is to copy to and from memory of the program, so that no copy faults. In a thread of the library nobody
 * handles faults. And in a thread of the program, a signal handler that calls the library would find the lock held that the
 * copy holds.
 */
static inline bool copies_carefully(const struct loopback_endpoint *endpoint)
{
	return endpoint->is_careful || thread_is_library;
}

static inline void *memory_at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static inline struct loopback_receive *receive_at(const struct loopback_endpoint *endpoint, uint32_t index)
{
	return endpoint->arrays->receives + (index & (LANE_RECEIVES - 1));
}

/* NULL if there was no room for them here: then workqueue_scatter() finds them. */
static inline const struct segment *receive_segments(const struct loopback_endpoint *endpoint, const struct loopback_receive *receive)
{
	if (receive->count == 1)
		return &receive->segment;
	return receive->count > LANE_SEGMENTS ? NULL : endpoint->arrays->pool + (receive->list & (LANE_POOL - 1));
}

/* What the layers above call: device.h. Each is loopback_NAME() in a file of this folder. */
#define LOOPBACK_OPERATIONS(operation)                                                                                  \
	operation(domain_create)                                                                                        \
	operation(domain_destroy)                                                                                       \
	operation(region_create)                                                                                        \
	operation(region_destroy)                                                                                       \
	operation(region_change)                                                                                        \
	operation(cq_create)                                                                                            \
	operation(cq_destroy)                                                                                           \
	operation(cq_poll)                                                                                              \
	operation(cq_arm)                                                                                               \
	operation(cq_arm_sleeper)                                                                                       \
	operation(cq_wake)                                                                                              \
	operation(endpoint_create)                                                                                      \
	operation(endpoint_destroy)                                                                                     \
	operation(endpoint_is_still)                                                                                    \
	operation(endpoint_stop)                                                                                        \
	operation(endpoint_reset)                                                                                       \
	operation(post_send)                                                                                            \
	operation(post_receive)                                                                                         \
	operation(place)                                                                                                \
	operation(admit)                                                                                                \
	operation(tell_no_match)                                                                                        \
	operation(describe)                                                                                             \
	operation(raise)                                                                                                \
	operation(woken_by_peer)                                                                                        \
	operation(serve)

#define LOOPBACK_DECLARE(name) extern __typeof__(*((struct device_ops *)NULL)->name) loopback_##name;

LOOPBACK_OPERATIONS(LOOPBACK_DECLARE)

/* lo_wake.c */
/*
 * Wakes the peer's agent, without waiting, whatever the peer does. If it fails our own agent tries again. The lock of the send
 * queue, the send CQ or the NIC is held.
 */
void endpoint_wake_peer(struct loopback_endpoint *endpoint);
/* The agent looks at this endpoint. One of its locks, the device's or the NIC's is held. */
void endpoint_wake_agent(struct loopback_endpoint *endpoint);
/* [nic] It does not, any more. */
void endpoint_forget_news(struct loopback_endpoint *endpoint);
/* [nic] Takes the first of the endpoints at which the agent shall look, or NULL. */
struct loopback_endpoint *endpoint_with_news(struct loopback_device *device);
/* [nic] Wakes the peer in place of a thread that has failed to. False if this has failed, too: then the endpoint has news again. */
bool endpoint_wake_peer_again(struct loopback_endpoint *endpoint);
/* There is no memory for a step of the lane: the agent ends the connection. Returns false. */
static inline bool endpoint_short_of_memory(struct loopback_endpoint *endpoint)
{
	atomic_store(&endpoint->fault, FAULT_NO_MEMORY);
	endpoint_wake_agent(endpoint);
	return false;
}

/* lo_progress.c */
void loopback_timer_ready(struct watch *watch);
/*
 * Something has completed for a CQ that cq_arm() has armed. Polls, by which the notifier is called. The locks of queues may be held,
 * but not the CQ's.
 */
void loopback_cq_poll_armed(struct loopback_cq *cq);
/* [nic] A connection begins, or ends. */
void loopback_progress_link(struct loopback_endpoint *endpoint);
void loopback_progress_unlink(struct loopback_endpoint *endpoint);
/* The program polls. The agent has to notice when that ends. */
void loopback_progress_polled(struct loopback_device *device);

/* lo_sleep.c */
/* A send is done: wakes a thread, if one asked for it. */
void loopback_wake_for_send(struct loopback_cq *cq);
/* The CQ's lock is held: all that sleep look again, since the word at which they sleep changes. */
void loopback_cq_rouse(struct loopback_cq *cq);

/* lo_endpoint.c */
/* The caller has all locks: loopback.h's first lines. See copies_carefully(). */
void endpoint_set_careful(struct loopback_endpoint *endpoint, bool is_careful);
/* [nic] From here on the endpoint uses the link. Publishes the posted receives. False if there is no memory for that. */
bool endpoint_attach(struct loopback_endpoint *endpoint, struct link *link, unsigned out_lane);
/* Keeps all other threads away from the link. */
void endpoint_lock(struct loopback_endpoint *endpoint);
void endpoint_unlock(struct loopback_endpoint *endpoint);

/* lo_access.c */
/* Waits until all peers, and threads of ours, have ended the accesses to our memory that they have begun before this call. */
void loopback_await_accesses(struct loopback_device *device);

/*
 * lo_copy.c: between plain memory and bytes [offset, offset + length) of the segments. Careful copies are made by the kernel:
 * copies_carefully(). They return false when no memory is there.
 */
bool copy_gather(uint8_t *to, const struct device_send *send, uint32_t offset, uint32_t length, bool carefully);
bool copy_scatter_carefully(const struct device_send *send, uint32_t offset, const uint8_t *from, uint32_t length);
/* Into the oldest receive, as far as its memory is registered. */
bool copy_receive(const struct loopback_endpoint *endpoint, const struct loopback_receive *receive, const uint8_t *from,
		  uint32_t length);

/* lo_pending.c */
/* Begins what loopback_advance() goes on with. */
void loopback_suspend(struct loopback_endpoint *endpoint, const struct device_send *send,
		      unsigned kind);
/* The send CQ's lock is held. Continues pending sends. */
void loopback_advance(struct loopback_endpoint *endpoint);

/* lo_report.c */
/* For a CQ of this queue alone, whose lock is held. Goes on with a pending send, reports, and returns how many. */
int loopback_report_sends(struct loopback_endpoint *endpoint);

/*
 * For a VIPL CQ, whose lock is held. Returns true, and the stamp, if there is a send to report, or one that is being
 * published.
 */
bool loopback_next_send(struct loopback_endpoint *endpoint, uint32_t *stamp);
bool loopback_next_send_is_done(const struct loopback_endpoint *endpoint);
/* Reports the first completion and those before the bound. Returns their number. `has_more`: there are more. */
int loopback_report_sends_before(struct loopback_endpoint *endpoint, uint32_t bound, bool *has_more);

/* The send CQ's lock is held. */
static inline uint32_t reported_sends(const struct loopback_endpoint *endpoint)
{
	return atomic_load_explicit(&endpoint->reported, memory_order_relaxed);
}

/* After a failure there may be something to report although nothing more is finished. */
static inline bool loopback_has_sends(const struct loopback_endpoint *endpoint)
{
	return atomic_load_explicit(&endpoint->finished, memory_order_acquire) !=
		       reported_sends(endpoint) ||
	       atomic_load_explicit(&endpoint->is_pending, memory_order_acquire) ||
	       atomic_load_explicit(&endpoint->failure, memory_order_acquire) ||
	       atomic_load_explicit(&endpoint->stopped, memory_order_acquire);
}

/*
 * lo_peer_memory.c: the memory of a peer's process, for copies by the kernel. The number of a process that has died is given to
 * another process. So a copy goes to the process that was connected, or it fails.
 */
/* NULL when there is no memory or no randomness: there are no direct copies then. */
struct nonce_page *nonce_page_create(void);
void nonce_page_destroy(struct nonce_page *page);

/*
 * [nic] Opens the memory of a process that is said to have the nonce at this address. Connections with the same process share it,
 * and end with the process. NULL when there is no such address, or no memory here.
 */
struct peer_memory *peer_memory_open(struct loopback_device *device, pid_t process, uint64_t nonce_address,
				     const uint8_t nonce[NONCE_BYTES]);
/* [nic] `memory` may be NULL. */
void peer_memory_close(struct peer_memory *memory);

/*
 * Copies between the send's local segments and remote ones, LANE_SEGMENTS at most. 0 or errno: EFAULT if memory of
 * either side is not there; ESRCH if the process has ended or has executed another program; EPERM if it has never had the nonce,
 * or the kernel gives no access. It may take any time: the peer's page faults may be served by a program.
 */
int peer_memory_copy(struct peer_memory *memory, const struct device_send *send,
		     const struct segment *remote, unsigned remote_count, bool is_write);

/* lo_post.c */
/* The receive queue's lock is held. False if there is no memory. */
bool loopback_publish(struct loopback_endpoint *endpoint, uint32_t index);

/* lo_receive.c */
/*
 * The receive CQ's lock is held. loopback_consume() takes messages that have arrived. loopback_flush_receives() follows
 * the end of the connection, and completes all posted receives as flushed. Both return how many receives they completed.
 */
int loopback_consume(struct loopback_endpoint *endpoint);
int loopback_flush_receives(struct loopback_endpoint *endpoint);
/*
 * For a VIPL CQ: takes the first message, and those whose stamps are before the bound, at most `most`. `has_more`: there
 * are more. The rest is as for loopback_consume().
 */
int loopback_take_before(struct loopback_endpoint *endpoint, uint32_t bound, uint32_t most,
			 bool *has_more);
bool loopback_next_receive(struct loopback_endpoint *endpoint, uint32_t *stamp);
/* The next message, if it is there. Whoever sees its number sees all that was written before it: litmus/message_number. */
static inline struct lane_message *next_message(const struct loopback_endpoint *endpoint)
{
	uint32_t read = atomic_load_explicit(&endpoint->read, memory_order_relaxed);
	struct lane_message *message = &endpoint->in->messages[read & (LANE_MESSAGES - 1)];

	return atomic_load_explicit(&message->number, memory_order_acquire) == read + 1 ? message
											: NULL;
}

#endif
