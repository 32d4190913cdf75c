/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peers' steps. A peer posts messages and receives as it should, or nearly so. It also writes
 * anything anywhere in the memory that it shares.
 */
#include <stddef.h>
#include <string.h>

#include "lane.h"

enum { NUMBER_OFF = 16, IMMEDIATE = 32, REPEATED = 64, TARGET_OFF = 128 };

static uint32_t put_ring(struct peer *peer, uint32_t length)
{
	uint64_t place = ring_place(peer->ring_written, length);
	uint32_t offset = place & (LANE_RING - 1);

	peer->ring_written = ring_after(place, length);
	memset(&peer->in->ring[offset], ++peer->pattern, length < LANE_RING - offset ? length : LANE_RING - offset);
	return offset;
}

/* Sets an order's target to one of the program's regions or near it. With `off` it may be anywhere. */
static void aim(struct peer *peer, struct lane_message *message, struct input *input, bool off)
{
	uint8_t flags = take8(input);
	const struct region *region = &world.regions[flags % REGIONS];

	message->target.handle = region->device ? region->key : 0;
	message->target.address = (uintptr_t)region->start;
	if (flags & 16)
		message->target.address += take16(input);
	if (off && flags & 32)
		message->target.address = take64(input);
	if (off && flags & 64)
		message->target.handle = take32(input);
	peer->order_address = message->target.address;
	peer->order_handle = message->target.handle;
}

static void put(struct peer *peer, uint8_t kind, uint32_t length, uint8_t flags, uint32_t number)
{
	struct lane_message *message = &peer->in->messages[peer->written & (LANE_MESSAGES - 1)];

	if (kind == MESSAGE_IN_RING || kind == MESSAGE_PART || kind == MESSAGE_WRITE)
		put_ring(peer, length);
	else if (kind == MESSAGE_INLINED)
		memset(message->data, ++peer->pattern, sizeof(message->data));
	message->kind = kind;
	message->has_immediate = flags & IMMEDIATE ? flags : 0;
	message->length = length;
	message->immediate = number;
	if (peer->page && !(peer->leaves_out & NO_STAMP))
		message->stamp = cq_page_stamp(peer->page);
	atomic_store(&message->number, number);
	peer->written++;
	if (peer->page && !(peer->leaves_out & NO_BIT))
		cq_page_arrived(peer->page, peer->queue);
}

void peer_message(struct vi *vi, struct input *input)
{
	uint8_t flags = take8(input), kind = flags & 15;
	struct peer *peer = &vi->peer;
	bool is_order = kind == MESSAGE_WRITE || kind == MESSAGE_READ;
	struct lane_message *message;
	uint32_t length, number;
	unsigned times = 1;

	if (!peer->link)
		return;
	if (kind > MESSAGE_ABORT)
		kind = take8(input);
	length = take_length(input);
	if (flags & REPEATED)
		times += take8(input) * 5u;
	number = peer->written + 1;
	if (flags & NUMBER_OFF)
		number += take16(input);
	message = &peer->in->messages[peer->written & (LANE_MESSAGES - 1)];
	if (is_order)
		aim(peer, message, input, flags & TARGET_OFF);
	/* Number 0, to which numbers wrap around, stands for "no answer" as well, so such an order is not checked. */
	peer->tracked = is_order && times == 1 && number && !(flags & NUMBER_OFF);
	peer->order_number = number;
	peer->order_length = length;
	peer->order_is_write = kind == MESSAGE_WRITE;
	while (times--)
		put(peer, kind, length, flags, number++);
}

static bool is_allowed(const struct vi *vi)
{
	const struct region_rights *own = &endpoint_of(vi)->own.rights;
	const struct peer *peer = &vi->peer;
	const struct region *region = memory_find(peer->order_handle, vi->domain);
	uint64_t start;

	if (!(peer->order_is_write ? own->rdma_write : own->rdma_read))
		return false;
	if (!peer->order_length)
		return true;
	if (!region || !(peer->order_is_write ? region->rights.rdma_write : region->rights.rdma_read))
		return false;
	start = (uintptr_t)region->start;
	return peer->order_address >= start && peer->order_address - start <= region->length &&
	       peer->order_length <= region->length - (peer->order_address - start);
}

