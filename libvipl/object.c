/*
 * The table of handles. Its slots are never freed, so a look-up needs no lock: one word per slot
 * holds the live generation (0: retired or free) and the number of references. A handle is a
 * generation and an index; of the generation it has 32 bits, or 12 where pointers have 32.
 *
 * A visit is a reference that is not counted: the thread only notes where it is, and who destroys
 * looks at all threads' notes.
 */
#include "object.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "fence.h"

#define INDEX_BITS  20
#define CHUNK_BITS  10
#define CHUNK_SLOTS (1u << CHUNK_BITS)
#define CHUNKS      (1u << (INDEX_BITS - CHUNK_BITS))
#define INDEX_MASK  ((1u << INDEX_BITS) - 1)
#define SPARE_BITS  (UINTPTR_MAX >> INDEX_BITS)
#define GENERATIONS (SPARE_BITS < UINT32_MAX ? SPARE_BITS : UINT32_MAX)
#define CACHE_LINE  64u
#define MOST_UNUSED 256u /* slots are left alone for a while before they are used again */

struct slot {
	_Atomic uint64_t word; /* generation << 32 | references */
	struct object *_Atomic object;
	uint32_t generation;
	uint32_t next_free;
};

static struct slot *_Atomic chunks[CHUNKS];

/* A thread's notes. They are never freed, and taken over by later threads. */
struct visitor {
	struct slot *_Atomic slot; /* where it is, or NULL */
	struct object *object;	   /* that it visits there, */
	uint32_t generation;	   /* and of which generation; its own, both */
	bool is_taken;
	struct visitor *next;
};

/* Of a thread without notes: as if it were on a visit already, of nothing. */
static struct slot nowhere;
static struct visitor no_notes = {.slot = &nowhere};

static _Thread_local struct visitor *visitor
	__attribute__((tls_model("initial-exec"))) = &no_notes;
static pthread_key_t visitor_key; /* tells when a thread ends */
static bool has_visitor_key;

/* Guards what follows, and the generation and next_free of free slots. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reference_dropped = PTHREAD_COND_INITIALIZER;
static uint32_t slots_made = 1; /* index 0 is never used: it ends the free list */
static uint32_t first_free, last_free, free_slots;
static struct visitor *visitors;

static struct slot *slot_at(uint32_t index)
{
	struct slot *chunk = atomic_load_explicit(&chunks[index >> CHUNK_BITS],
						  memory_order_acquire);

	return chunk ? &chunk[index & (CHUNK_SLOTS - 1)] : NULL;
}

