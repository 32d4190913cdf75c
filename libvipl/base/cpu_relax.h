/* SPDX-License-Identifier: BSD-2-Clause */
/* Between two looks of a thread that spins. */
#ifndef VIPL_CPU_RELAX_H
#define VIPL_CPU_RELAX_H

/* The compiler reads memory anew after it. The processor leaves more to others meanwhile, where it has a way to say so. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__asm__ volatile("pause" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
