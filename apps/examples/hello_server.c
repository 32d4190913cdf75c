/* SPDX-License-Identifier: BSD-2-Clause */
/* hello_server: waits for one client, receives a text and answers it. */
#include "example.h"

#include <stdio.h>

int main(void)
{
	struct nic nic;
	struct message *receive, *send;
	VIP_DESCRIPTOR *done = NULL;
	VIP_VI_HANDLE vi;

	open_nic(&nic);
	receive = new_message(&nic);
	send = new_message(&nic);
	vi = accept_client(&nic, "hello_server", NULL, receive);

	/*
	 * Waits until the first receive of the VI's queue is done, and takes it off: it is the one that was posted first. If the
	 * connection is lost, that ends the wait only while a receive is posted: see error_handler.c.
	 */
	must_be_done(VipRecvWait(vi, VIP_INFINITE, &done), &done, "cannot receive");
	printf("the client says: %.*s\n", TEXT_SIZE, receive->text);
	send_text(vi, send, "hello, client");

	/* The answer is sent: VipSendWait has said so, and the NIC delivers it before the client hears of the end. */
	must(VipDisconnect(vi), "cannot disconnect");
	close_nic(&nic);
	return 0;
}
