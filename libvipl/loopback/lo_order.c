/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The completions of a VIPL CQ, in the order in which they happened. The queues that complete there are its sources.
 *
 * Each completion has a stamp: the value of the CQ's counter when it happened. A round of polling has three steps:
 *
 * 1. It reads the counter. This value is the round's limit.
 * 2. It gathers the sources that have completions.
 * 3. It takes from them the completions whose stamps are less than the limit, the least stamp first.
 *
 * No earlier completion is missed. Nothing can follow from a completion before its source is marked: a send marks it before it
 * publishes its message, and a message before its send is done. So a completion that follows from another one takes its stamp
 * after that one's mark. If this stamp is less than the limit, the mark was there before step 2.
 *
 * Sources of this process are marked by order_call(), those that peers fill by bits in the CQ's page. What can a peer do?
 *
 * - It clears the bits of others: lo_progress.c finds their messages.
 * - It writes a false stamp: only its own completions change their places. No round takes more messages of one source than
 *   a lane has room for.
 * - It writes to the counter: the order may be lost, and nothing else.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "order.h"
#include "base/fd.h"
#include "base/log.h"

#define ROUNDS 3u /* of a poll that completes nothing: see order_poll() */
#define BATCH  256 /* completions of a poll; the round goes on in the next one */

/* ---- the heap: the least stamp is first ---- */

static bool is_before(const struct loopback_order *order, unsigned a, unsigned b)
{
	return stamp_before(order->heap[a]->stamp, order->heap[b]->stamp);
}

static void swap(struct loopback_order *order, unsigned a, unsigned b)
{
	struct loopback_source *source = order->heap[a];

	order->heap[a] = order->heap[b];
	order->heap[b] = source;
}

static void sift_down(struct loopback_order *order, unsigned place)
{
	for (;;) {
		unsigned least = place, child = 2 * place + 1;

		for (unsigned i = child; i < child + 2 && i < order->count; i++)
			if (is_before(order, i, least))
				least = i;
		if (least == place)
			return;
		swap(order, place, least);
		place = least;
	}
}

static void sift_up(struct loopback_order *order, unsigned place)
{
	for (; place && is_before(order, place, (place - 1) / 2); place = (place - 1) / 2)
		swap(order, place, (place - 1) / 2);
}

static void push(struct loopback_order *order, struct loopback_source *source)
{
	order->heap[order->count] = source;
	source->in_heap = true;
	sift_up(order, order->count++);
}

static void remove_at(struct loopback_order *order, unsigned place)
{
	order->heap[place]->in_heap = false;
	order->heap[place] = order->heap[--order->count];
	if (place < order->count) {
		sift_up(order, place);
		sift_down(order, place);
	}
}

/* ---- gathering ---- */

static bool next_of(struct loopback_cq *cq, struct loopback_source *source, uint32_t *stamp)
{
	bool is_there = source->is_receive ? loopback_next_receive(source->endpoint, stamp)
					   : loopback_next_send(source->endpoint, stamp);

	if (is_there)
		*stamp = order_stamp(cq, *stamp);
	return is_there;
}

static void gather_source(struct loopback_cq *cq, struct loopback_source *source)
{
	struct loopback_endpoint *endpoint = source->endpoint;

	if (!source->is_receive && !endpoint->is_listed && atomic_load(&endpoint->is_pending)) {
		endpoint->is_listed = true;
		LIST_INSERT_HEAD(&cq->order.pending, endpoint, in_pending);
		loopback_advance(endpoint);
	}
	if (source->in_heap)
		return;
	source->has_ended = atomic_load(&endpoint->stopped);
	if (next_of(cq, source, &source->stamp))
		push(&cq->order, source);
}

static void gather_called(struct loopback_cq *cq)
{
	struct loopback_source *source, *next;

	if (!atomic_load(&cq->order.called))
		return;
	for (source = atomic_exchange(&cq->order.called, NULL); source; source = next) {
		next = source->next_called;
		/* A completion after this calls the source again. */
		atomic_exchange(&source->is_called, false);
		gather_source(cq, source);
	}
}

static void gather_queue(struct loopback_cq *cq, uint32_t queue)
{
	if (queue < cq->order.receivers_room && cq->order.receivers[queue])
		gather_source(cq, &cq->order.receivers[queue]->receiving);
}

