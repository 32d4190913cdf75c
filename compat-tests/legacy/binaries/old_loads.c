/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * old_loads LIBRARY NIC - a program that is not linked with VIPL. It loads a library when it runs, and
 * opens a NIC with it.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "giganet.h"

int main(int argc, char **argv)
{
	VIP_RETURN (*open_nic)(const VIP_CHAR *, VIP_NIC_HANDLE *);
	VIP_RETURN (*close_nic)(VIP_NIC_HANDLE);
	VIP_NIC_HANDLE nic;
	VIP_RETURN rc;
	void *library;

	if (argc != 3)
		return 2;
	library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "old_loads: %s\n", dlerror());
		return 1;
	}
	/* POSIX prescribes this form, since C does not have this conversion. */
	*(void **)&open_nic = dlsym(library, "VipOpenNic");
	*(void **)&close_nic = dlsym(library, "VipCloseNic");
	if (!open_nic || !close_nic) {
		fprintf(stderr, "old_loads: not all functions are in %s\n", argv[1]);
		return 1;
	}
	rc = open_nic(argv[2], &nic);
	if (rc == VIP_SUCCESS)
		rc = close_nic(nic);
	if (rc != VIP_SUCCESS)
		fprintf(stderr, "old_loads: returned %d\n", rc);
	return rc != VIP_SUCCESS;
}
