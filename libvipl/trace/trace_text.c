/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers and names as text, without the C library's locale and its time. */
#include "trace_text.h"

#include <stdbool.h>
#include <string.h>

#define MOST_DIGITS  20
#define MOST_LETTERS 120

static const char hex[] = "0123456789abcdef";
static const char pairs[] = "0001020304050607080910111213141516171819"
			    "2021222324252627282930313233343536373839"
			    "4041424344454647484950515253545556575859"
			    "6061626364656667686970717273747576777879"
			    "8081828384858687888990919293949596979899";

/* Writes them from the right, two at a time; returns where they begin. */
static char *digits_before(char *end, uint64_t number)
{
	for (; number >= 100; number /= 100)
		end = (char *)memcpy(end - 2, pairs + number % 100 * 2, 2);
	if (number >= 10)
		return memcpy(end - 2, pairs + number * 2, 2);
	*--end = (char)('0' + number);
	return end;
}

char *digits(char *at, uint64_t number)
{
	char room[MOST_DIGITS], *begin = digits_before(room + MOST_DIGITS, number);
	size_t length = (size_t)(room + MOST_DIGITS - begin);

	for (size_t i = 0; i < length; i++)
		at[i] = begin[i];
	return at + length;
}

char *digits_of_nsec(char *at, uint64_t nsec)
{
	/* With a 1 before them, the nine decimals are all there. */
	uint32_t decimals = (uint32_t)(nsec % 1000000000) + 1000000000;

	at = digits(at, nsec / 1000000000);
	digits_before(at + 10, decimals);
	*at = '.';
	return at + 10;
}

/* " key=", if there is room for it and for this number of bytes behind it. */
static bool begin(struct text *text, const char *key, size_t length, size_t more)
{
	char *at = text->at;

	if ((size_t)(text->end - at) < length + 2 + more)
		return false;
	*at++ = ' ';
	while (length--)
		*at++ = *key++;
	*at++ = '=';
	text->at = at;
	return true;
}

void text_number_of(struct text *text, const char *key, size_t key_length, uint64_t number)
{
	if (!begin(text, key, key_length, MOST_DIGITS))
		return;
	if (number < 10)
		*text->at++ = (char)('0' + number);
	else
		text->at = digits(text->at, number);
}

void text_hex_of(struct text *text, const char *key, size_t key_length, uint64_t number)
{
	unsigned length = number ? (67 - (unsigned)__builtin_clzll(number)) / 4 : 1;
	char *at;

	if (!begin(text, key, key_length, MOST_DIGITS))
		return;
	*text->at++ = '0';
	*text->at++ = 'x';
	at = text->at += length;
	for (; length; length--, number >>= 4)
		*--at = hex[number & 15];
}

void text_word_of(struct text *text, const char *key, size_t key_length, const char *word)
{
	size_t length = strlen(word);

	if (begin(text, key, key_length, length)) {
		memcpy(text->at, word, length);
		text->at += length;
	}
}

void text_bytes(struct text *text, const char *key, const void *bytes, size_t length)
{
	const unsigned char *byte = bytes;

	if (!begin(text, key, strlen(key), 0))
		return;
	for (; length && text->end - text->at >= 4; byte++, length--) {
		if (*byte > ' ' && *byte < 0x7f && *byte != '\\') {
			*text->at++ = (char)*byte;
			continue;
		}
		*text->at++ = '\\';
		*text->at++ = 'x';
		*text->at++ = hex[*byte >> 4];
		*text->at++ = hex[*byte & 15];
	}
}

void text_string(struct text *text, const char *key, const char *string)
{
	if (string)
		text_bytes(text, key, string, strnlen(string, MOST_LETTERS));
	else
		text_word(text, key, "(null)");
}
