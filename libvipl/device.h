/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam between VIA's semantics (above) and what moves the bytes (below).
 *
 * The files above do not know which device a NIC has; the files below do not know VIPL's functions. A device
 * reports in VIA's terms: status bits of descriptors, VIP_RETURN codes of connections.
 *
 * Locks: calls and reports marked [nic] are made with the NIC's lock held, which serialises everything about
 * connections. A device makes such reports from watch_serve() or from within another [nic] call. Where other locks
 * are held the comment names them. All other calls may come from any thread at any time. Only region_destroy() and
 * region_change() wait for a peer: for copies in progress, a second at most.
 *
 * Functions that return a pointer return NULL and errno when they fail, and functions that return an int return 0 or errno,
 * except where the comment says otherwise. A device has all functions of device_ops but those that are [optional]: without such a
 * one there is nothing to do, except where the comment says otherwise.
 *
 * Some programs do not poll. With VIPL_PROGRESS=on the agent polls all CQs. A device that needs polling in other cases
 * calls cq_poll_for_device() from within watch_serve().
 */
#ifndef VIPL_DEVICE_H
#define VIPL_DEVICE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/address.h"
#include "vipl.h"

struct nic;
struct vi;
struct cq;
struct workqueue;

#define MAX_SEGMENTS 252u /* of a descriptor, the address segment of RDMA included */
/*
 * Work requests of a queue that the device is given at once, at most. Devices make a power of two of
 * it. Some need one more, and the RDMA device keeps one more in the CQ.
 */
#define SEND_DEPTH    126u
#define RECEIVE_DEPTH 1024u
#define CQ_UNLIMITED  (1u << 30) /* entries */

/* Only the device knows what is in these. */
struct device_domain;  /* of a protection tag */
struct device_region;  /* registered memory */
struct device_channel; /* wakes threads that wait for completions; not all devices have such */
struct device_cq;
struct device_endpoint; /* a VI's end of a connection */

struct device {
	const struct device_ops *ops;
	int event_fd;	 /* of what the agent watches: base/watch.h */
	uint8_t version; /* of the messages when connecting, and of what they describe */
	struct in6_addr host; /* of processes of this machine, if it connects these alone */
};

/* Part of a message in local memory, checked; `key` is the device's name for the region. */
struct segment {
	uint64_t address;
	uint32_t length;
	uint32_t key;
};

#define POSTED_BY_LIBRARY (UINT32_C(1) << 31) /* more than any length */

struct device_send {
	const struct segment *segments;
	unsigned count;
	uint32_t length;  /* of all segments */
	uint16_t control; /* VIP_CONTROL_: operation, IMMEDIATE, QFENCE */
	uint32_t immediate;
	uint64_t remote_address; /* of an RDMA operation */
	uint32_t remote_handle;
	uint32_t offset; /* the number of bytes that earlier parts carry: see workqueue_next_part() */
	/* POSTED_BY_LIBRARY: by a thread of the library, which may not fault on memory of the program. Else 0. */
	uint32_t by_library;
};

struct region_rights {
	bool rdma_write, rdma_read;
};

struct endpoint_config {
	struct vi *vi; /* named in reports */
	struct device_domain *domain;
	VIP_RELIABILITY_LEVEL reliability;
	struct region_rights rights;
	struct workqueue *send_queue, *receive_queue; /* named in reports */
	struct device_cq *send_cq, *receive_cq;
	unsigned send_depth, receive_depth; /* at most SEND_DEPTH, RECEIVE_DEPTH; the device may lower them */
};

/* Each end sends this about itself when a connection is made. */
struct connect_info {
	struct in6_addr host;
	struct discriminator discriminator;
	VIP_RELIABILITY_LEVEL reliability;
	uint32_t max_transfer;
	struct region_rights rights;
	bool peer_to_peer; /* this request is for an end that requests the requester, not for a server */
};

/* An address of a socket. */
struct place {
	struct sockaddr_storage address;
	socklen_t length;
	unsigned interface; /* of a source: the index of the one that has the address; 0: it does not matter */
};

