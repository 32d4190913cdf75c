/* SPDX-License-Identifier: BSD-2-Clause */
/* The RDMA device: VIs are queue pairs (RC, or UC), connections are made by rdma_cm. */
#ifndef VIPL_RDMA_H
#define VIPL_RDMA_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "device.h"
#include "wire.h"

#define CACHE_LINE 64 /* bytes */
#define VERBS_TICK (100 * NSEC_PER_MSEC) /* how often verbs_serve() handles deadlines while there are any */

/* Memory for messages of more segments than one request takes: all of a NIC's. */
struct staging {
	pthread_mutex_t lock; /* guards what follows, and the lists of buffers */
	size_t size;	      /* of all buffers together */
	size_t unused;	      /* of the buffers that are kept for later messages */
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

#define VERBS_FAMILIES 2u /* of addresses: IPv4, IPv6 */

/* All control connections of a NIC: control.c. */
struct controls {
	int epoll_fd; /* -1: there are none */
	int listeners[VERBS_FAMILIES];
	uint16_t ports[VERBS_FAMILIES]; /* of the listeners; 0 where there is none */
	bool is_paused;		       /* the listeners are, until the next tick */
	TAILQ_HEAD(, control) all;
	unsigned count;	   /* of all */
	unsigned accepted; /* of those that others have made */
};

struct verbs_device {
	struct device base;
	struct nic *nic;
	struct ibv_context *context;
	struct ibv_device_attr limits;
	/*
	 * The addresses that connections come from and go to, all zeros where there is none. IPv6
	 * only if programs get long addresses: other programs have no room for it.
	 */
	struct in6_addr ipv4, ipv6;
	unsigned interface; /* of the IPv6 address: link-local ones mean nothing without it */
	uint8_t port;
	enum ibv_mtu mtu; /* of the port */
	bool has_uc;
	struct rdma_event_channel *events;
	uid_t user;	 /* who opened it: the kernel serves no other one */
	bool is_refused; /* the kernel has said so */
	struct staging staging;
	LIST_HEAD(, verbs_listener) listeners;
	LIST_HEAD(, verbs_endpoint) endpoints;
	STAILQ_HEAD(, verbs_endpoint) unused_endpoints; /* destroyed; their memory is for later ones only */
	struct controls control;
	int timer_fd; /* runs while something has to be done in time: verbs_timer_start() */
	bool timer_runs;
};

/* Soft-RoCE, which has habits that other devices do not have. */
static inline bool verbs_is_soft(const struct verbs_device *device)
{
	return device->limits.vendor_id == 0xffffffu;
}

/* A cm_id's context points to this, the first member of several structures. */
enum verbs_role { VERBS_LISTENER, VERBS_REQUEST, VERBS_ENDPOINT, VERBS_PING };

enum verbs_phase {
	VERBS_UNCONNECTED,
	VERBS_RESOLVING,	 /* address, then route */
	VERBS_REQUESTING, /* waiting for the peer's answer */
	VERBS_ACCEPTING,	 /* waiting for the requester's last word */
	VERBS_CONNECTED,
};

#define VERBS_COMPLETIONS    8u	 /* taken out of a CQ at a time */
#define VERBS_EVENTS_AT_ONCE 16u /* of rdma_cm, or of control connections; then it is the turn of the NIC's other work */

struct verbs_cq {
	alignas(CACHE_LINE) struct ibv_cq *cq; /* on the line of the first completion */
	/* The CQ's lock guards it. An array on the stack would have each poll guard its frame. */
	struct ibv_wc completions[VERBS_COMPLETIONS];
};

#define VERBS_VOID_ANSWERS 8

/* A probe of the requester's side: request.c. */
struct verbs_probe {
	struct connect_info own;
	struct in6_addr host; /* that is asked */
	struct discriminator wanted;
	unsigned port_index; /* of the bucket's port that is being tried */
	bool no_listener; /* the host has answered that there is none; never set while accepting */
	int64_t slowest;  /* the time of the slowest of these answers in this attempt */

