/* SPDX-License-Identifier: BSD-2-Clause */
/* program CASE: calls the library in the way that the case needs. check.py checks the trace. */
#include "program.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

VIP_NIC_HANDLE nic;

void must(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "program: %s\n", what);
	_exit(9);
}

void name(const char *text, const void *value)
{
	printf("%s %p\n", text, value);
}

void open_nic(void)
{
	must(VipOpenNic("via_lo", &nic) == VIP_SUCCESS, "VipOpenNic");
}

VIP_VI_HANDLE make_vi(VIP_CQ_HANDLE recv_cq)
{
	VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
					.MaxTransferSize = 4096};
	VIP_VI_HANDLE vi;

	must(VipCreateVi(nic, &attributes, NULL, recv_cq, &vi) == VIP_SUCCESS, "VipCreateVi");
	return vi;
}

VIP_DESCRIPTOR *make_descriptor(void)
{
	static _Alignas(VIP_DESCRIPTOR_ALIGNMENT) char memory[64][128];
	static atomic_uint used;
	unsigned index = atomic_fetch_add(&used, 1);

	must(index < sizeof(memory) / sizeof(memory[0]), "memory");
	return (VIP_DESCRIPTOR *)(void *)memory[index];
}

void post_and_take(VIP_VI_HANDLE vi, int times)
{
	VIP_DESCRIPTOR *descriptor = make_descriptor(), *done;

	for (int i = 0; i < times; i++) {
		descriptor->Control.Control = VIP_CONTROL_IMMEDIATE;
		descriptor->Control.ImmediateData = (VIP_UINT32)i;
		must(VipPostSend(vi, descriptor, 0) == VIP_SUCCESS, "VipPostSend");
		must(VipSendDone(vi, &done) == VIP_DESCRIPTOR_ERROR && done, "VipSendDone");
	}
}

static void polls(void)
{
	VIP_VI_HANDLE vi, entry;
	VIP_DESCRIPTOR *done;
	VIP_BOOLEAN is_receive;
	VIP_CQ_HANDLE cq;

	for (int i = 0; i < 600; i++) { /* the places of old handles are used again */
		vi = make_vi(NULL);
		must(VipSendDone(vi, &done) == VIP_DESCRIPTOR_ERROR && !done, "VipSendDone");
		must(VipDestroyVi(vi) == VIP_SUCCESS, "VipDestroyVi");
	}
	must(VipCreateCQ(nic, 8, &cq) == VIP_SUCCESS, "VipCreateCQ");
	vi = make_vi(NULL);
	name("VI", vi);
	name("CQ", cq);
	must(VipPostRecv(vi, make_descriptor(), 0) == VIP_SUCCESS, "VipPostRecv");
	for (int i = 0; i < 1000005; i++)
		must(VipRecvDone(vi, &done) == VIP_NOT_DONE, "VipRecvDone");
	must(VipRecvWait(vi, 0, &done) == VIP_TIMEOUT, "VipRecvWait");
	for (int i = 0; i < 3; i++)
		must(VipSendDone(vi, &done) == VIP_DESCRIPTOR_ERROR && !done, "VipSendDone");
	post_and_take(vi, 1);
	for (int i = 0; i < 7; i++)
		must(VipCQDone(cq, &entry, &is_receive) == VIP_NOT_DONE, "VipCQDone");
}

static void *thread(void *argument)
{
	VIP_VI_HANDLE vi = make_vi(NULL);
	VIP_DESCRIPTOR *done;

	(void)argument;
	must(VipPostRecv(vi, make_descriptor(), 0) == VIP_SUCCESS, "VipPostRecv");
	post_and_take(vi, 1500);
	for (int i = 0; i < 11; i++) /* no later line has their count */
		must(VipRecvDone(vi, &done) == VIP_NOT_DONE, "VipRecvDone");
	return NULL;
}

static void threads(void)
{
	pthread_t ids[4];

	for (int i = 0; i < 4; i++)
		must(!pthread_create(&ids[i], NULL, thread, NULL), "pthread_create");
	for (int i = 0; i < 4; i++)
		pthread_join(ids[i], NULL);
}

static void forks(void)
{
	VIP_NIC_ATTRIBUTES attributes;
	VIP_VI_HANDLE vi = make_vi(NULL);
	VIP_DESCRIPTOR *done;
	int status = -1;
	pid_t pid;

	post_and_take(vi, 1);
	VipSendDone(vi, &done); /* a poll, which the child does not tell of */
	pid = fork();
	if (!pid) {
		must(VipQueryNic(nic, &attributes) == VIP_INVALID_PARAMETER, "VipQueryNic");
		open_nic();
		post_and_take(make_vi(NULL), 1000);
		exit(0);
	}
	printf("CHILD %d\n", pid);
	must(waitpid(pid, &status, 0) == pid && !status, "the child");
	post_and_take(vi, 1000);
}

/* The trace's directory becomes a file system of 64 KiB, half of which is taken. */
static const char *make_small_disk(void)
{
	static char path[512];
	static const char taken[32768];
	int fd;

	snprintf(path, sizeof(path), "%s", getenv("VIPL_TRACE"));
	*strrchr(path, '/') = '\0';
	must(!mount("none", path, "tmpfs", 0, "size=64k"), "mount");
	strcat(path, "/taken");
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	must(write(fd, taken, sizeof(taken)) == sizeof(taken), "write");
	close(fd);
	return path;
}

static void await_end_of_input(void)
{
	char byte;

	fflush(stdout);
	must(read(0, &byte, 1) == 0, "standard input");
}

/* The trace's disk is full for a while. Then the trace is there until standard input ends. */
static void is_full(void)
{
	const char *taken = make_small_disk();

	open_nic();
	post_and_take(make_vi(NULL), 1000);
	unlink(taken);
	post_and_take(make_vi(NULL), 100);
	printf("WRITTEN 1\n");
	await_end_of_input();
}

