/* SPDX-License-Identifier: BSD-2-Clause */
/* Which call has failed, and why: limits are compared with what the process has, so that none is blamed that is not reached. */
#include "cause.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cancel.h"
#include "fd.h"

#define ROOM	     480  /* of a text: the lines of the log are a little longer */
#define MALLOC_MORE  0x21000u /* glibc asks for so much more at a time */
#define CAP_IPC_LOCK 14

struct failed {
	const char *call;
	size_t size;
	int error;
};

static _Thread_local struct failed last;

int cause_of_memory(const char *call, size_t size, int error)
{
	if (error)
		last = (struct failed){call, size, error};
	return error;
}

int cause(const char *call, int error)
{
	return cause_of_memory(call, 0, error);
}

void *zeroed(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		cause_of_memory("calloc()", count * size + MALLOC_MORE, ENOMEM);
	return memory;
}

struct text {
	char bytes[ROOM];
	size_t length;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *text, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text->bytes + text->length, ROOM - text->length, format, args);
	va_end(args);
	text->length += length < 0 ? 0 : (size_t)length;
	if (text->length >= ROOM)
		text->length = ROOM - 1;
}

/* ---- what the system says ---- */

/* Empty if it cannot be read, as without /proc. */
static void read_text(const char *path, char text[4096])
{
	int fd = fd_above_standard(open(path, O_RDONLY | O_CLOEXEC), NULL);
	ssize_t length = fd < 0 ? 0 : read(fd, text, 4095);

	if (fd >= 0)
		close(fd);
	text[length < 0 ? 0 : length] = '\0';
}

/* The number behind this name, or 0. */
static unsigned long long number_in(const char *text, const char *name, int base)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, base) : 0;
}

/* Some calls make up to three mappings of one. */
static bool mappings_are_used_up(void)
{
	const int fd = fd_above_standard(open("/proc/self/maps", O_RDONLY | O_CLOEXEC), NULL);
	unsigned long long most, used = 4;
	char text[4096];
	ssize_t length;

	read_text("/proc/sys/vm/max_map_count", text);
	most = strtoull(text, NULL, 10);
	while (fd >= 0 && (length = read(fd, text, sizeof(text))) > 0)
		while (length--)
			used += text[length] == '\n';
	if (fd >= 0)
		close(fd);
	return most && used > most;
}

/* Nearly: the kernel keeps a reserve, and counts only roughly, by some megabytes for each processor. */
static bool commit_limit_is_reached(unsigned long long kib)
{
	char text[4096];

	read_text("/proc/sys/vm/overcommit_memory", text);
	if (*text != '2')
		return false;
	read_text("/proc/meminfo", text);
	kib += number_in(text, "MemTotal:", 10) / 64;
	return number_in(text, "Committed_AS:", 10) + kib > number_in(text, "CommitLimit:", 10);
}

/* ---- limits of the process ---- */

static const struct limit {
	const char *what, *used; /* in /proc/self/status */
	__rlimit_resource_t resource;
} limits[] = {
	{"address space, ulimit -v", "VmSize:", RLIMIT_AS},
	{"data, ulimit -d", "VmData:", RLIMIT_DATA},
	{"locked memory, ulimit -l", "VmLck:", RLIMIT_MEMLOCK},
	{"locked memory, ulimit -l", "VmPin:", RLIMIT_MEMLOCK},
};

enum { OF_ADDRESSES = 1, OF_DATA = 2, OF_LOCKED = 4, OF_PINNED = 8 };

/* The first limit of these kinds that is reached; or else those that may be, and what it may be besides. */
static void add_limits(struct text *text, const struct failed *failed, unsigned kinds, const char *else_one_of)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const unsigned long long needed = (failed->size > page ? failed->size : page) / 1024;
	struct text others = {.length = 0};
	char status[4096], users[4096];
	bool may_lock;

	read_text("/proc/self/status", status);
	read_text("/proc/self/uid_map", users);
	/* In a user namespace that is not the machine's the capability does not count. */
	may_lock = number_in(status, "CapEff:", 16) >> CAP_IPC_LOCK & 1 && strstr(users, "4294967295");
	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const unsigned long long used = number_in(status, limits[i].used, 10);
		bool counts = *status && !(limits[i].resource == RLIMIT_MEMLOCK && may_lock), is_reached;
		struct rlimit most;

		if (!(kinds & 1u << i) || getrlimit(limits[i].resource, &most) || most.rlim_cur == RLIM_INFINITY)
			continue;
		is_reached = used + needed > most.rlim_cur / 1024;
		if (counts && is_reached) {
			add(text, " (the limit on %s, is reached: %llu of %llu KiB are used, and %llu needed)", limits[i].what, used,
			    (unsigned long long)most.rlim_cur / 1024, needed);
			return;
		}
		if (!failed->size || is_reached || !*status)
			add(&others, "; %s: %llu of %llu KiB are used", limits[i].what, used,
			    (unsigned long long)most.rlim_cur / 1024);
	}
	if (kinds & OF_ADDRESSES && mappings_are_used_up())
		add(text, " (the process has as many mappings as vm.max_map_count allows)");
	else if (kinds & OF_DATA && commit_limit_is_reached(needed))
		add(text, " (vm.overcommit_memory is 2, and the CommitLimit of /proc/meminfo is reached)");
	else
		add(text, " (one of: %s%s)", else_one_of, others.bytes);
}

/* ---- reasons ---- */

