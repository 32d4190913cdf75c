/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hello_client [HOST [SERVER]]: connects to the server on the host (default: hello_server on localhost), sends a text and
 * receives the answer.
 */
#include "example.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	struct nic nic;
	struct message *receive, *send;
	VIP_DESCRIPTOR *done = NULL;
	VIP_VI_HANDLE vi;

	open_nic(&nic);
	receive = new_message(&nic);
	send = new_message(&nic);
	vi = new_vi(&nic, NULL);
	post_receive(vi, receive); /* for the answer, which may come at any time once the message is sent */
	connect_to_server(&nic, vi, argc > 1 ? argv[1] : "localhost", argc > 2 ? argv[2] : "hello_server");

	send_text(vi, send, "hello, server");
	must_be_done(VipRecvWait(vi, VIP_INFINITE, &done), &done, "cannot receive");
	printf("the server says: %.*s\n", TEXT_SIZE, receive->text);

	must(VipDisconnect(vi), "cannot disconnect");
	close_nic(&nic);
	return 0;
}
