/* SPDX-License-Identifier: BSD-2-Clause */
/* The compiler puts a call of one of these before each load of the device. */
#include "fuzz.h"

void __sanitizer_cov_load1(uint8_t *address);
void __sanitizer_cov_load2(uint16_t *address);
void __sanitizer_cov_load4(uint32_t *address);
void __sanitizer_cov_load8(uint64_t *address);
void __sanitizer_cov_load16(__int128 *address);

void (*fuzz_loads)(const void *address, size_t size);

static void loads(const void *address, size_t size)
{
	if (fuzz_loads)
		fuzz_loads(address, size);
}

void __sanitizer_cov_load1(uint8_t *address)
{
	loads(address, sizeof(*address));
}

void __sanitizer_cov_load2(uint16_t *address)
{
	loads(address, sizeof(*address));
}

void __sanitizer_cov_load4(uint32_t *address)
{
	loads(address, sizeof(*address));
}

void __sanitizer_cov_load8(uint64_t *address)
{
	loads(address, sizeof(*address));
}

void __sanitizer_cov_load16(__int128 *address)
{
	loads(address, sizeof(*address));
}
