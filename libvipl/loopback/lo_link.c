/* SPDX-License-Identifier: BSD-2-Clause */
/* Making the memory that processes share, and mapping what another process has made. */
#include "link.h"
#include "base/fd.h"
#include "base/log.h"
#include "cq_page.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Linux 5.14 can allocate and map pages in a way that fails where an access would raise a signal. */
static bool can_populate(void)
{
	return !madvise(NULL, 0, MADV_POPULATE_WRITE);
}

/* Allocates and maps the pages. False and errno if there is no memory for them. */
static bool populate(volatile void *memory, size_t size)
{
	size_t before = (uintptr_t)memory & ((size_t)sysconf(_SC_PAGESIZE) - 1);
	int rc;

	do {
		rc = madvise((char *)(uintptr_t)memory - before, before + size, MADV_POPULATE_WRITE);
	} while (rc && errno == EINTR);
	if (rc)
		errno = cause_of_memory("madvise(MADV_POPULATE_WRITE)", size, errno == EFAULT ? ENOMEM : errno);
	return !rc;
}

/*
 * Allocates the memory. If memory is short, a later access to a missing page would raise a signal. 0 or errno. A signal
 * to this thread undoes what a call has allocated, so each call allocates a little.
 */
static int allocate_file(int fd, size_t size)
{
	const size_t most = 0x10000;

	for (size_t done = 0; done < size; done += most)
		while (fallocate(fd, 0, (off_t)done, (off_t)(size - done < most ? size - done : most)))
			if (errno != EINTR)
				return cause_of_memory("fallocate()", most, errno);
	return 0;
}

/* Makes the file as large, allocates the first bytes, and maps it. 0 or errno. */
static int fill_file(int fd, size_t size, size_t allocated, void **memory)
{
	int error = ftruncate(fd, (off_t)size) ? cause("ftruncate()", errno) : allocate_file(fd, allocated);

	if (error)
		return error;
	*memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return *memory == MAP_FAILED ? cause_of_memory("mmap()", size, errno) : 0;
}

/* The size is sealed: a peer whose mapping outlived a smaller file would crash. The first `allocated` bytes are allocated. */
static void *create_file(const char *name, size_t size, size_t allocated, int seals, int *fd)
{
	struct rlimit limit;
	void *memory;
	int error;

	/* A file beyond the limit (ulimit -f) would raise a signal. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < size) {
		errno = cause("ftruncate()", EFBIG);
		return NULL;
	}
	*fd = fd_above_standard(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), "memfd_create()");
	if (*fd < 0)
		return NULL;
	error = fill_file(*fd, size, allocated, &memory);
	if (!error) {
		if (!fcntl(*fd, F_ADD_SEALS, seals | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
			return memory;
		error = cause(seals ? "fcntl(F_ADD_SEALS, F_SEAL_FUTURE_WRITE)" : "fcntl(F_ADD_SEALS)", errno);
		munmap(memory, size);
	}
	close(*fd);
	*fd = -1;
	errno = error;
	return NULL;
}

#define BLOCK	    512	      /* the unit of st_blocks */
#define MOST_BEHIND 0x1000000 /* bytes behind the end; with a few large pages there are some */

/* Only a call that is refused is worth a line: the caller names the connection. Returns false, and errno as it is. */
static bool cannot_check(const char *call)
{
	int error = cause(call, errno);

	log_error_ratelimited("cannot check a peer's memory: %s", failure(error));
	errno = error;
	return false;
}

/* The status of a file in memory of a fixed size, or false and errno. */
static bool get_status(int fd, struct stat *status)
{
	const int needed = F_SEAL_SHRINK | F_SEAL_GROW;
	struct statfs file_system;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 && is_refused(errno))
		cannot_check("fcntl(F_GET_SEALS)");
	errno = EPROTO;
	/* Only files in memory have seals. Any other file may be in a file system that does not answer. */
	if (seals < 0 || (seals & needed) != needed)
		return false;
	if (fstatfs(fd, &file_system))
		return cannot_check("fstatfs()");
	if (fstat(fd, status))
		return cannot_check("fstat()");
	/* Not on huge pages, which may run out when they are touched. */
	return file_system.f_type == TMPFS_MAGIC;
}

bool memory_may_be_shared(int fd)
{
	struct stat status;

	/* Before it was sealed, its maker can have allocated any number of bytes behind its end. */
	return get_status(fd, &status) && status.st_size <= (off_t)sizeof(struct region_entries) &&
	       status.st_blocks * BLOCK <= status.st_size + MOST_BEHIND;
}