/* Checks the device's messages. After parts, only the end of the message or an abort may come. */
static void check_sent(struct peer *peer, uint32_t written)
{
	for (; peer->seen != written; peer->seen++) {
		struct lane_message *message = &peer->out->messages[peer->seen & (LANE_MESSAGES - 1)];

		check(atomic_load(&message->number) == peer->seen + 1);
		check(message->kind >= MESSAGE_INLINED && message->kind <= MESSAGE_ABORT);
		if (message->kind == MESSAGE_PART)
			peer->parts += message->length;
		else if (message->kind == MESSAGE_IN_RING || message->kind == MESSAGE_ABORT)
			peer->parts = 0;
		else
			check(!peer->parts);
	}
}

/* Checks the device's messages, and that it has carried out the peer's order if and only if that is allowed. */
void peer_check(struct vi *vi)
{
	struct peer *peer = &vi->peer;
	uint64_t answer;

	if (vi->state != VI_LINKED)
		return;
	if (peer->is_honest)
		check_sent(peer, endpoint_of(vi)->written);
	if (!peer->tracked)
		return;
	answer = atomic_load(&peer->in->answer);
	if (answer >> 32 != peer->order_number)
		return;
	check(((uint32_t)answer == ANSWER_DONE) == is_allowed(vi));
	peer->tracked = false;
}

/* Publishes a receive in the format of the peer's own end. */
static void publish(struct peer *peer, unsigned count, const uint8_t *choice, uint32_t length, const uint32_t *room)
{
	uint32_t place = peer->published & (LANE_RECEIVES - 1), sum = 0;
	struct lane_segment *list = peer->out->pool + (peer->published * LANE_SEGMENTS & (LANE_POOL - 1));

	for (unsigned i = 0; i < count && i < LANE_SEGMENTS; i++) {
		const struct region_entry *entry = &peer->table->entries[choice[i] & 7];
		uint32_t here = choice[i] & 8 ? length : (uint32_t)atomic_load(&entry->length);

		list[i] = (struct lane_segment){atomic_load(&entry->start) + (choice[i] & 16 ? choice[i] : 0), here,
						atomic_load(&entry->handle)};
		sum += here;
	}
	peer->out->details[place] = count == 1
					    ? (struct lane_detail){list->address, list->handle, 1}
					    : (struct lane_detail){(uint64_t)(list - peer->out->pool), 0, count};
	atomic_store(&peer->out->receives[place], (uint64_t)(peer->published + 1) << 32 | (room ? *room : sum));
	peer->published++;
}

void peer_publish(struct vi *vi, struct input *input)
{
	uint8_t flags = take8(input);
	unsigned count = flags & 31, times = 1;
	uint32_t length = take_length(input), room = 0;
	uint8_t choice[LANE_SEGMENTS] = {0};

	take_bytes(input, choice, count < LANE_SEGMENTS ? count : LANE_SEGMENTS);
	if (flags & 32)
		room = take_length(input);
	if (flags & REPEATED)
		times += take8(input) * 5u;
	while (times-- && vi->peer.link)
		publish(&vi->peer, count, choice, length, flags & 32 ? &room : NULL);
}

/* Writes an entry of the peer's region table, which names the peer's memory or claims to. */
void peer_region(struct vi *vi, struct input *input)
{
	uint8_t flags = take8(input);
	struct region_entry *entry;
	uint32_t offset = take16(input) * 2u, length = take_length(input);

	if (vi->state == VI_NONE)
		return;
	entry = &vi->peer.table->entries[flags & 7];
	if (length > PEER_SIZE - offset && !(flags & 8))
		length = PEER_SIZE - offset;
	atomic_store(&entry->domain, flags & 16 ? 1 : PEER_DOMAIN);
	atomic_store(&entry->rights, flags >> 5);
	atomic_store(&entry->start, (uintptr_t)child_memory + offset);
	atomic_store(&entry->length, length);
	if ((flags & 0xF8) == 0xF8) { /* any values */
		atomic_store(&entry->start, take64(input));
		atomic_store(&entry->length, take64(input));
	}
	/* The handle is the index with a generation, or any number. */
	atomic_store(&entry->handle, length & 1 && flags & 8 ? take32(input) : (flags & 7) + TABLE_REGIONS);
}

void peer_answer(struct vi *vi, struct input *input)
{
	uint8_t flags = take8(input);
	uint32_t number;

	if (vi->state != VI_LINKED)
		return;
	number = endpoint_of(vi)->pending.number;
	if (flags & 4)
		number += take8(input);
	memset(vi->peer.out->answer_data, ++vi->peer.pattern, LANE_PIECE);
	atomic_store(&vi->peer.out->answer, (uint64_t)number << 32 | (flags & 3 ? flags & 3 : ANSWER_DONE));
}

