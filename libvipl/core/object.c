/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of handles. Its slots are never freed, so a look-up needs no lock. One word of each slot holds the live
 * generation (0: retired or free) and the number of references. A handle is a generation and an index. It has 32 bits of
 * the generation, or 12 where pointers have 32.
 */
#include "object.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/aligned.h"
#include "base/forks.h"
#include "base/log.h"
#include "object_at.h"

#define SPARE_BITS  (UINTPTR_MAX >> OBJECT_INDEX_BITS)
#define GENERATIONS (SPARE_BITS < UINT32_MAX ? SPARE_BITS : UINT32_MAX)
#define MOST_UNUSED 256u /* so many freed slots wait before one is used again */

struct slot {
	_Atomic uint64_t word; /* generation << 32 | references */
	struct object *_Atomic object;
	uint32_t generation;
	uint32_t next_free;
};

static struct slot *_Atomic chunks[OBJECT_CHUNKS];
object_place *_Atomic object_places[OBJECT_TYPE_STABLE][OBJECT_CHUNKS];

/* Guards what follows, and the generation and next_free of free slots. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reference_dropped = PTHREAD_COND_INITIALIZER;
static uint32_t slots_made = 1; /* index 0 is never used: it ends the free list */
static uint32_t first_free, last_free, free_slots;
static struct object *unused[OBJECT_TYPE_STABLE];

static struct slot *slot_at(uint32_t index)
{
	struct slot *chunk = atomic_load_explicit(&chunks[index >> OBJECT_CHUNK_BITS], memory_order_acquire);

	return chunk ? &chunk[index % OBJECT_CHUNK_SLOTS] : NULL;
}

