/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vip_pingpong - a VIA program as an example. Messages go to and fro between a client and a server,
 * and both check every byte.
 *
 * A connection needs an open NIC, a protection tag, registered memory for descriptors and data, a
 * VI, and a receive that is posted before the first message can come. The client requests the
 * connection by the server's host and a discriminator. The server learns the client's attributes
 * with the request, and makes a VI with the same attributes. Then each message is a descriptor that
 * is posted and, when it is done, taken off its queue. The client ends with an empty message. After
 * it the server disconnects.
 */
#include "../common/common.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DISCRIMINATOR "vip_pingpong"
#define TIMEOUT       60000 /* milliseconds that the peer may be silent */

const char *program_name = "vip_pingpong";

struct options {
	const char *server; /* NULL: this is the server */
	const char *nic;
	VIP_RELIABILITY_LEVEL level;
	unsigned long size;
	unsigned long count;
};

/*
 * One end of the connection. One message at a time is under way, so one descriptor each way is
 * enough.
 */
struct end {
	VIP_NIC_HANDLE nic;
	VIP_NIC_ATTRIBUTES attributes;
	VIP_PROTECTION_HANDLE ptag;
	VIP_VI_HANDLE vi;
	VIP_MEM_HANDLE memory;
	/* The registered memory begins with them; the data follows. */
	VIP_DESCRIPTOR *send, *receive;
	uint8_t *out, *in;
	size_t size; /* bytes of out and of in */
};

/* Ends the program unless a call has succeeded. The library cleans up after a process that ends. */
static void must(VIP_RETURN code, const char *what)
{
	if (code == VIP_SUCCESS)
		return;
	complain_code(code, "%s", what);
	exit(EXIT_FAILED);
}

/* Ends the program unless the descriptor, which was taken off its queue, is done without an error. */
static void must_be_done(VIP_RETURN code, const VIP_DESCRIPTOR *descriptor, const char *what)
{
	char text[STATUS_TEXT_MAX];

	if (code == VIP_DESCRIPTOR_ERROR && descriptor)
		complain("%s: %s: status %s", what, status_error(descriptor->CS.Status), status_words(descriptor->CS.Status, text));
	must(code, what);
}

/* An address has the bytes of the host, and right behind them those of the discriminator. */
static void set_discriminator(VIP_NET_ADDRESS *address, const void *bytes, size_t length)
{
	address->DiscriminatorLen = (VIP_UINT16)length;
	memcpy(address->HostAddress + address->HostAddressLen, bytes, length);
}

static VIP_NET_ADDRESS *new_address(const struct end *end)
{
	VIP_NET_ADDRESS *address =
		calloc(1, offsetof(VIP_NET_ADDRESS, HostAddress) + end->attributes.NicAddressLen +
				  end->attributes.MaxDiscriminatorLen);

	if (!address)
		must(VIP_ERROR_RESOURCE, "no memory for an address");
	address->HostAddressLen = end->attributes.NicAddressLen;
	memcpy(address->HostAddress, end->attributes.LocalNicAddress, address->HostAddressLen);
	return address;
}

/* Fills in a descriptor for a message of that length. */
static void fill(const struct end *end, VIP_DESCRIPTOR *descriptor, uint8_t *data, size_t length)
{
	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	descriptor->CS.Length = (VIP_UINT32)length;
	descriptor->CS.SegCount = 1;
	descriptor->DS[0].Local.Data.Address = data;
	descriptor->DS[0].Local.Handle = end->memory;
	descriptor->DS[0].Local.Length = (VIP_UINT32)length;
}

static void post_receive(struct end *end)
{
	fill(end, end->receive, end->in, end->size);
	must(VipPostRecv(end->vi, end->receive, end->memory), "cannot post a receive");
}

static void post_send(struct end *end, size_t length)
{
	fill(end, end->send, end->out, length);
	must(VipPostSend(end->vi, end->send, end->memory), "cannot post a send");
}

static void open_nic(struct end *end, const char *name)
{
	must(VipOpenNic(name, &end->nic), "cannot open the NIC (vip_info tells which there are)");
	must(VipQueryNic(end->nic, &end->attributes), "cannot query the NIC");
	must(VipNSInit(end->nic, NULL), "cannot start the name service");
}

/*
 * Makes a VI and its memory. The receive is posted before the VI is connected: a message that finds
 * no receive would break the connection.
 */