	/*
	 * A request under way may be repeated, in another id. Each is out from its sending until the host is known to have
	 * it.
	 */
	bool is_out, repeat_is_out;
	struct rdma_cm_id *repeat;
	bool has_arrived;   /* one of the two is known to be at the host */
	uint32_t asked_psn; /* of the answer that the host says it has given */
	unsigned unheard;   /* how many answers of this attempt we have called lost */
	uint32_t void_psn[VERBS_VOID_ANSWERS]; /* of the last ones of these, which do not count any more */
	unsigned silence;   /* ticks since the host has last given a sign of that, or the request was sent */
	int64_t repeat_due, repeat_pause;
};

/* The members that each message needs come first: three cache lines. */
struct verbs_endpoint {
	enum verbs_role role;
	uint32_t inline_size; /* of the queue pair; see limit_inline() */
	uint32_t inline_most; /* 0 if the program may have protected its memory */
	_Atomic uint64_t wr_id_tag; /* wr_id without the kind of work; it goes on when the endpoint is another VI's */
	/* An RDMA operation beyond these takes several requests; a send of more segments is staged. */
	unsigned request_segments;
	uint32_t whole_bytes; /* an RDMA operation that is no longer goes in one request */
	unsigned receive_segments;
	unsigned access; /* what the peer may do, IBV_ACCESS_ */
	struct ibv_qp *qp;
	struct ibv_mr *flush_mr; /* of a VI at Reliable Reception: flush.c */
	struct workqueue *send_queue, *receive_queue;
	/* The requests that are being posted, not on the stack for the same reason. The queues' locks guard them. */
	alignas(CACHE_LINE) struct ibv_send_wr send_request;
	struct ibv_recv_wr receive_request;
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr *bad_receive;

	uint32_t request_bytes; /* the most of a request of an RDMA operation */

	struct verbs_device *device;
	struct vi *vi;
	struct verbs_domain *domain;
	struct ibv_qp_init_attr wanted_qp; /* what it was created with */
	struct verbs_buffers staged_sends, staged_receives; /* with the queue pair, in order */
	bool is_careful; /* the program may have protected its memory: the processor does not copy */
	bool was_connected;  /* the queue pair, to any peer */
	atomic_bool drained; /* since it was stopped */
	atomic_bool stopped;	 /* flushed work is no error: the endpoint was stopped */

