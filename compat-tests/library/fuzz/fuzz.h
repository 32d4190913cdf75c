/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What both fuzzers need: reading their input, failing, and watching what the device takes from
 * the kernel and has to give back.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Says what is wrong and ends the process, which libFuzzer takes for a crash. */
_Noreturn void fuzz_fail(const char *file, int line, const char *what);

#define check(condition)                                           \
	do {                                                       \
		if (!(condition))                                  \
			fuzz_fail(__FILE__, __LINE__, #condition); \
	} while (0)

/* An input is read from its beginning; after its end come zeros. */
struct input {
	const uint8_t *data;
	size_t size;
};

uint8_t take8(struct input *input);
uint16_t take16(struct input *input);
uint32_t take32(struct input *input);
uint64_t take64(struct input *input);
void take_bytes(struct input *input, void *to, size_t length);
/* In 0 .. count - 1. */
unsigned take_below(struct input *input, unsigned count);
/* Any number, but mostly one at or about a limit of the device. */
uint32_t take_length(struct input *input);

/* What config() answers. */
void fuzz_configure(bool one_copy, const char *users);

/* Mappings that the device has made and not unmade. */
unsigned fuzz_mappings(void);
/* Open file descriptors. With `inheritable`, only those that a program would inherit. */
unsigned fuzz_descriptors(bool inheritable);
/* The so-and-so-many-th call from now on that can fail does fail; 0: none does. */
void fuzz_fail_call(unsigned count);
/* From here to the end some calls of the device fail: which ones, this says. */
void trouble_begin(uint8_t how);
void trouble_end(void);

/* Called before the device reads from memory, unless it is NULL. */
extern void (*fuzz_loads)(const void *address, size_t size);

/* Lets the timer run out that the device has set, if it has. */
void fuzz_tick(void);
void fuzz_forget_timer(void);

#endif