static bool is_of_rdma(const char *call)
{
	return !strncmp(call, "ibv_", 4) || !strncmp(call, "rdma_", 5);
}

/* A call that can fail so for one reason only. */
static const char *only_reason(const char *call, int error)
{
	static const struct {
		const char *call; /* NULL: any */
		int error;
		const char *reason;
	} reasons[] = {
		{"bind()", ENODEV, " (the NIC's address has gone, or is in a VRF: see ip vrf exec)"},
		{"bind()", EADDRNOTAVAIL, " (has the network interface lost its address, or is it in a VRF? see ip vrf exec)"},
		{"connect()", EADDRNOTAVAIL, " (all ports are in use: see net.ipv4.ip_local_port_range)"},
		{"sendmsg()", ETOOMANYREFS,
		 " (a process has not received yet what it was sent, and that counts against ulimit -n of this user: is one "
		 "stopped?)"},
		{"epoll_ctl()", ENOSPC, " (see fs.epoll.max_user_watches)"},
		{"ftruncate()", EFBIG, " (see ulimit -f)"},
		{"fcntl(F_DUPFD_CLOEXEC)", EINVAL, " (see ulimit -n)"},
		{"fcntl(F_ADD_SEALS, F_SEAL_FUTURE_WRITE)", EINVAL, " (it needs Linux 5.1)"},
		{"ibv_open_device()", EACCES, " (this user may not open /dev/infiniband/uverbs*)"},
		{"ibv_open_device()", EPERM, " (this container may not open /dev/infiniband/uverbs*)"},
		{"ibv_open_device()", ENOENT, " (there is no /dev/infiniband/uverbs* for it here)"},
		{"rdma_create_event_channel()", EACCES, " (this user may not open /dev/infiniband/rdma_cm)"},
		{"rdma_create_event_channel()", EPERM, " (this container may not open /dev/infiniband/rdma_cm)"},
		{"rdma_create_event_channel()", ENOENT, " (there is no /dev/infiniband/rdma_cm here: modprobe rdma_ucm)"},
		{"rdma_create_event_channel()", ENODEV, " (the kernel has no rdma_ucm: modprobe rdma_ucm)"},
		{NULL, EBADF, " (the program has closed file descriptors of the library's)"},
		{NULL, EMFILE, " (see ulimit -n)"},
		{NULL, ENFILE, " (see fs.file-max)"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (error == reasons[i].error && (!reasons[i].call || !strcmp(call, reasons[i].call)))
			return reasons[i].reason;
	return NULL;
}

static void add_reason_of_rdma(struct text *text, const struct failed *failed)
{
	if (failed->error == ENOMEM)
		add_limits(text, failed, OF_ADDRESSES | OF_DATA | OF_PINNED, "memory; room in the adapter");
	else if (failed->error == EAGAIN)
		add(text, " (one of: the cgroup's rdma.max; room in the adapter)");
	else if (failed->error == EACCES)
		add(text, " (the kernel refuses RDMA to a process whose user, groups or capabilities have changed since VipOpenNic: "
			  "open the NIC afterwards)");
}

static void add_reason_of_threads(struct text *text, const struct failed *failed)
{
	char of_user[64] = "";
	struct rlimit most;

	if (!getrlimit(RLIMIT_NPROC, &most) && most.rlim_cur != RLIM_INFINITY)
		snprintf(of_user, sizeof(of_user), "threads of this user, ulimit -u: %llu; ", (unsigned long long)most.rlim_cur);
	snprintf(of_user + strlen(of_user), sizeof(of_user) - strlen(of_user), "pids.max; memory");
	add_limits(text, failed, OF_ADDRESSES | OF_DATA | OF_LOCKED, of_user);
}

static void add_reason(struct text *text, const struct failed *failed)
{
	const char *call = failed->call ? failed->call : "", *reason = only_reason(call, failed->error);

	if (reason)
		add(text, "%s", reason);
	else if (is_of_rdma(call))
		add_reason_of_rdma(text, failed);
	else if (failed->error == ENOSYS)
		add(text, " (a filter of system calls has to allow it, or this kernel is too old)");
	else if (is_refused(failed->error))
		add(text, " (a filter of system calls, or a security module such as Landlock, has to allow it)");
	else if (failed->error == EAGAIN && !strncmp(call, "pthread", 7))
		add_reason_of_threads(text, failed);
	else if (failed->error == EAGAIN && !strncmp(call, "m", 1)) /* mmap() and mremap(), in a program that locks its memory */
		add_limits(text, failed, OF_LOCKED, "memory");
	else if (failed->error == ENOMEM || (failed->error == ENOSPC && !strcmp(call, "fallocate()")))
		add_limits(text, failed, OF_ADDRESSES | OF_DATA, "memory of the machine; memory.max of the cgroup");
}

static const char *tell(const struct failed *failed)
{
	static _Thread_local struct text text;
	const int before = errno, cancel = cancel_hold(); /* the caller may have locks */

	text.length = 0;
	if (failed->call)
		add(&text, "%s: ", failed->call);
	add(&text, "%s", strerror(failed->error));
	add_reason(&text, failed);
	last = (struct failed){0};
	cancel_resume(cancel);
	errno = before;
	return text.bytes;
}

const char *failure_of(const char *call, int error)
{
	const struct failed failed = {call, 0, error};

	return tell(&failed);
}

const char *failure(int error)
{
	const struct failed failed = last;

	return failed.error == error ? tell(&failed) : failure_of(NULL, error);
}
