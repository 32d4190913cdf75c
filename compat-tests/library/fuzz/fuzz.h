/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What both fuzzers share. They read the input, fail, and have a world: a loopback device with VIs, and the program's memory.
 * The layer above the device checks the device's reports. Each VI has a peer: in fuzz_lane one that writes anything into the
 * memory that they share, in fuzz_conversation one that sends anything over the socket.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "device.h"
#include "loopback.h"

/* Prints the condition that failed, and aborts. libFuzzer takes that for a crash. */
_Noreturn void fuzz_fail(const char *file, int line, const char *what);

#define check(condition)                                           \
	do {                                                       \
		if (!(condition))                                  \
			fuzz_fail(__FILE__, __LINE__, #condition); \
	} while (0)

/* An input is read from its beginning. Reads past its end give zeros. */
struct input {
	const uint8_t *data;
	size_t size;
};

uint8_t take8(struct input *input);
uint16_t take16(struct input *input);
uint32_t take32(struct input *input);
uint64_t take64(struct input *input);
void take_bytes(struct input *input, void *to, size_t length);
/* A number in 0 .. count - 1. */
unsigned take_below(struct input *input, unsigned count);
/* Any number, often one near a limit of the device. */
uint32_t take_length(struct input *input);

#define STEPS_MOST 200 /* of an input */

/* Sets the configuration that config() returns. */
void fuzz_configure(bool one_copy, const char *users);

/* The number of mappings that the device has made and not removed. */
extern unsigned fuzz_mappings;
/* Removes one of these. */
int fuzz_munmap(void *address, size_t length);
/* The number of open file descriptors. With `inheritable`, only those without FD_CLOEXEC. */
unsigned fuzz_descriptors(bool inheritable);
/* From here to trouble_end() calls of the device fail: a chosen one, or all that need a file descriptor. */
void trouble_begin(uint8_t how);
void trouble_end(void);

/* If the device has set a timer, lets it run out. */
void fuzz_tick(void);
void fuzz_forget_timer(void);

#define VIS           3u /* fuzz_lane uses two */
#define CQS           (2 * VIS)
#define DOMAINS       2u
#define REGIONS       8u
#define ARENA_SIZE    0x14000u
#define FIXED_SIZE    0x2000u
#define WORK_MOST     LANE_RECEIVES
#define SENDS_MOST    128u
#define TRANSFER_MOST 0x800000u
#define SEGMENTS_MOST 40u /* more than a published receive can have */

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
	bool over; /* an error or a flush was reported: no success may follow */
	uint32_t checked, head, tail;
	struct work ring[WORK_MOST];
};

struct cq {
	struct device_cq *device;
	bool locked;
	int told; /* completions that this poll has reported */
};

/* The other process, as the device sees it. */
struct peer {
	struct link *link;     /* the peer's mapping; NULL: never connected */
	struct lane *in, *out; /* named as the device names them */
	struct region_entries *table;
	int table_fd;
	struct cq_page *page;  /* of the device's receive CQ; NULL: it has none */
	uint32_t queue;	       /* the number of the VI's receive queue in that page */
	struct cq_page *own_page; /* of the peer's receive CQ */
	enum { NO_STAMP = 1, NO_BIT = 2 } leaves_out; /* the parts of a message that it omits */
	uint32_t written, published;
	uint64_t ring_written;
	uint8_t pattern;
	/* The device's messages are checked while the peer has written nothing else over them. */
	bool is_honest;
	uint32_t seen, parts;
	/* The peer's last order. Its answer is checked while nothing else was done to the order. */
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
	struct peer peer; /* of fuzz_lane */
	struct connection *connection; /* of fuzz_conversation */
};

struct world {
	struct device *device;
	struct device_domain *domains[DOMAINS];
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

/* Says which queues complete into the same CQ. */
enum sharing { ONE_CQ, TWO_CQS, OWN_CQS };

/* world.c */
/* The device is open already. */
void world_create(enum sharing sharing);
void world_destroy(void);
/* False when the poll reported no completion. */
bool world_poll(struct cq *cq);
void vi_make(struct vi *vi);
void vi_prepare(struct vi *vi);
/* This and vi_stop() put the VI back into VI_IDLE, as libvipl/connect/state.c does. Its descriptors are completed by then. */
void vi_reset(struct vi *vi);
void vi_stop(struct vi *vi);
/* Polls until no completion is left, since one poll reports a limited number. */
void vi_poll(struct vi *vi);

/* Each fuzzer has these of its own. */
/* Ends a connection. */
void vi_tear_down(struct vi *vi);
/* Called after a poll. */
void peer_check(struct vi *vi);

/* memory.c */
void memory_reset(void);
void memory_register(struct region *region, struct input *input);
void memory_deregister(struct region *region);
/* The region with this key in this domain, or NULL. */
const struct region *memory_find(uint32_t key, uint32_t domain);
/* Bytes may have changed only where a receive, an RDMA read or a peer with rights may write. */
void memory_check(void);
/* The program's posts. */
void post_receive(struct vi *vi, struct input *input);
void post_send(struct vi *vi, struct input *input);

/* calls.c */
/*
 * Counts the device's reads of the link. Just before read number `reads` from now on, `value` is
 * written into the link: at `offset`, or, with `at_last`, where the device read last.
 */
void race_start(struct vi *vi, unsigned reads, bool at_last, uint32_t offset, uint64_t value);
void race_stop(void);

#endif
