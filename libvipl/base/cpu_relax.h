/* SPDX-License-Identifier: BSD-2-Clause */
/* A pause between two looks of a thread that spins. */
#ifndef VIPL_CPU_RELAX_H
#define VIPL_CPU_RELAX_H

/* The compiler reads memory anew after it. The processor leaves resources to other threads, if it has such an instruction. */
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