	/* Connecting: request.c, cm.c. */
	LIST_ENTRY(verbs_endpoint) in_device;
	STAILQ_ENTRY(verbs_endpoint) in_unused;
	enum verbs_phase phase;
	struct rdma_cm_id *id;
	struct connect_info peer;
	struct wire_extra peer_extra;
	uint32_t peer_qp, own_psn, peer_psn; /* of a connection: what it is known by to both ends */
	int64_t began; /* resolving, or accepting */
	int64_t asked; /* when the accepting side has last asked whether its answer has come; 0: never */
	int64_t ends_at; /* the connection has ended, and the last acknowledgements are waited for; 0: it has not */
	int64_t prove_at; /* accepted, and rdma_cm still waits for the requester's last word; 0: it does not */
	int64_t late_until; /* until then the host may get to a request of this queue pair that was given up */
	int64_t last_word_at; /* connected, and rdma_cm is to send the requester's last word then; 0: it has */
	bool is_to_be_asked; /* over a control connection that is up again, whether it is still there */
	struct verbs_probe probe;
};

struct verbs_request {
	enum verbs_role role;
	struct rdma_cm_id *id;
	struct connect_info peer;
	struct wire_extra peer_extra;
};

/*
 * wr_id names the endpoint; its lowest bits say what the work was (wc.opcode may not, after an
 * error) and count resets of the queue pair: completions from before a reset may still come after it,
 * and completions of a queue pair that is destroyed after that.
 */
#define VERBS_WR_ID_RECEIVE	UINT64_C(1)
#define VERBS_WR_ID_RDMA	UINT64_C(2)
#define VERBS_WR_ID_PART	UINT64_C(4) /* of a send, and not the last one */
#define VERBS_WR_ID_STAGED	UINT64_C(8)
#define VERBS_WR_ID_KIND	UINT64_C(0xf)
#define VERBS_WR_ID_DRAIN	(VERBS_WR_ID_RECEIVE | VERBS_WR_ID_PART) /* see drain() */
#define VERBS_WR_ID_GENERATION	UINT64_C(0x10)
#define VERBS_WR_ID_BITS	UINT64_C(0x1ff)
#define VERBS_ENDPOINT_ALIGNMENT 512

/*
 * What queue pairs are made for. Room for more would make each of them large: they have a thousand
 * receives. With 5 segments these have 128 bytes each on soft-RoCE, with 8 at most on adapters that
 * need 16 bytes for each. 1000 VIs with queues of their own take it 0.6 GB; with 13 it was 0.85.
 */
#define VERBS_SEND_SEGMENTS    16u
#define VERBS_RECEIVE_SEGMENTS 5u

/*
 * Ports: a discriminator's hash selects a bucket of neighbouring ports. A process that waits for the
 * discriminator listens on the first free one, so this is how many processes of a host can wait in one bucket.
 */
#define VERBS_BUCKET_PORTS 4u

uint16_t verbs_bucket_port(const struct discriminator *discriminator, unsigned index);

/* address.c */
/* Finds the device's addresses, and its port by them. 0 or errno. */
int verbs_find_addresses(struct verbs_device *device);
/* The one that connections with this host come from and go to; NULL when there is none. */
const struct in6_addr *verbs_own_host(const struct verbs_device *device, const struct in6_addr *host);
void verbs_socket(const struct verbs_device *device, const struct in6_addr *host, uint16_t port,
		 struct sockaddr_storage *out);

/* cm.c */
void verbs_serve(struct device *device);
/* [nic] Makes verbs_serve() handle deadlines soon, and until there are none left. */
void verbs_timer_start(struct verbs_device *device);
/* From now on verbs_serve() gets its events. 0 or errno. */
int verbs_watch_events(struct verbs_device *device);
int verbs_watch_control(struct verbs_device *device);
/* Forgets the attempt that is under way. A requester that may have our answer gets a message. */
void verbs_drop_ids(struct verbs_endpoint *endpoint);
/* Connecting has failed. */
void verbs_fail(struct verbs_endpoint *endpoint, VIP_RETURN reason);
VIP_RETURN verbs_reason(int error);
void verbs_accept(struct device_request *request, struct device_endpoint *endpoint,
		       const struct connect_info *own);
VIP_RETURN verbs_cancel(struct device_endpoint *endpoint);
void verbs_disconnect(struct device_endpoint *endpoint);
/* The parameters of rdma_connect() and rdma_accept(), with room for our private data. */
void verbs_fill_parameters(const struct verbs_endpoint *endpoint, const struct in6_addr *host,
			  struct rdma_conn_param *parameters, struct wire_message *message);
/*
 * A control message to this endpoint, from the host of its peer, and from the NIC with this port there.
 * Returns what to answer, or 0.
 */
enum wire_code verbs_control_arrived(struct verbs_endpoint *endpoint, enum wire_code code,
				    const struct wire_control_fields *fields, uint16_t port);
/* Whatever was there has ended, as far as this side knows without having been answered. */
void verbs_ended(struct verbs_endpoint *endpoint);

/* request.c */
void verbs_connect(struct device_endpoint *endpoint, const struct connect_info *own,
			const struct in6_addr *host, const struct discriminator *wanted);
/* An event of rdma_cm for an endpoint that requests a connection. */
void verbs_request_event(struct verbs_endpoint *endpoint, const struct rdma_cm_event *event);
/* The accepting side asks whether its answer with this number has come. The answer may still be on its way. */
void verbs_answer_missing(struct verbs_endpoint *endpoint, const struct wire_control_fields *fields,
			 uint16_t port);
void verbs_request_tick(struct verbs_endpoint *endpoint, int64_t now);
/* Has rdma_cm send the last word of connecting, which was put off. */
void verbs_last_word(struct verbs_endpoint *endpoint);
void verbs_destroy_ids(struct verbs_endpoint *endpoint);

/* control.c, control_listen.c, control_messages.c */
/* Without control connections where they cannot be had. */
void control_open(struct verbs_device *device);
void control_close(struct verbs_device *device);
void control_serve(struct verbs_device *device);
/* Does the work that is due. False when no work is left. */
bool control_tick(struct verbs_device *device);
/* Where we take connections from this host; 0 when we do not. */
uint16_t control_port(const struct verbs_device *device, const struct in6_addr *host);
/* There shall be one with the NIC of the endpoint's peer; if it `is_ours` to make, then at once. */
void control_want(struct verbs_endpoint *endpoint, bool is_ours);
/* False: there is no control connection to send it by. */
bool control_tell(struct verbs_endpoint *endpoint, enum wire_code code, uint32_t peer_qp,
		  uint32_t number);

/* listen.c */
int verbs_listen(struct device *device, const struct discriminator *discriminator);
int verbs_relisten(struct device *device, const struct discriminator *discriminator);
void verbs_unlisten(struct device *device, const struct discriminator *discriminator);
/* A connection request, in a new id. */
void verbs_request_arrived(struct verbs_device *device, struct rdma_cm_id *id,
			  const struct rdma_conn_param *parameters);
void verbs_reject(struct device_request *request, VIP_RETURN refusal);
bool verbs_has_requester(const struct device_request *request);

/* queuepair.c */
struct device_endpoint *verbs_endpoint_create(struct device *device, struct endpoint_config *config);
void verbs_endpoint_destroy(struct device_endpoint *endpoint);
/* Frees the memory of destroyed endpoints. There is no CQ any more. */
void verbs_endpoints_free(struct verbs_device *device);
int verbs_endpoint_prepare(struct device_endpoint *endpoint);
void verbs_endpoint_stop(struct device_endpoint *endpoint);
void verbs_endpoint_reset(struct device_endpoint *endpoint);
/*
 * INIT -> RTS with what the cm_id has learnt about the peer. 0 or errno; ECONNABORTED when there is
 * no peer any more.
 */
int verbs_endpoint_start(struct verbs_endpoint *endpoint);
/* Moves the queue pair to ERR, RESET and INIT, and forgets posted work. 0 or errno. */
int verbs_endpoint_rewind(struct device_endpoint *endpoint);

/* transfer.c */
int verbs_post_send(struct device_endpoint *endpoint, const struct device_send *send);
int verbs_post_receive(struct device_endpoint *endpoint, const struct segment *segments,
		      unsigned count);
int verbs_cq_poll(struct device_cq *cq);

/* uc.c */
/* Has the device UC queue pairs? 0 or errno. */
int verbs_find_uc(struct ibv_context *context, bool *found);
/* Is a probe under way? */
static inline bool verbs_is_asking(const struct verbs_endpoint *endpoint)
{
	return endpoint->phase == VERBS_RESOLVING || endpoint->phase == VERBS_REQUESTING;
}
static inline bool verbs_is_unreliable(const struct verbs_endpoint *endpoint)
{
	return endpoint->wanted_qp.qp_type == IBV_QPT_UC;
}
/* Sets how many bytes of an RDMA operation go in one request. */
void verbs_limit_requests(struct verbs_endpoint *endpoint, uint32_t bytes);
/* Returns how many bytes an RDMA write may carry in one request. */
uint32_t verbs_unreliable_request(const struct verbs_endpoint *endpoint, enum ibv_mtu path_mtu);
/* A completion with this error bit has come. True when `status` is to be reported. */
bool verbs_unreliable_error(struct verbs_endpoint *endpoint, bool is_receive, uint32_t *status);
int verbs_endpoint_resume(struct device_endpoint *endpoint);

/* flush.c */
bool verbs_has_reception(const struct ibv_device_attr *limits);
/* 0 or errno. */
int verbs_flush_create(struct verbs_endpoint *endpoint);
void verbs_flush_destroy(struct verbs_endpoint *endpoint);
/* Is this send done only when a flush atomic behind it is? */
static inline bool verbs_is_flushed_by_atomic(const struct verbs_endpoint *endpoint,
				  const struct device_send *send)
{
	return endpoint->flush_mr && send->length &&
	       (send->control & VIP_CONTROL_OP_MASK) != VIP_CONTROL_OP_RDMAREAD;
}
/* 0 or errno. */
int verbs_flush_post(struct verbs_endpoint *endpoint);

/* staging.c */
void staging_init(struct verbs_domain *domain);
/* None of its buffers is in use. */
void staging_destroy(struct verbs_domain *domain);
/*
 * A buffer of at least `length` bytes, which becomes the last of an endpoint's list `users`. NULL: there is none
 * at the moment.
 */
struct verbs_buffer *staging_take(struct verbs_domain *domain, struct verbs_buffers *users,
				 uint32_t length, bool is_receive);
void staging_return(struct verbs_buffers *users, struct verbs_buffer *buffer);
/*
 * The oldest staged send or receive is done, and the CQ's lock is held. False when a message has
 * come, and there is no memory any more that it can go to.
 */
bool staging_done(struct verbs_endpoint *endpoint, const struct ibv_wc *completion);
/* The queue pair has forgotten all that was posted. */
void staging_forget(struct verbs_endpoint *endpoint);
static inline void *staging_data(const struct verbs_buffer *buffer)
{
	return buffer->mr->addr;
}

/* region.c */
/* IBV_ACCESS_ bits of what a peer may do. */
int verbs_remote_access(struct region_rights rights);
struct device_domain *verbs_domain_create(struct device *device);
void verbs_domain_destroy(struct device_domain *domain);
struct device_region *verbs_region_create(struct device_domain *domain, void *address, size_t length,
					 struct region_rights rights, uint32_t *handle,
					 uint32_t *key, bool *read_only);
void verbs_region_destroy(struct device_region *region);
struct device_region *verbs_region_change(struct device_region *region, struct device_domain *domain,
					 struct region_rights rights, uint32_t *key);

#endif
