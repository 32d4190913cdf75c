/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of a machine with many processors, for machines with few: what do threads cost each other by their caches?
 *
 * The compiler marks each access to memory (-fsanitize=thread), and this file is what it calls. Each thread has a clock. One
 * thread runs at a time, the one whose clock is behind, so threads come in the order that the clocks give. An access costs
 * next to nothing if the processor has the line, and the time of a transfer if another one has it. A store waits in a buffer.
 * A locked instruction, or a fence, waits for the buffer.
 *
 * What it leaves out: other work of instructions, accesses that overlap, prefetching, the size of caches, sockets, and
 * processors that run several threads. So ratios of two runs are worth something, and rates are not.
 */
#define _GNU_SOURCE
#include "processors.h"

#include <dlfcn.h>
#include <err.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Nanoseconds. */
#define HIT	 0.45 /* with the instructions around it */
#define CALL	 0.5
#define TRANSFER 90.0 /* a line that another processor has written */
#define SHARED	 40.0 /* one that others have only read */
#define BUFFERED 4.0  /* a store to a line that is not here */
#define LOCKED	 6.0
#define FENCED	 8.0
#define SLEEP	 55000.0 /* longer than a sleep was to be */
#define FUTEX	 1000.0
#define AHEAD	 15.0	 /* a thread goes on until it is so far ahead of another one */

#define MOST_THREADS 64
#define LINES	     (1u << 21)
#define SITES	     65536u
#define MAPPINGS     4096u
#define NEVER	     1e300

static struct thread {
	double now, drained; /* `drained`: its stores have reached their lines */
	sem_t turn;
	bool is_here;
} threads[MOST_THREADS];
static _Thread_local int self = -1;
static int count;
static atomic_int entered;
static bool has_begun;
static double next_turn; /* when the thread that is the most behind of the others is due */

static struct line {
	uint64_t key;
	uint64_t having; /* bits of the threads that have it */
	bool is_written;
	double free_at;
} *lines;

static struct site {
	const void *caller;
	uint64_t loads, stores; /* that missed */
} sites[MOST_THREADS][SITES];

static struct mapping {
	uint64_t start, end, file;
} mappings[MAPPINGS];
static unsigned mapped;

/* ---- whose turn it is ---- */

static int most_behind(int but)
{
	int found = -1;

	for (int i = 0; i < count; i++)
		if (i != but && threads[i].is_here && (found < 0 || threads[i].now < threads[found].now))
			found = i;
	return found;
}

static void begin_turn(int thread)
{
	int other = most_behind(thread);

	next_turn = other < 0 ? NEVER : threads[other].now;
}

static void pass_turn(void)
{
	int number = self, other = most_behind(self);

	begin_turn(other);
	sem_post(&threads[other].turn);
	sem_wait(&threads[number].turn);
	begin_turn(number);
}

static bool is_modelled(void)
{
	return self >= 0 && has_begun;
}

static void spend(double nsec)
{
	threads[self].now += nsec;
	if (threads[self].now > next_turn + AHEAD)
		pass_turn();
}

void processors_advance(double nsec)
{
	if (is_modelled())
		spend(nsec);
}

double processors_time(void)
{
	return threads[self].now;
}

/* ---- lines ---- */

/* Both ends of a connection map the same memory. */
static void find_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, offset, inode;
	char text[512], rights[8];

	while (maps && fgets(text, sizeof(text), maps) && mapped < MAPPINGS)
		if (sscanf(text, "%lx-%lx %7s %lx %*s %lu", &start, &end, rights, &offset, &inode) == 5 && rights[3] == 's')
			mappings[mapped++] = (struct mapping){start, end, (1ul << 63 | inode << 36) + offset};
	if (maps)
		fclose(maps);
}

