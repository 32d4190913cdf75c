/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer of via_lo dies, and another process gets its number. Whatever is sent to the peer after that reaches nobody's
 * memory, nothing is read from it, and no send succeeds. The peer's child, which has its socket, hides the death.
 *
 * It runs with a /proc of its own namespace, by which the library opens the peer's memory, and with one that does not
 * know the processes. It needs a kernel that lets it make namespaces for processes, as root or as an ordinary user.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vipl.h>

#define MUST(call) if ((call) != VIP_SUCCESS) errx(1, "%s", #call)
/* Of the memory that is written to, in each process. */
#define PLACE ((char *)(uintptr_t)(sizeof(void *) > 4 ? 0x610000000000 : 0x51000000))
#define LENGTH (1 << 16)

struct test {
	const char *name;
	VIP_RELIABILITY_LEVEL level;
	VIP_UINT16 operation;
	VIP_UINT32 length;
};

static const struct test tests[] = {
	{"message", VIP_SERVICE_RELIABLE_DELIVERY, VIP_CONTROL_OP_SENDRECV, 60000},
	{"message at Reliable Reception", VIP_SERVICE_RELIABLE_RECEPTION, VIP_CONTROL_OP_SENDRECV, 8},
	{"unreliable message", VIP_SERVICE_UNRELIABLE, VIP_CONTROL_OP_SENDRECV, 60000},
	{"short RDMA write", VIP_SERVICE_RELIABLE_DELIVERY, VIP_CONTROL_OP_RDMAWRITE, 8},
	{"RDMA write", VIP_SERVICE_RELIABLE_DELIVERY, VIP_CONTROL_OP_RDMAWRITE, 60000},
	{"unreliable RDMA write", VIP_SERVICE_UNRELIABLE, VIP_CONTROL_OP_RDMAWRITE, 60000},
	{"short RDMA read", VIP_SERVICE_RELIABLE_DELIVERY, VIP_CONTROL_OP_RDMAREAD, 8},
	{"RDMA read", VIP_SERVICE_RELIABLE_DELIVERY, VIP_CONTROL_OP_RDMAREAD, 60000},
};

static struct { _Alignas(64) VIP_DESCRIPTOR message, other; } descriptors;
static struct shared {
	VIP_MEM_HANDLE handle;
	volatile int is_ready;
} *shared;

static struct { short host_length, discriminator_length; char host[6], discriminator[8]; }
	address = {6, 8, {127, 0, 0, 1}, ""};

static char *map_place(char fill)
{
	if (mmap(PLACE, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		 -1, 0) != PLACE)
		err(1, "mmap");
	return memset(PLACE, fill, LENGTH);
}

static VIP_MEM_HANDLE registered(VIP_NIC_HANDLE nic, void *memory, VIP_ULONG length)
{
	VIP_MEM_ATTRIBUTES rights = {NULL, VIP_TRUE, VIP_TRUE};
	VIP_MEM_HANDLE handle;

	MUST(VipRegisterMem(nic, memory, length, &rights, &handle));
	return handle;
}

static VIP_VI_HANDLE make_vi(VIP_NIC_HANDLE *nic, const struct test *test)
{
	VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = test->level, .MaxTransferSize = LENGTH,
		.EnableRdmaWrite = VIP_TRUE, .EnableRdmaRead = test->level != VIP_SERVICE_UNRELIABLE};
	VIP_VI_HANDLE vi;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	MUST(VipOpenNic("via_lo", nic));
	MUST(VipCreateVi(*nic, &attributes, NULL, NULL, &vi));
	return vi;
}

static void set_up(VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle, VIP_UINT32 length)
{
	*d = (VIP_DESCRIPTOR){.CS.SegCount = 1};
	d->DS[0].Local = (VIP_DATA_SEGMENT){{.Address = PLACE}, handle, length};
}

static _Noreturn void be_peer(const struct test *test)
{
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE connection;
	char remote[64] = "";
	VIP_NIC_HANDLE nic;
	VIP_VI_HANDLE vi = make_vi(&nic, test);
	VIP_MEM_HANDLE own = registered(nic, &descriptors, sizeof(descriptors));

	shared->handle = registered(nic, map_place('p'), LENGTH);
	set_up(&descriptors.message, shared->handle, LENGTH);
	set_up(&descriptors.other, shared->handle, LENGTH);
	MUST(VipPostRecv(vi, &descriptors.message, own));
	MUST(VipPostRecv(vi, &descriptors.other, own));
	MUST(VipConnectWait(nic, (VIP_NET_ADDRESS *)&address, 20000, (VIP_NET_ADDRESS *)remote, &attributes,
			    &connection));
	MUST(VipConnectAccept(connection, vi));
	if (fork()) /* the child has the sockets, and none of the memory */
		shared->is_ready = 1;
	for (;;)
		pause();
}

