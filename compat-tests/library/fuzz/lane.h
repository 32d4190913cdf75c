/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_lane's world: a loopback device with two VIs, what is above it (which checks what the device
 * reports), and for each VI a peer that does what it likes to the memory they share.
 */
#ifndef FUZZ_LANE_H
#define FUZZ_LANE_H

#include "fuzz.h"
#include "loopback.h"

#define VIS           2u
#define CQS           4u
#define DOMAINS       2u
#define REGIONS       8u
#define ARENA_SIZE    0x14000u
#define FIXED_SIZE    0x2000u
#define PEER_SIZE     0x20000u
#define PEER_DOMAIN   7u
#define WORK_MOST     LANE_RECEIVES
#define SENDS_MOST    128u
#define TRANSFER_MOST 0x800000u
#define SEGMENTS_MOST 40u /* more than are published */

struct region {
	struct device_region *device; /* NULL: not registered */
	uint32_t key, domain;
	uint8_t *start;
	uint32_t length;
	bool read_only;
	struct region_rights rights;
};

/* A posted descriptor. */
struct work {
	unsigned operation; /* of a send */
	bool immediate;
	uint32_t length; /* of the send; the room of a receive */
	unsigned count;
	struct segment segments[SEGMENTS_MOST];
};

struct workqueue {
	struct vi *vi;
	bool is_receive, locked;
	bool over; /* an error was told, or a flush: no success may follow */
	uint32_t checked, head, tail;
	struct work ring[WORK_MOST];
};

struct cq {
	struct device_cq *device;
	bool locked;
	int told; /* by this poll */
};

/* The other process, as far as the device can see it. */
struct peer {
	struct link *link;     /* our mapping of it; NULL: there has been none */
	struct lane *in, *out; /* the device's names for them */
	struct region_entries *table;
	int table_fd;
	struct cq_page *page;  /* of the device's receive CQ; NULL: it has none */
	uint32_t queue;	       /* the number in there */
	struct cq_page *own_page; /* of its own receive CQ */
	enum { NO_STAMP = 1, NO_BIT = 2 } leaves_out; /* what a message should have */
	uint32_t written, published;
	uint64_t ring_written;
	uint8_t pattern;
	/* What was sent to it, as long as nothing else was written there. */
	bool is_honest;
	uint32_t seen, parts;
	/* The last order, and whether nothing else was done to it. */
	bool tracked;
	uint32_t order_number, order_length, order_handle;
	uint64_t order_address;
	bool order_is_write;
};

struct vi {
	enum { VI_NONE, VI_IDLE, VI_PREPARED, VI_LINKED } state;
	bool stopped, broken;
	struct device_endpoint *endpoint;
	uint32_t domain;
	struct workqueue send, receive;
	struct cq *send_cq, *receive_cq;
	struct peer peer;
};

struct world {
	struct device *device;
	struct device_domain *domains[DOMAINS];
	struct device_channel *channel;
	struct cq cqs[CQS];
	unsigned cq_count;
	struct vi vis[VIS];
	struct region regions[REGIONS];
};

extern struct world world;

static inline struct loopback_endpoint *endpoint_of(const struct vi *vi)
{
	return (struct loopback_endpoint *)vi->endpoint;
}

static inline struct work *work_at(struct workqueue *queue, uint32_t index)
{
	return &queue->ring[index & (WORK_MOST - 1)];
}

static inline uint32_t work_count(const struct workqueue *queue)
{
	return queue->tail - queue->head;
}

/* Which queues complete into the same CQ. */
enum sharing { ONE_CQ, TWO_CQS, OWN_CQS };

/* lane_world.c */
void world_create(enum sharing sharing);
/* All that has come is told soon, whatever was done to the pages of CQs. */
void world_check_told(void);
void world_destroy(void);
/* False when nothing was told. */
bool world_poll(struct cq *cq);
void vi_create(struct vi *vi);
void vi_prepare(struct vi *vi);
void vi_connect(struct vi *vi, struct input *input);
/* Ends a connection as libvipl/core/state.c does. */
void vi_tear_down(struct vi *vi);

/* lane_memory.c */
void memory_reset(void);
void memory_register(struct region *region, struct input *input);
void memory_deregister(struct region *region);
/* The region of that name, if a VI with this domain may use it. */
const struct region *memory_find(uint32_t key, uint32_t domain);
/* No byte may have changed but where a receive, an RDMA read or a peer with rights may write. */
void memory_check(void);

/* lane_child.c */
/* Another process, whose memory can be accessed from here; it never does anything. */
pid_t child_process(void);
/* PEER_SIZE bytes at this address in both processes. */
uint8_t *child_memory(void);

/* lane_race.c */
/*
 * The so-and-so-many-th time that the device reads shared memory from now on, it is changed just
 * before that: at `offset` of the VI's link, or, with `at_last`, where it was read last.
 */
void race_start(struct vi *vi, unsigned reads, bool at_last, uint32_t offset, uint64_t value);
void race_stop(void);

/* lane_peer.c: what peers do */
void peer_message(struct vi *vi, struct input *input);
void peer_publish(struct vi *vi, struct input *input);
void peer_region(struct vi *vi, struct input *input);
void peer_answer(struct vi *vi, struct input *input);
void peer_consume(struct vi *vi, struct input *input);
void peer_field(struct vi *vi, struct input *input);
/* The same in the page of the CQ. */
void peer_page(struct vi *vi, struct input *input);
void peer_scribble(struct vi *vi, struct input *input);
void peer_race(struct vi *vi, struct input *input);
/* After the device has looked: whether it did what the peer asked for, and only then. */
void peer_check(struct vi *vi);

/* lane_post.c: what programs do */
void post_receive(struct vi *vi, struct input *input);
void post_send(struct vi *vi, struct input *input);

#endif
