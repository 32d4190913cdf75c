/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam between VIA's semantics (above) and what moves the bytes (below).
 *
 * Above, nobody knows which device a NIC has; below, nobody knows VIPL's functions. A device
 * reports in VIA's terms: status bits of descriptors, VIP_RETURN codes of connections.
 *
 * Locking: calls marked [nic] are made with the NIC's lock held, which serialises everything about
 * connections; so are the reports marked [nic], which a device makes from serve() or from within
 * a [nic] call. The others may come from any thread at any time. No call waits for a peer.
 */
#ifndef VIPL_DEVICE_H
#define VIPL_DEVICE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* What only the device looks into. */
struct device_domain;  /* of a protection tag */
struct device_region;  /* registered memory */
struct device_channel; /* wakes those who wait for completions */
struct device_cq;
struct device_endpoint; /* a VI's end of a connection */
struct device_request;  /* a connection request that has arrived */

struct device {
	const struct device_ops *ops;
	int event_fd; /* readable when serve() has something to do */
};

/* Part of a message in local memory, checked; `key` is the device's name for the region. */
struct segment {
	uint64_t address;
	uint32_t length;
	uint32_t key;
};

struct device_send {
	const struct segment *segments;
	unsigned count;
	uint32_t length;  /* of all segments */
	uint16_t control; /* VIP_CONTROL_: operation, IMMEDIATE, QFENCE */
	uint32_t immediate;
	uint64_t remote_address; /* of an RDMA operation */
	uint32_t remote_handle;
	uint32_t offset; /* so many bytes are under way already: see workqueue_next_part() */
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
	unsigned send_depth, receive_depth; /* at most SEND_DEPTH, RECEIVE_DEPTH; it may lower them */
};

/* What each end tells the other about itself when a connection is made. */
struct connect_info {
	struct in6_addr host;
	struct discriminator discriminator;
	VIP_RELIABILITY_LEVEL reliability;
	uint32_t max_transfer;
	struct region_rights rights;
	bool peer_to_peer; /* of a request: it is for one who asks for the requester, not for any */
	uint32_t number; /* of a request: what the device tells endpoints of its host by, or 0 */
};

struct device_ops {
	/* 0 or errno. By name when `name` is not NULL, else the device with this number. */
	int (*open)(const char *name, unsigned index, struct nic *nic, struct device **device);
	void (*close)(struct device *device);
	/* `host` is an IPv6 one only if programs get long addresses. */
	void (*query)(struct device *device, VIP_NIC_ATTRIBUTES *attributes, struct in6_addr *host);
	/*
	 * A host may have several addresses: makes of each the one that its requests come from and
	 * that connect() takes. `own` becomes the address that our requests to it come from. False
	 * when it is known already that there is no such host, or no way to it.
	 */
	bool (*find_host)(struct device *device, struct in6_addr *host, struct in6_addr *own);

	/* [nic] Handles what event_fd announced. */
	void (*serve)(struct device *device);

	struct device_domain *(*domain_create)(struct device *device);
	void (*domain_destroy)(struct device_domain *domain);

	/*
	 * NULL and errno on failure. `handle` is what peers name the region by, never 0 or ~0.
	 * Memory that cannot be written may be sent from: then `read_only` becomes true.
	 */
	struct device_region *(*region_create)(struct device_domain *domain, void *address,
					       size_t length, struct region_rights rights,
					       uint32_t *handle, uint32_t *key, bool *read_only);
	void (*region_destroy)(struct device_region *region);
	/*
	 * The region under its handle in another domain, or with other rights: changed in place, or
	 * a new one that takes its place as soon as the caller has destroyed the former. `key` is
	 * its key from then on. NULL and errno when nothing has changed; ENOTSUP when the device
	 * cannot do it.
	 */
	struct device_region *(*region_change)(struct device_region *region,
					       struct device_domain *domain,
					       struct region_rights rights, uint32_t *key);

	struct device_channel *(*channel_create)(struct device *device, int *fd);
	void (*channel_destroy)(struct device_channel *channel);
	/*
	 * Takes the announcements that are there and reports each by cq_announced(); without `all` one
	 * will do, as long as the descriptor stays readable for the others.
	 */
	void (*channel_read)(struct device_channel *channel, bool all);

