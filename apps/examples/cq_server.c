/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq_server: serves two clients at once. The receives of both VIs report to one completion queue, so one call waits for
 * whichever message comes first.
 */
#include "example.h"

#include <stdio.h>

enum { CLIENTS = 2 };

int main(void)
{
	struct client {
		VIP_VI_HANDLE vi;
		struct message *receive;
	} clients[CLIENTS];
	struct nic nic;
	struct message *send;
	VIP_CQ_HANDLE cq;

	open_nic(&nic);
	send = new_message(&nic);
	must(VipCreateCQ(nic.handle, CLIENTS, &cq), "cannot create a completion queue");
	for (int i = 0; i < CLIENTS; i++) {
		clients[i].receive = new_message(&nic);
		clients[i].vi = accept_client(&nic, "cq_server", cq, clients[i].receive);
	}

	for (int answered = 0; answered < CLIENTS; answered++) {
		struct client *client = clients;
		VIP_DESCRIPTOR *done = NULL;
		VIP_BOOLEAN is_receive;
		VIP_VI_HANDLE vi;

		/* The completion queue names the VI. The descriptor is still taken off the VI's own queue. */
		must(VipCQWait(cq, VIP_INFINITE, &vi, &is_receive), "cannot wait for a message");
		must_be_done(VipRecvDone(vi, &done), &done, "cannot receive");
		while (client->vi != vi)
			client++;
		printf("client %d says: %.*s\n", (int)(client - clients) + 1, TEXT_SIZE, client->receive->text);
		send_text(vi, send, "hello, client");
	}

	for (int i = 0; i < CLIENTS; i++)
		must(VipDisconnect(clients[i].vi), "cannot disconnect");
	close_nic(&nic);
	return 0;
}