/*
 * `is_there`: all of it must be allocated already. We cannot allocate it by fallocate(), because its maker can make the kernel hold
 * the file's lock for as long as a page fault takes.
 */
static void *map_file(int fd, const struct stat *status, size_t size, int protection, bool is_there)
{
	void *memory;

	if (status->st_size != (off_t)size || (is_there && status->st_blocks * BLOCK < status->st_size)) {
		errno = EPROTO;
		return NULL;
	}
	memory = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
	if (memory != MAP_FAILED)
		return memory;
	cause_of_memory("mmap()", size, errno);
	return NULL;
}

/* A peer's table or page. */
struct peer_file {
	LIST_ENTRY(peer_file) in_files;
	dev_t device; /* these two name the file as long as it is mapped */
	ino_t number;
	unsigned users;
	size_t size;
	void *memory;
};

void *peer_file_map(struct peer_files *files, int fd, size_t size, int protection)
{
	struct peer_file *file;
	struct stat status;

	if (!get_status(fd, &status))
		return NULL;
	LIST_FOREACH (file, files, in_files)
		if (file->device == status.st_dev && file->number == status.st_ino && file->size == size) {
			file->users++;
			return file->memory;
		}
	file = zeroed(1, sizeof(*file));
	if (!file)
		return NULL;
	*file = (struct peer_file){.device = status.st_dev, .number = status.st_ino, .users = 1, .size = size};
	file->memory = map_file(fd, &status, size, protection, true);
	if (!file->memory) {
		free(file);
		return NULL;
	}
	LIST_INSERT_HEAD(files, file, in_files);
	return file->memory;
}

void peer_file_unmap(struct peer_files *files, const void *memory)
{
	struct peer_file *file;

	LIST_FOREACH (file, files, in_files)
		if (file->memory == memory)
			break;
	if (!file || --file->users)
		return;
	LIST_REMOVE(file, in_files);
	munmap(file->memory, file->size);
	free(file);
}

uint64_t link_known(void)
{
	return can_populate() ? 1 : UINT64_MAX;
}

bool lane_allocate(struct lane *lane, uint64_t *known, const volatile void *part, size_t length)
{
	if (populate((volatile void *)(uintptr_t)part, length)) {
		*known |= lane_steps(lane, part, length);
		return true;
	}
	log_error_ratelimited("no shared memory for a connection: %s", failure(errno));
	return false;
}

/* False and errno if there is no memory for the first steps: then it is unmapped. */
static bool begin_link(struct link *link)
{
	if (populate(&link->lanes[0], LANE_STEP) && populate(&link->lanes[1], LANE_STEP))
		return true;
	link_unmap(link); /* which leaves errno as it is */
	return false;
}

struct link *link_create(int *fd)
{
	bool populates = can_populate();
	struct link *link = create_file("vipl-link", sizeof(*link), populates ? 0 : sizeof(*link), 0, fd);

	if (!link || !populates || begin_link(link))
		return link;
	close(*fd);
	*fd = -1;
	return NULL;
}

struct link *link_map(int fd)
{
	bool populates = can_populate();
	struct stat status;
	struct link *link;

	if (!get_status(fd, &status))
		return NULL;
	link = map_file(fd, &status, sizeof(*link), PROT_READ | PROT_WRITE, !populates);
	return link && populates && !begin_link(link) ? NULL : link;
}

void link_unmap(struct link *link)
{
	munmap(link, sizeof(*link));
}

struct region_entries *region_entries_create(int *fd)
{
	return create_file("vipl-regions", sizeof(struct region_entries), sizeof(struct region_entries),
			   F_SEAL_FUTURE_WRITE, fd);
}

struct cq_page *cq_page_create(int *fd)
{
	return create_file("vipl-cq", sizeof(struct cq_page), sizeof(struct cq_page), 0, fd);
}

void cq_page_blank(struct cq_page *page)
{
	/* This takes no memory. It hardly ever fails, and then nothing better can be done. */
	mmap(page, sizeof(*page), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

bool cq_page_move(struct cq_page *page, struct cq_page *to)
{
	if (mremap(page, sizeof(*page), sizeof(*page), MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED)
		return true;
	cause_of_memory("mremap()", sizeof(*page), errno);
	munmap(page, sizeof(*page));
	return false;
}
