/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of descriptors that belong to one thread. */
#ifndef VIPL_OWN_TABLE_H
#define VIPL_OWN_TABLE_H

#include <stdbool.h>

/*
 * Gives the calling thread a table of descriptors of its own, a copy. What it opens and closes from now on is not the other
 * threads' matter. False if the kernel cannot. `fds`: the ones that it is for, in ascending order; there is at least one.
 */
bool own_table_make(const int *fds, unsigned count);
/* Closes all descriptors in the thread's table but these. With files of some file systems that takes time. */
void own_table_keep(const int *fds, unsigned count);

#endif
