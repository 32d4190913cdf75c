/* SPDX-License-Identifier: BSD-2-Clause */
/* The words of a trace's lines: " key=value", into a small buffer. What has no room is left out. */
#ifndef VIPL_TRACE_TEXT_H
#define VIPL_TRACE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TEXT_ROOM 512

struct text {
	char *at, *end;
	char bytes[TEXT_ROOM];
};

static inline void text_clear(struct text *text)
{
	text->at = text->bytes;
	text->end = text->bytes + TEXT_ROOM;
}

/* The digits alone; there has to be room for 20. They return where it goes on. */
char *digits(char *at, uint64_t number);
char *digits_of_nsec(char *at, uint64_t nsec); /* seconds, with nine decimals */

void text_number_of(struct text *text, const char *key, size_t key_length, uint64_t number);
void text_hex_of(struct text *text, const char *key, size_t key_length, uint64_t number);
void text_word_of(struct text *text, const char *key, size_t key_length, const char *word);

/* Inline, since the compiler knows how long the keys are. */
static inline void text_number(struct text *text, const char *key, uint64_t number)
{
	text_number_of(text, key, strlen(key), number);
}

static inline void text_hex(struct text *text, const char *key, uint64_t number)
{
	text_hex_of(text, key, strlen(key), number);
}

static inline void text_word(struct text *text, const char *key, const char *word)
{
	text_word_of(text, key, strlen(key), word);
}

/* Neither a space nor what is not ASCII, nor a backslash, comes out as it is, but as \xHH. */
void text_bytes(struct text *text, const char *key, const void *bytes, size_t length);
/* Up to its 0, and 120 bytes of it at most; NULL as "(null)". */
void text_string(struct text *text, const char *key, const char *string);

#endif