static void make_vi(struct end *end, VIP_RELIABILITY_LEVEL level, size_t size)
{
	VIP_VI_ATTRIBUTES vi = {.ReliabilityLevel = level, .MaxTransferSize = size};
	VIP_MEM_ATTRIBUTES rights = {0};
	size_t bytes = 2 * sizeof(VIP_DESCRIPTOR) + 2 * size;

	end->size = size;
	must(VipCreatePtag(end->nic, &end->ptag), "cannot create a protection tag");
	vi.Ptag = rights.Ptag = end->ptag;
	must(VipCreateVi(end->nic, &vi, NULL, NULL, &end->vi), "cannot create a VI");

	if (posix_memalign((void **)&end->send, VIP_DESCRIPTOR_ALIGNMENT, bytes))
		must(VIP_ERROR_RESOURCE, "no memory for messages");
	end->receive = end->send + 1;
	end->out = (uint8_t *)(end->receive + 1);
	end->in = end->out + size;
	must(VipRegisterMem(end->nic, end->send, bytes, &rights, &end->memory),
	     "cannot register memory");
	post_receive(end);
}

static void connect_to(struct end *end, const struct options *options)
{
	VIP_NET_ADDRESS *local = new_address(end), *remote = new_address(end);
	char *server = strdup(options->server); /* VIPL's parameter is not const */
	VIP_VI_ATTRIBUTES ignored;
	pid_t process = getpid();

	must(VipNSGetHostByName(end->nic, server, remote, 0), "cannot find the server");
	set_discriminator(remote, DISCRIMINATOR, strlen(DISCRIMINATOR));
	/* Differs from those of other clients. */
	set_discriminator(local, &process, sizeof(process));
	must(VipConnectRequest(end->vi, local, remote, TIMEOUT, &ignored),
	     "cannot connect to the server");
	printf("connected to %s\n", server);
	fflush(stdout);
	free(server);
	free(remote);
	free(local);
}

/*
 * Both VIs of a connection have the same attributes, so the server waits for the client's request
 * before it makes its VI.
 */
static void accept_client(struct end *end)
{
	VIP_NET_ADDRESS *local = new_address(end), *remote = new_address(end);
	VIP_VI_ATTRIBUTES wishes;
	VIP_CONN_HANDLE request;

	set_discriminator(local, DISCRIMINATOR, strlen(DISCRIMINATOR));
	/* The room for the client's discriminator. */
	remote->DiscriminatorLen = end->attributes.MaxDiscriminatorLen;
	must(VipConnectWait(end->nic, local, VIP_INFINITE, remote, &wishes, &request),
	     "no client came");
	make_vi(end, wishes.ReliabilityLevel, wishes.MaxTransferSize);
	must(VipConnectAccept(request, end->vi), "cannot accept the client");
	free(remote);
	free(local);
}

/*
 * Returns the expected byte. It depends on the message, the place and the direction, so that no two
 * can be confused.
 */
static uint8_t pattern(unsigned long message, size_t at, bool from_server)
{
	return (uint8_t)(message * 3 + at * 7 + (at >> 8) * 13 + (from_server ? 101 : 0));
}

static void send_message(struct end *end, unsigned long message, size_t size, bool is_server)
{
	VIP_DESCRIPTOR *done = NULL;
	VIP_RETURN code;

	for (size_t at = 0; at < size; at++)
		end->out[at] = pattern(message, at, is_server);
	post_send(end, size);
	code = VipSendWait(end->vi, TIMEOUT, &done);
	must_be_done(code, done, "cannot send");
}

/*
 * Returns the length of the message. It posts the next receive before the answer can bring a
 * message.
 */
static size_t receive_message(struct end *end, unsigned long message, bool is_server)
{
	VIP_DESCRIPTOR *done = NULL;
	VIP_RETURN code;
	size_t length;

	code = VipRecvWait(end->vi, TIMEOUT, &done);
	must_be_done(code, done, "cannot receive");
	length = done->CS.Length;
	for (size_t at = 0; at < length; at++)
		if (end->in[at] != pattern(message, at, !is_server)) {
			complain("message %lu of %zu bytes: byte %zu is wrong", message, length,
				 at);
			exit(EXIT_FAILED);
		}
	post_receive(end);
	return length;
}

static void run_server(struct end *end)
{
	unsigned long message = 0;
	size_t length;

	accept_client(end);
	while ((length = receive_message(end, message, true)) > 0)
		send_message(end, message++, length, true);
}

