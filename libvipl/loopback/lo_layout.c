/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sizes and places of all that link.h and cq_page.h describe, and the numbers that are derived there. There is no code here.
 * The test is that this compiles, for 64 and for 32 bits.
 */
#include <stddef.h>

#include "cq_page.h"
#include "link.h"

#define SIZE(type, size)    _Static_assert(sizeof(struct type) == (size), "size of " #type)
#define ALIGN(type, bytes)  _Static_assert(_Alignof(struct type) == (bytes), "alignment of " #type)
#define MEMBER(type, member, offset, size)                                                             \
	_Static_assert(offsetof(struct type, member) == (offset), "offset of " #type "." #member);     \
	_Static_assert(sizeof(((struct type *)0)->member) == (size), "size of " #type "." #member)

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "peers may not be able to write, and have no lock of ours");

/* The description. */
SIZE(path_description, 32);
MEMBER(path_description, domain, 0, 4);
MEMBER(path_description, queue, 4, 4);
MEMBER(path_description, nonce_address, 8, 8);
MEMBER(path_description, nonce, 16, 16);

/* The link. */
SIZE(link, 2 * 176128);
SIZE(lane, 176128);
ALIGN(lane, 4096);
MEMBER(lane, consumed, 0, 4);
MEMBER(lane, closed, 4, 4);
MEMBER(lane, ring_consumed, 8, 8);
MEMBER(lane, reception, 16, 4);
MEMBER(lane, answer, 64, 8);
MEMBER(lane, busy, 128, 4);
MEMBER(lane, end, 132, 4);
MEMBER(lane, receiver_waits, 192, 4);
MEMBER(lane, sender_waits, 256, 4);
MEMBER(lane, messages, 320, 256 * 64);
MEMBER(lane, receives, 16704, 1024 * 8);
MEMBER(lane, details, 24896, 1024 * 16);
MEMBER(lane, pool, 41280, 2048 * 16);
MEMBER(lane, answer_data, 77824, 32768);
MEMBER(lane, ring, 110592, 65536);

/* A message. */
SIZE(lane_message, 64);
MEMBER(lane_message, number, 0, 4);
MEMBER(lane_message, kind, 4, 1);
MEMBER(lane_message, has_immediate, 5, 1);
MEMBER(lane_message, length, 8, 4);
MEMBER(lane_message, immediate, 12, 4);
MEMBER(lane_message, data, 16, 44);
MEMBER(lane_message, target.address, 16, 8);
MEMBER(lane_message, target.handle, 24, 4);
MEMBER(lane_message, stamp, 60, 4);

/* Details of a posted receive. */
SIZE(lane_detail, 16);
MEMBER(lane_detail, address, 0, 8);
MEMBER(lane_detail, handle, 8, 4);
MEMBER(lane_detail, count, 12, 4);
SIZE(lane_segment, 16);
MEMBER(lane_segment, address, 0, 8);
MEMBER(lane_segment, length, 8, 4);
MEMBER(lane_segment, handle, 12, 4);

_Static_assert(LANE_SHORT == 256 && PAGE_SPREAD == 128, "these follow from others");

/* The page of a CQ. */
SIZE(cq_page, 8256);
MEMBER(cq_page, stamp, 0, 4);
MEMBER(cq_page, waits, 4, 4);
MEMBER(cq_page, summary, 8, 4);
MEMBER(cq_page, arrived, 16, 2048 * 4);

/* The region table. */
SIZE(region_entries, 32768 * 32);
SIZE(region_entry, 32);
MEMBER(region_entry, handle, 0, 4);
MEMBER(region_entry, domain, 4, 4);
MEMBER(region_entry, rights, 8, 4);
MEMBER(region_entry, start, 16, 8);
MEMBER(region_entry, length, 24, 8);
