/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts that both fuzzers share. They read the input, fail, and count the mappings and file
 * descriptors that the device has to give back.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints the condition that failed, and aborts. libFuzzer takes that for a crash. */
_Noreturn void fuzz_fail(const char *file, int line, const char *what);

#define check(condition)                                           \
	do {                                                       \
		if (!(condition))                                  \
			fuzz_fail(__FILE__, __LINE__, #condition); \
	} while (0)

/* An input is read from its beginning. Reads past its end give zeros. */
struct input {
	const uint8_t *data;
	size_t size;
};

uint8_t take8(struct input *input);
uint16_t take16(struct input *input);
uint32_t take32(struct input *input);
uint64_t take64(struct input *input);
void take_bytes(struct input *input, void *to, size_t length);
/* A number in 0 .. count - 1. */
unsigned take_below(struct input *input, unsigned count);
/* Any number, often one near a limit of the device. */
uint32_t take_length(struct input *input);

/* Sets the configuration that config() returns. */
void fuzz_configure(bool one_copy, const char *users);

/* The number of mappings that the device has made and not removed. */
unsigned fuzz_mappings(void);
/* The number of open file descriptors. With `inheritable`, only those without FD_CLOEXEC. */
unsigned fuzz_descriptors(bool inheritable);
/* From here to trouble_end() calls of the device fail: a chosen one, or all that need a file descriptor. */
void trouble_begin(uint8_t how);
void trouble_end(void);

/* If the device has set a timer, lets it run out. */
void fuzz_tick(void);
void fuzz_forget_timer(void);

#endif
