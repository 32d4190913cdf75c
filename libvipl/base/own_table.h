/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of descriptors that belong to one thread. */
#ifndef VIPL_OWN_TABLE_H
#define VIPL_OWN_TABLE_H

#include <stdbool.h>

/*
 * Gives the calling thread its own copy of the table of descriptors. What it opens and closes from now on does not concern
 * other threads. False if the kernel cannot. `fds`: those that it needs, one at least, in ascending order.
 */
bool own_table_make(const int *fds, unsigned count);
/* Closes all descriptors in the thread's table but these. With files of some file systems that takes time. */
void own_table_keep(const int *fds, unsigned count);

#endif
