/* SPDX-License-Identifier: BSD-2-Clause */
/* health.c - the resources of this process: its resident memory and its open files. */
#include <dirent.h>
#include <stdio.h>

#include "programs.h"

/*
 * KiB by which a process may grow later: memory that malloc keeps, and memory that a NIC may share
 * with each peer and touches only gradually.
 */
#define MORE_OWN    4096
#define MORE_SHARED 1536

/* A sanitizer keeps memory that a program frees. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_MEMORY 0
#else
#define COUNTS_MEMORY 1
#endif

static void take_memory(struct health *health)
{
	char line[200];
	FILE *file = fopen("/proc/self/status", "r");

	if (!file)
		mp_fail("no /proc");
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "VmRSS: %ld kB", &health->memory);
		sscanf(line, "RssAnon: %ld kB", &health->own_memory);
	}
	fclose(file);
}

void health_take(struct health *health)
{
	DIR *directory = opendir("/proc/self/fd");

	health->memory = health->own_memory = health->files = 0;
	take_memory(health);
	if (!directory)
		mp_fail("no /proc/self/fd");
	while (readdir(directory))
		++health->files;
	closedir(directory);
}

static void compare(const char *what, long early, long late, long more)
{
	if (late > early + more)
		mp_fail("%s: %ld after a quarter of the time, %ld at the end", what, early, late);
}

long health_compare(const struct health *early, int peers)
{
	struct health late;

	health_take(&late);
	if (COUNTS_MEMORY) {
		compare("memory grows, KiB of its own", early->own_memory, late.own_memory,
			MORE_OWN);
		compare("memory grows, KiB", early->memory, late.memory,
			MORE_OWN + peers * MORE_SHARED);
	}
	compare("files are left open", early->files, late.files, 0);
	return late.memory - early->memory;
}
