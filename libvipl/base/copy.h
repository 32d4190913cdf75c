/* SPDX-License-Identifier: BSD-2-Clause */
/* Access to memory that a program or a peer may access at the same time. */
#ifndef VIPL_COPY_H
#define VIPL_COPY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Memory that another process may change at any time is read once, and the copy is checked. */
#define READ_ONCE(member) (*(const volatile __typeof__(member) *)&(member))

#ifdef __SANITIZE_THREAD__
#define UNSEEN __attribute__((no_sanitize("thread"), optimize("no-tree-loop-distribute-patterns")))
#define ORDERED_TAIL SIZE_MAX
#else
#define UNSEEN
#define ORDERED_TAIL 64u
#endif

/*
 * Copies the end of a message in ascending order, each aligned word by one store. A program that sees the last byte, and
 * reads in order, sees what came before it, on any processor: litmus/last_bytes. On x86 plain stores are in order.
 */
#if defined(__x86_64__) || defined(__i386__)
#define STORE_IN_ORDER(type, to, value) (*(volatile type *)(to) = (value))
#else
#define STORE_IN_ORDER(type, to, value) __atomic_store_n((volatile type *)(to), value, __ATOMIC_RELEASE)
#endif
UNSEEN static inline void copy_tail(volatile uint8_t *to, const uint8_t *from, size_t length)
{
	size_t i = 0;

	if ((uintptr_t)to % sizeof(uint64_t) == 0) /* as it mostly is */
		for (; length - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
			uint64_t word;

			__builtin_memcpy(&word, from + i, sizeof(word));
			STORE_IN_ORDER(uint64_t, to + i, word);
		}
	for (size_t step; i < length; i += step) {
		uintptr_t place = (uintptr_t)(to + i);
		uint64_t word;
		uint32_t half;

		if (place % sizeof(word) == 0 && length - i >= sizeof(word)) {
			step = sizeof(word);
			__builtin_memcpy(&word, from + i, step);
			STORE_IN_ORDER(uint64_t, to + i, word);
		} else if (place % sizeof(half) == 0 && length - i >= sizeof(half)) {
			step = sizeof(half);
			__builtin_memcpy(&half, from + i, step);
			STORE_IN_ORDER(uint32_t, to + i, half);
		} else {
			step = 1;
			STORE_IN_ORDER(uint8_t, to + i, from[i]);
		}
	}
}

/*
 * To and from memory of the program. A program may watch its memory for what a NIC writes there, without a lock. The thread
 * sanitizer would not see an adapter's accesses, so it must not see these. Programs watch the last bytes, which are written
 * last.
 */
UNSEEN static inline void copy_unseen(void *to, const void *from, size_t length)
{
	size_t before = length > ORDERED_TAIL ? length - ORDERED_TAIL : 0;

	/* Not all by memcpy(), which may write the last bytes first. */
	if (before)
		memcpy(to, from, before);
	atomic_thread_fence(memory_order_release);
	copy_tail((uint8_t *)to + before, (const uint8_t *)from + before, length - before);
}

/* Out of the program's memory, in any order. */
static inline void copy_out(void *to, const void *from, size_t length)
{
#ifdef __SANITIZE_THREAD__
	copy_unseen(to, from, length);
#else
	memcpy(to, from, length);
#endif
}

/* Copies a few bytes without a call, in words. The last word may overlap with the one before. */
static inline void copy_out_short(uint8_t *to, const uint8_t *from, size_t length)
{
#ifdef __SANITIZE_THREAD__
	copy_unseen(to, from, length);
#else
	if (length >= 8) {
		for (size_t i = 0; i < length - 8; i += 8)
			__builtin_memcpy(to + i, from + i, 8);
		__builtin_memcpy(to + length - 8, from + length - 8, 8);
		return;
	}
	for (size_t i = 0; i < length; i++)
		to[i] = from[i];
#endif
}

#undef STORE_IN_ORDER
#undef UNSEEN
#undef ORDERED_TAIL

#endif
