/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers in messages: big endian, of any size. */
#ifndef VIPL_BYTES_H
#define VIPL_BYTES_H

#include <stdint.h>

static inline void bytes_put(uint8_t *to, unsigned count, uint64_t number)
{
	while (count--) {
		to[count] = (uint8_t)number;
		number >>= 8;
	}
}

static inline uint64_t bytes_get(const uint8_t *from, unsigned count)
{
	uint64_t number = 0;

	while (count--)
		number = number << 8 | *from++;
	return number;
}

#endif
