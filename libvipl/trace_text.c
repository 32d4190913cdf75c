/* Numbers and names as text, without the C library's locale and its time. */
#include "trace_text.h"

#include <stdbool.h>
#include <string.h>

#define MOST_DIGITS  20
#define MOST_LETTERS 120

char *digits(char *at, uint64_t number)
{
	char reversed[MOST_DIGITS];
	size_t length = 0;

	do {
		reversed[length++] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	while (length)
		*at++ = reversed[--length];
	return at;
}

char *digits_of_nsec(char *at, uint64_t nsec)
{
	uint32_t fraction = (uint32_t)(nsec % 1000000000);

	at = digits(at, nsec / 1000000000);
	*at++ = '.';
	for (int i = 8; i >= 0; i--) {
		at[i] = (char)('0' + fraction % 10);
		fraction /= 10;
	}
	return at + 9;
}

/* " key=", if there is room for it and for so many more. */
static bool begin(struct text *text, const char *key, size_t more)
{
	size_t length = strlen(key);

	if ((size_t)(text->end - text->at) < length + 2 + more)
		return false;
	*text->at++ = ' ';
	memcpy(text->at, key, length);
	text->at += length;
	*text->at++ = '=';
	return true;
}

void text_number(struct text *text, const char *key, uint64_t number)
{
	if (begin(text, key, MOST_DIGITS))
		text->at = digits(text->at, number);
}

void text_hex(struct text *text, const char *key, uint64_t number)
{
	unsigned shift = number ? (63 - (unsigned)__builtin_clzll(number)) / 4 * 4 : 0;

	if (!begin(text, key, MOST_DIGITS))
		return;
	*text->at++ = '0';
	*text->at++ = 'x';
	for (;; shift -= 4) {
		*text->at++ = "0123456789abcdef"[number >> shift & 15];
		if (!shift)
			return;
	}
}

void text_word(struct text *text, const char *key, const char *word)
{
	size_t length = strlen(word);

	if (begin(text, key, length)) {
		memcpy(text->at, word, length);
		text->at += length;
	}
}

void text_bytes(struct text *text, const char *key, const void *bytes, size_t length)
{
	const unsigned char *byte = bytes;

	if (!begin(text, key, 0))
		return;
	for (; length && text->end - text->at >= 4; byte++, length--) {
		if (*byte > ' ' && *byte < 0x7f && *byte != '\\') {
			*text->at++ = (char)*byte;
			continue;
		}
		*text->at++ = '\\';
		*text->at++ = 'x';
		*text->at++ = "0123456789abcdef"[*byte >> 4];
		*text->at++ = "0123456789abcdef"[*byte & 15];
	}
}

void text_string(struct text *text, const char *key, const char *string)
{
	if (string)
		text_bytes(text, key, string, strnlen(string, MOST_LETTERS));
	else
		text_word(text, key, "(null)");
}
