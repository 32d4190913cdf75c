/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * puppet [COMMAND]...: carries out the commands, of which VIPL's must succeed, and then those of its standard input, one a
 * line, which it answers with their results. A command is a function of VIPL, of the C library or of this program, and its
 * arguments: a number, 'TEXT, the NAME of a value, or &NAME for the place of one. puppet.py is the other end.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vipl.h"

#define CONNECTS 120000 /* milliseconds, at most */

/* Commands are found by dlsym(). */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

typedef uintptr_t function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static uid_t pretended; /* 0: what the kernel says */
static atomic_int is_over;
static sem_t called;
static struct value {
	char name[24];
	uintptr_t own, *place;
} values[64];
static size_t value_count;
static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi, accepted[1024];
static size_t accepted_count;
static VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY, .MaxTransferSize = 4096};
static VIP_MEM_ATTRIBUTES rights = {NULL, VIP_TRUE, VIP_FALSE};

static void must(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "puppet: %s\n", what);
	_exit(9);
}

static void succeeded(VIP_RETURN rc, const char *call)
{
	if (rc != VIP_SUCCESS)
		fprintf(stderr, "puppet: VIP_RETURN %d\n", (int)rc);
	must(rc == VIP_SUCCESS, call);
}

/* Zeroed, for a structure. */
void *room(void)
{
	static _Alignas(VIP_DESCRIPTOR_ALIGNMENT) char memory[64][256];
	static _Atomic unsigned used;
	unsigned index = used++;

	must(index < sizeof(memory) / sizeof(memory[0]), "memory");
	return memory[index];
}

/* On an idle VI a send is done at once, flushed. This makes twice as many lines. */
static int post_and_take(VIP_VI_HANDLE on, size_t times)
{
	VIP_DESCRIPTOR *descriptor = room(), *done;

	for (size_t i = 0; i < times; i++) {
		descriptor->CS.Control = VIP_CONTROL_IMMEDIATE;
		descriptor->CS.ImmediateData = (VIP_UINT32)i;
		must(VipPostSend(on, descriptor, 0) == VIP_SUCCESS, "VipPostSend");
		must(VipSendDone(on, &done) == VIP_DESCRIPTOR_ERROR && done, "VipSendDone");
	}
	return 0;
}

VIP_VI_HANDLE make_vi(void)
{
	must(VipCreateVi(nic, &attributes, NULL, NULL, &vi) == VIP_SUCCESS, "VipCreateVi");
	return vi;
}

int post(size_t times)
{
	return post_and_take(vi, times);
}

static void *use_vi(void *argument)
{
	VIP_VI_HANDLE own;
	VIP_DESCRIPTOR *done;

	must(VipCreateVi(nic, &attributes, NULL, NULL, &own) == VIP_SUCCESS, "VipCreateVi");
	must(VipPostRecv(own, room(), 0) == VIP_SUCCESS, "VipPostRecv");
	post_and_take(own, 1500);
	for (int i = 0; i < 11; i++) /* no later line has their count */
		must(VipRecvDone(own, &done) == VIP_NOT_DONE, "VipRecvDone");
	return argument;
}

int threads(void)
{
	pthread_t ids[4];

	for (int i = 0; i < 4; i++)
		must(!pthread_create(&ids[i], NULL, use_vi, NULL), "pthread_create");
	for (int i = 0; i < 4; i++)
		pthread_join(ids[i], NULL);
	return 0;
}

pid_t child(void)
{
	VIP_NIC_ATTRIBUTES told;
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		must(VipQueryNic(nic, &told) == VIP_INVALID_PARAMETER, "VipQueryNic");
		must(VipOpenNic("via_lo", &nic) == VIP_SUCCESS, "VipOpenNic");
		post_and_take(make_vi(), 1000);
		exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && !status, "the child");
	return pid;
}

/* A child that has what this process has, until it is killed. */
pid_t stay(void)
{
	pid_t pid = fork();

	while (!pid)
		pause();
	return pid;
}

/* An address of this machine, with the number if it is not 0. */
void *address(const char *discriminator, int number)
{
	VIP_NET_ADDRESS *made = room();
	char *bytes = (char *)made + offsetof(VIP_NET_ADDRESS, HostAddress);

	made->HostAddressLen = 6;
	memcpy(bytes, "\177\0\0\1\0\0", 6);
	made->DiscriminatorLen = (VIP_UINT16)(number ? snprintf(bytes + 6, 20, "%s %d", discriminator, number)
						     : snprintf(bytes + 6, 20, "%s", discriminator));
	return made;
}