#define PLACE_ADDRESSES 2u /* a NIC may have an IPv4 and an IPv6 address */

#define DESCRIPTION_BYTES 72
#define DESCRIPTION_FDS	  3

/* What one end has to know of the other one's data path. Only devices know what the bytes mean. */
struct description {
	uint8_t bytes[DESCRIPTION_BYTES];
	int fds[DESCRIPTION_FDS]; /* only between processes of one machine */
	unsigned fd_count;
	int sent_fd; /* the one of these that is closed when it is sent, or -1 */
	int socket;  /* of the connection */
	/* Of a peer's. */
	pid_t process; /* 0: it is not known, or its memory shall not be accessed directly */
};

/* An endpoint's way out of its device. */
enum endpoint_way {
	ENDPOINT_STAYS,
	ENDPOINT_MOVED, /* a stalled endpoint has one again, or another one: see endpoint_rewind() */
	ENDPOINT_CUT,   /* the peer cannot reach the endpoint any more */
};

/* Where a thread sleeps, while the word has this value: base/futex.h. */
struct sleep_word {
	const void *word; /* of 32 bits */
	uint32_t value;
};

enum opening {
	OPENING_DONE,
	OPENING_NO_SUCH,   /* there are others */
	OPENING_NO_DEVICE, /* for a number: there is none of this kind at all */
	OPENING_FAILED,	   /* the log says why */
};

struct device_ops {
	/* Opens the device called `name`, or if that is NULL the device with this number. */
	enum opening (*open)(const char *name, unsigned index, struct nic *nic, struct device **device);
	void (*close)(struct device *device);
	/*
	 * Sets what the device decides of the attributes, and `host` to the address that the NIC is known by.
	 * That is an IPv6 address only if programs get long addresses.
	 */
	void (*query)(struct device *device, VIP_NIC_ATTRIBUTES *attributes, struct in6_addr *host);
	/*
	 * A host may have several addresses. This replaces `host` by the one that the host's requests come from, and to which
	 * ours go. `own` becomes the address that our requests to that host come from. VIP_NOT_REACHABLE if there is no such
	 * host, or no route to it; or VIP_ERROR_RESOURCE.
	 */
	VIP_RETURN (*find_host)(struct device *device, struct in6_addr *host, struct in6_addr *own);

	struct device_domain *(*domain_create)(struct device *device);
	/* No region and no endpoint is in the domain any more. */
	void (*domain_destroy)(struct device_domain *domain);

	/*
	 * Registers memory. Peers name the region by `handle`, segments by `key`. Memory that the device
	 * may only read can be registered, too, to send from: then `read_only` becomes true.
	 */
	struct device_region *(*region_create)(struct device_domain *domain, void *address,
					       size_t length, struct region_rights rights,
					       uint32_t *handle, uint32_t *key, bool *read_only);
	/* On return no peer accesses the memory. */
	void (*region_destroy)(struct device_region *region);
	/*
	 * Gives the region another domain, or other rights. Its handle stays. `region` becomes another one where the device has made a
	 * new one for the memory: then the caller has to destroy the former. `key` is its key from then on. After an error domain and
	 * rights are the former ones, but the region may be another one, too. ENOTSUP: the device cannot do it. ENOTRECOVERABLE: nothing
	 * may use the region, unless another change makes it good.
	 */
	int (*region_change)(struct device_region **region, struct device_domain *domain, struct region_rights rights, uint32_t *key);

	/* `fd` becomes readable when there are announcements. A device has these three, or cq_arm_sleeper() and cq_wake(). */
	struct device_channel *(*channel_create)(struct device *device, int *fd);
	void (*channel_destroy)(struct device_channel *channel);
	/*
	 * Takes the announcements that have come and reports each by cq_announced(). Without `all` it may
	 * take only one, as long as the file descriptor stays readable for the rest. The channel's lock is
	 * held. 0, or errno: the device is gone, and nothing will come any more.
	 */
	int (*channel_read)(struct device_channel *channel, bool all);

