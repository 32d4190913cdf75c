/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared memory of a completion queue that several queues complete into: docs/LOOPBACK.md. Each completion takes a number,
 * its stamp, when it happens. A peer that has sent to one of the receive queues sets that queue's bit. So the owner finds new
 * messages without polling each connection, and reports them in their order.
 *
 * All peers of the CQ can write all of it, and none of them is trusted.
 */
#ifndef VIPL_LOOPBACK_CQ_PAGE_H
#define VIPL_LOOPBACK_CQ_PAGE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PAGE_QUEUES    0x10000u /* receive queues of a CQ */
#define PAGE_WORD_BITS 32u
#define PAGE_WORDS     (PAGE_QUEUES / PAGE_WORD_BITS)
#define PAGE_FIRST     16u /* queues, and bits of the summary, which are for these alone */
#define PAGE_SPREAD    (PAGE_WORDS / (PAGE_WORD_BITS - PAGE_FIRST)) /* words for each of the other bits */

struct cq_page {
	alignas(64) _Atomic uint32_t stamp; /* of the next completion */
	_Atomic uint32_t waits;             /* lane_wait: the owner sets bits, a peer that wakes it clears them */
	_Atomic uint32_t summary;           /* the first queues; bit PAGE_FIRST + i: look at the words from i * PAGE_SPREAD on */
	uint32_t unused;
	_Atomic uint32_t arrived[PAGE_WORDS]; /* a bit for each receive queue that is not among the first */
};

/* NULL and errno on failure. */
struct cq_page *cq_page_create(int *fd);
/* From here on the page is not shared, and reads as zeros. */
void cq_page_blank(struct cq_page *page);
/* Moves a page to the place of a blank one. False and errno on failure: the page is unmapped then. */
bool cq_page_move(struct cq_page *page, struct cq_page *to);

/* Is `a` before `b`? Stamps wrap around. */
static inline bool stamp_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* A process that sees a later stamp sees all that was done before this one was taken. */
static inline uint32_t cq_page_stamp(struct cq_page *page)
{
	return atomic_fetch_add_explicit(&page->stamp, 1, memory_order_acq_rel);
}

/*
 * A message has been published for this queue. A bit in `arrived` is set before the summary's, because the owner clears the
 * summary's bit before it reads that. All accesses are sequentially consistent, so for the caller's later reads this
 * is a fence.
 */
static inline void cq_page_arrived(struct cq_page *page, uint32_t queue)
{
	uint32_t word = queue / PAGE_WORD_BITS, bit = 1u << (PAGE_FIRST + word / PAGE_SPREAD);

	if (queue < PAGE_FIRST) {
		atomic_fetch_or(&page->summary, 1u << queue);
		return;
	}
	/*
	 * The queue's bit is written even if it is set: the owner clears it after this write, and then sees the message. The
	 * summary's bit need not be written: while it is set, the owner still has to clear it, and reads this word after that:
	 * litmus/arrived_already.
	 */
	atomic_fetch_or(&page->arrived[word], 1u << queue % PAGE_WORD_BITS);
	if (!(atomic_load(&page->summary) & bit))
		atomic_fetch_or(&page->summary, bit);
}

#endif