static uint32_t generation_of(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static uint32_t index_of(const struct object *object)
{
	return object->handle & INDEX_MASK;
}

static uint32_t generation_in(uintptr_t handle)
{
	return (uint32_t)(handle >> INDEX_BITS);
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
	if (slots_made > INDEX_MASK)
		return free_slots ? take_oldest_free() : 0;
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
	/* Threads of the parent may have slept on it, and would be waited for. */
	reference_dropped = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	for (uint32_t index = 1; index < slots_made; index++)
		atomic_store(&slot_at(index)->word, 0);
	for (struct visitor *each = visitors; each; each = each->next) {
		atomic_store(&each->slot, NULL);
		each->is_taken = each == visitor;
	}
	fence_init();
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

static void end_visits(void *notes)
{
	struct visitor *ending = notes;

	pthread_mutex_lock(&table_lock);
	atomic_store(&ending->slot, NULL); /* it may have been cancelled on a visit */
	ending->is_taken = false;
	pthread_cond_broadcast(&reference_dropped);
	pthread_mutex_unlock(&table_lock);
	visitor = &no_notes;
}

/* For this thread; NULL when there is no memory. */
static struct visitor *take_notes(void)
{
	struct visitor *notes;

	if (!has_visitor_key) /* they would never be given back */
		return NULL;
	pthread_mutex_lock(&table_lock);
	for (notes = visitors; notes && notes->is_taken; notes = notes->next)
		;
	if (!notes) {
		notes = aligned_alloc(CACHE_LINE, CACHE_LINE);
		if (notes) {
			*notes = (struct visitor){.next = visitors};
			visitors = notes;
		}
	}
	if (notes && pthread_setspecific(visitor_key, notes))
		notes = NULL;
	if (notes)
		notes->is_taken = true;
	pthread_mutex_unlock(&table_lock);
	if (notes)
		visitor = notes;
	return notes;
}

static void prepare(void)
{
	fence_init();
	has_visitor_key = !pthread_key_create(&visitor_key, end_visits);
	pthread_atfork(lock_table, unlock_table, forget_all_handles);
}

int object_publish(struct object *object, enum object_kind kind)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct slot *slot;
	uint32_t index;

	pthread_once(&once, prepare);
	pthread_mutex_lock(&table_lock);
	index = take_free_index();
	if (!index) {
		pthread_mutex_unlock(&table_lock);
		return ENOMEM;
	}
	slot = slot_at(index);
	slot->generation = slot->generation % (GENERATIONS - 1) + 1; /* not 0, and not all ones */
	object->kind = kind;
	object->handle = (uintptr_t)slot->generation << INDEX_BITS | index;
	atomic_store_explicit(&slot->object, object, memory_order_relaxed);
	atomic_store_explicit(&slot->word, (uint64_t)slot->generation << 32, memory_order_release);
	pthread_mutex_unlock(&table_lock);
	return 0;
}

/* The slot that the handle names, with a reference; NULL when it is no live handle. */
static struct slot *hold(uintptr_t value)
{
	struct slot *slot = slot_at(value & INDEX_MASK);
	uint32_t generation = generation_in(value);
	uint64_t word;

	if (!slot || !generation || generation != value >> INDEX_BITS)
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

static void wake_drainers(void)
{
	pthread_mutex_lock(&table_lock);
	pthread_cond_broadcast(&reference_dropped);
	pthread_mutex_unlock(&table_lock);
}

void object_put(struct object *object)
{
	struct slot *slot = slot_at(index_of(object));
	uint64_t before = atomic_fetch_sub_explicit(&slot->word, 1, memory_order_acq_rel);

	if (!generation_of(before)) /* retired: somebody may wait in object_drain() */
		wake_drainers();
}

static __attribute__((noinline)) void *enter_slowly(uintptr_t value, enum object_kind kind)
{
	if (visitor == &no_notes && take_notes())
		return object_enter((VIP_PVOID)value, kind);
	return object_get((VIP_PVOID)value, kind); /* no memory, or this is a visit within one */
}

/* What was there is not what was to be visited. */
static __attribute__((noinline)) void *turn_back(struct visitor *notes)
{
	atomic_store_explicit(&notes->slot, NULL, memory_order_release);
	wake_drainers(); /* it may be about to go, and somebody wait for us */
	return NULL;
}

void *object_enter(VIP_PVOID handle, enum object_kind kind)
{
	uintptr_t value = (uintptr_t)handle;
	struct slot *slot = slot_at(value & INDEX_MASK);
	struct visitor *notes = visitor;
	struct object *object;
	uint64_t word;

	if (!slot)
		return NULL;
	if (atomic_load_explicit(&notes->slot, memory_order_relaxed))
		return enter_slowly(value, kind);
	atomic_store_explicit(&notes->slot, slot, memory_order_relaxed);
	fence_light(); /* object_drain() sees that, or we see that it was retired */
	word = atomic_load_explicit(&slot->word, memory_order_acquire);
	notes->generation = generation_of(word);
	if (!notes->generation || notes->generation != value >> INDEX_BITS)
		return turn_back(notes);
	object = atomic_load_explicit(&slot->object, memory_order_relaxed);
	if (object->kind != kind)
		return turn_back(notes);
	notes->object = object;
	return object;
}

void object_leave(struct object *object)
{
	struct visitor *notes = visitor;
	struct slot *slot;

	if (notes->object != object) {
		object_put(object);
		return;
	}
	slot = atomic_load_explicit(&notes->slot, memory_order_relaxed);
	notes->object = NULL;
	atomic_store_explicit(&notes->slot, NULL, memory_order_release);
	fence_light(); /* object_drain() sees that, or we see that it was retired */
	if (generation_of(atomic_load_explicit(&slot->word, memory_order_relaxed)) !=
	    notes->generation)
		wake_drainers();
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

static bool is_visited(const struct slot *slot)
{
	for (struct visitor *each = visitors; each; each = each->next)
		if (atomic_load_explicit(&each->slot, memory_order_acquire) == slot)
			return true;
	return false;
}

void object_drain(struct object *object, unsigned own)
{
	uint32_t index = index_of(object);
	struct slot *slot = slot_at(index);

	fence_heavy();
	pthread_mutex_lock(&table_lock);
	while (references(atomic_load_explicit(&slot->word, memory_order_acquire)) > own ||
	       is_visited(slot))
		pthread_cond_wait(&reference_dropped, &table_lock);
	atomic_store(&slot->word, 0);
	slot->next_free = 0;
	if (last_free)
		slot_at(last_free)->next_free = index;
	else
		first_free = index;
	last_free = index;
	free_slots++;
	pthread_mutex_unlock(&table_lock);
}