static void gather_word(struct loopback_cq *cq, uint32_t word)
{
	uint32_t bits = 0;

	if (atomic_load(&cq->page->arrived[word]))
		bits = atomic_exchange(&cq->page->arrived[word], 0);
	for (; bits; bits &= bits - 1)
		gather_queue(cq, word * PAGE_WORD_BITS + (uint32_t)__builtin_ctz(bits));
}

static void gather_arrived(struct loopback_cq *cq)
{
	uint32_t words = (cq->order.receivers_room + PAGE_WORD_BITS - 1) / PAGE_WORD_BITS, summary = 0;

	if (atomic_load(&cq->page->summary))
		summary = atomic_exchange(&cq->page->summary, 0);
	for (; summary; summary &= summary - 1) {
		uint32_t bit = (uint32_t)__builtin_ctz(summary), first = (bit - PAGE_FIRST) * PAGE_SPREAD;

		if (bit < PAGE_FIRST) {
			gather_queue(cq, bit);
			continue;
		}
		for (uint32_t word = first; word < first + PAGE_SPREAD && word < words; word++)
			gather_word(cq, word);
	}
}

static void go_on_with_pending(struct loopback_cq *cq)
{
	struct loopback_endpoint *endpoint, *next;

	for (endpoint = LIST_FIRST(&cq->order.pending); endpoint; endpoint = next) {
		next = LIST_NEXT(endpoint, in_pending);
		loopback_advance(endpoint);
		if (!atomic_load(&endpoint->is_pending)) {
			LIST_REMOVE(endpoint, in_pending);
			endpoint->is_listed = false;
		}
		gather_source(cq, &endpoint->sending);
	}
}

/* ---- polling ---- */

static void begin_round(struct loopback_cq *cq)
{
	cq->order.round++;
	cq->order.limit = stamps_now(cq);
	/*
	 * The heap has sources from an earlier round. Honest stamps among them are less than this limit. Any other stamp
	 * becomes the greatest one below the limit. Such a source stays behind all others, so this is still a heap.
	 */
	for (unsigned i = 0; i < cq->order.count; i++)
		if (!stamp_before(cq->order.heap[i]->stamp, cq->order.limit))
			cq->order.heap[i]->stamp = cq->order.limit - 1;
	/*
	 * These steps come after the limit was read. A peer takes a message before it answers it. So if the answer's stamp is
	 * less than the limit, these steps find the send of that message done.
	 */
	go_on_with_pending(cq);
	gather_called(cq);
	gather_arrived(cq);
}

/*
 * For threads that look without the lock, by order_is_empty(): from begin_changes() to note() the CQ is not empty. So they do
 * not miss what has been gathered, and is not completed yet: see litmus/look.
 */
static void begin_changes(struct loopback_order *order)
{
	atomic_store_explicit(&order->is_filled, true, memory_order_relaxed);
}

static void note(struct loopback_order *order)
{
	atomic_store_explicit(&order->is_filled, order->count || !LIST_EMPTY(&order->pending), memory_order_release);
}

/* Takes the completions of the first source that come before those of all others. */
static int take_first(struct loopback_cq *cq, uint32_t most)
{
	struct loopback_order *order = &cq->order;
	struct loopback_source *source = order->heap[0];
	uint32_t bound = order->limit, before;
	bool has_more;
	int count;

	for (unsigned i = 1; i <= 2 && i < order->count; i++)
		if (stamp_before(order->heap[i]->stamp, bound))
			bound = order->heap[i]->stamp;
	if (source->round != order->round) {
		source->round = order->round;
		source->taken = 0;
	}
	if (source->is_receive && !source->has_ended && atomic_load(&source->endpoint->stopped)) {
		/* The connection has ended meanwhile: its next message is void, and flushed receives take its place. */
		source->has_ended = true;
		count = 0;
		has_more = true;
	} else if (source->is_receive) {
		if (most > LANE_MESSAGES - source->taken)
			most = LANE_MESSAGES - source->taken;
		before = source->endpoint->read;
		count = loopback_take_before(source->endpoint, bound, most, &has_more);
		source->taken += source->endpoint->read - before;
	} else {
		count = loopback_report_sends_before(source->endpoint, bound, &has_more);
	}
	if (source->taken == LANE_MESSAGES)
		source->stamp = order->limit; /* the others first */
	else
		has_more = has_more && next_of(cq, source, &source->stamp);
	if (has_more)
		sift_down(order, 0);
	else
		remove_at(order, 0);
	return count;
}

/* A send may have its stamp before it is done, while another thread posts it. */
static bool is_ready(const struct loopback_source *source)
{
	return source->is_receive || loopback_next_send_is_done(source->endpoint);
}

