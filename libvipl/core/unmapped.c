/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Watches registered memory by a userfaultfd, which here reports unmapping only. A thread that unmaps waits in the kernel
 * until the thread below has read the event. So the thread below must not wait for any lock that others hold while they
 * unmap: it has one lock of its own, and allocates nothing.
 */
#include "unmapped.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/sleeper.h"
#include "base/thread.h"
#include "trace/trace.h"

#ifndef UFFD_USER_MODE_ONLY /* Linux 5.11; for it no privilege is needed */
#define UFFD_USER_MODE_ONLY 1
#endif
#define UNMAPPED 1u /* this source of the thread's is watch_fd */
#define EVENTS	 (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, watched) list = LIST_HEAD_INITIALIZER(list);
static int watch_fd = -1;
static struct sleeper sleeper;
static bool is_started;

/* Writes to the trace that registered memory was unmapped, once for each region. The lock is held. */
static void tell(uintptr_t start, uintptr_t end)
{
	int64_t now = clock_nsec();
	struct watched *each;

	LIST_FOREACH(each, &list, in_list) {
		uintptr_t from = each->start > start ? each->start : start;
		uintptr_t to = each->end < end ? each->end : end;

		if (from >= to || each->is_told)
			continue;
		each->is_told = true;
		trace_remark("unmapped=%#lx bytes=%lu mem=%#x time=%lld.%09lld",
			     (unsigned long)from, (unsigned long)(to - from), each->handle,
			     (long long)now / 1000000000, (long long)now % 1000000000);
	}
}

/*
 * The lock is held, because the thread that unmaps goes on as soon as the event is read. It may map and register
 * memory at that place again, which the event is not about. False when there are no more events.
 */
static bool take_event(void)
{
	struct uffd_msg event;
	ssize_t length;

	pthread_mutex_lock(&lock);
	length = read(watch_fd, &event, sizeof(event));
	if (length == sizeof(event) && event.event == UFFD_EVENT_REMAP)
		tell(event.arg.remap.from, event.arg.remap.from + event.arg.remap.len);
	else if (length == sizeof(event) &&
		 (event.event == UFFD_EVENT_UNMAP || event.event == UFFD_EVENT_REMOVE))
		tell(event.arg.remove.start, event.arg.remove.end);
	pthread_mutex_unlock(&lock);
	return length == sizeof(event) || (length < 0 && (errno == EAGAIN || errno == EINTR));
}

static void *run_watch(void *unused)
{
	bool goes_on = true;

	while (goes_on && fd_is_own(watch_fd) && !sleeper_is_lost(&sleeper))
		if (sleeper_sleep(&sleeper, -1) & 1u << UNMAPPED)
			goes_on = fd_is_own(watch_fd) && take_event();
	/* Otherwise a thread that unmaps would wait for ever. */
	pthread_mutex_lock(&lock);
	fd_close(watch_fd);
	watch_fd = -1;
	pthread_mutex_unlock(&lock);
	return unused;
}

/* In a child of fork(): the parent's memory is not watched here. */
static void begin_child(void)
{
	fd_close(watch_fd);
	if (watch_fd >= 0)
		sleeper_destroy(&sleeper);
	watch_fd = -1;
	is_started = false;
	LIST_INIT(&list);
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static int open_watch(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd < 0 && errno == EINVAL)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	return fd_keep(fd, NULL);
}

/*
 * 0 or errno: the kernel has no userfaultfd, or allows this process none. The lock is held. Nobody waits for it yet,
 * because no memory is watched.
 */
static int start(void)
{
	static bool knows_fork; /* and so does a child */
	struct uffdio_api api = {.api = UFFD_API, .features = EVENTS};
	pthread_t thread;
	int error = knows_fork ? 0 : pthread_atfork(NULL, NULL, begin_child);

	knows_fork = !error;
	watch_fd = error ? -1 : open_watch();
	if (watch_fd < 0)
		return error ? error : errno;
	error = sleeper_init(&sleeper, -1);
	if (!error) {
		error = ioctl(watch_fd, UFFDIO_API, &api) ? errno : sleeper_watch(&sleeper, UNMAPPED, watch_fd);
		if (!error)
			error = thread_start(&thread, THREAD_OWN, run_watch, NULL);
		if (!error) {
			pthread_detach(thread);
			return 0;
		}
		sleeper_destroy(&sleeper);
	}
	close(watch_fd);
	watch_fd = -1;
	return error;
}

static struct uffdio_range pages_of(const struct watched *watched)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = watched->start & -page;

	return (struct uffdio_range){start, ((watched->end + page - 1) & -page) - start};
}

/*
 * False for what cannot be watched: static data, mapped files. No page is write-protected, and no fault
 * on a page that is missing reaches us.
 */
static bool register_pages(const struct watched *watched)
{
	struct uffdio_register pages = {.range = pages_of(watched), .mode = UFFDIO_REGISTER_MODE_WP};

	return !ioctl(watch_fd, UFFDIO_REGISTER, &pages);
}

/* Stops watching the pages, unless another region is on them. The lock is held. */
static void unregister_pages(const struct watched *watched)
{
	struct uffdio_range pages = pages_of(watched);
	const struct watched *each;

	LIST_FOREACH(each, &list, in_list) {
		struct uffdio_range others = pages_of(each);

		if (others.start < pages.start + pages.len && pages.start < others.start + others.len)
			return;
	}
	ioctl(watch_fd, UFFDIO_UNREGISTER, &pages); /* fails if they are unmapped, which does not matter */
}

void unmapped_begin(struct watched *watched, const void *address, size_t length, uint32_t handle)
{
	int error = 0;

	pthread_mutex_lock(&lock);
	if (!is_started)
		error = start();
	is_started = true;
	pthread_mutex_unlock(&lock);
	if (error)
		trace_remark("unmapping of registered memory is not seen: %s", strerror(error));
	watched->start = (uintptr_t)address;
	watched->end = watched->start + length;
	watched->handle = handle;
	if (watch_fd < 0 || !register_pages(watched))
		return;
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&list, watched, in_list);
	pthread_mutex_unlock(&lock);
	watched->is_listed = true;
}

void unmapped_end(struct watched *watched)
{
	if (!watched->is_listed)
		return;
	pthread_mutex_lock(&lock);
	LIST_REMOVE(watched, in_list);
	if (fd_is_own(watch_fd))
		unregister_pages(watched);
	pthread_mutex_unlock(&lock);
	watched->is_listed = false;
}
