/* SPDX-License-Identifier: BSD-2-Clause */
/* Imagined processors with caches: processors.c. Each file of the library is compiled with this before it. */
#ifndef PROCESSORS_H
#define PROCESSORS_H

#include <stdint.h>

void processors_advance(double nsec);

/* In place of base/cpu_relax.h. */
#define VIPL_CPU_RELAX_H
#define PAUSE_NSEC 43.0
static inline void cpu_relax(void)
{
	__asm__ volatile("" ::: "memory");
	processors_advance(PAUSE_NSEC);
}

/* All that threads share is mapped by now. So many threads follow, and each begins with processors_enter(). */
void processors_begin(int threads);
/* The thread has the processor of this number, and its time, until it leaves. */
void processors_enter(int number);
void processors_leave(void);
/* Nanoseconds since the processors began. */
double processors_time(void);
/* Prints where the first threads miss lines: of loads and of stores, for each of `messages`, and the place in the program. */
void processors_print_misses(int threads, double messages);

#endif