static uint64_t place_of(uint64_t address)
{
	unsigned low = 0, high = mapped;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (mappings[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < mapped && mappings[low].start <= address)
		return mappings[low].file + address - mappings[low].start;
	return address;
}

static struct line *line_of(uint64_t address)
{
	uint64_t key = place_of(address) >> 6, at = key * 0x9e3779b97f4a7c15u >> 43;

	while (lines[at % LINES].key && lines[at % LINES].key != key)
		at++;
	lines[at % LINES].key = key;
	return &lines[at % LINES];
}

static struct site *site_of(const void *caller)
{
	uint64_t at = (uint64_t)(uintptr_t)caller * 0x9e3779b97f4a7c15u >> 48;

	while (sites[self][at % SITES].caller && sites[self][at % SITES].caller != caller)
		at++;
	sites[self][at % SITES].caller = caller;
	return &sites[self][at % SITES];
}

static double later(double a, double b)
{
	return a > b ? a : b;
}

static double load(struct line *line, const void *caller)
{
	struct thread *thread = &threads[self];
	uint64_t own = 1ul << self;
	double cost = HIT;

	if (!(line->having & own) && line->having) {
		cost = later(line->free_at - thread->now, 0) + (line->is_written ? TRANSFER : SHARED);
		site_of(caller)->loads++;
	}
	line->is_written &= line->having == own;
	line->having |= own;
	return cost;
}

static double store(struct line *line, bool is_locked, const void *caller)
{
	struct thread *thread = &threads[self];
	bool is_here = !(line->having & ~(1ul << self));
	double cost = is_locked ? LOCKED + later(thread->drained - thread->now, 0) : 0;

	line->having = 1ul << self;
	line->is_written = true;
	if (is_here)
		return cost + HIT;
	site_of(caller)->stores++;
	line->free_at = later(thread->now + cost, line->free_at) + TRANSFER;
	if (is_locked)
		return line->free_at - thread->now;
	thread->drained = line->free_at = later(thread->drained, line->free_at);
	return cost + BUFFERED;
}

enum access { LOAD, STORE, EXCHANGE };

static void touch(const volatile void *memory, size_t size, enum access access, const void *caller)
{
	uint64_t first = (uint64_t)(uintptr_t)memory;
	double cost = 0;

	if (!is_modelled())
		return;
	for (uint64_t at = first & ~63ul; at < first + size; at += 64)
		cost += access == LOAD ? load(line_of(at), caller) : store(line_of(at), access == EXCHANGE, caller);
	spend(cost);
}
#define TOUCH(memory, size, access) touch(memory, size, access, __builtin_return_address(0))

/* ---- threads ---- */

void processors_begin(int number)
{
	lines = calloc(LINES, sizeof(*lines));
	if (!lines || number > MOST_THREADS)
		errx(1, "too many threads, or no memory");
	count = number;
	for (int i = 0; i < number; i++)
		sem_init(&threads[i].turn, 0, 0);
	find_mappings();
}

void processors_enter(int number)
{
	threads[number].now = number;
	threads[number].is_here = true;
	if (atomic_fetch_add(&entered, 1) + 1 == count) {
		has_begun = true;
		sem_post(&threads[0].turn);
	}
	sem_wait(&threads[number].turn);
	begin_turn(number);
	self = number;
}

void processors_leave(void)
{
	int other = most_behind(self);

	threads[self].is_here = false;
	self = -1;
	if (other < 0)
		return;
	begin_turn(other);
	sem_post(&threads[other].turn);
}

void processors_print_misses(int number, double messages)
{
	for (int i = 0; i < number; i++)
		for (unsigned at = 0; at < SITES; at++)
			if (sites[i][at].caller)
				printf("%p %g %g\n", (const void *)((const char *)sites[i][at].caller - 1),
				       (double)sites[i][at].loads / messages, (double)sites[i][at].stores / messages);
}

/* ---- what the program calls ---- */

/* A rest of futex_rest() takes its time. Threads that wait for each other wait without end, or for seconds. */
static double futex_nsec(const long *words)
{
	const struct timespec *time = (const struct timespec *)words[3];

	return words[1] == FUTEX_WAIT_PRIVATE && time && !time->tv_sec ? (double)time->tv_nsec + SLEEP : FUTEX;
}

/* A thread that waits for another one would have the turn for ever. So it does not wait, and looks again. */
long syscall(long number, ...)
{
	long (*call)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	long words[6];
	va_list arguments;

	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		words[i] = va_arg(arguments, long);
	va_end(arguments);
	if (number != SYS_futex || !is_modelled())
		return call(number, words[0], words[1], words[2], words[3], words[4], words[5]);
	spend(futex_nsec(words));
	return 0;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int (*lock)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	int error;

	if (!is_modelled())
		return lock(mutex);
	while ((error = pthread_mutex_trylock(mutex)) == EBUSY)
		spend(PAUSE_NSEC);
	return error;
}

/* The library's own threads have no processors. They would do their work at times that have nothing to do with the clocks. */
int epoll_wait(int epoll, struct epoll_event *events, int most, int msec)
{
	int found = (int)syscall(SYS_epoll_pwait, epoll, events, most, msec, NULL, 0);

	while (has_begun && self < 0)
		pause();
	return found;
}

/* ---- what the compiler calls ---- */

void __tsan_init(void) {}
void __tsan_func_entry(void *caller)
{
	(void)caller;
	if (is_modelled())
		threads[self].now += CALL;
}
void __tsan_func_exit(void *caller) { (void)caller; }
void __tsan_read_range(void *at, size_t size) { TOUCH(at, size, LOAD); }
void __tsan_write_range(void *at, size_t size) { TOUCH(at, size, STORE); }
void __tsan_atomic_signal_fence(int order) { (void)order; }
void __tsan_atomic_thread_fence(int order)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (order == memory_order_seq_cst && is_modelled())
		spend(FENCED + later(threads[self].drained - threads[self].now, 0));
}

