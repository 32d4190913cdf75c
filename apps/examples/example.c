/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What each VIA program has to do before its first message.
 *
 * A NIC is opened by name. Messages go from a VI (virtual interface) of one program to the VI of another one, with which it is
 * connected. A VI has a queue of sends and a queue of receives. The program posts descriptors to them: a descriptor says where
 * the data is. The NIC works them off, and the program takes them off again when they are done. All memory that a NIC touches
 * has to be registered: the data and the descriptors. A VI may use only memory that has the same protection tag.
 */
#include "example.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT 60000 /* milliseconds */

static const char *name_of(VIP_RETURN code)
{
	static const char *const names[] = {
		[VIP_NOT_DONE] = "VIP_NOT_DONE: not done yet",
		[VIP_INVALID_PARAMETER] = "VIP_INVALID_PARAMETER: an argument is wrong or unknown",
		[VIP_ERROR_RESOURCE] = "VIP_ERROR_RESOURCE: the system lacks something (VIPL_LOG=info says more)",
		[VIP_TIMEOUT] = "VIP_TIMEOUT: no answer in time",
		[VIP_REJECT] = "VIP_REJECT: the other side refused",
		[VIP_DESCRIPTOR_ERROR] = "VIP_DESCRIPTOR_ERROR: a descriptor ended with an error",
		[VIP_INVALID_STATE] = "VIP_INVALID_STATE: not in this state of the VI",
		[VIP_ERROR_NAMESERVICE] = "VIP_ERROR_NAMESERVICE: the host's name is unknown",
		[VIP_NO_MATCH] = "VIP_NO_MATCH: the host is there, but no server waits on it",
		[VIP_NOT_REACHABLE] = "VIP_NOT_REACHABLE: no way leads to that host",
	};

	return code < sizeof(names) / sizeof(names[0]) && names[code] ? names[code] : "see VIP_RETURN in vipl.h";
}

void must(VIP_RETURN code, const char *what)
{
	if (code == VIP_SUCCESS)
		return;
	fprintf(stderr, "%s: code %d, %s\n", what, (int)code, name_of(code));
	exit(1);
}

void must_be_done(VIP_RETURN code, VIP_DESCRIPTOR *const *done, const char *what)
{
	if (code == VIP_DESCRIPTOR_ERROR && *done)
		fprintf(stderr, "%s: status %#x, in words: vip_info --status %#x\n", what, (unsigned)(*done)->CS.Status,
			(unsigned)(*done)->CS.Status);
	must(code, what);
}

void open_nic(struct nic *nic)
{
	must(VipOpenNic("nic0", &nic->handle), "cannot open nic0 (vip_info lists the NICs)");
	must(VipQueryNic(nic->handle, &nic->attributes), "cannot query nic0");
	must(VipNSInit(nic->handle, NULL), "cannot start the name service");
	must(VipCreatePtag(nic->handle, &nic->ptag), "cannot create a protection tag");
}

/* Closing a NIC also destroys what was made on it: VIs, regions of memory, tags. */
void close_nic(struct nic *nic)
{
	must(VipCloseNic(nic->handle), "cannot close nic0");
}

struct message *new_message(const struct nic *nic)
{
	VIP_MEM_ATTRIBUTES attributes = {0};
	struct message *message;

	attributes.Ptag = nic->ptag;
	if (posix_memalign((void **)&message, VIP_DESCRIPTOR_ALIGNMENT, sizeof(*message)))
		must(VIP_ERROR_RESOURCE, "no memory for a message");
	memset(message, 0, sizeof(*message));
	must(VipRegisterMem(nic->handle, message, sizeof(*message), &attributes, &message->memory), "cannot register memory");
	return message;
}

static void describe(struct message *message, size_t length)
{
	VIP_DESCRIPTOR *descriptor = &message->descriptor;

	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	descriptor->CS.Length = (VIP_UINT32)length;
	descriptor->CS.SegCount = 1;
	descriptor->DS[0].Local.Data.Address = message->text;
	descriptor->DS[0].Local.Handle = message->memory;
	descriptor->DS[0].Local.Length = (VIP_UINT32)length;
}

/* A receive has to be posted before the message comes: a message that finds none ends the connection. */
void post_receive(VIP_VI_HANDLE vi, struct message *message)
{
	describe(message, TEXT_SIZE);
	must(VipPostRecv(vi, &message->descriptor, message->memory), "cannot post a receive");
}

void send_text(VIP_VI_HANDLE vi, struct message *message, const char *text)
{
	VIP_DESCRIPTOR *done = NULL;

	snprintf(message->text, TEXT_SIZE, "%s", text);
	describe(message, strlen(message->text) + 1);
	must(VipPostSend(vi, &message->descriptor, message->memory), "cannot post a send");
	must_be_done(VipSendWait(vi, TIMEOUT, &done), &done, "cannot send");
}
