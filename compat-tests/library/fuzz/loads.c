/* SPDX-License-Identifier: BSD-2-Clause */
/* The compiler puts a call of one of these before each load of the device. */
#include "fuzz.h"

void (*fuzz_loads)(const void *address, size_t size);

#define LOAD(bytes, type)                                      \
	void __sanitizer_cov_load##bytes(type *address);       \
	void __sanitizer_cov_load##bytes(type *address)        \
	{                                                      \
		if (fuzz_loads)                                \
			fuzz_loads(address, sizeof(*address)); \
	}
LOAD(1, uint8_t)
LOAD(2, uint16_t)
LOAD(4, uint32_t)
LOAD(8, uint64_t)
LOAD(16, __int128)
