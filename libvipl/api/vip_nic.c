/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening, querying and closing NICs: VipOpenNic, VipQueryNic, VipQuerySystemManagementInfo,
 * VipCloseNic.
 */
#include "core/nic.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pvip.h"
#include "base/config.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/user.h"
#include "connect/connect.h"
#include "connect/vis.h"
#include "service/agent.h"
#include "service/notifier.h"

#define MAX_NIC_NUMBER 255

/* "12" -> 12; else -1. */
static int number(const char *text)
{
	char *end;
	unsigned long value;

	if (!isdigit((unsigned char)*text))
		return -1;
	value = strtoul(text, &end, 10);
	return *end || value > MAX_NIC_NUMBER ? -1 : (int)value;
}

/* The number in a legacy device name, or -1 for other names. */
static int legacy_number(const char *name)
{
	static const struct {
		const char *prefix;
		int first;
		bool may_lack_number;
	} legacy[] = {
		{"nic", 0, false},	   {"VINIC", 0, true},	      {"/dev/via_eth", 0, false},
		{"/dev/clanvi", 0, false}, {"\\\\.\\VI", 1, false},
	};

	for (size_t i = 0; i < sizeof(legacy) / sizeof(legacy[0]); i++) {
		size_t length = strlen(legacy[i].prefix);
		int index;

		if (strncmp(name, legacy[i].prefix, length))
			continue;
		if (!name[length])
			return legacy[i].may_lack_number ? 0 : -1;
		index = number(name + length);
		return index < legacy[i].first ? -1 : index - legacy[i].first;
	}
	return -1;
}

/* Gives the device that VIPL_NIC_MAP (NAME=DEVICE,...) has for the name, cut to the room. False if it has none. */
static bool mapped_device(const char *name, char *device, size_t room)
{
	size_t length = strlen(name);

	for (const char *entry = config()->nic_map; *entry; entry += strspn(entry, ",")) {
		size_t entry_length = strcspn(entry, ",");

		if (entry_length > length && !strncmp(entry, name, length) && entry[length] == '=') {
			snprintf(device, room, "%.*s", (int)(entry_length - length - 1), entry + length + 1);
			return true;
		}
		if (!memchr(entry, '=', entry_length))
			log_warning("VIPL_NIC_MAP: \"%.*s\" is not NAME=DEVICE", (int)entry_length,
				    entry);
		entry += entry_length;
	}
	return false;
}

/* "/dev/via_lo", "/etc/via_lo", "via_lo", also with a number: all the same. */
static bool is_loopback(const char *name)
{
	static const char base[] = "via_lo";

	if (!strncmp(name, "/dev/", 5) || !strncmp(name, "/etc/", 5))
		name += 5;
	if (strncmp(name, base, sizeof(base) - 1))
		return false;
	name += sizeof(base) - 1;
	return !*name || number(name) >= 0;
}

/* Legacy device names: the RDMA ports that can be used, in their order, or, on a machine without an RDMA device, the loopback. */
static enum opening open_legacy(struct nic *nic, const char *name, unsigned index)
{
	static atomic_bool told;
	enum opening opening = verbs_device_ops.open(NULL, index, nic, &nic->device);

	if (opening != OPENING_NO_DEVICE)
		return opening;
	if (index) /* programs count up until then */
		return OPENING_NO_SUCH;
	if (!atomic_exchange(&told, true))
		log_info("there is no RDMA device (vip_info says how to get one): \"%s\" is the loopback device, "
			 "which reaches this machine only", name);
	return loopback_device_ops.open(NULL, 0, nic, &nic->device);
}

static VIP_RETURN open_device(struct nic *nic, const char *name)
{
	enum opening opening;
	char device[128];
	int index = -1;

	if (mapped_device(name, device, sizeof(device)))
		name = device;
	else
		index = legacy_number(name);
	if (is_loopback(name))
		opening = loopback_device_ops.open(NULL, 0, nic, &nic->device);
	else if (index >= 0)
		opening = open_legacy(nic, name, (unsigned)index);
	else
		opening = verbs_device_ops.open(name, 0, nic, &nic->device);
	switch (opening) {
	case OPENING_DONE:
		return VIP_SUCCESS;
	case OPENING_NO_SUCH:
		return VIP_INVALID_PARAMETER;
	default:
		return VIP_ERROR_RESOURCE;
	}
}

static void set_attributes(struct nic *nic)
{
	VIP_NIC_ATTRIBUTES *attributes = &nic->attributes;

	attributes->ProviderVersion = 1;
	attributes->NicAddressLen = host_length();
	attributes->LocalNicAddress = nic->local_address;
	attributes->ThreadSafe = VIP_TRUE;
	attributes->MaxDiscriminatorLen = MAX_DISCRIMINATOR_LEN;
	attributes->MaxDescriptorsPerQueue = QUEUE_DESCRIPTORS;
	attributes->MaxSegmentsPerDesc = MAX_SEGMENTS;
	attributes->MaxTransferSize = MAX_TRANSFER;
	nic->device->ops->query(nic->device, attributes, &nic->host);
	host_write(nic->local_address, &nic->host);
}