	/* `is_shared`: several queues may complete into it, else only one does. */
	struct device_cq *(*cq_create)(struct device *device, struct cq *cq,
				       struct device_channel *channel, bool is_shared,
				       unsigned entries, unsigned *capacity);
	void (*cq_destroy)(struct device_cq *cq);
	/* Makes room for more entries. 0 or errno. */
	int (*cq_grow)(struct device *device, struct device_cq *cq, unsigned entries,
		       unsigned *capacity);
	/*
	 * Reports done work by workqueue_complete(), in the order in which it was done; returns how
	 * many. The CQ's lock is held.
	 */
	int (*cq_poll)(struct device_cq *cq);
	/* The next completion after this call is announced on the channel. 0 or errno. */
	int (*cq_arm)(struct device_cq *cq);

	struct device_endpoint *(*endpoint_create)(struct device *device,
						   struct endpoint_config *config);
	/* [nic] After disconnect(). */
	void (*endpoint_destroy)(struct device_endpoint *endpoint);

	/*
	 * 0 or errno; whatever it is, it may be tried again once earlier work is done. ENOBUFS: there
	 * is no memory for it now, and may be later, although no earlier work is under way.
	 * EINPROGRESS, of a send: a part is under way, and there was no room for more. Then `offset`
	 * is where to go on.
	 */
	int (*post_send)(struct device_endpoint *endpoint, const struct device_send *send);
	int (*post_receive)(struct device_endpoint *endpoint, const struct segment *segments,
			    unsigned count);

	/* [nic] From here on receives can be posted. 0 or errno. */
	int (*endpoint_prepare)(struct device_endpoint *endpoint);
	/* [nic] No work is started or completed any more; what was completed can be polled. */
	void (*endpoint_stop)(struct device_endpoint *endpoint);
	/* [nic] Forgets all posted work silently; after a last poll it can be prepared anew. */
	void (*endpoint_reset)(struct device_endpoint *endpoint);
	/*
	 * [nic] For an endpoint that has stalled, whose connection goes on. Rewinding forgets all
	 * posted work silently, and receives can be posted from there on; resuming lets messages
	 * through again, and sends. 0 or errno, which ends the connection.
	 */
	int (*endpoint_rewind)(struct device_endpoint *endpoint);
	int (*endpoint_resume)(struct device_endpoint *endpoint);

	/* [nic] Requests for this discriminator are reported from now on. 0 or errno. */
	int (*listen)(struct device *device, const struct discriminator *discriminator);
	void (*unlisten)(struct device *device, const struct discriminator *discriminator);

	/*
	 * [nic] Looks once for somebody who waits, and connects. The end is told, perhaps before
	 * this returns, by one of endpoint_connected(), endpoint_refused(), endpoint_no_listener() and
	 * endpoint_no_answer(). After the last two it is called again, without a new prepare.
	 */
	void (*connect)(struct device_endpoint *endpoint, const struct connect_info *own,
			const struct in6_addr *host, const struct discriminator *wanted);
	/* [nic] Takes the request; endpoint_connected() or endpoint_refused() tells the end. */
	void (*accept)(struct device_request *request, struct device_endpoint *endpoint,
		       const struct connect_info *own);
	/*
	 * [nic] Gives up connecting or accepting, which is under way; says what the caller should
	 * be told. VIP_NO_MATCH: all that was heard since endpoint_prepare() is that nobody waits,
	 * and what is asked now is too young to have reached anybody. Else VIP_TIMEOUT.
	 */
	VIP_RETURN (*cancel)(struct device_endpoint *endpoint);
	/*
	 * [nic] `refusal`: VIP_REJECT, VIP_NO_MATCH, or VIP_NOT_DONE when who waits is busy. Takes
	 * the request.
	 */
	void (*reject)(struct device_request *request, VIP_RETURN refusal);
	/* [nic] There is room to leave it unanswered for some time. NULL: there always is. */
	bool (*can_hold)(const struct device_request *request);
	/* [nic] False when the requester is known to have given up, or to be gone. */
	bool (*has_requester)(const struct device_request *request);
	/* [nic] Ends connecting or a connection; tells the peer, if there is one. */
	void (*disconnect)(struct device_endpoint *endpoint);
};

extern const struct device_ops rdma_device_ops, loopback_device_ops;

/* What a device reports; implemented above the seam. */

/*
 * The oldest work of this queue is done. The CQ's lock is held. `status`: an error bit or 0; for a
 * receive also VIP_STATUS_IMMEDIATE and VIP_STATUS_OP_REMOTE_RDMA_WRITE.
 */
void workqueue_complete(struct workqueue *queue, uint32_t status, uint32_t length,
			uint32_t immediate);
/* How many requests of this queue the device has. */
unsigned workqueue_with_device(struct workqueue *queue);
/*
 * For a device that needs several requests for one send. While it posts, with the queue's lock: one
 * request is under way, for `length` more bytes, and it is not the last. True when there is room for
 * another one.
 */
