/* SPDX-License-Identifier: BSD-2-Clause */
/* The one table of settings; unknown VIPL_ variables and values are warned about. */
#include "config.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "standard_error.h"

#define PREFIX "VIPL_"
#define PLAIN  ",plain" /* behind the level of VIPL_LOG: lines without stamps */

static struct config current = {.hosts = "/etc/vip_hosts"};

static const struct setting {
	const char *name;
	const char *words; /* for an enumeration: its words, in order; NULL: a number */
	char *text;        /* for text: where it goes */
	unsigned *number;
	unsigned initial, most;
} settings[] = {
	{"LOG", "error warning info debug", NULL, &current.log_level, 1, 3},
	{"GRACE_MSEC", NULL, NULL, &current.grace_msec, 5000, 3600000},
	{"SPIN_USEC", NULL, NULL, &current.spin_usec, 20, 1000000},
	{"KEEPALIVE_SEC", NULL, NULL, &current.keepalive_sec, 7, 3600},
	{"PROGRESS", "off on", NULL, &current.progress, 0, 1},
	{"NIC_MAP", NULL, current.nic_map, NULL, 0, sizeof(current.nic_map) - 1},
	{"ADDRESS_BYTES", "6 16", NULL, &current.long_addresses, 0, 1},
	{"LO_COPY", "direct ring", NULL, &current.lo_copy, LO_COPY_DIRECT, 1},
	{"LO_USERS", NULL, current.lo_users, NULL, 0, sizeof(current.lo_users) - 1},
	{"HOSTS", NULL, current.hosts, NULL, 0, sizeof(current.hosts) - 1},
	{"TRACE", NULL, current.trace, NULL, 0, sizeof(current.trace) - 1},
	{"TRACE_MIB", NULL, NULL, &current.trace_mib, 256, 1048576},
	/* Read by our test programs, not by the library. */
	{"TEST_NIC", NULL, NULL, NULL, 0, 0},
	{"TEST_LEVELS", NULL, NULL, NULL, 0, 0},
};

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

/* log.c needs the settings, so they cannot need it. */
static __attribute__((format(printf, 1, 2))) void warn(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	standard_error_line("warning", format, args);
	va_end(args);
}

/* Where ",plain" begins, or the end. */
static size_t plain_at(const char *value)
{
	size_t length = strlen(value);
	bool is_plain = length >= strlen(PLAIN) && !strcmp(value + length - strlen(PLAIN), PLAIN);

	return is_plain ? length - strlen(PLAIN) : length;
}

static int word_index(const char *words, const char *value, size_t length)
{
	int index = 0;

	for (; *words; words += strcspn(words, " "), words += strspn(words, " "), index++)
		if (length && strcspn(words, " ") == length && !strncmp(words, value, length))
			return index;
	return -1;
}

static void read_setting(const struct setting *setting, const char *value)
{
	unsigned long number;
	char *end;

	if (setting->text) {
		if (strlen(value) > setting->most)
			warn("%s%s is too long, ignored", PREFIX, setting->name);
		else
			strcpy(setting->text, value);
		return;
	}
	if (!setting->number)
		return;
	if (setting->words) {
		size_t plain = setting->number == &current.log_level ? plain_at(value) : strlen(value);
		int index = word_index(setting->words, value, plain);

		if (index >= 0) {
			*setting->number = (unsigned)index;
			return;
		}
		warn("%s%s=%s ignored: one of: %s", PREFIX, setting->name, value, setting->words);
		return;
	}
	number = strtoul(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || number > setting->most)
		warn("%s%s=%s ignored: a number from 0 to %u", PREFIX, setting->name, value, setting->most);
	else
		*setting->number = (unsigned)number;
}

static void read_variable(const char *variable)
{
	const char *name = variable + strlen(PREFIX), *value = strchr(variable, '=');

	for (size_t i = 0; value && i < SETTINGS; i++) {
		if (strlen(settings[i].name) == (size_t)(value - name) &&
		    !strncmp(settings[i].name, name, (size_t)(value - name))) {
			read_setting(&settings[i], value + 1);
			return;
		}
	}
	warn("%.*s: unknown setting, ignored", (int)strcspn(variable, "="), variable);
}

static void read_environment(void)
{
	const char *log = getauxval(AT_SECURE) ? NULL : getenv(PREFIX "LOG");

	standard_error_look();
	if (!log || plain_at(log) == strlen(log))
		standard_error_stamp();
	for (size_t i = 0; i < SETTINGS; i++)
		if (settings[i].number)
			*settings[i].number = settings[i].initial;
	for (char **variable = environ; variable && *variable; variable++) {
		if (strncmp(*variable, PREFIX, strlen(PREFIX)))
			continue;
		if (getauxval(AT_SECURE)) {
			warn("all " PREFIX " settings are ignored: this program has more privileges than its caller");
			return;
		}
		read_variable(*variable);
	}
}

const struct config *config(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_environment);
	return &current;
}
