/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RDMA device: VIs are queue pairs (RC, or UC), rdma_cm finds the routes between them. As in device.h, functions return 0 or
 * errno, and pointers or NULL and errno, except where the comment says otherwise.
 */
#ifndef VIPL_RDMA_H
#define VIPL_RDMA_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/deadline.h"
#include "base/watch.h"
#include "device.h"
#include "verbs_candidates.h"

#define CACHE_LINE 64 /* bytes */

/* Memory for messages of more segments than one request takes: all of a NIC's. */
struct staging {
	pthread_mutex_t lock; /* guards what follows, and the lists of buffers */
	size_t size;	      /* of all buffers together */
	size_t unused;	      /* of the buffers that are kept for later messages */
	size_t receives;      /* of the buffers that receives have */
	bool told;	      /* it has been logged that there was no more memory */
};

#define STAGING_CLASSES 12u /* of sizes: 4 KiB, 8 KiB, ... 8 MiB */

struct verbs_buffer {
	struct verbs_domain *domain;
	struct ibv_mr *mr;
	struct segment segment; /* as much of it as is used */
	LIST_ENTRY(verbs_buffer) in_unused;
	TAILQ_ENTRY(verbs_buffer) in_use;
};

TAILQ_HEAD(verbs_buffers, verbs_buffer);

struct verbs_domain {
	struct verbs_device *device;
	struct ibv_pd *pd;
	LIST_HEAD(, verbs_buffer) unused[STAGING_CLASSES];
};

/* From our port to a peer's. */
struct verbs_path {
	union ibv_gid own_gid;
	struct ibv_ah_attr to; /* also the index of our GID, and what our LID has beyond the port's first one */
	uint16_t own_lid, pkey, pkey_index; /* the LID: InfiniBand's */
	bool is_agreed;			    /* on the version of RoCE, by both ends */
	uint8_t roce_version;		    /* 0: not RoCE, or not known yet */
	unsigned interface;		    /* of our GID; 0: the kernel does not tell */
	enum ibv_mtu mtu;
};

struct verbs_device {
	struct device base;
	struct nic *nic;
	struct ibv_context *context;
	struct ibv_device_attr limits;
	struct verbs_caps caps;
	unsigned cq_entries;  /* of the largest CQ that can be had */
	unsigned next_vector; /* of the next CQ */
	/*
	 * The addresses that connections come from and go to, all zeros where there is none. IPv6
	 * only if programs get long addresses: other programs have no room for it.
	 */
	struct in6_addr ipv4, ipv6;
	unsigned interface; /* of the addresses: link-local ones mean nothing without it */
	uint8_t port;
	bool is_ethernet; /* RoCE; else InfiniBand */
	struct rdma_event_channel *events;
	struct watch cm_watch, async_watch;
	struct rdma_cm_id *id; /* hears of the device's removal; NULL: it could not be had */
	uid_t user;	 /* who opened it: the kernel serves no other one */
	int refusal;	 /* why rdma_cm tells nothing any more; 0: it does */
	bool hears;	 /* its events are being read */
	struct staging staging;
	LIST_HEAD(, verbs_route) routes;
	int64_t routes_until; /* those that were found until then are forgotten */
	STAILQ_HEAD(, verbs_endpoint) unused_endpoints; /* destroyed; their memory is for later ones only */
};

#define VERBS_COMPLETIONS    8u	 /* taken out of a CQ at a time */

struct verbs_cq {
	alignas(CACHE_LINE) struct ibv_cq *cq; /* on the line of the first completion */
	/* The CQ's lock guards it. With an array on the stack, each poll would check its frame (-fstack-protector). */
	struct ibv_wc completions[VERBS_COMPLETIONS];
};

/* The members that each message needs come first: three cache lines. */
struct verbs_endpoint {
	uint32_t inline_size; /* of the queue pair; see limit_inline() */
	uint32_t inline_most; /* 0 if the program may have protected its memory */
	_Atomic uint64_t wr_id_tag; /* wr_id without the kind of work; the next endpoint in this memory goes on with it */
	/* An RDMA operation beyond those of its kind takes several requests; a send of more segments is staged. */
	unsigned fewest_segments; /* of sends and of reads */
	uint32_t whole_bytes; /* an RDMA operation that is no longer goes in one request */
	unsigned receive_segments;
	unsigned access; /* what the peer may do, IBV_ACCESS_ */
	struct ibv_qp *qp;
	struct ibv_mr *flush_mr; /* of a VI at Reliable Reception: verbs_flush.c */
	struct workqueue *send_queue, *receive_queue;
	/* The requests that are being posted. The queues' locks guard them. They are not on the stack, as in verbs_cq. */
	alignas(CACHE_LINE) struct ibv_send_wr send_request;
	struct ibv_recv_wr receive_request;
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr *bad_receive;

	uint32_t request_bytes; /* the most of a request of an RDMA operation */
	unsigned send_segments; /* of a request, RDMA writes too; of reads: see struct verbs_caps */

