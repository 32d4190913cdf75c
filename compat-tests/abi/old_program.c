/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * old_program.c - a program that is linked with a library without symbol versions.
 *
 * It succeeds when its calls reach libvipl, and dlsym finds every function named as an argument in
 * the same library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <vipl.h>

int main(int argc, char **argv)
{
	void *address = dlsym(RTLD_DEFAULT, "VipOpenNic");
	Dl_info home, info;
	VIP_RETURN rc;
	int i;

	rc = VipOpenNic(NULL, NULL);
	if (rc != VIP_INVALID_PARAMETER) {
		fprintf(stderr, "VipOpenNic(NULL, NULL) gave %d\n", rc);
		return 1;
	}
	rc = VipCloseNic(NULL);
	if (rc != VIP_INVALID_PARAMETER) {
		fprintf(stderr, "VipCloseNic(NULL) gave %d\n", rc);
		return 1;
	}
	if (address == NULL || dladdr(address, &home) == 0) {
		fprintf(stderr, "dlsym does not find VipOpenNic\n");
		return 1;
	}
	for (i = 1; i < argc; i++) {
		address = dlsym(RTLD_DEFAULT, argv[i]);
		if (address == NULL || dladdr(address, &info) == 0 ||
		    strcmp(info.dli_fname, home.dli_fname) != 0) {
			fprintf(stderr, "dlsym does not find %s in %s\n", argv[i], home.dli_fname);
			return 1;
		}
	}
	return 0;
}