#define PLAIN(kind, size)                                                   \
	void __tsan_##kind##read##size(void *at) { TOUCH(at, size, LOAD); } \
	void __tsan_##kind##write##size(void *at) { TOUCH(at, size, STORE); }
#define PLAIN_OF(size) PLAIN(, size) PLAIN(unaligned_, size) PLAIN(volatile_, size)
PLAIN_OF(1) PLAIN_OF(2) PLAIN_OF(4) PLAIN_OF(8) PLAIN_OF(16)

#define CHANGE(bits, name)                                                                           \
	uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *at, uint##bits##_t value, int order) \
	{                                                                                            \
		(void)order;                                                                         \
		TOUCH(at, bits / 8, EXCHANGE);                                                       \
		return __atomic_##name(at, value, __ATOMIC_SEQ_CST);                                 \
	}
#define __atomic_exchange __atomic_exchange_n
#define COMPARE(bits, name)                                                                                \
	int __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t *at, uint##bits##_t *was, \
							  uint##bits##_t value, int order, int failed)      \
	{                                                                                                  \
		(void)order, (void)failed;                                                                 \
		TOUCH(at, bits / 8, EXCHANGE);                                                             \
		return __atomic_compare_exchange_n(at, was, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
	}
#define ATOMIC_OF(bits)                                                                                   \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order)           \
	{                                                                                                 \
		(void)order;                                                                              \
		TOUCH(at, bits / 8, LOAD);                                                                \
		return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                             \
	}                                                                                                 \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int order)    \
	{                                                                                                 \
		TOUCH(at, bits / 8, order == __ATOMIC_SEQ_CST ? EXCHANGE : STORE);                        \
		__atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                            \
	}                                                                                                 \
	CHANGE(bits, exchange) CHANGE(bits, fetch_add) CHANGE(bits, fetch_sub) CHANGE(bits, fetch_and)    \
	CHANGE(bits, fetch_or) CHANGE(bits, fetch_xor) COMPARE(bits, strong) COMPARE(bits, weak)
ATOMIC_OF(8) ATOMIC_OF(16) ATOMIC_OF(32) ATOMIC_OF(64)
