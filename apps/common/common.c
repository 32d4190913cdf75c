/* SPDX-License-Identifier: BSD-2-Clause */
#include "common.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vipl_names.h>

static const struct {
	const char *name;
	const char *sense;
} codes[] = {
#define CODE(name, sense) [name] = {#name, sense},
	VIPL_RESULTS(CODE)
#undef CODE
};

static const size_t num_codes = sizeof(codes) / sizeof(codes[0]);

const char *return_name(VIP_RETURN code)
{
	return (size_t)code < num_codes ? codes[code].name : "unknown code";
}

const char *status_error(VIP_UINT32 status)
{
#define CHECK(name, sense)              \
	if (status & VIP_STATUS_##name) \
		return "VIP_STATUS_" #name " (" sense ")";
	VIPL_STATUS_ERRORS(CHECK)
#undef CHECK
	return "no error";
}

/* "flushed" of DESC_FLUSHED_ERROR, "rdma-prot" of RDMA_PROT_ERROR. Returns the end of the text. */
static char *add_word(char *text, const char *name)
{
	const char *from = strncmp(name, "DESC_", 5) ? name : name + 5, *end = strstr(name, "_ERROR");

	for (*text++ = ' '; from < end; ++from)
		*text++ = *from == '_' ? '-' : (char)tolower((unsigned char)*from);
	*text = '\0';
	return text;
}

const char *status_words(VIP_UINT32 status, char text[STATUS_TEXT_MAX])
{
	static const char *const operations[] = {"send", "receive", "rdma-write", "remote-rdma-write", "rdma-read", "5", "6", "7"};
	char *end = text + sprintf(text, "0x%x: op=%s", status, operations[(status & VIP_STATUS_OP_MASK) / VIP_STATUS_OP_RECEIVE]);

	if (status & VIP_STATUS_DONE)
		end += sprintf(end, " done");
	if (status & VIP_STATUS_IMMEDIATE)
		end += sprintf(end, " immediate");
#define WORD(name, sense)               \
	if (status & VIP_STATUS_##name) \
		end = add_word(end, #name);
	VIPL_STATUS_ERRORS(WORD)
#undef WORD
	if (status & VIP_STATUS_RESERVED)
		sprintf(end, " reserved=0x%x", status & VIP_STATUS_RESERVED);
	return text;
}

/* Prints one line in one write(), so that lines of several processes do not mix. `end` follows the message. */
__attribute__((format(printf, 2, 0))) static void vcomplain(const char *end, const char *format,
							    va_list args)
{
	char *message, *line;

	if (vasprintf(&message, format, args) < 0)
		return;
	if (asprintf(&line, "%s: %s%s\n", program_name, message, end) >= 0) {
		fputs(line, stderr);
		free(line);
	}
	free(message);
}

void complain_code(VIP_RETURN code, const char *format, ...)
{
	char end[160];
	va_list args;

	if ((size_t)code < num_codes)
		snprintf(end, sizeof(end), ": %s (%s)", codes[code].name, codes[code].sense);
	else
		snprintf(end, sizeof(end), ": unknown code %u", (unsigned int)code);
	va_start(args, format);
	vcomplain(end, format, args);
	va_end(args);
}

void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vcomplain("", format, args);
	va_end(args);
}

void hold_standard_files(void)
{
	int file;

	do
		file = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (file >= 0 && file <= STDERR_FILENO);
	if (file >= 0)
		close(file);
}

int status_with_output(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	complain("cannot write to the standard output");
	return status ? status : EXIT_FAILED;
}

const char *hex_text(const uint8_t *bytes, size_t len, char text[ADDRESS_TEXT_MAX])
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < len && used + 3 < ADDRESS_TEXT_MAX; ++i)
		used += (size_t)snprintf(text + used, ADDRESS_TEXT_MAX - used, "%s%02x",
					 i ? ":" : "", bytes[i]);
	return text;
}

/*
 * The standard does not define the structure of a host address. Here 6 bytes start with an IPv4 address, and
 * 16 bytes are an IPv6 address.
 */
const char *host_name_text(const uint8_t *host, size_t len, char text[ADDRESS_TEXT_MAX])
{
	if (len == 6 && inet_ntop(AF_INET, host, text, ADDRESS_TEXT_MAX))
		return text;
	if (len == 16 && inet_ntop(AF_INET6, host, text, ADDRESS_TEXT_MAX))
		return text;
	return hex_text(host, len, text);
}

int parse_number(const char *text, unsigned long min, unsigned long max, unsigned long *number)
{
	unsigned long value;
	char *end;

	/* strtoul() would accept " 1" and "-1". */
	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || value < min || value > max)
		return -1;
	*number = value;
	return 0;
}
