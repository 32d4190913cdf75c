/* SPDX-License-Identifier: BSD-2-Clause */
#include "shared_memory_shim.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loopback/cq_page.h"
#include "loopback/link.h"

static const size_t sizes[] = {
	[SHARED_LINK] = sizeof(struct link),
	[SHARED_REGIONS] = sizeof(struct region_entries),
	[SHARED_CQ_PAGE] = sizeof(struct cq_page),
};

int shim_shared_create(enum shared_kind kind)
{
	int fd = -1;

	if (kind == SHARED_LINK)
		link_unmap(link_create(&fd));
	else if (kind == SHARED_REGIONS)
		region_entries_unmap(region_entries_create(&fd));
	else
		cq_page_unmap(cq_page_create(&fd));
	return fd;
}

int shim_shared_sparse(enum shared_kind kind, long long allocated)
{
	off_t size = (off_t)sizes[kind];
	int fd = memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(fd, size) ||
	    (allocated && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, allocated > size ? (off_t)allocated : size)) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return -1;
	return fd;
}

int shim_shared_may_be(int fd)
{
	return memory_may_be_shared(fd);
}

int shim_shared_map(enum shared_kind kind, int fd)
{
	const void *memory = kind == SHARED_LINK      ? (const void *)link_map(fd)
			     : kind == SHARED_REGIONS ? (const void *)region_entries_map(fd)
						      : (const void *)cq_page_map(fd);

	return memory && !munmap((void *)memory, sizes[kind]);
}