	/*
	 * [nic] `is_shared`: several queues may complete into the CQ, else only one does. `capacity` becomes the number of entries
	 * that it has room for; CQ_UNLIMITED and more: for all there can be.
	 */
	struct device_cq *(*cq_create)(struct device *device, struct cq *cq,
				       struct device_channel *channel, bool is_shared,
				       unsigned entries, unsigned *capacity);
	/* [nic] No endpoint completes into the CQ any more. */
	void (*cq_destroy)(struct device_cq *cq);
	/*
	 * [optional] Makes room for this number of entries, and sets `capacity`. The CQ's lock is held. Needed if cq_create() makes
	 * less than CQ_UNLIMITED.
	 */
	int (*cq_grow)(struct device *device, struct device_cq *cq, unsigned entries,
		       unsigned *capacity);
	/*
	 * Reports completed work by workqueue_complete(), in the order of completion. Returns the number of
	 * completions taken, or <= 0 if there are none. The CQ's lock is held.
	 */
	int (*cq_poll)(struct device_cq *cq);
	/*
	 * The next completion after this call is reported by cq_announced(), or, where there are no channels, taken soon by
	 * cq_poll_for_device(). The caller looks once more after it. The CQ's lock is not held.
	 */
	int (*cq_arm)(struct device_cq *cq);
	/*
	 * Threads sleep at a word in memory. The next completion after cq_arm_sleeper() changes the word, and wakes one of them, who
	 * may not be the caller. The caller looks once more before it sleeps. The word may go at any time, and a process that has
	 * this memory may wake nobody: so a thread sleeps for a second at most.
	 *
	 * cq_wake() changes the word, too, and wakes all, or one, unless it has woken one since the last cq_arm_sleeper(). The CQ's lock
	 * is not held, except perhaps that of a shared CQ where all are woken.
	 */
	struct sleep_word (*cq_arm_sleeper)(struct device_cq *cq);
	void (*cq_wake)(struct device_cq *cq, bool all);

	/* [nic] May lower the depths in `config`. */
	struct device_endpoint *(*endpoint_create)(struct device *device,
						   struct endpoint_config *config);
	/* [nic] It has no connection. */
	void (*endpoint_destroy)(struct device_endpoint *endpoint);

	/*
	 * These two post one descriptor. The queue's lock is held. After any error the caller may try again once earlier work is
	 * done. EAGAIN: there is no room now; parts of a send may be under way, and the caller posts the rest later, from `offset` on.
	 * ENOBUFS: there is no memory now, but there may be some later, although no earlier work is under way.
	 */
	int (*post_send)(struct device_endpoint *endpoint, const struct device_send *send);
	int (*post_receive)(struct device_endpoint *endpoint, const struct segment *segments,
			    unsigned count);

	/* [nic, optional] Receives can be posted after this. After an error the caller resets the endpoint. */
	int (*endpoint_prepare)(struct device_endpoint *endpoint);
	/*
	 * [nic, optional] Before endpoint_stop(), and before endpoint_reset() again. Returns false while the peer, or a thread of
	 * ours, is in a copy that it has begun, or the device works for the endpoint: the caller asks again soon. No new copy
	 * begins. A peer is waited for a second at most. `stops`: endpoint_stop() follows, or came before; else endpoint_reset()
	 * does, and the socket of the connection is closed meanwhile.
	 */
	bool (*endpoint_is_still)(struct device_endpoint *endpoint, bool stops);
	/* [nic] After this no work starts or completes. Completions from before can still be polled. */
	void (*endpoint_stop)(struct device_endpoint *endpoint);
	/* [nic] Forgets all posted work without a report. After a last poll the endpoint can be prepared anew. */
	void (*endpoint_reset)(struct device_endpoint *endpoint);
	/*
	 * [nic] For an endpoint that has stalled and whose connection goes on. endpoint_rewind() forgets all
	 * posted work without a report; receives can be posted after it. endpoint_resume() lets messages in
	 * and sends out again. An error of either ends the connection, but EAGAIN of endpoint_rewind(): there is no way out now, so
	 * messages are lost until device_changed(). A device that never reports a stall has neither.
	 */
	int (*endpoint_rewind)(struct device_endpoint *endpoint);
	int (*endpoint_resume)(struct device_endpoint *endpoint);
	/* [nic] After device_changed(): what has become of the endpoint's way to its peer. Needed by who reports that. */
	enum endpoint_way (*endpoint_way)(struct device_endpoint *endpoint);

