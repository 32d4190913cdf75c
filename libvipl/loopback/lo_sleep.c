/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that sleep until there is a completion, at a word in memory that the CQ's peers have, too: a peer wakes one by one
 * system call, and the thread needs none to learn of it. The bits of the word are those of lane_wait.
 *
 * Why no completion leaves a thread asleep:
 *
 * - The thread sets the bit, has a fence, and looks. Whoever completes something has a fence, and reads the bit. So one of the two
 *   sees the other: litmus/publish_and_wait, litmus/arrived_and_wait.
 * - Who sees the bit clears it, and wakes one thread. A thread that does not sleep yet notices that its value is of the past.
 * - Whoever was woken looks. Before it leaves, it sets the bit for the others, looks, and wakes one for what is there, or all if
 *   one waits for one queue only: cq_leave_to_others(). The notifier does so before it calls a handler, and also for the other
 *   words at which it slept: notify_sleep().
 * - Who takes from the device what is others' wakes them whatever the bit says, if any has set it: `has_sleepers`,
 *   litmus/arm_and_wake.
 * - When the word goes, or another one takes its place, all look again. So they do at the end of a connection whose peer may have
 *   cleared a page's bit, and woken nobody. Only a peer that is stopped there, or hostile, lets threads sleep for their second.
 */
#include "base/futex.h"
#include "loopback.h"

/* The lock is held: where threads sleep, the word that the CQ's peers look at if there is one. */
static _Atomic uint32_t *word_of(struct loopback_cq *cq)
{
	struct loopback_endpoint *endpoint;

	if (cq->page)
		return &cq->page->waits;
	LIST_FOREACH(endpoint, &cq->receivers, in_receive_cq)
		if (endpoint->in)
			return &endpoint->in->receiver_waits;
	return &cq->armed;
}

/* Returns true if it was armed. */
static bool disarm(_Atomic uint32_t *word)
{
	return atomic_fetch_and(word, ~(uint32_t)WAIT_HERE) & WAIT_HERE;
}

struct sleep_word loopback_cq_arm_sleeper(struct device_cq *base)
{
	struct loopback_cq *cq = (struct loopback_cq *)base;
	struct sleep_word sleep;
	_Atomic uint32_t *word;

	cq_lock(cq->cq);
	word = word_of(cq);
	/* Peers clear bits meanwhile, and write what they like. */
	atomic_fetch_add_explicit(word, WAIT_COUNT, memory_order_relaxed);
	sleep = (struct sleep_word){word, atomic_fetch_or_explicit(word, WAIT_HERE, memory_order_relaxed) | WAIT_HERE};
	/* After the word: a send that is done clears `armed` first, and then finds the word armed. */
	if (cq->page)
		atomic_fetch_or_explicit(&cq->armed, WAIT_HERE, memory_order_release);
	/* Whoever sees it clears the word's bit after that, so the caller does not fall asleep, or is there to be woken. */
	atomic_store_explicit(&cq->has_sleepers, true, memory_order_release);
	cq_unlock(cq->cq);
	atomic_thread_fence(memory_order_seq_cst); /* as there */
	return sleep;
}

void loopback_cq_wake(struct device_cq *base, bool all)
{
	struct loopback_cq *cq = (struct loopback_cq *)base;
	_Atomic uint32_t *word;

	/* What the word says does not matter: a peer that has cleared it may have stopped, or died, before it woke anybody. */
	if (!atomic_exchange(&cq->has_sleepers, false) && !all)
		return;
	if (!cq->page)
		cq_lock(cq->cq); /* the word of a connection may be about to go */
	word = word_of(cq);
	disarm(word);
	if (!cq->page)
		cq_unlock(cq->cq);
	futex_wake(word, all, FUTEX_SHARED);
}

void loopback_cq_rouse(struct loopback_cq *cq)
{
	_Atomic uint32_t *word = word_of(cq);

	disarm(word);
	futex_wake(word, true, FUTEX_SHARED);
}

void loopback_wake_for_send(struct loopback_cq *cq)
{
	if (!disarm(&cq->armed))
		return;
	if (!cq->page)
		futex_wake(&cq->armed, false, FUTEX_SHARED);
	else if (disarm(&cq->page->waits))
		futex_wake(&cq->page->waits, false, FUTEX_SHARED);
}