/* A limit on the size of files that four threads reach, and that is raised afterwards. */
static void is_limited(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = 150000;
	setrlimit(RLIMIT_FSIZE, &limit);
	threads();
	limit.rlim_cur = 250000;
	setrlimit(RLIMIT_FSIZE, &limit);
	post_and_take(make_vi(NULL), 100);
}

/* Returns the library's descriptor of the trace. `suffix`: of its name in /proc. */
static int find_trace(const char *suffix)
{
	char link[64], path[512], wanted[512];

	snprintf(wanted, sizeof(wanted), "%s%s", getenv("VIPL_TRACE"), suffix);
	for (int fd = 3; fd < 100; fd++) {
		ssize_t length;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = readlink(link, path, sizeof(path) - 1);
		path[length < 0 ? 0 : length] = '\0';
		if (!strcmp(path, wanted))
			return fd;
	}
	must(0, "the trace's file is open");
	return -1;
}

/* A program may close a descriptor that is not its own. Its number then belongs to another file. */
static void closes_files(void)
{
	int trace = find_trace(""), own;
	char path[512], content[6] = "";

	close(trace);
	snprintf(path, sizeof(path), "%s.own", getenv("VIPL_TRACE"));
	own = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	must(own == trace && write(own, "mine", 4) == 4, "the file");
	post_and_take(make_vi(NULL), 6000); /* more than one file has room for */
	must(pread(own, content, sizeof(content), 0) == 4 && !strcmp(content, "mine"), "its content");
}

/* A program that was started without standard input, output and error, and writes to them. */
static void writes_to_closed(void)
{
	ssize_t unused;

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		unused = write(fd, "lost\n", 5);
	(void)unused;
	post_and_take(make_vi(NULL), 1000);
}

#define PAGES 16384

static char *pages(void)
{
	char *memory = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(memory != MAP_FAILED, "mmap");
	memset(memory, 1, PAGES);
	return memory;
}

static VIP_MEM_HANDLE register_pages(const char *text, char *memory)
{
	VIP_MEM_HANDLE handle;

	must(VipRegisterMem(nic, memory, PAGES, NULL, &handle) == VIP_SUCCESS, "VipRegisterMem");
	if (text)
		printf("%s %#x\n", text, handle);
	return handle;
}

/*
 * A call that unmaps memory waits until the library has noticed it. So each unmapping is reported
 * before the next one is done.
 */
static void unmaps(void)
{
	char *part = pages(), *twice = pages(), *whole = pages(), *dropped = pages();
	VIP_MEM_HANDLE handle;
	int watch = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	printf("AVAILABLE %d\n", watch >= 0);
	close(watch);
	name("PART", part);
	register_pages("OF_PART", part);
	register_pages("TWICE", twice);
	register_pages("AGAIN", twice);
	register_pages("DROPPED", dropped);
	handle = register_pages(NULL, whole);
	must(VipDeregisterMem(nic, whole, handle) == VIP_SUCCESS, "VipDeregisterMem");
	munmap(whole, PAGES);
	munmap(part + PAGES / 2, PAGES / 2);
	munmap(part, PAGES / 2);
	must(mmap(twice, PAGES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == twice,
	     "mmap");
	madvise(dropped, PAGES, MADV_DONTNEED);
	munmap(dropped, PAGES);
}

static long size_of(const char *suffix)
{
	struct stat file;
	char path[512];

	snprintf(path, sizeof(path), "%s%s", getenv("VIPL_TRACE"), suffix);
	must(!stat(path, &file), path);
	return (long)file.st_size;
}

/*
 * Writes more than the trace may have: while no descriptor is to be had, then from another directory, then from four
 * threads. Then the process is killed.
 */
static void overflows(void)
{
	VIP_VI_HANDLE vi = make_vi(NULL);
	struct rlimit few, usual;

	getrlimit(RLIMIT_NOFILE, &usual);
	few = (struct rlimit){3, usual.rlim_max};
	setrlimit(RLIMIT_NOFILE, &few);
	post_and_take(vi, 3000);
	setrlimit(RLIMIT_NOFILE, &usual);
	must(!chdir("/"), "chdir");
	post_and_take(vi, 6000);
	printf("OLD %ld\nNEW %ld\n", size_of(".old"), size_of(""));
	threads();
	fflush(stdout);
	raise(SIGKILL);
}

/* Writes as much. Where the trace was, another file is. */
static void is_renamed(void)
{
	const char *path = getenv("VIPL_TRACE");
	struct stat file;
	int fd, trace;

	unlink(path);
	trace = find_trace(" (deleted)");
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	must(write(fd, "mine\n", 5) == 5, "write");
	post_and_take(make_vi(NULL), 6000);
	must(!fstat(trace, &file), "fstat");
	printf("SIZE %ld\n", (long)file.st_size);
}

static void holds(void)
{
	printf("OPEN 1\n");
	await_end_of_input();
	post_and_take(make_vi(NULL), 1);
}

static void posts(void)
{
	post_and_take(make_vi(NULL), 1000);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{"polls", polls},
		{"threads", threads},
		{"forks", forks},
		{"posts", posts},
		{"limited", is_limited},
		{"closes", closes_files},
		{"standard_closed", writes_to_closed},
		{"holds", holds},
		{"overflows", overflows},
		{"renamed", is_renamed},
		{"unmaps", unmaps},
		{"calls", call_everything},
	};

	must(argc == 2, "usage: program CASE");
	if (!strcmp(argv[1], "full"))
		return is_full(), 0;
	open_nic();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name))
			return cases[i].run(), 0;
	return 2;
}
