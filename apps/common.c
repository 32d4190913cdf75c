#include "common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	const char *sense;
} codes[] = {
	[VIP_SUCCESS] = {"VIP_SUCCESS", "no error"},
	[VIP_NOT_DONE] = {"VIP_NOT_DONE", "not done yet"},
	[VIP_INVALID_PARAMETER] = {"VIP_INVALID_PARAMETER", "an argument is wrong or unknown"},
	[VIP_ERROR_RESOURCE] = {"VIP_ERROR_RESOURCE", "the system lacks something"},
	[VIP_TIMEOUT] = {"VIP_TIMEOUT", "no answer in time"},
	[VIP_REJECT] = {"VIP_REJECT", "the other side refused"},
	[VIP_INVALID_RELIABILITY_LEVEL] = {"VIP_INVALID_RELIABILITY_LEVEL",
					   "a reliability level that is not supported, or not the peer's"},
	[VIP_INVALID_MTU] = {"VIP_INVALID_MTU", "transfer sizes do not agree or are too large"},
	[VIP_INVALID_QOS] = {"VIP_INVALID_QOS", "qualities of service do not agree"},
	[VIP_INVALID_PTAG] = {"VIP_INVALID_PTAG", "unknown protection tag"},
	[VIP_INVALID_RDMAREAD] = {"VIP_INVALID_RDMAREAD", "RDMA read is not supported here"},
	[VIP_DESCRIPTOR_ERROR] = {"VIP_DESCRIPTOR_ERROR", "a descriptor ended with an error"},
	[VIP_INVALID_STATE] = {"VIP_INVALID_STATE", "not in this state of the VI"},
	[VIP_ERROR_NAMESERVICE] = {"VIP_ERROR_NAMESERVICE", "the name is unknown"},
	[VIP_NO_MATCH] = {"VIP_NO_MATCH", "the host is there, but nobody waits on it"},
	[VIP_NOT_REACHABLE] = {"VIP_NOT_REACHABLE", "no way to that address"},
	[VIP_ERROR_NOT_SUPPORTED] = {"VIP_ERROR_NOT_SUPPORTED", "not supported"},
};

static const size_t num_codes = sizeof(codes) / sizeof(codes[0]);

const char *return_name(VIP_RETURN code)
{
	return (size_t)code < num_codes ? codes[code].name : "unknown code";
}

static void vcomplain(const char *format, va_list args)
{
	fprintf(stderr, "%s: ", program_name);
	vfprintf(stderr, format, args);
}

void complain_code(VIP_RETURN code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vcomplain(format, args);
	va_end(args);

	if ((size_t)code < num_codes)
		fprintf(stderr, ": %s (%s)\n", codes[code].name, codes[code].sense);
	else
		fprintf(stderr, ": unknown code %u\n", (unsigned int)code);
}

void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vcomplain(format, args);
	va_end(args);
	fputc('\n', stderr);
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
 * VI host addresses have no structure that the standard tells of. Here those
 * of 6 bytes start with an IPv4 address, and those of 16 are IPv6.
 */
const char *host_text(const uint8_t *host, size_t len, char text[ADDRESS_TEXT_MAX])
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

	/* strtoul would take " 1" and "-1" for numbers. */
	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || value < min || value > max)
		return -1;
	*number = value;
	return 0;
}
