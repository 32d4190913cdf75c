/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a log line begins with.
 *
 * The C library converts times under a lock, which a child of fork() may find taken for ever. So it is asked once, for the
 * difference of local time from UTC, and the date is computed here. Each line has the difference, so it is right even after
 * summer time has begun.
 */
#include "log_stamp.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define DAY	      86400
#define PROGRAM_ROOM  33
#define DAYS_TO_1970  719468 /* from 1 March of year 0: a year that begins in March ends with its leap day */
#define DAYS_IN_400Y  146097
#define DAYS_IN_YEARS(years) (365 * (years) + (years) / 4 - (years) / 100 + (years) / 400)

static long seconds_east; /* written once, before the first line */

void log_stamp_look(void)
{
	const int before = errno;
	struct timespec now;
	struct tm local;

	if (!clock_gettime(CLOCK_REALTIME, &now) && localtime_r(&now.tv_sec, &local))
		seconds_east = local.tm_gmtoff;
	errno = before;
}

/* The year, month and day of a number of days since 1970. */
static void date_of(int64_t days, int *year, int *month, int *day)
{
	int64_t since = days + DAYS_TO_1970, years = since * 400 / DAYS_IN_400Y + 1;
	int in_year, from_march;

	while (DAYS_IN_YEARS(years) > since)
		years--;
	in_year = (int)(since - DAYS_IN_YEARS(years));
	from_march = (5 * in_year + 2) / 153; /* five months from March on have 153 days, and so have the next five */
	*day = in_year - (153 * from_march + 2) / 5 + 1;
	*month = from_march < 10 ? from_march + 3 : from_march - 9;
	*year = (int)years + (*month <= 2);
}

/* The program may have written to its name. */
static void copy_name(char name[PROGRAM_ROOM])
{
	const char *from = program_invocation_short_name;
	size_t i = 0;

	for (; i < PROGRAM_ROOM - 1 && from[i]; i++)
		name[i] = from[i] > ' ' && from[i] < 127 ? from[i] : '?';
	name[i] = '\0';
}

size_t log_stamp(char text[LOG_STAMP_ROOM], const struct timespec *now)
{
	const int64_t since_1970 = (int64_t)now->tv_sec + seconds_east;
	const int64_t local = since_1970 > 0 ? since_1970 : 0; /* a clock that nobody has set, west of Greenwich */
	const unsigned second = (unsigned)(local % DAY), east = (unsigned)labs(seconds_east) / 60;
	struct utsname host = {.nodename = "?"};
	char program[PROGRAM_ROOM];
	int year, month, day, length;

	uname(&host);
	copy_name(program);
	date_of(local / DAY, &year, &month, &day);
	length = snprintf(text, LOG_STAMP_ROOM, "%04d-%02d-%02dT%02u:%02u:%02u.%03u%c%02u:%02u %.64s %s[%d] ", year, month, day,
			  second / 3600, second / 60 % 60, second % 60, (unsigned)(now->tv_nsec / 1000000),
			  seconds_east < 0 ? '-' : '+', east / 60, east % 60, host.nodename, program, (int)getpid());
	return length < LOG_STAMP_ROOM ? (size_t)length : LOG_STAMP_ROOM - 1;
}
