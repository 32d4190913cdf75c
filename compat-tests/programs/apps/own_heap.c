/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For a puppet with an allocator of 1999: it has no posix_memalign() and no aligned_alloc(), so memory of these is the C
 * library's. The allocator does not bear to be given that. It frees nothing.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char heap[256 << 20];
static size_t used = 16;

static void *take(size_t alignment, size_t size)
{
	size_t room = 2 * sizeof(size_t) + alignment + size;
	char *at = heap + __atomic_fetch_add(&used, room, __ATOMIC_RELAXED);

	if (at + room > heap + sizeof(heap))
		return NULL;
	at = (char *)(((uintptr_t)at + 2 * sizeof(size_t) + alignment - 1) & -alignment);
	((size_t *)at)[-1] = size;
	return at;
}

void *malloc(size_t size)
{
	return take(16, size);
}

void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size)
{
	return take(alignment, size);
}

void *calloc(size_t count, size_t size)
{
	return take(16, count * size); /* no memory is used a second time */
}

void free(void *memory)
{
	static const char words[] = "free() of memory that this allocator has not given\n";

	if (!memory || ((char *)memory >= heap && (char *)memory < heap + sizeof(heap)))
		return;
	if (write(STDERR_FILENO, words, sizeof(words) - 1) < 0)
		_exit(9);
	abort();
}

void *realloc(void *memory, size_t size)
{
	void *larger = take(16, size);
	size_t before = memory ? ((size_t *)memory)[-1] : 0;

	if (larger && memory)
		memcpy(larger, memory, before < size ? before : size);
	free(memory);
	return larger;
}