/* The peer acts as if it had read all messages and carried out all orders. */
void peer_consume(struct vi *vi, struct input *input)
{
	struct input nothing = {NULL, 0};
	uint8_t less = take8(input);

	if (vi->state != VI_LINKED)
		return;
	if (!(less & 1))
		peer_answer(vi, &nothing);
	atomic_store(&vi->peer.out->ring_consumed, endpoint_of(vi)->ring_written - (less >> 4) * 64u);
	atomic_store(&vi->peer.out->consumed, endpoint_of(vi)->written - (less & 15));
}

/* The words of a lane that have a meaning. */
static const struct field {
	size_t offset, stride;
	unsigned count, bytes;
	bool adds; /* to the old value */
} fields[] = {
	{offsetof(struct lane, closed), 0, 1, 4, false},
	{offsetof(struct lane, busy), 0, 1, 4, false},
	{offsetof(struct lane, consumed), 0, 1, 4, true},
	{offsetof(struct lane, ring_consumed), 0, 1, 8, true},
	{offsetof(struct lane, answer), 0, 1, 8, false},
	{offsetof(struct lane, receiver_waits), 0, 1, 4, false},
	{offsetof(struct lane, sender_waits), 0, 1, 4, false},
	{offsetof(struct lane, receives), sizeof(uint64_t), LANE_RECEIVES, 8, true},
	{offsetof(struct lane, details[0].count), sizeof(struct lane_detail), LANE_RECEIVES, 4, false},
	{offsetof(struct lane, details[0].address), sizeof(struct lane_detail), LANE_RECEIVES, 8, true},
	{offsetof(struct lane, messages[0].number), sizeof(struct lane_message), LANE_MESSAGES, 4, true},
};

/* Changes one of these words, to a value near the old one or to any value, or the peer's place in lane or ring. */
void peer_field(struct vi *vi, struct input *input)
{
	uint8_t choice = take8(input);
	struct lane *lane = choice & 128 ? vi->peer.in : vi->peer.out;
	uint64_t value = choice & 64 ? take64(input) : take8(input) - 8u, old = 0;
	unsigned index = take16(input), kind = choice & 15;
	const struct field *field = &fields[kind < 9 ? kind : kind == 11 ? 9 : 10];
	uint8_t *word;

	if (!vi->peer.link)
		return;
	word = (uint8_t *)lane + field->offset + index % field->count * field->stride;
	vi->peer.tracked = vi->peer.is_honest = false;
	if (kind == 9) {
		vi->peer.written += (uint32_t)value;
	} else if (kind == 10) {
		vi->peer.ring_written += value;
	} else {
		if (field->adds)
			memcpy(&old, word, field->bytes);
		value += old;
		memcpy(word, &value, field->bytes);
	}
}

void peer_page(struct vi *vi, struct input *input)
{
	uint8_t choice = take8(input), kind = choice & 7;
	uint32_t value = choice & 64 ? take32(input) : take8(input) - 8u, index = take16(input);
	struct cq_page *page = choice & 128 ? vi->peer.own_page : vi->peer.page;

	if (!page)
		return;
	/* The last one has all bits that are in use. */
	_Atomic uint32_t *const words[] = {&page->stamp,   &page->stamp, &page->waits,
					   &page->summary, &page->arrived[index % PAGE_WORDS], &page->arrived[0]};
	if (kind == 7)
		vi->peer.leaves_out = value & (NO_STAMP | NO_BIT);
	else if (kind == 6)
		cq_page_arrived(page, index); /* the bit of another queue, or of no queue */
	else if (kind == 1)
		atomic_fetch_add(words[kind], value);
	else
		atomic_store(words[kind], kind == 3 && choice & 8 ? UINT32_MAX : value);
}

void peer_scribble(struct vi *vi, struct input *input)
{
	uint32_t offset = take32(input) % (uint32_t)sizeof(struct link);
	uint8_t bytes[256], length = take8(input);

	take_bytes(input, bytes, length);
	if (!vi->peer.link)
		return;
	vi->peer.tracked = vi->peer.is_honest = false;
	if (length > sizeof(struct link) - offset)
		length = (uint8_t)(sizeof(struct link) - offset);
	memcpy((uint8_t *)vi->peer.link + offset, bytes, length);
}

void peer_race(struct vi *vi, struct input *input)
{
	uint8_t flags = take8(input);
	uint32_t offset = flags & 1 ? 0 : take32(input) % (uint32_t)(sizeof(struct link) - 8);
	uint64_t value = flags & 2 ? take64(input) : take_length(input);
	unsigned reads = take8(input);

	vi->peer.tracked = vi->peer.is_honest = false;
	race_start(vi, reads, flags & 1, offset, value);
}
