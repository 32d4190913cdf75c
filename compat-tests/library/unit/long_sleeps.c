/* SPDX-License-Identifier: BSD-2-Clause */
#include "long_sleeps.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/futex.h"
#include "base/thread.h"

#define LONG_SEC 20
#define REST_NSEC 50000 /* of a thread that rests alone: cq_tenant.c. Who waits for a lock sleeps for no multiple of it. */

static atomic_bool lasts;
static _Atomic unsigned sleepers, begun, in_vain, at_several;
static _Atomic unsigned rests, lock_rests;
static _Atomic long rested;

void sleep_long(bool is_long)
{
	lasts = is_long;
	in_vain = 0;
}

unsigned long_sleepers(void)
{
	return sleepers;
}

static atomic_bool holds, is_held;
static _Atomic unsigned goes_on_at;

void notifier_hold(void)
{
	holds = true;
}

bool notifier_is_held(void)
{
	return is_held;
}

void notifier_go_on(unsigned word)
{
	goes_on_at = word;
	holds = false;
}

/* Returns the word. */
static long stay_while_held(long word)
{
	const struct timespec look = {.tv_nsec = 1000000};

	if (!holds)
		return word;
	is_held = true;
	while (holds)
		nanosleep(&look, NULL);
	is_held = false;
	return goes_on_at;
}

/* A notifier's own word, and its value when it fell asleep. */
static const _Atomic uint32_t *_Atomic own_word;
static _Atomic uint32_t own_value;

unsigned notifier_sleeps(void)
{
	return at_several && *own_word == own_value ? at_several : 0;
}

static void note_sleep(const struct futex_word *words, long count)
{
	own_word = (const _Atomic uint32_t *)(uintptr_t)words->address;
	own_value = (uint32_t)words->value;
	at_several = (unsigned)count - 1;
}

unsigned sleeps_begun(void)
{
	return begun;
}

unsigned sleeps_in_vain(void)
{
	return in_vain;
}

static void note_rest(long number, const long *arguments)
{
	const struct timespec *time = (const struct timespec *)arguments[3];

	if (number != SYS_futex || (int)arguments[1] != FUTEX_WAIT_PRIVATE || !time || time->tv_sec)
		return;
	if (time->tv_nsec % REST_NSEC) {
		lock_rests += !thread_is_library;
		return;
	}
	rests++;
	rested += time->tv_nsec;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
	struct timespec time = {.tv_sec = LONG_SEC}, until;
	bool is_several;
	long arguments[6], result;
	bool is_sleep, is_long;
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	note_rest(number, arguments);
	is_several = number == SYS_futex_waitv && arguments[1];
	is_sleep = number == SYS_futex && (int)arguments[1] == FUTEX_WAIT;
	is_long = (is_several || is_sleep) && lasts && (is_several || ((const struct timespec *)arguments[3])->tv_sec);
	if (is_long && is_several) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += LONG_SEC;
	}
	if (is_long)
		arguments[3] = is_several ? (long)&until : (long)&time;
	sleepers += is_sleep;
	if (is_several)
		note_sleep((const struct futex_word *)arguments[0], arguments[1]);
	begun += is_sleep;
	result = __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
				arguments[5]);
	sleepers -= is_sleep;
	if (is_several)
		at_several = 0;
	in_vain += is_long && result < 0 && errno == ETIMEDOUT;
	if (is_several && result >= 0)
		result = stay_while_held(result);
	return result;
}

unsigned tenant_rests(void)
{
	return rests;
}

unsigned lock_rests_of_program(void)
{
	return lock_rests;
}

long tenant_rest_nsec(void)
{
	return rested;
}
