/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection tags and registered regions. */
#ifndef VIPL_MEMORY_H
#define VIPL_MEMORY_H

#include <stddef.h>
#include <sys/queue.h>

#include "device.h"
#include "object.h"
#include "region_table.h"

/*
 * A tag is a protection domain of the device. The first tag that a program creates shares the default tag's domain,
 * because programs mix a tag that they created with NULL.
 */
struct tag {
	struct object object;
	LIST_ENTRY(tag) in_nic;
	struct device_domain *domain;
	unsigned users; /* VIs and regions; guarded by the NIC's lock */
	bool is_alias;
};

/* [nic] The tag a program named (NULL: the default one), or NULL. */
struct tag *tag_find(struct nic *nic, VIP_PROTECTION_HANDLE handle);

/* The functions from here to region_query() are calls of VIPL with their arguments checked. They take locks. */
VIP_RETURN tag_create(struct nic *nic, VIP_PROTECTION_HANDLE *handle);
VIP_RETURN tag_destroy(struct nic *nic, VIP_PROTECTION_HANDLE handle);
VIP_RETURN region_register(struct nic *nic, void *address, size_t length,
			   const VIP_MEM_ATTRIBUTES *attributes, VIP_MEM_HANDLE *handle);
VIP_RETURN region_deregister(struct nic *nic, const void *address, VIP_MEM_HANDLE handle);
VIP_RETURN region_set_attributes(struct nic *nic, const void *address, VIP_MEM_HANDLE handle,
				 const VIP_MEM_ATTRIBUTES *attributes);
VIP_RETURN region_query(struct nic *nic, const void *address, VIP_MEM_HANDLE handle,
			VIP_MEM_ATTRIBUTES *attributes);

/* For VipCloseNic: frees all regions and tags that the NIC has. */
void memory_free(struct nic *nic);

struct region {
	struct device_region *device_region;
	struct tag *tag;
	struct region_view view;
	VIP_MEM_ATTRIBUTES attributes; /* Ptag as the program gave it */
};

#endif
