/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * error_handler: hello_server with a function that the library calls for each connection that is lost, and for other errors
 * that no descriptor tells. Without such a function the library writes them to standard error.
 */
#include "example.h"

#include <semaphore.h>
#include <stdio.h>

/* Runs on a thread of the library, beside main. It may call the library, too, but here it only wakes main. */
static void handle(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	if (error->ErrorCode == VIP_ERROR_CONN_LOST) {
		printf("the connection is lost: the client has disconnected, or is gone\n");
		sem_post(context);
	} else {
		printf("error %d, see VIP_ERROR_CODE in vipl.h\n", (int)error->ErrorCode);
	}
}

int main(void)
{
	struct nic nic;
	struct message *receive, *send;
	VIP_DESCRIPTOR *done = NULL;
	VIP_VI_HANDLE vi;
	sem_t lost;

	sem_init(&lost, 0, 0);
	open_nic(&nic);
	must(VipErrorCallback(nic.handle, &lost, handle), "cannot set the handler");
	receive = new_message(&nic);
	send = new_message(&nic);
	vi = accept_client(&nic, "error_handler", NULL, receive);

	must_be_done(VipRecvWait(vi, VIP_INFINITE, &done), &done, "cannot receive");
	printf("the client says: %.*s\n", TEXT_SIZE, receive->text);
	send_text(vi, send, "hello, client");
	while (sem_wait(&lost))
		; /* a signal has come */

	/* The VI is in error now. After this it could be connected again. */
	must(VipDisconnect(vi), "cannot disconnect");
	close_nic(&nic);
	return 0;
}
