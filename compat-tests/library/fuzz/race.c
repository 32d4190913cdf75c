/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that changes memory while the device reads it. The compiler puts a call before each load of the device. Reads are
 * counted, so the change is at the same place whenever an input is run.
 */
#include <string.h>

#include "fuzz.h"

static struct {
	unsigned reads; /* until the change; 0: no change */
	bool at_last;
	struct vi *vi;
	uint32_t offset;
	uint64_t value;
	size_t last_offset, last_size;
} race;

static void before_load(const void *address, size_t size)
{
	const struct link *link;
	size_t place;

	if (!race.reads || !race.vi->endpoint)
		return;
	link = endpoint_of(race.vi)->link;
	place = (uintptr_t)address - (uintptr_t)link;
	if (!link || !race.vi->peer.link || place >= sizeof(*link))
		return;
	if (!--race.reads) {
		uint8_t *bytes = (uint8_t *)race.vi->peer.link;

		/* The change may hit messages that were put after race_start(). */
		race.vi->peer.tracked = race.vi->peer.is_honest = false;
		if (!race.at_last)
			memcpy(bytes + race.offset, &race.value, sizeof(race.value));
		else
			memcpy(bytes + race.last_offset, &race.value, race.last_size);
	}
	race.last_offset = place;
	race.last_size = size < sizeof(race.value) ? size : sizeof(race.value);
}

#define LOAD(bytes, type)                                   \
	void __sanitizer_cov_load##bytes(type *address)     \
	{                                                   \
		before_load(address, sizeof(*address));     \
	}
LOAD(1, uint8_t)
LOAD(2, uint16_t)
LOAD(4, uint32_t)
LOAD(8, uint64_t)
LOAD(16, __int128)

void race_start(struct vi *vi, unsigned reads, bool at_last, uint32_t offset, uint64_t value)
{
	race.reads = reads;
	race.at_last = at_last;
	race.vi = vi;
	race.offset = offset;
	race.value = value;
	race.last_size = 0;
}

void race_stop(void)
{
	race.reads = 0;
}
