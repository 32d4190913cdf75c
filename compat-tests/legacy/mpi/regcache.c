/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * regcache.c - memory for messages, and its registrations. Registrations stay after use, so that
 * the next message from or to the same buffer finds them. The cache is bounded, and the least
 * recently used entry goes first. Memory that the program frees is removed at once, because the
 * next allocation may get the same address with other pages behind it. No two allocations share a
 * page.
 */
#include <stdlib.h>

#include "layer.h"

#define MOST_REGIONS 24
#define MOST_BYTES   (8UL * 1024 * 1024)
#define PAGE         4096UL

static struct registration *recent; /* a list; the most recently used entry is the first */
static int regions;
static unsigned long bytes;

static unsigned long whole_pages(unsigned long length)
{
	return (length + PAGE - 1) / PAGE * PAGE;
}

void *mp_alloc(unsigned long length)
{
	void *memory;

	if (posix_memalign(&memory, PAGE, whole_pages(length + 1)))
		mp_fail("no memory for %lu bytes", length);
	return memory;
}

static void drop(struct registration **place)
{
	struct registration *gone = *place;

	*place = gone->next;
	must(VipDeregisterMem(nic, gone->start, gone->handle), "VipDeregisterMem");
	--regions;
	bytes -= gone->length;
	free(gone);
}

/* Regions in use stay, even beyond the bounds. */
static void trim(void)
{
	struct registration **place, **oldest;

	while (regions > MOST_REGIONS || bytes > MOST_BYTES) {
		oldest = NULL;
		for (place = &recent; *place; place = &(*place)->next)
			if (!(*place)->users)
				oldest = place;
		if (!oldest)
			return;
		drop(oldest);
	}
}

static struct registration *find(char *start, unsigned long length)
{
	struct registration **place, *found;

	for (place = &recent; (found = *place) != NULL; place = &found->next)
		if (found->start <= start && start + length <= found->start + found->length) {
			*place = found->next;
			return found;
		}
	return NULL;
}

struct registration *regcache_get(void *data, unsigned long length)
{
	char *start = (char *)((unsigned long)data / PAGE * PAGE);
	struct registration *registration;

	length = whole_pages((char *)data + length - start);
	registration = find(start, length);
	if (registration) {
		++counters.registration_hits;
	} else {
		registration = calloc(1, sizeof(*registration));
		if (!registration)
			mp_fail("no memory for a registration");
		registration->start = start;
		registration->length = length;
		registration->handle = nic_register(start, length, 1);
		++counters.registrations;
		++regions;
		bytes += length;
	}
	registration->next = recent;
	recent = registration;
	++registration->users;
	trim();
	return registration;
}

void regcache_put(struct registration *registration)
{
	--registration->users;
	trim();
}

/* Ends the registrations of these pages, which must not be in use. */
static void forget(const char *start, unsigned long length)
{
	struct registration **place = &recent, *entry;

	while ((entry = *place) != NULL) {
		if (start + length <= entry->start || entry->start + entry->length <= start) {
			place = &entry->next;
			continue;
		}
		if (entry->users)
			mp_fail("memory is freed while messages use it");
		drop(place);
	}
}

void mp_free(void *memory, unsigned long length)
{
	forget(memory, whole_pages(length + 1));
	free(memory);
}

void regcache_close(void)
{
	while (recent) {
		if (recent->users)
			mp_fail("a registration is in use at the end");
		drop(&recent);
	}
}
