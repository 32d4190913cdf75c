/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peers left|right [HOST]: two equals connect with each other. Neither is the server: both call the same functions, in any
 * order. HOST is the other one's host (default: localhost).
 */
#include "example.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT 60000 /* milliseconds that the other one may be late */

int main(int argc, char **argv)
{
	struct nic nic;
	struct message *receive, *send;
	VIP_NET_ADDRESS *local, *remote;
	VIP_VI_ATTRIBUTES others;
	VIP_DESCRIPTOR *done = NULL;
	VIP_VI_HANDLE vi;
	char text[TEXT_SIZE];

	if (argc < 2 || (strcmp(argv[1], "left") && strcmp(argv[1], "right"))) {
		fprintf(stderr, "usage: peers left|right [HOST]\n");
		return 2;
	}
	open_nic(&nic);
	receive = new_message(&nic);
	send = new_message(&nic);
	vi = new_vi(&nic, NULL);
	post_receive(vi, receive);

	/* Each asks for exactly the address that the other one has; "left" and "right" are the discriminators. */
	local = new_address(&nic, NULL, argv[1]);
	remote = new_address(&nic, argc > 2 ? argv[2] : "localhost", strcmp(argv[1], "left") ? "left" : "right");
	must(VipConnectPeerRequest(vi, local, remote, TIMEOUT), "cannot begin to connect");
	/* The program could do something else here, and ask with VipConnectPeerDone. */
	must(VipConnectPeerWait(vi, &others), "cannot connect");
	free(remote);
	free(local);

	snprintf(text, sizeof(text), "hello from the %s", argv[1]);
	send_text(vi, send, text);
	must_be_done(VipRecvWait(vi, VIP_INFINITE, &done), &done, "cannot receive");
	printf("%s\n", receive->text);

	must(VipDisconnect(vi), "cannot disconnect");
	close_nic(&nic);
	return 0;
}