	/*
	 * The places at which processes listen for a discriminator, counted from 0. With a host: where a request to that host
	 * goes. Without one: where this NIC listens, at each of the addresses, whose number is returned; 0: no more places.
	 */
	unsigned (*place)(struct device *device, const struct in6_addr *host, const struct discriminator *wanted,
			  unsigned number, struct place at[PLACE_ADDRESSES]);
	/* [optional] The address that sockets of connections with this host are bound to. Else the system chooses. */
	void (*source)(struct device *device, const struct in6_addr *host, struct place *from);
	/* [optional] Whether the process at the other end of this socket may connect with us: sets `process`. Else every one may. */
	bool (*admit)(struct device *device, int fd, struct description *peer);
	/* [optional] Nobody was found who listens for this, and the request has failed: the log may say more. */
	void (*tell_no_match)(const struct discriminator *wanted);
	/* [optional] Whether this descriptor, which came with a message, may be one of a description. Touches no other file. */
	bool (*takes_fd)(int fd);

	/* [nic, optional] Finds the way to a host, before describe(). EINPROGRESS: the caller asks again after device_routed(). */
	int (*route)(struct device_endpoint *endpoint, const struct in6_addr *host);
	/* [nic] Describes this end: a requester's before raise(), an accepting end's after it. */
	void (*describe)(struct device_endpoint *endpoint, struct description *own);
	/*
	 * [nic] Makes the data path to the peer that is described: from here on messages are received, and may be sent.
	 * `own`, `peer`: what both ends say of themselves. EPROTO: the description makes no sense.
	 */
	int (*raise)(struct device_endpoint *endpoint, bool accepts, const struct connect_info *own,
		     const struct connect_info *peer, struct description *description);
	/*
	 * [nic, optional] The peer has ended the connection. Returns true if acknowledgements of what the peer had received may
	 * still be under way: then the end waits for a moment.
	 */
	bool (*awaits_acks)(struct device_endpoint *endpoint);
	/* [nic, optional] The peer has sent a wake-up, one byte over the connection's socket. Needed where peers do. */
	void (*woken_by_peer)(struct device_endpoint *endpoint);
	/* [nic, optional] The agent's turn, also after device_wake(). Returns the msec until it has to be called again, or -1. */
	int (*serve)(struct device *device);
};

extern const struct device_ops verbs_device_ops, loopback_device_ops;

/* A device reports by these functions, which are implemented above the seam. */

/*
 * The oldest work of this queue is done. The CQ's lock is held. `status`: an error bit or 0; for a
 * receive also VIP_STATUS_IMMEDIATE and VIP_STATUS_OP_REMOTE_RDMA_WRITE.
 */
void workqueue_complete(struct workqueue *queue, uint32_t status, uint32_t length,
			uint32_t immediate);
/* Returns the number of work requests of this queue that the device has. Takes the locks of the queue and its CQ. */
unsigned workqueue_with_device(struct workqueue *queue);
/*
 * A device that needs several requests for one send, its parts, has posted a part of `length` bytes, which is not the last
 * one. Returns true if there is room for the next part. The queue's lock is held.
 */
bool workqueue_next_part(struct workqueue *queue, uint32_t length);
/* Returns true if no request of the queue is under way. The queue's lock is held. */
bool workqueue_is_idle(const struct workqueue *queue);
/*
 * The oldest part is done, and it is not the last one, which is reported by workqueue_complete(). `error`: an
 * error bit, with which the send will complete, or 0. The CQ's lock is held.
 */