static uint32_t generation_of(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static uint32_t index_of(const struct object *object)
{
	return object->handle & OBJECT_INDEX_MASK;
}

static uint32_t generation_in(uintptr_t handle)
{
	return (uint32_t)(handle >> OBJECT_INDEX_BITS);
}

static uint32_t references(uint64_t word)
{
	return (uint32_t)word;
}

static uint32_t take_oldest_free(void)
{
	uint32_t index = first_free;

	first_free = slot_at(index)->next_free;
	if (!first_free)
		last_free = 0;
	free_slots--;
	return index;
}

/* A slot that was not used for long, so that stale handles stay invalid; or a new one; or 0. */
static uint32_t take_free_index(void)
{
	uint32_t index = slots_made;

	if (free_slots > MOST_UNUSED)
		return take_oldest_free();
	if (slots_made > OBJECT_INDEX_MASK)
		return free_slots ? take_oldest_free() : 0;
	if (!slot_at(index)) {
		struct slot *chunk = zeroed(OBJECT_CHUNK_SLOTS, sizeof(*chunk));

		if (!chunk)
			return 0;
		atomic_store_explicit(&chunks[index >> OBJECT_CHUNK_BITS], chunk, memory_order_release);
	}
	slots_made++;
	return index;
}

static void give_back_index(uint32_t index)
{
	slot_at(index)->next_free = 0;
	if (last_free)
		slot_at(last_free)->next_free = index;
	else
		first_free = index;
	last_free = index;
	free_slots++;
}

static void forget_places(unsigned kind)
{
	for (unsigned i = 0; i < OBJECT_CHUNKS; i++) {
		object_place *chunk = atomic_load(&object_places[kind][i]);

		for (unsigned slot = 0; chunk && slot < OBJECT_CHUNK_SLOTS; slot++)
			atomic_store(&chunk[slot], NULL);
	}
}

/* In a child of fork() the parent's handles name nothing: its threads and devices are not there. */
static void forget_all_handles(void)
{
	/* Threads of the parent may have slept on it, and a broadcast in the child would wait for them. */
	reference_dropped = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	for (uint32_t index = 1; index < slots_made; index++)
		atomic_store(&slot_at(index)->word, 0);
	for (unsigned kind = 0; kind < OBJECT_TYPE_STABLE; kind++) {
		forget_places(kind);
		unused[kind] = NULL; /* the parent's threads may have had its locks */
	}
}

LOCK_OVER_FORKS(object, table_lock, forget_all_handles)

/* From now on the handle leads to the object; NULL: to nothing. False when there is no memory. */
static bool set_place(enum object_kind kind, uint32_t index, struct object *object)
{
	object_place *_Atomic *chunk = &object_places[kind][index >> OBJECT_CHUNK_BITS];

	if (!atomic_load(chunk)) {
		object_place *places = zeroed(OBJECT_CHUNK_SLOTS, sizeof(*places));

		if (!places)
			return false;
		atomic_store_explicit(chunk, places, memory_order_release);
	}
	atomic_store_explicit(&atomic_load(chunk)[index % OBJECT_CHUNK_SLOTS], object,
			      memory_order_release);
	return true;
}

int object_publish(struct object *object, enum object_kind kind)
{
	struct slot *slot;
	uint32_t index;

	object_lock();
	index = take_free_index();
	if (index && kind < OBJECT_TYPE_STABLE && !set_place(kind, index, object)) {
		give_back_index(index);
		index = 0;
	}
	if (!index) {
		pthread_mutex_unlock(&table_lock);
		log_error_ratelimited("no handle for an object: %s", failure(ENOMEM));
		return ENOMEM;
	}
	slot = slot_at(index);
	slot->generation = slot->generation % (GENERATIONS - 1) + 1; /* not 0, and not all ones */
	object->kind = kind;
	object->handle = (uintptr_t)slot->generation << OBJECT_INDEX_BITS | index;
	atomic_store_explicit(&slot->object, object, memory_order_relaxed);
	atomic_store_explicit(&slot->word, (uint64_t)slot->generation << 32, memory_order_release);
	pthread_mutex_unlock(&table_lock);
	return 0;
}

/* The slot that the handle names, with a reference; NULL when it is no live handle. */
static struct slot *hold(uintptr_t value)
{
	struct slot *slot = slot_at(value & OBJECT_INDEX_MASK);
	uint32_t generation = generation_in(value);
	uint64_t word;

	if (!slot || !generation || generation != value >> OBJECT_INDEX_BITS)
		return NULL;
	word = atomic_load_explicit(&slot->word, memory_order_acquire);
	do {
		if (generation_of(word) != generation)
			return NULL;
	} while (!atomic_compare_exchange_weak_explicit(&slot->word, &word, word + 1,
							memory_order_acquire,
							memory_order_acquire));
	return slot;
}

bool object_hold(struct object *object)
{
	return hold(object->handle);
}

void *object_get(VIP_PVOID handle, enum object_kind kind)
{
	uintptr_t value = (uintptr_t)handle;
	struct slot *slot = hold(value);
	struct object *object;

	if (!slot)
		return NULL;
	object = atomic_load_explicit(&slot->object, memory_order_relaxed);
	if (object->kind == kind)
		return object;
	object_put(object);
	return NULL;
}

void object_put(struct object *object)
{
	struct slot *slot = slot_at(index_of(object));
	uint64_t before = atomic_fetch_sub_explicit(&slot->word, 1, memory_order_acq_rel);

	if (generation_of(before))
		return;
	/* It is retired: a thread may wait in object_drain(). */
	pthread_mutex_lock(&table_lock);
	pthread_cond_broadcast(&reference_dropped);
	pthread_mutex_unlock(&table_lock);
}

bool object_is_live(VIP_PVOID handle, enum object_kind kind)
{
	struct object *object = object_get(handle, kind);

	if (object)
		object_put(object);
	return object;
}

bool object_retire(struct object *object)
{
	struct slot *slot = slot_at(index_of(object));
	uint64_t word = atomic_load(&slot->word);

	do {
		if (generation_of(word) != generation_in(object->handle))
			return false;
	} while (!atomic_compare_exchange_weak(&slot->word, &word, references(word)));
	return true;
}

bool object_retired(const struct object *object)
{
	struct slot *slot = slot_at(index_of(object));

	return generation_of(atomic_load_explicit(&slot->word, memory_order_relaxed)) !=
	       generation_in(object->handle);
}

VIP_RETURN object_unlock_bad_handle(struct lock *lock)
{
	lock_release(lock);
	return VIP_INVALID_PARAMETER;
}

void object_drain(struct object *object, unsigned own)
{
	uint32_t index = index_of(object);
	struct slot *slot = slot_at(index);

	pthread_mutex_lock(&table_lock);
	while (references(atomic_load_explicit(&slot->word, memory_order_acquire)) > own)
		pthread_cond_wait(&reference_dropped, &table_lock);
	atomic_store(&slot->word, 0);
	if (object->kind < OBJECT_TYPE_STABLE)
		set_place(object->kind, index, NULL);
	give_back_index(index);
	pthread_mutex_unlock(&table_lock);
}

void *object_allocate(enum object_kind kind, size_t size, bool *is_new)
{
	struct object *object;

	pthread_mutex_lock(&table_lock);
	object = unused[kind];
	if (object)
		unused[kind] = object->next_unused;
	pthread_mutex_unlock(&table_lock);
	*is_new = !object;
	if (!object)
		object = aligned_create(OBJECT_ALIGNMENT, size);
	if (object)
		object->kind = kind;
	return object;
}

void object_free(struct object *object)
{
	pthread_mutex_lock(&table_lock);
	object->next_unused = unused[object->kind];
	unused[object->kind] = object;
	pthread_mutex_unlock(&table_lock);
}
