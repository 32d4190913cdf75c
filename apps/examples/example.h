/* SPDX-License-Identifier: BSD-2-Clause */
/* What the examples share. example.c and connect.c explain it. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stddef.h>

#include <vipl.h>

#define TEXT_SIZE 64

/* A NIC that is open. */
struct nic {
	VIP_NIC_HANDLE handle;
	VIP_NIC_ATTRIBUTES attributes;
	VIP_PROTECTION_HANDLE ptag;
};

/* A descriptor, and the text that it sends or receives. */
struct message {
	VIP_DESCRIPTOR descriptor; /* aligned to VIP_DESCRIPTOR_ALIGNMENT, as new_message takes care */
	char text[TEXT_SIZE];
	VIP_MEM_HANDLE memory; /* of all of this */
};

/* Ends the program with a readable message unless a call has succeeded. */
void must(VIP_RETURN code, const char *what);
/* The same for a call that takes a descriptor off a queue. */
void must_be_done(VIP_RETURN code, VIP_DESCRIPTOR *const *done, const char *what);

void open_nic(struct nic *nic);
void close_nic(struct nic *nic);
VIP_NET_ADDRESS *new_address(const struct nic *nic, const char *host, const char *discriminator);
VIP_VI_HANDLE new_vi(const struct nic *nic, VIP_CQ_HANDLE receive_cq);
struct message *new_message(const struct nic *nic);
void post_receive(VIP_VI_HANDLE vi, struct message *message);
void send_text(VIP_VI_HANDLE vi, struct message *message, const char *text);
VIP_VI_HANDLE accept_client(const struct nic *nic, const char *name, VIP_CQ_HANDLE receive_cq, struct message *receive);
void connect_to_server(const struct nic *nic, VIP_VI_HANDLE vi, const char *host, const char *name);

#endif