void *describe(uintptr_t data, VIP_MEM_HANDLE handle, VIP_UINT32 length, VIP_UINT16 control)
{
	VIP_DESCRIPTOR *descriptor = room();

	descriptor->CS.SegCount = 1;
	descriptor->CS.Control = control;
	descriptor->CS.ImmediateData = 0x77;
	descriptor->DS[0].Local.Data.AddressBits = data;
	descriptor->DS[0].Local.Handle = handle;
	descriptor->DS[0].Local.Length = length;
	return descriptor;
}

/* Makes it an RDMA operation. */
void *aim(VIP_DESCRIPTOR *descriptor, uintptr_t remote, VIP_MEM_HANDLE handle)
{
	descriptor->CS.SegCount = 2;
	descriptor->DS[1] = descriptor->DS[0];
	descriptor->DS[0].Remote = (VIP_ADDRESS_SEGMENT){{.AddressBits = remote}, handle, 0};
	return descriptor;
}

/* Changes what VIs and memory are made with. */
int allow(VIP_RELIABILITY_LEVEL level, VIP_ULONG transfer, VIP_BOOLEAN read)
{
	attributes = (VIP_VI_ATTRIBUTES){level, transfer, NULL, NULL, VIP_TRUE, read};
	rights.EnableRdmaRead = VIP_TRUE;
	return 0;
}

void *behind(char *at, size_t bytes)
{
	return at + bytes;
}

/* Replaces the C library's, also for libvipl. */
uid_t geteuid(void)
{
	return pretended ? pretended : (uid_t)syscall(SYS_geteuid);
}

int stop(void)
{
	return atomic_exchange(&is_over, 1);
}

/* Needs the NIC's lock for a moment. */
VIP_RETURN pass_vi(void)
{
	VIP_VI_HANDLE made;
	VIP_RETURN rc = VipCreateVi(nic, &attributes, NULL, NULL, &made);

	return rc == VIP_SUCCESS ? VipDestroyVi(made) : rc;
}

/* Waits for a request for a second. */
VIP_RETURN reject_one(VIP_NET_ADDRESS *at, VIP_NET_ADDRESS *from)
{
	VIP_VI_ATTRIBUTES told;
	VIP_CONN_HANDLE connection;
	VIP_RETURN rc = VipConnectWait(nic, at, 1000, from, &told, &connection);

	return rc == VIP_SUCCESS ? VipConnectReject(connection) : rc;
}

/* These two connect a new VI. */
int accept_one(VIP_NET_ADDRESS *at, VIP_NET_ADDRESS *from)
{
	VIP_VI_ATTRIBUTES told;
	VIP_CONN_HANDLE connection;

	succeeded(VipConnectWait(nic, at, CONNECTS, from, &told, &connection), "VipConnectWait");
	must(accepted_count < sizeof(accepted) / sizeof(accepted[0]), "room for VIs");
	accepted[accepted_count++] = make_vi();
	succeeded(VipConnectAccept(connection, vi), "VipConnectAccept");
	return 0;
}

int request_one(VIP_NET_ADDRESS *own, VIP_NET_ADDRESS *other)
{
	VIP_VI_ATTRIBUTES told;

	succeeded(VipConnectRequest(make_vi(), own, other, CONNECTS, &told), "VipConnectRequest");
	return 0;
}

/* Returns how many of those that were accepted are still connected. */
int still_connected(void)
{
	VIP_BOOLEAN sends_empty, receives_empty;
	VIP_VI_ATTRIBUTES told;
	VIP_VI_STATE state;
	int count = 0;

	for (size_t i = 0; i < accepted_count; i++) {
		succeeded(VipQueryVi(accepted[i], &state, &told, &sends_empty, &receives_empty), "VipQueryVi");
		count += state == VIP_STATE_CONNECTED;
	}
	return count;
}

int pretend(uid_t user)
{
	pretended = user;
	return 0;
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	(void)context, (void)error;
	sem_post(&called);
}

static void on_descriptor(VIP_PVOID context, VIP_NIC_HANDLE from, VIP_VI_HANDLE of, VIP_DESCRIPTOR *descriptor)
{
	(void)context, (void)from, (void)of, (void)descriptor;
	sem_post(&called);
}

static void on_entry(VIP_PVOID context, VIP_NIC_HANDLE from, VIP_VI_HANDLE of, VIP_BOOLEAN is_receive)
{
	VIP_DESCRIPTOR *done;

	(void)context, (void)from, (void)is_receive;
	must(VipRecvDone(of, &done) == VIP_SUCCESS, "VipRecvDone in a handler");
	sem_post(&called);
}