static bool is_over(const struct loopback_order *order)
{
	return !order->count || !stamp_before(order->heap[0]->stamp, order->limit) ||
	       !is_ready(order->heap[0]);
}

/*
 * A thread that has armed the CQ may sleep after a poll that completes nothing, although the heap may be filled. The first round
 * may be the rest of an earlier one. The second gathers all that was there, and the third has a limit after it. So what is left
 * has come since, or is behind a send that is not ready: both are announced to whoever has armed the CQ.
 */
int order_poll(struct loopback_cq *cq)
{
	struct loopback_order *order = &cq->order;
	unsigned rounds = 0;
	int count = 0;

	begin_changes(order);
	do {
		if (!order->in_round)
			begin_round(cq);
		while (!is_over(order) && count < BATCH)
			count += take_first(cq, (uint32_t)(BATCH - count));
		order->in_round = !is_over(order);
	} while (!count && ++rounds < ROUNDS && (order->count || order_has_come(order, cq->page)));
	note(order);
	return count;
}

/* ---- sources ---- */

int order_init(struct loopback_cq *cq)
{
	struct cq_page *page;
	int fd, error;

	page = cq_page_create(&fd);
	if (!page)
		return errno;
	if (!cq->page) {
		cq->page = page;
	} else if (!cq_page_move(page, cq->page)) { /* threads may still look at the former page's place */
		error = errno;
		fd_close(fd);
		return error;
	}
	fd_share(&cq->page_file, fd);
	return 0;
}

void order_destroy(struct loopback_cq *cq)
{
	atomic_store_explicit(&cq->order.called, NULL, memory_order_relaxed);
	atomic_store_explicit(&cq->order.is_filled, false, memory_order_relaxed);
	cq_page_blank(cq->page);
	fd_close_shared(&cq->page_file);
	free(cq->order.heap);
	free(cq->order.receivers);
}

bool order_is_empty(const struct cq_look *look)
{
	const struct loopback_cq *cq = (const struct loopback_cq *)look;

	return !order_has_come(&cq->order, cq->page) && !atomic_load_explicit(&cq->order.is_filled, memory_order_acquire);
}

/* The CQ's lock is held. 0 or errno. */
static int number_receiver(struct loopback_order *order, struct loopback_endpoint *endpoint)
{
	uint32_t queue = order->next_queue, former = order->receivers_room, room = former ? 2 * former : 8;
	struct loopback_endpoint **receivers;

	while (queue < former && order->receivers[queue])
		queue++;
	if (queue >= PAGE_QUEUES)
		return cause("a place in the completion queue for one more VI", ENOSPC);
	if (queue >= former) {
		receivers = realloc(order->receivers, room * sizeof(*receivers));
		if (!receivers)
			return cause_of_memory("realloc()", room * sizeof(*receivers), ENOMEM);
		memset(receivers + former, 0, (room - former) * sizeof(*receivers));
		order->receivers = receivers;
		order->receivers_room = room;
	}
	order->receivers[queue] = endpoint;
	order->next_queue = queue + 1;
	endpoint->queue = queue;
	return 0;
}

int order_join(struct loopback_cq *cq, struct loopback_source *source)
{
	struct loopback_order *order = &cq->order;
	struct loopback_source **heap;
	int error = 0;

	cq_lock(cq->cq);
	heap = realloc(order->heap, (order->sources + 1) * sizeof(struct loopback_source *));
	if (!heap)
		error = cause_of_memory("realloc()", (order->sources + 1) * sizeof(struct loopback_source *), ENOMEM);
	else
		order->heap = heap;
	if (!error && source->is_receive)
		error = number_receiver(order, source->endpoint);
	if (!error)
		order->sources++;
	cq_unlock(cq->cq);
	return error;
}

void order_leave(struct loopback_cq *cq, struct loopback_source *source)
{
	struct loopback_order *order = &cq->order;
	uint32_t queue = source->endpoint->queue;

	cq_lock(cq->cq);
	begin_changes(order);
	gather_called(cq); /* which it may be */
	for (unsigned i = 0; i < order->count && source->in_heap; i++)
		if (order->heap[i] == source)
			remove_at(order, i);
	note(order);
	order->sources--;
	if (source->is_receive) {
		order->receivers[queue] = NULL;
		if (queue < order->next_queue)
			order->next_queue = queue;
	}
	cq_unlock(cq->cq);
}
