/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nic.c - the NIC of this process, its completion queue, its tag, its asynchronous errors, and memory for
 * messages with its registrations.
 *
 * Registrations stay after use, so that the next message from or to the same buffer finds them. Their number is bounded,
 * and the least recently used one goes first. Memory that the program frees is removed at once, because the
 * next allocation may get the same address with other pages behind it. No two allocations share a page.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"

VIP_NIC_HANDLE nic;
VIP_CQ_HANDLE cq;
VIP_PROTECTION_HANDLE ptag;
unsigned long longest_transfer;

/* It is small, so that long messages take several descriptors. */
#define LONGEST_TRANSFER (256 * 1024UL)

#define MOST_REGIONS 24
#define MOST_BYTES   (8UL * 1024 * 1024)
#define PAGE         4096UL

static struct registration *recent; /* a list; the most recently used entry is the first */
static int regions;
static unsigned long bytes;

static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;
static char error_text[200];

void must(VIP_RETURN code, const char *what)
{
	if (code != VIP_SUCCESS)
		mp_fail("%s returned %d", what, (int)code);
}

/*
 * A peer that has our goodbye may leave. Any other loss is reported. The library's thread calls
 * this.
 */
static void note_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	struct channel *channel = channel_of(error->ViHandle);
	int expected = 0;

	(void)context;
	if (channel && error->ErrorCode == VIP_ERROR_CONN_LOST) {
		pthread_mutex_lock(&connecting_lock);
		expected = channel->said_goodbye;
		pthread_mutex_unlock(&connecting_lock);
	}
	if (expected)
		return;
	pthread_mutex_lock(&error_lock);
	if (!error_text[0])
		sprintf(error_text, "asynchronous error %d, resource %d, operation 0x%lx, peer %d",
			(int)error->ErrorCode, (int)error->ResourceCode, error->OpCode,
			channel ? channel->peer : -1);
	pthread_mutex_unlock(&error_lock);
}

void nic_check_errors(void)
{
	char text[sizeof(error_text)];

	pthread_mutex_lock(&error_lock);
	strcpy(text, error_text);
	pthread_mutex_unlock(&error_lock);
	if (text[0])
		mp_fail("%s", text);
}

void nic_open(struct host *own)
{
	VIP_NIC_ATTRIBUTES attributes;

	must(VipOpenNic(settings.nic, &nic), "VipOpenNic");
	must(VipErrorCallback(nic, NULL, note_error), "VipErrorCallback");
	must(VipQueryNic(nic, &attributes), "VipQueryNic");
	if (attributes.NicAddressLen > MAX_HOST_BYTES ||
	    attributes.MaxDiscriminatorLen < sizeof(struct discriminator))
		mp_fail("the NIC's addresses are not of a kind that this program knows");
	if (!(attributes.ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_DELIVERY))
		mp_fail("the NIC has no Reliable Delivery");
	own->bytes = attributes.NicAddressLen;
	memcpy(own->address, attributes.LocalNicAddress, attributes.NicAddressLen);
	longest_transfer = attributes.MaxTransferSize;
	if (longest_transfer > LONGEST_TRANSFER)
		longest_transfer = LONGEST_TRANSFER;
	must(VipCreatePtag(nic, &ptag), "VipCreatePtag");
	must(VipCreateCQ(nic, 4UL * settings.credits * settings.size, &cq), "VipCreateCQ");
}

VIP_MEM_HANDLE nic_register(void *start, unsigned long length, int peers_write)
{
	VIP_MEM_ATTRIBUTES attributes;
	VIP_MEM_HANDLE handle;

	memset(&attributes, 0, sizeof(attributes));
	attributes.Ptag = ptag;
	attributes.EnableRdmaWrite = peers_write ? VIP_TRUE : VIP_FALSE;
	must(VipRegisterMem(nic, start, length, &attributes, &handle),
	     "VipRegisterMem (is there enough of ulimit -l?)");
	return handle;
}

/* ---- memory ---- */

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
	if (!registration) {
		registration = calloc(1, sizeof(*registration));
		if (!registration)
			mp_fail("no memory for a registration");
		registration->start = start;
		registration->length = length;
		registration->handle = nic_register(start, length, 1);
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

void nic_close(void)
{
	while (recent) {
		if (recent->users)
			mp_fail("a registration is in use at the end");
		drop(&recent);
	}
	must(VipDestroyCQ(cq), "VipDestroyCQ");
	must(VipDestroyPtag(nic, ptag), "VipDestroyPtag");
	nic_check_errors();
	must(VipCloseNic(nic), "VipCloseNic");
}
