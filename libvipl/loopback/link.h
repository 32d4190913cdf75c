/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two processes see of each other, by the description of a connection's end and in shared memory: docs/LOOPBACK.md.
 *
 * A link has two lanes, one for each direction. In a lane the receiving end publishes its posted receives, in order. The
 * sending end takes one after the other, and writes a message for each. Neither end trusts the other: each counts for
 * itself, reads a field once, and checks what it has read.
 *
 * All members have the same size and place for 32 and 64 bits. What one end writes while the other polls is on cache lines of
 * its own. Peers of the same version may have another build of the library. So a number here, in cq_page.h or in lo_layout.c
 * changes only together with LOOPBACK_VERSION.
 */
#ifndef VIPL_LOOPBACK_LINK_H
#define VIPL_LOOPBACK_LINK_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define LOOPBACK_VERSION 10

#define NONCE_BYTES 16

/* In the byte order of the machine, since it does not leave it. */
struct path_description {
	uint32_t domain;
	uint32_t queue; /* the number of the receive queue in its CQ's page, plus 1; 0: no page */
	uint64_t nonce_address; /* where the sender has the nonce in its memory: struct nonce_page */
	uint8_t nonce[NONCE_BYTES];
};

#define CACHE_LINE     64
#define LANE_RECEIVES  1024u /* powers of two, all of these */
#define LANE_MESSAGES  256u
#define LANE_POOL      2048u
#define LANE_RING      0x10000u
#define LANE_PIECE     0x8000u /* longest part of a message, and answer, that goes through the ring */
#define LANE_SEGMENTS  16u     /* receives with more are not published for direct access */
#define MESSAGE_INLINE 44u
/* For receives of no more bytes the ring has room whenever there is room for a message, so they have no details. */
#define LANE_SHORT     (LANE_RING / LANE_MESSAGES)
/* Each end makes sure that so much of the memory is there before it first touches it: lane_bring(). */
#define LANE_STEP      0x1000u

enum message_kind {
	/* Each of these takes a receive. */
	MESSAGE_INLINED = 1,  /* the data is in the message */
	MESSAGE_IN_RING = 2,  /* (the rest of) the data is next in the ring */
	MESSAGE_PLACED = 3,   /* the data is in the receive's memory already */
	MESSAGE_WRITTEN = 4,  /* an RDMA write with immediate data came before */
	MESSAGE_TOO_LONG = 5, /* for the receive */
	/* These do not. */
	MESSAGE_PART = 6,  /* a part of the data for the next receive is next in the ring */
	MESSAGE_WRITE = 7, /* asks the receiving end to write the next bytes of the ring */
	MESSAGE_READ = 8,  /* asks it to read */
	MESSAGE_ABORT = 9, /* the parts that have come are void */
};

struct lane_message {
	alignas(CACHE_LINE) _Atomic uint32_t number; /* written last: its place in the lane, plus 1 */
	union {
		struct {
			uint8_t kind;
			uint8_t has_immediate;
		};
		uint16_t kind_and_immediate;
	};
	uint16_t unused;
	uint32_t length; /* of what it carries or asks for */
	uint32_t immediate;
	union {
		struct {
			uint8_t data[MESSAGE_INLINE];
			uint32_t stamp; /* if the receiving end's CQ has a page: cq_page.h */
		};
		struct {
			alignas(8) uint64_t address;
			uint32_t handle;
		} target; /* of MESSAGE_WRITE and MESSAGE_READ */
	};
};

struct lane_segment {
	alignas(8) uint64_t address;
	uint32_t length;
	uint32_t handle;
};

/* Where the data of a receive goes, for a sender that may write it itself. */
struct lane_detail {
	alignas(16) uint64_t address; /* of one segment, which has all of the room; or the place of more in the pool */
	uint32_t handle;
	uint32_t count; /* of segments; 0: the sender may not */
};

/* The bits of a word at which an end waits. The others count: a thread that has seen the word notices when another has armed it. */
enum lane_wait { WAIT_IN_AGENT = 1, WAIT_HERE = 2, WAIT_BITS = 3, WAIT_COUNT = 4 };

/* Why the sending end ends the connection, if the receiving end did not take something. */
enum lane_end { END_NO_RECEIVE = 1, END_WRITE_REFUSED = 2, END_READ_REFUSED = 3 };

enum lane_answer { ANSWER_DONE = 1, ANSWER_REFUSED = 2 };

