/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks the RDMA device of a NIC what it offers, as the library does when it opens one. */
#include "offers.h"

#include <infiniband/verbs.h>
#include <stdio.h>

#include "rdma/verbs_candidates.h"

static bool ask(const char *name, struct verbs_caps *caps)
{
	struct ibv_context *context = verbs_device_open(name);
	struct ibv_device_attr limits;
	bool known;

	if (!context)
		return false;
	known = !verbs_ask_caps(context, &limits, caps);
	ibv_close_device(context);
	return known;
}

static void print_number(bool json, const char *key, const char *words, unsigned number)
{
	if (json)
		printf(", \"%s\": %u", key, number);
	else
		printf("    %-36s%u\n", words, number);
}

static void print_truth(bool json, const char *key, const char *words, bool truth)
{
	if (json)
		printf(", \"%s\": %s", key, truth ? "true" : "false");
	else
		printf("    %-36s%s\n", words, truth ? "yes" : "no");
}

void print_offers(const char *device, bool json)
{
	struct verbs_caps caps;

	if (!ask(device, &caps))
		return;
	if (json)
		printf(",\n     \"offers\": {\"device\": \"%s\"", device);
	else
		puts("  Of what the device offers the library uses:");
	print_number(json, "InlineBytes", "inline bytes of a request", caps.inline_bytes);
	print_number(json, "SendSegments", "segments of a send or RDMA write", caps.send_segments);
	print_number(json, "ReadSegments", "segments of an RDMA read", caps.read_segments);
	print_number(json, "ReceiveSegments", "segments of a receive", caps.receive_segments);
	print_number(json, "CompletionVectors", "interrupts for completions", caps.vectors);
	print_truth(json, "UC", "UC queue pairs", caps.has_uc);
	print_truth(json, "Atomics", "atomic operations", caps.has_atomics);
	print_truth(json, "ForkIsSafe", "fork() keeps registered memory", ibv_is_fork_initialized() != IBV_FORK_DISABLED);
	if (json)
		putchar('}');
}
