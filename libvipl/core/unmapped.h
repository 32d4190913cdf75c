/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * While calls are traced: tells in the trace of memory that the program unmaps although it has it
 * registered. An RDMA device goes on with the pages that were there before, silently.
 */
#ifndef VIPL_UNMAPPED_H
#define VIPL_UNMAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* A watched region; its owner has this in it. All zero: it is not watched. */
struct watched {
	LIST_ENTRY(watched) in_list;
	uintptr_t start, end;
	uint32_t handle;
	bool is_listed, is_told;
};

void unmapped_begin(struct watched *watched, const void *address, size_t length, uint32_t handle);
void unmapped_end(struct watched *watched);

#endif