static VIP_RETURN build(struct nic *nic, const char *name)
{
	VIP_RETURN rc;
	int error;

	fd_hold_standard();
	rc = open_device(nic, name);
	fd_release_standard();
	if (rc != VIP_SUCCESS)
		return rc;
	users_read();
	set_attributes(nic);
	rc = VIP_ERROR_RESOURCE;
	nic->default_tag.domain = nic->device->ops->domain_create(nic->device);
	if (!nic->default_tag.domain)
		goto close_device;
	if (object_publish(&nic->object, OBJECT_NIC))
		goto destroy_domain;
	nic->connector = connector_open(nic, nic->device);
	if (nic->connector)
		nic->notifier = notifier_create(object_handle(&nic->object), nic->device->ops->cq_arm_sleeper);
	error = nic->notifier ? agent_start(nic) : errno;
	if (!error)
		return VIP_SUCCESS;

	log_error("cannot open \"%s\": %s", name, failure(error));
	if (nic->notifier)
		notifier_destroy(nic->notifier);
	if (nic->connector)
		connector_close(nic->connector);
	object_retire(&nic->object);
	object_drain(&nic->object, 0);
destroy_domain:
	nic->device->ops->domain_destroy(nic->default_tag.domain);
close_device:
	nic->device->ops->close(nic->device);
	return rc;
}

/* Writers are preferred, so that a deregistration is not kept waiting by threads that copy. */
static void init_copying(struct nic *nic)
{
	pthread_rwlockattr_t attributes;

	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&nic->copying, &attributes);
	pthread_rwlockattr_destroy(&attributes);
}

VIP_RETURN PVipOpenNic(const VIP_CHAR *DeviceName, VIP_NIC_HANDLE *NicHandle)
{
	VIP_RETURN rc = VIP_ERROR_RESOURCE;
	struct nic *nic = zeroed(1, sizeof(*nic));

	if (!nic) {
		log_error("cannot open \"%s\": %s", DeviceName, failure(ENOMEM));
		return rc;
	}
	pthread_mutex_init(&nic->lock, NULL);
	pthread_mutex_init(&nic->changing_regions, NULL);
	init_copying(nic);
	region_table_init(&nic->regions);
	TAILQ_INIT(&nic->requests);
	TAILQ_INIT(&nic->listeners);
	rc = build(nic, DeviceName);
	if (rc == VIP_SUCCESS) {
		*NicHandle = object_handle(&nic->object);
		return rc;
	}
	pthread_rwlock_destroy(&nic->copying);
	pthread_mutex_destroy(&nic->changing_regions);
	pthread_mutex_destroy(&nic->lock);
	free(nic);
	return rc;
}

/*
 * The NIC's lock is held. From here on no call finds any object, and threads that sleep wake up. An object that is retired
 * already is being destroyed by a thread that holds the NIC.
 */
static void retire_all(struct nic *nic)
{
	struct vi *vi;
	struct cq *cq;

	LIST_FOREACH(vi, &nic->vis, in_nic)
		vi_retract_handle(vi);
	LIST_FOREACH(cq, &nic->cqs, in_nic)
		if (cq->is_public)
			cq_retract_handle(cq);
	connections_close(nic);
	LIST_FOREACH(cq, &nic->cqs, in_nic)
		cq_wake(cq, true);
}

/* Waits for the objects without the lock, because a thread that still uses one may need it. */
static void free_vis(struct nic *nic)
{
	struct vi *vi;

	while ((vi = LIST_FIRST(&nic->vis))) {
		pthread_mutex_unlock(&nic->lock);
		object_drain(&vi->object, 0);
		pthread_mutex_lock(&nic->lock);
		vi_free(vi);
	}
}

static void free_cqs(struct nic *nic)
{
	struct cq *cq;

	while ((cq = LIST_FIRST(&nic->cqs))) {
		pthread_mutex_unlock(&nic->lock);
		object_drain(&cq->object, 0);
		pthread_mutex_lock(&nic->lock);
		cq_destroy(cq);
	}
}

VIP_RETURN PVipCloseNic(VIP_NIC_HANDLE NicHandle)
{
	struct nic *nic = nic_get(NicHandle);

	if (!nic)
		return VIP_INVALID_PARAMETER;
	if (!object_retire(&nic->object)) {
		nic_put(nic);
		return VIP_INVALID_PARAMETER;
	}
	notifier_stop(nic->notifier);
	pthread_mutex_lock(&nic->lock);
	retire_all(nic);
	pthread_mutex_unlock(&nic->lock);
	object_drain(&nic->object, 1);
	agent_stop(nic);

	pthread_mutex_lock(&nic->lock);
	retire_all(nic); /* what calls under way have created meanwhile */
	ends_await(nic);
	free_vis(nic);
	free_cqs(nic);
	pthread_mutex_unlock(&nic->lock);
	notifier_destroy(nic->notifier);
	memory_free(nic);
	connector_close(nic->connector);
	nic->device->ops->close(nic->device);
	agent_free(nic);
	pthread_rwlock_destroy(&nic->copying);
	pthread_mutex_destroy(&nic->changing_regions);
	pthread_mutex_destroy(&nic->lock);
	free(nic);
	return VIP_SUCCESS;
}

VIP_RETURN PVipQueryNic(struct nic *nic, VIP_NIC_ATTRIBUTES *Attributes)
{
	*Attributes = nic->attributes;
	return VIP_SUCCESS;
}

/* Neither devices nor their networks can find NICs, so there is nothing to tell. */
VIP_RETURN PVipQuerySystemManagementInfo(struct nic *nic, VIP_ULONG InfoType, VIP_PVOID SysManInfo)
{
	(void)nic;
	return SysManInfo && InfoType == VIP_SMI_AUTODISCOVERY ? VIP_ERROR_NOT_SUPPORTED
							       : VIP_INVALID_PARAMETER;
}
