/* SPDX-License-Identifier: BSD-2-Clause */
#include "long_sleeps.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/thread.h"

#define LONG_SEC 20
#define REST_NSEC 50000 /* of a thread that rests alone: cq_tenant.c. Who waits for a lock sleeps for no multiple of it. */

static atomic_bool lasts;
static _Atomic unsigned sleepers, begun, in_vain;
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
	struct timespec time = {.tv_sec = LONG_SEC};
	long arguments[6], result;
	bool is_sleep, is_long;
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	note_rest(number, arguments);
	is_sleep = number == SYS_futex && (int)arguments[1] == FUTEX_WAIT;
	is_long = is_sleep && lasts && ((const struct timespec *)arguments[3])->tv_sec;
	if (is_long)
		arguments[3] = (long)&time;
	sleepers += is_sleep;
	begun += is_sleep;
	result = __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
				arguments[5]);
	sleepers -= is_sleep;
	in_vain += is_long && result < 0 && errno == ETIMEDOUT;
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
