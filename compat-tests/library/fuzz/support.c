/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads inputs and fails, and stands in for the parts of libvipl/base that the device needs. */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/config.h"
#include "base/log.h"
#include "base/standard_error.h"
#include "fuzz.h"

static struct config settings;

_Noreturn void fuzz_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	abort();
}

void take_bytes(struct input *input, void *to, size_t length)
{
	size_t here = length < input->size ? length : input->size;

	memset(to, 0, length);
	if (!here)
		return;
	memcpy(to, input->data, here);
	input->data += here;
	input->size -= here;
}

#define TAKE(bits)                                        \
	uint##bits##_t take##bits(struct input *input)    \
	{                                                 \
		uint##bits##_t value;                     \
                                                          \
		take_bytes(input, &value, sizeof(value)); \
		return value;                             \
	}
TAKE(8)
TAKE(16)
TAKE(32)
TAKE(64)

unsigned take_below(struct input *input, unsigned count)
{
	return take8(input) % count;
}

uint32_t take_length(struct input *input)
{
	static const uint32_t limits[] = {0,         MESSAGE_INLINE, 0x2000,    LANE_PIECE, 2 * LANE_PIECE,
					  LANE_RING, 0x800000,       0x80000000};
	uint8_t kind = take8(input);

	switch (kind >> 6) {
	case 0:
		return kind & 63;
	case 1:
		return take16(input);
	case 2:
		return limits[kind >> 3 & 7] + (kind & 7) - 3;
	default:
		return kind & 1 ? take32(input) : take16(input) * 3u;
	}
}

void fuzz_configure(bool one_copy, const char *users)
{
	settings.lo_copy = one_copy ? LO_COPY_DIRECT : LO_COPY_RING;
	snprintf(settings.lo_users, sizeof(settings.lo_users), "%s", users);
}

const struct config *config(void)
{
	return &settings;
}

/* Formats every message, so that a sanitizer finds a wrong argument. Prints it if FUZZ_LOG is set. */
void log_message(enum log_level level, const char *format, ...)
{
	char text[512];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	if (getenv("FUZZ_LOG"))
		fprintf(stderr, "log %d: %s\n", (int)level, text);
}

bool log_is_due(_Atomic int64_t *next)
{
	(void)next;
	return true;
}

void device_wake(struct nic *nic)
{
	(void)nic;
}

/* No peer can cause it. */
void device_lost(struct nic *nic, const char *call, int error)
{
	(void)nic;
	(void)call;
	(void)error;
	check(false);
}

void standard_error_look(void)
{
}

/* At once, so that the number of descriptors can be checked. */
void closer_take(int fd, uid_t user, bool is_received)
{
	(void)is_received;
	(void)user;
	close(fd);
}

bool closer_admits(uid_t user)
{
	(void)user;
	return true;
}

bool closer_is_busy(void)
{
	return false;
}

unsigned fuzz_descriptors(bool inheritable)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned count = 0;

	check(directory);
	while ((entry = readdir(directory))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || fd == dirfd(directory))
			continue;
		count += !inheritable || !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	closedir(directory);
	return count;
}