bool workqueue_next_part(struct workqueue *queue, uint32_t length);
/* While it posts: no request of the queue is under way. */
bool workqueue_is_idle(const struct workqueue *queue);
/*
 * The oldest such request is done; the last request is reported by workqueue_complete(). The CQ's
 * lock is held. `error`: an error bit, which the send will complete with, or 0.
 */
void workqueue_part_done(struct workqueue *queue, uint32_t error);
/*
 * For a device that lets the processor copy where it cannot take so many segments. False when some
 * of the memory is not registered, or not any more.
 *
 * Out of the send that is being posted, all of it; the queue's lock is held.
 */
bool workqueue_gather(struct workqueue *queue, void *to, uint32_t length);
/* Into the oldest receive that is not done, from byte `offset` on. The CQ's lock is held. */
bool workqueue_scatter(struct workqueue *queue, uint32_t offset, const void *from, uint32_t length);
/*
 * The CQ's lock is held. After an error the endpoint of an Unreliable VI does nothing any more,
 * until it is rewound and resumed, which somebody is going to do soon. Work that it reports as done
 * until then is done. Receives are handed over to it again; sends that it has had count as done.
 */
void workqueue_stalled(struct workqueue *queue);
/*
 * What a device may share with those above instead of having locks of its own. Posting to a queue
 * is done with the queue's lock, cq_poll() with the CQ's; a queue's comes before any CQ's.
 */
void workqueue_lock(struct workqueue *queue);
void workqueue_unlock(struct workqueue *queue);
void cq_lock(struct cq *cq);
void cq_unlock(struct cq *cq);

/*
 * [nic] There may be work to do in cq_poll(), and the program may not ask for it: does it, and sees to
 * it that those hear of it whom it concerns. False when there was nothing.
 */
bool cq_poll_for_device(struct cq *cq);
/* An armed CQ has a completion. */
void cq_announced(struct cq *cq);
/*
 * [nic] The peer may send before endpoint_connected() or endpoint_refused() tells the end, and the program
 * may answer: from here on sends are kept until then, and not flushed.
 */
void endpoint_establishing(struct vi *vi);
/* [nic] */
void endpoint_connected(struct vi *vi, const struct connect_info *peer);
/* [nic] The device is done with it: on return it may have been prepared for another attempt. */
void endpoint_refused(struct vi *vi, VIP_RETURN reason);
/*
 * [nic] The host answers, and nobody waits there for the discriminator now: one whole look at it is
 * over, and the device has forgotten about it. The endpoint stays prepared, for connect() is called
 * again after a pause. But when the grace time is over this is endpoint_refused(VIP_NO_MATCH).
 */
void endpoint_no_listener(struct vi *vi);
/*
 * [nic] As endpoint_no_listener(), but the look has not told who waits. `reason`: what to refuse with
 * after the grace time; VIP_TIMEOUT, for a host without a word, never: the caller's time ends it.
 */
void endpoint_no_answer(struct vi *vi, VIP_RETURN reason);
/*
 * [nic] Before the end of a look: somebody is there who has waited lately, and may again. The grace
 * time begins anew.
 */
void endpoint_busy(struct vi *vi);
/*
 * [nic] The requester has not got the answer of the endpoint that has accepted. The device is done
 * with it, as after endpoint_refused(); the requester is going to ask again, and is to be accepted.
 */
void endpoint_unheard(struct vi *vi);
/* [nic] The peer vanished, or can be reached no more. */
void endpoint_lost(struct vi *vi);
/* [nic] The peer has ended the connection, and said so. Also from within endpoint_stop(). */
void endpoint_closed(struct vi *vi);
/* [nic] From within endpoint_stop(): why the connection ends, when the device knows. */
void endpoint_ends_for(struct vi *vi, VIP_ERROR_CODE error);
/* [nic] The device itself saw an error that no completion tells of. */
void endpoint_failed(struct vi *vi, VIP_ERROR_CODE error);
/* [nic] As workqueue_stalled(), but no completion tells of it. */
void endpoint_stalled(struct vi *vi);
/* [nic] The CQ takes no completions any more. */
void cq_failed(struct cq *cq);
/*
 * [nic] Somebody asks for `wanted`. VIP_SUCCESS; or what to refuse with, which is the device's to do:
 * VIP_NO_MATCH or VIP_NOT_DONE. The request may be answered before this returns, but nobody calls
 * unlisten() in there.
 */
VIP_RETURN request_arrived(struct nic *nic, struct device_request *request,
			   const struct connect_info *peer, const struct discriminator *wanted);
/* [nic] The device is gone. */
void device_failed(struct nic *nic);

#endif