static struct value *value(const char *name)
{
	struct value *found = values;

	while (found < values + value_count && strcmp(found->name, name))
		found++;
	if (found == values + value_count) {
		must(++value_count < sizeof(values) / sizeof(values[0]), "room for values");
		snprintf(found->name, sizeof(found->name), "%s", name);
		found->place = &found->own;
	}
	return found;
}

static uintptr_t argument(const char *word)
{
	if (*word == '&')
		return (uintptr_t)value(word + 1)->place;
	if (*word == '\'')
		return (uintptr_t)(word + 1);
	return isdigit((unsigned char)*word) ? strtoul(word, NULL, 0) : *value(word)->place;
}

struct command {
	function *call;
	uintptr_t arguments[6], times;
	int stops;
	struct value *result; /* NULL: it is not kept */
};

/* Also: NAME = COMMAND, TIMES * COMMAND until "stop", and "stopped COMMAND", before which the process stops. */
static struct command parse(char *line)
{
	char *rest = NULL, *name = strtok_r(line, " \n", &rest), *word = strtok_r(NULL, " \n", &rest);
	struct command command = {.times = 1, .stops = !strcmp(name, "stopped")};

	if (word && *word == '=')
		command.result = value(name);
	if (word && *word == '*')
		command.times = argument(name);
	if (command.result || command.times != 1)
		word = strtok_r(NULL, " \n", &rest);
	if (command.result || command.times != 1 || command.stops) {
		name = word;
		word = strtok_r(NULL, " \n", &rest);
	}
	for (unsigned i = 0; word; word = strtok_r(NULL, " \n", &rest))
		command.arguments[i++] = argument(word);
	*(void **)&command.call = dlsym(RTLD_DEFAULT, name);
	must(command.call != NULL, name);
	return command;
}

static uintptr_t carry_out(const struct command *command)
{
	const uintptr_t *a = command->arguments;
	uintptr_t result, left = command->times;

	if (command->stops)
		raise(SIGSTOP);
	do
		result = command->call(a[0], a[1], a[2], a[3], a[4], a[5]);
	while (--left && !atomic_load(&is_over));
	if (command->result)
		*command->result->place = result;
	return result;
}

static uintptr_t run(char *line)
{
	struct command command = parse(line);

	return carry_out(&command);
}

static void *run_thread(void *command)
{
	carry_out(command);
	free(command);
	return NULL;
}

/* The command's texts stay. */
static uintptr_t start_thread(const char *line)
{
	struct command *command = malloc(sizeof(*command));
	static char texts[4][256];
	static unsigned count;
	pthread_t thread;

	must(command && count < sizeof(texts) / sizeof(texts[0]), "room for a thread");
	snprintf(texts[count], sizeof(texts[0]), "%s", line);
	*command = parse(texts[count++]);
	must(!pthread_create(&thread, NULL, run_thread, command), "pthread_create");
	return (uintptr_t)thread;
}

/* The answer to "thread COMMAND" is what pthread_join() takes, which is also the value of "thread". */
static void answer(char *line)
{
	if (!strncmp(line, "thread ", 7)) {
		printf("%#lx\n", (unsigned long)(*value("thread")->place = start_thread(line + 7)));
	} else if (strcmp(line, "values\n")) {
		printf("%#lx\n", (unsigned long)run(line));
	} else {
		for (size_t i = 0; i < value_count; i++)
			printf("%s=%#lx ", values[i].name, (unsigned long)*values[i].place);
		puts("");
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[256];

	sem_init(&called, 0, 0);
	value("NIC")->place = (uintptr_t *)&nic;
	value("VI")->place = (uintptr_t *)&vi;
	value("TAG")->place = (uintptr_t *)&rights.Ptag; /* memory is registered with it */
	*value("PID")->place = (uintptr_t)getpid();
	*value("attributes")->place = (uintptr_t)&attributes;
	*value("rights")->place = (uintptr_t)&rights;
	*value("INFINITE")->place = VIP_INFINITE;
	*value("CALLED")->place = (uintptr_t)&called;
	*value("ON_ERROR")->place = (uintptr_t)on_error;
	*value("ON_DESCRIPTOR")->place = (uintptr_t)on_descriptor;
	*value("ON_ENTRY")->place = (uintptr_t)on_entry;
	for (int i = 1; i < argc; i++)
		must((VIP_RETURN)run(argv[i]) == VIP_SUCCESS || strncmp(argv[i], "Vip", 3), argv[i]);
	while (fgets(line, sizeof(line), stdin))
		answer(line);
	return 0;
}
