/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that the example programs share: names of return codes, texts of addresses. */
#ifndef VIP_APPS_COMMON_H
#define VIP_APPS_COMMON_H

#include <stddef.h>
#include <stdint.h>

#include <vipl.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
};

/* The size of a buffer for the text of an address: "aa:bb:... (dotted quad)". */
#define ADDRESS_TEXT_MAX 128

/* The name that the programs put in front of their messages. */
extern const char *program_name;

/* Returns "VIP_TIMEOUT" and the like. */
const char *return_name(VIP_RETURN code);

/* The size of a buffer for the words of any status. */
#define STATUS_TEXT_MAX 192

/* Says what went wrong with a descriptor, by its status: "VIP_STATUS_LENGTH_ERROR (its sense)". */
const char *status_error(VIP_UINT32 status);

/* Says what each bit of a status means: "0x10021: op=receive done flushed". vipl(7) lists the words. */
const char *status_words(VIP_UINT32 status, char text[STATUS_TEXT_MAX]);

/* Prints one message on standard error: the failed action, the code's name, its meaning. */
void complain_code(VIP_RETURN code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a message without a return code. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Opens those standard files that are closed, so that nothing can be written to them. Otherwise the
 * library's first files would become the standard ones, and the program's output go there.
 */
void hold_standard_files(void);

/* Writes the standard output. Returns the exit status: `status`, or if that fails not EXIT_OK. */
int status_with_output(int status);

/* Returns the host part of an address as an IP address, or in hex. */
const char *host_name_text(const uint8_t *host, size_t len, char text[ADDRESS_TEXT_MAX]);

/* Returns bytes in hex, separated by colons. */
const char *hex_text(const uint8_t *bytes, size_t len, char text[ADDRESS_TEXT_MAX]);

/* Parses a decimal number from min to max; returns -1 for anything else. */
int parse_number(const char *text, unsigned long min, unsigned long max, unsigned long *number);

#ifdef __cplusplus
}
#endif

#endif