void workqueue_part_done(struct workqueue *queue, uint32_t error);
/*
 * These two let the processor copy a message of more segments than the device can take. They return false if
 * some of the memory is not registered, or not any more. `carefully`: so that the copy cannot fault, as in a thread of the
 * library in any case (own_memory.h).
 *
 * workqueue_gather() copies all of the send that is being posted to `to`. The queue's lock is held.
 */
bool workqueue_gather(struct workqueue *queue, void *to, uint32_t length, bool carefully);
/* Copies into the oldest receive that is not done, from byte `offset` on. The CQ's lock is held. */
bool workqueue_scatter(struct workqueue *queue, uint32_t offset, const void *from, uint32_t length, bool carefully);
/*
 * Returns true if all memory of the oldest work that is not done is registered still, as it was when it was posted. The CQ's
 * lock is held.
 */
bool workqueue_is_registered(struct workqueue *queue);
/*
 * The endpoint of an Unreliable VI has stopped after an error. The agent rewinds and resumes it. Work that it reports until then
 * is done. Its other receives are posted to it again, and its other sends count as done. The CQ's lock is held.
 */
void workqueue_stalled(struct workqueue *queue);
/*
 * A device may use these locks of the layer above instead of locks of its own. Posting to a queue takes place
 * with the queue's lock, cq_poll() with the CQ's. A queue's lock is taken before any CQ's, a VI's send queue's before its
 * receive queue's, and a CQ's before that of a CQ with a higher address.
 */
void workqueue_lock(struct workqueue *queue);
void workqueue_unlock(struct workqueue *queue);
void cq_lock(struct cq *cq);
void cq_unlock(struct cq *cq);

/*
 * Calls cq_poll() for a program that may not poll, and wakes the threads that wait for what it finds: false if that is nothing.
 * Takes the CQ's lock.
 */
bool cq_poll_for_device(struct cq *cq);
/* A look at a VIPL CQ without its lock: cq_look.h. The former one is of an earlier CQ in the same memory, or NULL. */
struct cq_look;
struct cq_look *cq_former_look(struct cq *cq);
void cq_show(struct cq *cq, struct cq_look *look);
/* From within channel_read(): an armed CQ has a completion. The channel's lock is held. */
void cq_announced(struct cq *cq);
/* From any thread: the agent calls serve(). */
void device_wake(struct nic *nic);
/* [nic] A route to this host, or NULL: to any, is known, or none is: the caller of route() asks again, from within this report. */
void device_routed(struct nic *nic, const struct in6_addr *host);
/* [nic] The peer has said that it ends the connection. Its loss follows, except from within endpoint_stop(). */
void vi_closed(struct vi *vi);
/* [nic] From within endpoint_stop(): the connection ends for this error, which the program is told. */
void vi_ends_for(struct vi *vi, VIP_ERROR_CODE error);
/*
 * [nic] From within endpoint_stop(): a request of the peer's was at fault, and the device has answered it. The peer ends the
 * connection by itself then. The word of our end might come before the answer, and the peer not learn what was wrong.
 */
void vi_answered(struct vi *vi);
/* [nic] The device has seen an error that no completion reports. It ends the connection. */
void vi_failed(struct vi *vi, VIP_ERROR_CODE error);
/* [nic] As workqueue_stalled(), for an error that no completion reports. */
void vi_stalled(struct vi *vi);
/* [nic] The device's addresses have changed. */
void device_changed(struct nic *nic);
/* [nic] The device's link to the network is down, or up again. If it stays down for long all connections of the NIC end. */
void device_linked(struct nic *nic, bool is_up);
/* [nic] The CQ takes no completions any more. The connections of its VIs end. */
void cq_failed(struct cq *cq);
/* [nic] The device is gone. All connections of the NIC end. */
void device_failed(struct nic *nic);
/* From any thread: a system call that the device depends on fails with this error. The agent ends the connections. */
void device_lost(struct nic *nic, const char *call, int error);
/* From any thread: a read of one of the device's files has said by this error that the device is gone. As device_lost(). */
void device_gone(struct nic *nic, int error);

#endif
