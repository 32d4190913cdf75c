/*
 * The table of handles. Its slots are never freed, so a look-up needs no lock: one word per slot
 * holds the live handle (0: retired or free) and the number of references.
 */
#include "object.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define INDEX_BITS  20
#define CHUNK_BITS  10
#define CHUNK_SLOTS (1u << CHUNK_BITS)
#define CHUNKS      (1u << (INDEX_BITS - CHUNK_BITS))
#define INDEX_MASK  ((1u << INDEX_BITS) - 1)

struct slot {
	_Atomic uint64_t word; /* handle << 32 | references */
	struct object *_Atomic object;
	uint32_t generation;
	uint32_t next_free;
};

static struct slot *_Atomic chunks[CHUNKS];

/* Guards what follows, and the generation and next_free of free slots. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reference_dropped = PTHREAD_COND_INITIALIZER;
static uint32_t slots_made = 1; /* index 0 is never used: it ends the free list */
static uint32_t first_free, last_free;

static struct slot *slot_at(uint32_t index)
{
	struct slot *chunk = atomic_load_explicit(&chunks[index >> CHUNK_BITS],
						  memory_order_acquire);

	return chunk ? &chunk[index & (CHUNK_SLOTS - 1)] : NULL;
}

static uint32_t handle_of(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static uint32_t references(uint64_t word)
{
	return (uint32_t)word;
}

/* The oldest free slot, so that a stale handle stays invalid for long; or a new one; or 0. */
static uint32_t take_free_index(void)
{
	uint32_t index = first_free;

	if (index) {
		first_free = slot_at(index)->next_free;
		if (!first_free)
			last_free = 0;
		return index;
	}
	if (slots_made > INDEX_MASK)
		return 0;
	index = slots_made;
	if (!slot_at(index)) {
		struct slot *chunk = calloc(CHUNK_SLOTS, sizeof(*chunk));

		if (!chunk)
			return 0;
		atomic_store_explicit(&chunks[index >> CHUNK_BITS], chunk, memory_order_release);
	}
	slots_made++;
	return index;
}

/* In a child of fork() the parent's handles name nothing: its threads and devices are not there. */
static void forget_all_handles(void)
{
	for (uint32_t index = 1; index < slots_made; index++)
		atomic_store(&slot_at(index)->word, 0);
	pthread_mutex_unlock(&table_lock);
}

static void lock_table(void)
{
	pthread_mutex_lock(&table_lock);
}

static void unlock_table(void)
{
	pthread_mutex_unlock(&table_lock);
}

static void watch_forks(void)
{
	pthread_atfork(lock_table, unlock_table, forget_all_handles);
}

int object_publish(struct object *object, enum object_kind kind)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct slot *slot;
	uint32_t index;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&table_lock);
	index = take_free_index();
	if (!index) {
		pthread_mutex_unlock(&table_lock);
		return ENOMEM;
	}
	slot = slot_at(index);
	slot->generation = slot->generation % 0xFFE + 1; /* never 0, and never all ones */
	object->kind = kind;
	object->handle = slot->generation << INDEX_BITS | index;
	atomic_store_explicit(&slot->object, object, memory_order_relaxed);
	atomic_store_explicit(&slot->word, (uint64_t)object->handle << 32, memory_order_release);
	pthread_mutex_unlock(&table_lock);
	return 0;
}

/* The slot that the handle names, with a reference; NULL when it is no live handle. */
static struct slot *hold(uintptr_t value)
{
	struct slot *slot = slot_at(value & INDEX_MASK);
	uint64_t word;

	if (!slot)
		return NULL;
	word = atomic_load_explicit(&slot->word, memory_order_acquire);
	do {
		if (handle_of(word) != value)
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
	struct slot *slot = value && value <= UINT32_MAX ? hold(value) : NULL;
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
	struct slot *slot = slot_at(object->handle & INDEX_MASK);
	uint64_t before = atomic_fetch_sub_explicit(&slot->word, 1, memory_order_acq_rel);

	if (!handle_of(before)) { /* retired: somebody may wait in object_drain() */
		pthread_mutex_lock(&table_lock);
		pthread_cond_broadcast(&reference_dropped);
		pthread_mutex_unlock(&table_lock);
	}
}

bool object_retire(struct object *object)
{
	struct slot *slot = slot_at(object->handle & INDEX_MASK);
	uint64_t word = atomic_load(&slot->word);

	do {
		if (handle_of(word) != object->handle)
			return false;
	} while (!atomic_compare_exchange_weak(&slot->word, &word, references(word)));
	return true;
}

bool object_retired(const struct object *object)
{
	struct slot *slot = slot_at(object->handle & INDEX_MASK);

	return handle_of(atomic_load_explicit(&slot->word, memory_order_relaxed)) != object->handle;
}

void object_drain(struct object *object, unsigned own)
{
	uint32_t index = object->handle & INDEX_MASK;
	struct slot *slot = slot_at(index);

	pthread_mutex_lock(&table_lock);
	while (references(atomic_load_explicit(&slot->word, memory_order_acquire)) > own)
		pthread_cond_wait(&reference_dropped, &table_lock);
	atomic_store(&slot->word, 0);
	slot->next_free = 0;
	if (last_free)
		slot_at(last_free)->next_free = index;
	else
		first_free = index;
	last_free = index;
	pthread_mutex_unlock(&table_lock);
}