	struct verbs_device *device;
	struct vi *vi;
	struct verbs_domain *domain;
	struct ibv_qp_init_attr wanted_qp; /* what it was created with */
	struct verbs_buffers staged[2]; /* sends and receives with the queue pair, in order */
	bool is_careful; /* the program may have protected its memory: the processor does not copy */
	bool was_connected;  /* the queue pair, to any peer */
	bool is_adrift; /* it has no way out, as our GID is gone, or is there of another version only */
	atomic_bool drained; /* since it was stopped */
	int64_t answers_until, drains_until; /* or 0: it does not, or has */
	atomic_bool refuses; /* the device has told that a request of the peer's was at fault */
	atomic_bool fails;   /* the device has told of an error of our own */
	VIP_ERROR_CODE cause; /* the one that an event has told, or VIP_ERROR_CONN_LOST */
	atomic_bool stopped;	 /* flushed work is no error: the endpoint was stopped */

	/* Connecting: verbs_route.c, verbs_path.c. */
	STAILQ_ENTRY(verbs_endpoint) in_unused;
	struct verbs_path path;
	uint32_t own_psn, peer_psn, peer_qp, peer_flush_rkey;
	uint8_t peer_reads_answered, peer_reads_asked; /* at a time */
};

/*
 * wr_id names the endpoint. Its lowest bits say what the work was, because after an error wc.opcode may not. They also count
 * resets of the queue pair: completions from before a reset may still come after it, and completions of a queue pair after
 * it was destroyed.
 */
#define VERBS_WR_ID_RECEIVE	UINT64_C(1)
#define VERBS_WR_ID_RDMA	UINT64_C(2)
#define VERBS_WR_ID_PART	UINT64_C(4) /* of a send, and not the last one */
#define VERBS_WR_ID_STAGED	UINT64_C(8)
#define VERBS_WR_ID_KIND	UINT64_C(0xf)
#define VERBS_WR_ID_DRAIN	(VERBS_WR_ID_RECEIVE | VERBS_WR_ID_PART) /* see soft_drain() */
#define VERBS_WR_ID_GENERATION	UINT64_C(0x10)
#define VERBS_WR_ID_BITS	UINT64_C(0x1ff)
#define VERBS_ENDPOINT_ALIGNMENT 512

/* verbs_events.c */
/* From now on the agent gets its events. */
int verbs_watch_events(struct verbs_device *device);
/* [nic] Reads the device's events that have come. */
void verbs_hear(struct verbs_device *device);
/*
 * Nothing could be read from this file of the kernel's, with errno. 0, or why nothing will be any more: the device is gone. Then
 * the file is readable for ever.
 */
int verbs_death_of(int fd);
int verbs_set_nonblocking(int fd);

/* The address that connections with this host come from and go to; NULL when there is none. */
static inline const struct in6_addr *verbs_own_host(const struct verbs_device *device, const struct in6_addr *host)
{
	const struct in6_addr *own = host_is_ipv4(host) ? &device->ipv4 : &device->ipv6;

	return IN6_IS_ADDR_UNSPECIFIED(own) ? NULL : own;
}

/* verbs_route.c */
unsigned verbs_place(struct device *device, const struct in6_addr *host, const struct discriminator *wanted, unsigned number,
		     struct place at[PLACE_ADDRESSES]);
void verbs_source(struct device *device, const struct in6_addr *host, struct place *from);
void verbs_socket(const struct verbs_device *device, const struct in6_addr *host, uint16_t port,
		 struct sockaddr_storage *out);
/* Also of NULL, and nothing happens if the channel's descriptor is the program's by now. */
void verbs_destroy_id(struct rdma_cm_id *id);
int verbs_route(struct device_endpoint *endpoint, const struct in6_addr *host);
void verbs_route_event(struct verbs_device *device, const struct rdma_cm_event *event);
/* What has been found until now may be wrong. */
static inline void verbs_routes_forget(struct verbs_device *device)
{
	device->routes_until = clock_nsec();
}
void verbs_routes_free(struct verbs_device *device);

/* verbs_path.c */
/*
 * Finds the index of the path's own GID, of the path's version of RoCE, or else of the latest; of another one until both ends have
 * agreed on it. ENODEV: none; EPROTO: of other versions only.
 */
int verbs_path_find_gid(const struct verbs_device *device, struct verbs_path *path);
/*
 * Adds what our own port has for a path from its GID, of its version of RoCE. An administrator, or a subnet's manager, may change
 * that at any time, so it is asked again when a path is used. 0 or errno; ENODEV: there is no such GID or partition any more;
 * EPROTO: see verbs_path_find_gid().
 */
int verbs_path_complete(struct verbs_device *device, struct verbs_path *path);
enum endpoint_way verbs_endpoint_way(struct device_endpoint *endpoint);
void verbs_describe(struct device_endpoint *endpoint, struct description *own);
int verbs_raise(struct device_endpoint *endpoint, bool accepts, const struct connect_info *own,
		const struct connect_info *peer, struct description *description);
