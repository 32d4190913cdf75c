/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program of 32 bits as of VIA's time. It is compiled for a stack that is aligned to 4 bytes, and makes its calls at each
 * place below 16. Its files have times after 2038, among them those that the library has made, as when it runs then.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vipl.h"

#define BYTES	 4096u
#define WAITS	 60000u

static VIP_NIC_HANDLE nic;
static VIP_PROTECTION_HANDLE tag;
static VIP_CQ_HANDLE cq;
static VIP_VI_HANDLE client, server;
static VIP_MEM_HANDLE handle;
static char memory[3 * BYTES] __attribute__((aligned(64)));
static char discriminator[16];
static sem_t notified;

static void must(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "old_program: %s\n", what);
	_exit(1);
}
#define MUST(call) must((call) == VIP_SUCCESS, #call)

/* Calls the function with the stack so many bytes lower. */
static void call_below(void (*function)(void), unsigned bytes)
{
#ifdef __i386__
	__asm__ volatile("movl %%esp, %%esi\n\tsubl %0, %%esp\n\tcall *%1\n\tmovl %%esi, %%esp"
			 :
			 : "r"(bytes), "r"(function)
			 : "eax", "ecx", "edx", "esi", "memory", "cc");
#else
	(void)bytes;
	function();
#endif
}

static void call_everywhere(void (*function)(void))
{
	for (unsigned bytes = 0; bytes < 16; bytes += 4)
		call_below(function, bytes);
}

/* ---- times after 2038 ---- */

static void make_late(int fd)
{
	static const int64_t times[][2] = {{4102444800, 0}, {4102444800, 0}}; /* 2100; a time_t of the C library may be shorter */

	must(!syscall(SYS_utimensat_time64, fd, NULL, times, 0), "utimensat_time64()");
}

/* The number of the library's files in memory, each of which becomes late. */
static unsigned files_in_memory(void)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned count = 0;

	must(directory != NULL, "opendir()");
	while ((entry = readdir(directory))) {
		char path[300] = "/proc/self/fd/", name[64] = "";

		strcat(path, entry->d_name);
		if (readlink(path, name, sizeof(name) - 1) < 0 || strncmp(name, "/memfd:vipl", 11) != 0)
			continue;
		make_late(atoi(entry->d_name));
		count++;
	}
	closedir(directory);
	return count;
}

/* ---- what it does ---- */

static VIP_NET_ADDRESS *address(void)
{
	static union {
		VIP_NET_ADDRESS address;
		char bytes[64];
	} room;
	VIP_NIC_ATTRIBUTES attributes;

	MUST(VipQueryNic(nic, &attributes));
	room.address.HostAddressLen = attributes.NicAddressLen;
	memcpy(room.address.HostAddress, attributes.LocalNicAddress, attributes.NicAddressLen);
	room.address.DiscriminatorLen = (VIP_UINT16)strlen(discriminator);
	memcpy(room.address.HostAddress + attributes.NicAddressLen, discriminator, strlen(discriminator));
	return &room.address;
}

static VIP_DESCRIPTOR *describe(unsigned place, unsigned length)
{
	VIP_DESCRIPTOR *descriptor = (VIP_DESCRIPTOR *)(void *)(memory + place * sizeof(*descriptor));

	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.SegCount = 1;
	descriptor->DS[0].Local.Data.Address = memory + (1 + place) * BYTES;
	descriptor->DS[0].Local.Handle = handle;
	descriptor->DS[0].Local.Length = length;
	return descriptor;
}

static void poll_in_handler(void)
{
	VIP_DESCRIPTOR *done;

	MUST(VipRecvDone(server, &done));
}

static void handler(VIP_PVOID context, VIP_NIC_HANDLE of, VIP_VI_HANDLE at, VIP_BOOLEAN is_receive)
{
	(void)context, (void)of, (void)at, (void)is_receive;
	call_below(poll_in_handler, 4);
	sem_post(&notified);
}

static void error_handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	(void)context, (void)error;
}

static void request(void)
{
	VIP_VI_ATTRIBUTES peer;

	MUST(VipConnectRequest(client, address(), address(), WAITS, &peer));
}

static void *run_client(void *bytes)
{
	call_below(request, *(const unsigned *)bytes);
	return NULL;
}

static void make_vis(void)
{
	VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY, .MaxTransferSize = BYTES, .Ptag = tag};

	MUST(VipCreateVi(nic, &attributes, NULL, NULL, &client));
	MUST(VipCreateVi(nic, &attributes, NULL, cq, &server));
}

static void connect_vis(void)
{
	static const unsigned places[] = {0, 4, 8, 12};
	static unsigned number;
	union {
		VIP_NET_ADDRESS address;
		char bytes[64];
	} from = {0};
	VIP_VI_ATTRIBUTES peer;
	VIP_CONN_HANDLE conn;
	pthread_t thread;

	must(!pthread_create(&thread, NULL, run_client, (void *)&places[number++ % 4]), "pthread_create()");
	MUST(VipConnectWait(nic, address(), WAITS, &from.address, &peer, &conn));
	MUST(VipConnectAccept(conn, server));
	pthread_join(thread, NULL);
}

static void send(void)
{
	VIP_DESCRIPTOR *sent = describe(0, BYTES), *received = describe(1, BYTES), *done;

	memset(memory + BYTES, 'x', BYTES);
	MUST(VipCQNotify(cq, NULL, handler));
	MUST(VipPostRecv(server, received, handle));
	MUST(VipPostSend(client, sent, handle));
	MUST(VipSendWait(client, WAITS, &done));
	while (sem_wait(&notified))
		;
	must(!memcmp(memory + BYTES, memory + 2 * BYTES, BYTES), "the bytes are wrong");
}

static void fork_child(void)
{
	pid_t child = fork();
	int status = -1;

	if (!child)
		exit(0);
	must(waitpid(child, &status, 0) == child && !status, "a child");
}

static void live(void)
{
	VIP_MEM_ATTRIBUTES rights = {.Ptag = NULL};

	MUST(VipOpenNic("via_lo", &nic));
	files_in_memory();
	MUST(VipErrorCallback(nic, NULL, error_handler));
	MUST(VipCreatePtag(nic, &tag));
	rights.Ptag = tag;
	MUST(VipRegisterMem(nic, memory, sizeof(memory), &rights, &handle));
	MUST(VipCreateCQ(nic, 16, &cq));
	make_vis();
	connect_vis();
	send();
	fork_child();
	MUST(VipDisconnect(client));
	MUST(VipDisconnect(server));
	MUST(VipDestroyVi(client));
	MUST(VipDestroyVi(server));
	MUST(VipDestroyCQ(cq));
	MUST(VipDeregisterMem(nic, memory, handle));
	MUST(VipDestroyPtag(nic, tag));
	files_in_memory();
	MUST(VipCloseNic(nic));
}

int main(void)
{
	char trace[] = "/tmp/old_program.XXXXXX", line[12] = "";
	int fd = mkstemp(trace);

	make_late(fd);
	setenv("VIPL_TRACE", trace, 1);
	sprintf(discriminator, "old %d", (int)getpid());
	sem_init(&notified, 0, 0);
	call_everywhere(live);
	must(read(fd, line, sizeof(line) - 1) > 0 && !strcmp(line, "# vipl-trac"), "there is no trace");
	unlink(trace);
	must(files_in_memory() == 0, "files of the library are left");
	return 0;
}