/* The exit status: 0 if nothing succeeds and nothing is read. */
static _Noreturn void be_sender(const struct test *test)
{
	VIP_VI_ATTRIBUTES attributes;
	VIP_DESCRIPTOR *done = NULL;
	VIP_NIC_HANDLE nic;
	VIP_VI_HANDLE vi = make_vi(&nic, test);
	VIP_MEM_HANDLE own = registered(nic, &descriptors, sizeof(descriptors)), memory;
	VIP_DESCRIPTOR *d = &descriptors.message;
	VIP_RETURN rc;

	memory = registered(nic, map_place('s'), LENGTH);
	MUST(VipConnectRequest(vi, (VIP_NET_ADDRESS *)&address, (VIP_NET_ADDRESS *)&address, 20000, &attributes));
	while (!shared->is_ready)
		sched_yield();
	set_up(d, memory, 100); /* both ends know each other well */
	MUST(VipPostSend(vi, d, own));
	MUST(VipSendWait(vi, 20000, &done));

	set_up(d, memory, test->length);
	d->CS.Control = test->operation;
	if (test->operation != VIP_CONTROL_OP_SENDRECV) {
		d->CS.SegCount = 2;
		d->DS[1] = d->DS[0];
		d->DS[0].Remote = (VIP_ADDRESS_SEGMENT){{.Address = PLACE}, shared->handle, 0};
	}
	raise(SIGSTOP); /* the peer dies now */
	rc = VipPostSend(vi, d, own);
	if (rc == VIP_SUCCESS)
		rc = VipSendWait(vi, 20000, &done); /* long: only a send that is lost takes it */
	if (rc == VIP_TIMEOUT)
		errx(3, "the send does not end");
	if (rc == VIP_SUCCESS && !(done->CS.Status & VIP_STATUS_ERROR_MASK))
		errx(4, "the send succeeds");
	for (int i = 0; i < LENGTH; i++)
		if (PLACE[i] != 's')
			errx(5, "memory of another process was read");
	_exit(0);
}

static pid_t fork_with_number(pid_t number)
{
	struct clone_args arguments = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number, .set_tid_size = 1};
	long process = syscall(SYS_clone3, &arguments, sizeof(arguments));

	if (process < 0)
		err(1, "clone3() with the number of a process that has died");
	return (pid_t)process;
}

/* Has the peer's number, and has never used the library. */
static _Noreturn void be_victim(int until_fd)
{
	char byte;

	map_place('v');
	shared->is_ready = 2;
	if (read(until_fd, &byte, 1) < 0)
		err(1, "read");
	for (int i = 0; i < LENGTH; i++)
		if (PLACE[i] != 'v')
			errx(6, "memory of a process that has the dead peer's number was written");
	_exit(0);
}

static int status_of(pid_t process)
{
	int status;

	if (waitpid(process, &status, 0) != process)
		err(1, "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static bool run(const struct test *test)
{
	pid_t peer, sender, victim;
	int status, until[2], bad;

	snprintf(address.discriminator, sizeof(address.discriminator), "%07lx", random() & 0xfffffff);
	memset(shared, 0, sizeof(*shared));
	if (pipe(until))
		err(1, "pipe");
	peer = fork();
	if (!peer)
		be_peer(test);
	sender = fork();
	if (!sender)
		be_sender(test);
	if (waitpid(sender, &status, WUNTRACED) != sender || !WIFSTOPPED(status))
		errx(1, "%s: the sender has ended too early", test->name);
	kill(peer, SIGKILL);
	status_of(peer);
	victim = fork_with_number(peer);
	if (!victim)
		be_victim(until[0]);
	while (shared->is_ready != 2)
		sched_yield();
	kill(sender, SIGCONT);
	bad = status_of(sender);
	if (write(until[1], "", 1) < 0)
		err(1, "write");
	bad |= status_of(victim);
	close(until[0]);
	close(until[1]);
	printf("%s %s\n", test->name, bad ? "FAILED" : "passed");
	return !bad;
}

int main(int argc, char **argv)
{
	bool knows = argc > 1 && !strcmp(argv[1], "proc");
	unsigned failed = 0;
	pid_t first;

	if (argc != 2 || (!knows && strcmp(argv[1], "no-proc")))
		errx(2, "usage: reused_number proc|no-proc");
	setvbuf(stdout, NULL, _IOLBF, 0);
	srandom((unsigned)getpid());
	if (unshare((geteuid() ? CLONE_NEWUSER : 0) | CLONE_NEWPID | CLONE_NEWNS))
		err(1, "this test needs namespaces for processes and mounts: unshare()");
	first = fork(); /* is the init of the namespace: all others end with it */
	if (first)
		return status_of(first);
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    (knows ? mount("proc", "/proc", "proc", 0, NULL) : mount("none", "/proc", "tmpfs", 0, NULL)))
		err(1, "mount");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		failed += !run(&tests[i]);
	return failed ? 1 : 0;
}
