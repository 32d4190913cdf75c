/* SPDX-License-Identifier: BSD-2-Clause */
/* nic.c - the NIC of this process, its completion queue, its tag, and its asynchronous errors. */
#include <stdio.h>
#include <string.h>

#include "layer.h"

VIP_NIC_HANDLE nic;
VIP_CQ_HANDLE cq;
VIP_PROTECTION_HANDLE ptag;
unsigned long longest_transfer;

/* It is small, so that long messages take several descriptors. */
#define LONGEST_TRANSFER (256 * 1024UL)

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

void nic_close(void)
{
	must(VipDestroyCQ(cq), "VipDestroyCQ");
	must(VipDestroyPtag(nic, ptag), "VipDestroyPtag");
	nic_check_errors();
	must(VipCloseNic(nic), "VipCloseNic");
}
