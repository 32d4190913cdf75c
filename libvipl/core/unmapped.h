/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * While calls are traced: writes a line when the program unmaps memory that is registered. An RDMA device would silently
 * go on with the former pages.
 */
#ifndef VIPL_UNMAPPED_H
#define VIPL_UNMAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* One watched region; its owner embeds this. All zero: it is not watched. */
struct watched {
	LIST_ENTRY(watched) in_list;
	uintptr_t start, end;
	uint32_t handle;
	bool is_listed, is_told;
};

void unmapped_begin(struct watched *watched, const void *address, size_t length, uint32_t handle);
void unmapped_end(struct watched *watched);

#endif