/* The members that every connection uses are together, because each step that is touched takes memory. */
struct lane {
	/* The receiving end writes these. */
	struct {
		alignas(CACHE_LINE) _Atomic uint32_t consumed; /* messages */
		_Atomic uint32_t closed;
		_Atomic uint64_t ring_consumed;			 /* bytes, since the beginning */
		_Atomic uint32_t reception;			 /* the stamp of a message at Reliable Reception */
		alignas(CACHE_LINE) _Atomic uint64_t answer; /* message's number, lane_answer */
	};

	/* The sending end writes these. */
	alignas(CACHE_LINE) _Atomic uint32_t busy; /* odd while it accesses the other's memory */
	_Atomic uint32_t end;			   /* lane_end */

	/* Bits set by the end that waits. The other end clears them when it wakes that one. */
	alignas(CACHE_LINE) _Atomic uint32_t receiver_waits; /* lane_wait */
	alignas(CACHE_LINE) _Atomic uint32_t sender_waits;

	/* The sending end writes these, too. The first ones are in the first step. */
	alignas(CACHE_LINE) struct lane_message messages[LANE_MESSAGES];

	/* The receiving end writes these. */
	alignas(CACHE_LINE) _Atomic uint64_t receives[LANE_RECEIVES]; /* place + 1, room */
	alignas(CACHE_LINE) struct lane_detail details[LANE_RECEIVES];
	struct lane_segment pool[LANE_POOL];
	alignas(LANE_STEP) uint8_t answer_data[LANE_PIECE];

	/* The sending end writes this. */
	alignas(LANE_STEP) uint8_t ring[LANE_RING];
};

_Static_assert(sizeof(struct lane) / LANE_STEP < 64, "there is a bit for each step");
_Static_assert(sizeof(((struct lane *)0)->messages) % LANE_STEP == 0, "the last step has as many messages as the first has not");

struct link {
	struct lane lanes[2]; /* from the requester of the connection, and to it */
};

/* Data in the ring is in one piece. If the rest of the ring is too short, that rest is skipped. */
static inline uint64_t ring_place(uint64_t position, uint32_t length)
{
	uint64_t rest = LANE_RING - (position & (LANE_RING - 1));

	return length <= rest ? position : position + rest;
}

static inline uint64_t ring_after(uint64_t place, uint32_t length)
{
	return (place + length + CACHE_LINE - 1) & ~(uint64_t)(CACHE_LINE - 1);
}

/* A region, as its owner publishes it to its peers. */
struct region_entry {
	alignas(32) _Atomic uint32_t handle; /* 0: there is none */
	_Atomic uint32_t domain;
	_Atomic uint32_t rights;
	uint32_t unused;
	_Atomic uint64_t start;
	_Atomic uint64_t length;
};

enum { RIGHT_LOCAL_WRITE = 1, RIGHT_RDMA_WRITE = 2, RIGHT_RDMA_READ = 4 };

#define TABLE_REGIONS 0x8000u /* the index is the low bits of the handle */

struct region_entries {
	struct region_entry entries[TABLE_REGIONS];
};

/* All of these: a mapping, or NULL and errno. */
struct link *link_create(int *fd);
/* A file in memory of a fixed and moderate size, so mapping it and closing it take no time. */
bool memory_may_be_shared(int fd);
struct link *link_map(int fd);
void link_unmap(struct link *link);
/* The steps that an end may touch from the beginning: a bit for each. The first one is among them. */
uint64_t link_known(void);

static inline uint64_t lane_steps(const struct lane *lane, const volatile void *part, size_t length)
{
	size_t offset = (size_t)((const volatile char *)part - (const volatile char *)lane);
	size_t first = offset / LANE_STEP, last = (offset + length - 1) / LANE_STEP;

	return (UINT64_C(2) << last) - (UINT64_C(1) << first);
}

/*
 * Makes sure that the steps of a part are there, and adds them to those that are known. If it fails this end must not touch
 * them: that would raise a signal.
 */
bool lane_allocate(struct lane *lane, uint64_t *known, const volatile void *part, size_t length);
static inline bool lane_has(const struct lane *lane, uint64_t known, const volatile void *part, size_t length)
{
	return !(lane_steps(lane, part, length) & ~known);
}

static inline bool lane_bring(struct lane *lane, uint64_t *known, const volatile void *part, size_t length)
{
	return lane_has(lane, *known, part, length) || lane_allocate(lane, known, part, length);
}

struct region_entries *region_entries_create(int *fd);

/* The region tables and pages of a device's peers; guarded by the NIC's lock. */
LIST_HEAD(peer_files, peer_file);

/* [nic] Whoever maps a file again gets the same mapping. */
void *peer_file_map(struct peer_files *files, int fd, size_t size, int protection);
/* [nic] `memory` may be NULL. */
void peer_file_unmap(struct peer_files *files, const void *memory);

#endif