/* INIT -> RTS, by the path and what the peer has told. */
int verbs_endpoint_start(struct verbs_endpoint *endpoint);

/* verbs_queuepair.c */
struct device_endpoint *verbs_endpoint_create(struct device *device, struct endpoint_config *config);
void verbs_endpoint_destroy(struct device_endpoint *endpoint);
/* Frees the memory of destroyed endpoints. There is no CQ any more. */
void verbs_endpoints_free(struct verbs_device *device);
int verbs_endpoint_prepare(struct device_endpoint *endpoint);
bool verbs_endpoint_is_still(struct device_endpoint *endpoint, bool stops);
void verbs_endpoint_stop(struct device_endpoint *endpoint);
void verbs_endpoint_reset(struct device_endpoint *endpoint);
bool verbs_awaits_acks(struct device_endpoint *endpoint);
/* Moves the queue pair to ERR, RESET and INIT, and forgets posted work. */
int verbs_endpoint_rewind(struct device_endpoint *endpoint);
int verbs_endpoint_resume(struct device_endpoint *endpoint);

/* verbs_transfer.c */
int verbs_post_send(struct device_endpoint *endpoint, const struct device_send *send);
int verbs_post_receive(struct device_endpoint *endpoint, const struct segment *segments,
		      unsigned count);
int verbs_cq_poll(struct device_cq *cq);
/* Sets how many bytes of an RDMA operation go in one request. */
void verbs_limit_requests(struct verbs_endpoint *endpoint, uint32_t bytes);

/*
 * Unreliable VIs: UC queue pairs. In VIA an error concerns the descriptor, and the connection goes on. But a UC queue pair does
 * nothing more after an error. So it is reset and started again. The peer notices nothing, because UC accepts any packet that
 * begins a message.
 */
static inline bool verbs_is_unreliable(const struct verbs_endpoint *endpoint)
{
	return endpoint->wanted_qp.qp_type == IBV_QPT_UC;
}

/* verbs_soft.c: see there. */
uint32_t soft_whole_bytes(const struct verbs_device *device, uint32_t bytes);
uint32_t soft_watched_bytes(const struct verbs_device *device, const struct device_send *send);
uint32_t soft_request_bytes(const struct verbs_device *device, enum ibv_mtu path_mtu);
unsigned soft_own_entries(const struct verbs_device *device);
bool soft_stays_in_error(const struct verbs_endpoint *endpoint);
void soft_drain(struct verbs_endpoint *endpoint);
void soft_drain_without_receives(struct verbs_endpoint *endpoint);
bool soft_has_drained(struct verbs_endpoint *endpoint);

/* verbs_flush.c */
int verbs_flush_create(struct verbs_endpoint *endpoint);
void verbs_flush_destroy(struct verbs_endpoint *endpoint);
/* Is this send done only when a flush atomic behind it is? */
static inline bool verbs_is_flushed_by_atomic(const struct verbs_endpoint *endpoint,
				  const struct device_send *send)
{
	return endpoint->flush_mr && send->length &&
	       (send->control & VIP_CONTROL_OP_MASK) != VIP_CONTROL_OP_RDMAREAD;
}
int verbs_flush_post(struct verbs_endpoint *endpoint);

/* verbs_staging.c */
/* None of its buffers is in use. */
void staging_destroy(struct verbs_domain *domain);
/* A buffer of at least `length` bytes, which becomes the endpoint's last one. NULL: there is none at the moment. */
struct verbs_buffer *staging_take(struct verbs_endpoint *endpoint, uint32_t length, bool is_receive);
void staging_return(struct verbs_endpoint *endpoint, struct verbs_buffer *buffer, bool is_receive);
/*
 * The oldest staged send or receive is done. Returns false if a message has come whose memory is not registered any more.
 * The CQ's lock is held.
 */
bool staging_done(struct verbs_endpoint *endpoint, const struct ibv_wc *completion);
/* The queue pair has forgotten all that was posted. */
void staging_forget(struct verbs_endpoint *endpoint);
static inline void *staging_data(const struct verbs_buffer *buffer)
{
	return buffer->mr->addr;
}

/* verbs_region.c */
/* Before the device is opened: a process that forks keeps its registered pages. */
void verbs_prepare_for_fork(void);
/* IBV_ACCESS_ bits of what a peer may do. */
int verbs_remote_access(struct region_rights rights);
struct device_domain *verbs_domain_create(struct device *device);
void verbs_domain_destroy(struct device_domain *domain);
struct device_region *verbs_region_create(struct device_domain *domain, void *address, size_t length,
					 struct region_rights rights, uint32_t *handle,
					 uint32_t *key, bool *read_only);
void verbs_region_destroy(struct device_region *region);
int verbs_region_change(struct device_region **region, struct device_domain *domain, struct region_rights rights, uint32_t *key);

#endif
