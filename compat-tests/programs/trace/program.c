/* SPDX-License-Identifier: BSD-2-Clause */
/* program CASE: calls the library in the way that the case needs. check.py checks the trace. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

VIP_NIC_HANDLE nic;

static int blocks_left = -1; /* the blocks that fit on the disk; -1: no limit */

/* Replaces the C library's function, for the trace's file. */
__attribute__((visibility("default"))) ssize_t
pwritev64(int fd, const struct iovec *parts, int count, __off64_t offset);
ssize_t pwritev64(int fd, const struct iovec *parts, int count, __off64_t offset)
{
	if (!blocks_left) {
		errno = ENOSPC;
		return -1;
	}
	if (blocks_left > 0)
		blocks_left--;
	return syscall(SYS_pwritev, fd, parts, count, (long)offset, 0L);
}

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

	for (int round = 0; round < 2; round++) { /* the second threads reuse buffers */
		for (int i = 0; i < 4; i++)
			must(!pthread_create(&ids[i], NULL, thread, NULL), "pthread_create");
		for (int i = 0; i < 4; i++)
			pthread_join(ids[i], NULL);
	}
}

static void forks(void)
{
	VIP_NIC_ATTRIBUTES attributes;
	VIP_VI_HANDLE vi = make_vi(NULL);
	int status = -1;
	pid_t pid;

	post_and_take(vi, 1);
	pid = fork();
	if (!pid) {
		must(VipQueryNic(nic, &attributes) == VIP_INVALID_PARAMETER, "VipQueryNic");
		open_nic();
		post_and_take(make_vi(NULL), 1000);
		_exit(0);
	}
	printf("CHILD %d\n", pid);
	must(waitpid(pid, &status, 0) == pid && !status, "the child");
	post_and_take(vi, 1000);
}

static void crashes(void)
{
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	post_and_take(make_vi(NULL), 1000);
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
}

static void is_full(void)
{
	blocks_left = 2; /* in addition to the first block */
	post_and_take(make_vi(NULL), 2000);
}

static void is_limited(void)
{
	struct rlimit limit = {150000, 150000};

	setrlimit(RLIMIT_FSIZE, &limit);
	post_and_take(make_vi(NULL), 2000);
}

/* A program may close a descriptor that is not its own. Its number then belongs to another file. */
static void closes_files(void)
{
	char link[64], path[512], content[6] = "";
	int own = -1;

	for (int fd = 3; fd < 100 && own < 0; fd++) {
		ssize_t length;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = readlink(link, path, sizeof(path) - 1);
		path[length < 0 ? 0 : length] = '\0';
		if (strcmp(path, getenv("VIPL_TRACE")) != 0)
			continue;
		close(fd);
		strcat(path, ".own");
		own = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		must(own == fd && write(own, "mine", 4) == 4, "the file");
	}
	must(own >= 0, "the trace's file is open");
	post_and_take(make_vi(NULL), 2000);
	own = open(path, O_RDONLY);
	must(read(own, content, sizeof(content)) == 4 && !strcmp(content, "mine"), "its content");
}

/* A program that was started without standard input, output and error, and writes to them. */
static void writes_to_closed(void)
{
	VIP_VI_HANDLE vi = make_vi(NULL);
	ssize_t unused;

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		unused = write(fd, "lost\n", 5);
	(void)unused;
	post_and_take(vi, 1000);
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

static pthread_barrier_t all_have_begun;

/* Its one line stays in the trace, no matter how much the others write. */
static void *calls_once(void *argument)
{
	VIP_VI_HANDLE vi = make_vi(NULL);

	(void)argument;
	name("SLEEPER", vi);
	must(VipDestroyVi(vi) == VIP_SUCCESS, "VipDestroyVi");
	pthread_barrier_wait(&all_have_begun);
	pause();
	return NULL;
}

/* 15 threads that sleep, beside this one, have the blocks of a trace of one MiB. Then this one needs another. */
static void crowds(void)
{
	pthread_t ids[15];

	must(!pthread_barrier_init(&all_have_begun, NULL, 16), "pthread_barrier_init");
	for (int i = 0; i < 15; i++)
		must(!pthread_create(&ids[i], NULL, calls_once, NULL), "pthread_create");
	pthread_barrier_wait(&all_have_begun);
	post_and_take(make_vi(NULL), 2000);
}

/* Each line has a number, so that a missing line is noticed. */
static void *numbers(void *argument)
{
	VIP_VI_HANDLE vi = make_vi(NULL);
	VIP_DESCRIPTOR *descriptor = make_descriptor(), *done;

	(void)argument;
	name("VI", vi);
	pthread_barrier_wait(&all_have_begun);
	for (unsigned i = 0; i < 10000; i++) {
		descriptor->Control.Control = VIP_CONTROL_IMMEDIATE;
		descriptor->Control.ImmediateData = i;
		must(VipPostSend(vi, descriptor, 0) == VIP_SUCCESS, "VipPostSend");
		must(VipSendDone(vi, &done) == VIP_DESCRIPTOR_ERROR && done, "VipSendDone");
	}
	return NULL;
}

/* Writes far more than the trace may have. Then the process is killed. */
static void overflows(void)
{
	pthread_t ids[3], sleeper;

	must(!pthread_barrier_init(&all_have_begun, NULL, 4), "pthread_barrier_init");
	must(!pthread_create(&sleeper, NULL, calls_once, NULL), "pthread_create");
	for (int i = 0; i < 3; i++)
		must(!pthread_create(&ids[i], NULL, numbers, NULL), "pthread_create");
	for (int i = 0; i < 3; i++)
		pthread_join(ids[i], NULL);
	fflush(stdout);
	raise(SIGKILL);
}

/* Goes on when standard input ends. */
static void holds(void)
{
	char byte;

	printf("OPEN 1\n");
	fflush(stdout);
	must(read(0, &byte, 1) == 0, "standard input");
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
		int exits_at_once;
	} cases[] = {
		{"polls", polls, 0},
		{"threads", threads, 0},
		{"forks", forks, 0},
		{"crashes", crashes, 0},
		{"posts", posts, 0},
		{"underscore_exit", posts, 1},
		{"full", is_full, 0},
		{"limited", is_limited, 0},
		{"closes", closes_files, 0},
		{"standard_closed", writes_to_closed, 0},
		{"holds", holds, 0},
		{"overflows", overflows, 0},
		{"crowded", crowds, 0},
		{"unmaps", unmaps, 0},
		{"calls", call_everything, 0},
	};

	open_nic();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc != 2 || strcmp(argv[1], cases[i].name) != 0)
			continue;
		cases[i].run();
		fflush(stdout);
		if (cases[i].exits_at_once)
			_exit(0);
		return 0;
	}
	return 2;
}