/*
 * The server's disconnecting flushes the receive that is still posted, and perhaps the last send.
 */
static void say_goodbye(struct end *end)
{
	VIP_DESCRIPTOR *done = NULL;
	VIP_RETURN code;

	post_send(end, 0);
	code = VipRecvWait(end->vi, TIMEOUT, &done);
	if (code != VIP_DESCRIPTOR_ERROR)
		must(code, "the server does not hang up");
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void run_client(struct end *end, const struct options *options)
{
	double begun;

	make_vi(end, options->level, options->size);
	connect_to(end, options);
	begun = seconds_now();
	for (unsigned long message = 0; message < options->count; message++) {
		send_message(end, message, options->size, false);
		if (receive_message(end, message, false) != options->size) {
			complain("message %lu has come back with another length", message);
			exit(EXIT_FAILED);
		}
	}
	printf("%lu messages of %lu bytes and back: all right, %.2f microseconds each way\n",
	       options->count, options->size,
	       (seconds_now() - begun) * 1e6 / (double)options->count / 2);
	say_goodbye(end);
}

static void close_all(struct end *end)
{
	must(VipDisconnect(end->vi), "cannot disconnect");
	must(VipDestroyVi(end->vi), "cannot destroy the VI");
	must(VipDeregisterMem(end->nic, end->send, end->memory), "cannot deregister memory");
	must(VipDestroyPtag(end->nic, end->ptag), "cannot destroy the protection tag");
	must(VipNSShutdown(end->nic), "cannot shut the name service down");
	must(VipCloseNic(end->nic), "cannot close the NIC");
	free(end->send);
}

static int usage(int status)
{
	fputs("Usage: vip_pingpong [OPTION]...         serve one client, then end\n"
	      "       vip_pingpong [OPTION]... SERVER  be the client of SERVER\n"
	      "Sends messages to and fro between two VIs; both sides check every byte. SERVER is\n"
	      "a host's name, localhost, or an IP address.\n"
	      "\n"
	      "  -n, --nic=NAME     the NIC (default nic0)\n"
	      "  -h, --help         print this and end\n"
	      "      --version      print the version and end\n"
	      "Of the client alone:\n"
	      "  -s, --size=BYTES   of each message, 1 or more (default 1024)\n"
	      "  -c, --count=N      messages (default 1000)\n"
	      "  -l, --level=LEVEL  unreliable, delivery or reception (default delivery)\n"
	      "\n"
	      "Exit status: 0 ok, 1 failed, 2 wrong usage.\n",
	      status ? stderr : stdout);
	return status;
}

/* Returns -1 to go on, or else the exit status. */
static int parse_arguments(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"nic", required_argument, NULL, 'n'},   {"size", required_argument, NULL, 's'},
		{"count", required_argument, NULL, 'c'}, {"level", required_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},        {"version", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "n:s:c:l:h", known, NULL)) != -1) {
		if (option == 'n')
			options->nic = optarg;
		else if (option == 's' && !parse_number(optarg, 1, UINT32_MAX / 4, &options->size))
			continue;
		else if (option == 'c' && !parse_number(optarg, 1, UINT32_MAX, &options->count))
			continue;
		else if (option == 'l' && !strcmp(optarg, "unreliable"))
			options->level = VIP_SERVICE_UNRELIABLE;
		else if (option == 'l' && !strcmp(optarg, "delivery"))
			options->level = VIP_SERVICE_RELIABLE_DELIVERY;
		else if (option == 'l' && !strcmp(optarg, "reception"))
			options->level = VIP_SERVICE_RELIABLE_RECEPTION;
		else if (option == 'v')
			return puts(VIPL_VERSION) < 0 ? EXIT_FAILED : EXIT_OK;
		else
			return usage(option == 'h' ? EXIT_OK : EXIT_USAGE);
	}
	options->server = argv[optind]; /* NULL if no host is given */
	return argc - optind > 1 ? usage(EXIT_USAGE) : -1;
}

int main(int argc, char **argv)
{
	struct options options = {
		.nic = "nic0", .level = VIP_SERVICE_RELIABLE_DELIVERY, .size = 1024, .count = 1000};
	struct end end = {0};
	int status = parse_arguments(argc, argv, &options);

	if (status >= 0)
		return status_with_output(status);
	hold_standard_files();
	open_nic(&end, options.nic);
	if (options.server)
		run_client(&end, &options);
	else
		run_server(&end);
	close_all(&end);
	return status_with_output(EXIT_OK);
}
