/* Moving messages over a connected VI: posting, polling or waiting, collecting. */
#include "endpoint.h"

#include <sched.h>
#include <stdio.h>

enum {
	/*
	 * When the peer runs on the same machine and there are fewer CPUs
	 * than polling programs, each poll takes time from the one that is
	 * waited for. So give the CPU away after that many polls in vain: it
	 * is more than a message takes on a quiet machine, so that the timed
	 * loop normally comes to no system call at all.
	 */
	YIELD_POLLS = 256,

	/* How often to look at the clock. */
	CLOCK_POLLS = 16 * YIELD_POLLS,
};

static const char *error_name(unsigned int code)
{
	static const char *const names[] = {
		[VIP_ERROR_POST_DESC] = "VIP_ERROR_POST_DESC",
		[VIP_ERROR_CONN_LOST] = "VIP_ERROR_CONN_LOST",
		[VIP_ERROR_RECVQ_EMPTY] = "VIP_ERROR_RECVQ_EMPTY",
		[VIP_ERROR_VI_OVERRUN] = "VIP_ERROR_VI_OVERRUN",
		[VIP_ERROR_RDMAW_PROT] = "VIP_ERROR_RDMAW_PROT",
		[VIP_ERROR_RDMAW_DATA] = "VIP_ERROR_RDMAW_DATA",
		[VIP_ERROR_RDMAW_ABORT] = "VIP_ERROR_RDMAW_ABORT",
		[VIP_ERROR_RDMAR_PROT] = "VIP_ERROR_RDMAR_PROT",
		[VIP_ERROR_COMP_PROT] = "VIP_ERROR_COMP_PROT",
		[VIP_ERROR_RDMA_TRANSPORT] = "VIP_ERROR_RDMA_TRANSPORT",
		[VIP_ERROR_CATASTROPHIC] = "VIP_ERROR_CATASTROPHIC",
	};

	return code < sizeof(names) / sizeof(names[0]) ? names[code] : "unknown error";
}

static void complain_lost(struct endpoint *ep, const char *what)
{
	unsigned int error = atomic_load(&ep->async_error);

	if (error)
		complain("%s; the NIC reports %s", what, error_name(error - 1));
	else
		complain("%s", what);
}

static void fill_descriptor(struct endpoint *ep, VIP_DESCRIPTOR *descriptor, uint8_t *buffer,
			    size_t length)
{
	descriptor->CS.SegCount = 1;
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	descriptor->CS.Length = (VIP_UINT32)length;
	descriptor->CS.Status = 0;
	descriptor->DS[0].Local.Data.Address = buffer;
	descriptor->DS[0].Local.Handle = ep->memory_handle;
	descriptor->DS[0].Local.Length = (VIP_UINT32)length;
}

int endpoint_post_receives(struct endpoint *ep)
{
	VIP_RETURN code = VIP_SUCCESS;

	while (code == VIP_SUCCESS && ep->receives_posted - ep->receives_taken < SLOTS) {
		unsigned long slot = ep->receives_posted++ % SLOTS;

		fill_descriptor(ep, ep->receive[slot], ep->receive_buffer[slot], ep->options.room);
		code = VipPostRecv(ep->vi, ep->receive[slot], ep->memory_handle);
	}
	if (code == VIP_SUCCESS)
		return 0;
	complain_code(code, "cannot post a receive");
	return -1;
}

static int complain_descriptor(struct endpoint *ep, VIP_DESCRIPTOR *descriptor)
{
	static const struct {
		VIP_UINT32 bit;
		const char *what;
	} errors[] = {
		{VIP_STATUS_FORMAT_ERROR, "format error"},
		{VIP_STATUS_PROTECTION_ERROR, "protection error"},
		{VIP_STATUS_LENGTH_ERROR, "length error"},
		{VIP_STATUS_PARTIAL_ERROR, "part of the message lost"},
		{VIP_STATUS_DESC_FLUSHED_ERROR, "flushed, connection lost"},
		{VIP_STATUS_TRANSPORT_ERROR, "transport error, peer gone"},
		{VIP_STATUS_RDMA_PROT_ERROR, "RDMA protection error"},
		{VIP_STATUS_REMOTE_DESC_ERROR, "peer had no receive posted"},
	};
	char what[160] = "the queue is empty";

	for (size_t i = 0; descriptor && i < sizeof(errors) / sizeof(errors[0]); ++i)
		if (descriptor->CS.Status & errors[i].bit)
			snprintf(what, sizeof(what), "a descriptor ended with status 0x%08x: %s",
				 (unsigned int)descriptor->CS.Status, errors[i].what);
	complain_lost(ep, what);
	return -1;
}

/*
 * Called for each poll in vain. A lost connection needs no extra care: it
 * flushes the posted receives, which the very next poll finds.
 */
static int stay_patient(struct endpoint *ep)
{
	uint64_t polls = ++ep->empty_polls;

	if (polls % YIELD_POLLS)
		return 0;
	sched_yield();
	if (polls % CLOCK_POLLS)
		return 0;
	if (polls == CLOCK_POLLS)
		ep->deadline = deadline_after(ep->options.timeout);
	if (!ms_until(&ep->deadline)) {
		complain_lost(ep, "the peer is silent for too long");
		return -1;
	}
	return 0;
}

/* Asks the completion queue which queue has something, and takes that. */
static VIP_RETURN take_from_cq(struct endpoint *ep, VIP_BOOLEAN *is_receive,
			       VIP_DESCRIPTOR **descriptor)
{
	VIP_VI_HANDLE vi;
	VIP_RETURN code;

	if (ep->options.wait)
		code = VipCQWait(ep->cq, ep->options.timeout, &vi, is_receive);
	else
		code = VipCQDone(ep->cq, &vi, is_receive);
	if (code != VIP_SUCCESS)
		return code;

	code = *is_receive ? VipRecvDone(vi, descriptor) : VipSendDone(vi, descriptor);
	if (code == VIP_NOT_DONE) {
		/* What the CQ announced has to be there: polling on would wait in vain. */
		complain("the completion queue named a queue that has nothing done");
		return VIP_INVALID_STATE;
	}
	return code;
}

/* The status of the descriptor that is done next. */
static bool looks_done(const struct endpoint *ep, VIP_BOOLEAN receive)
{
	const VIP_DESCRIPTOR *next = receive ? ep->receive[ep->receives_done % SLOTS]
					     : ep->send[ep->sends_done % SLOTS];

	return __atomic_load_n(&next->CS.Status, __ATOMIC_ACQUIRE) & VIP_STATUS_DONE;
}

static VIP_RETURN take_from_queue(struct endpoint *ep, VIP_BOOLEAN receive,
				  VIP_DESCRIPTOR **descriptor)
{
	if (ep->options.watch && !looks_done(ep, receive))
		return VIP_NOT_DONE;
	if (!ep->options.wait)
		return receive ? VipRecvDone(ep->vi, descriptor) : VipSendDone(ep->vi, descriptor);
	return receive ? VipRecvWait(ep->vi, ep->options.timeout, descriptor)
		       : VipSendWait(ep->vi, ep->options.timeout, descriptor);
}

/* Takes at most one completion; with a CQ it may be the other queue's. */
static int harvest(struct endpoint *ep, VIP_BOOLEAN receive)
{
	VIP_DESCRIPTOR *descriptor = NULL;
	VIP_RETURN code;

	if (ep->cq)
		code = take_from_cq(ep, &receive, &descriptor);
	else
		code = take_from_queue(ep, receive, &descriptor);

	switch (code) {
	case VIP_SUCCESS:
		ep->empty_polls = 0;
		if (receive)
			++ep->receives_done;
		else
			++ep->sends_done;
		return 0;
	case VIP_NOT_DONE:
		return stay_patient(ep);
	case VIP_TIMEOUT:
		complain_lost(ep, "the peer is silent for too long");
		return -1;
	case VIP_DESCRIPTOR_ERROR:
		return complain_descriptor(ep, descriptor);
	default:
		complain_code(code, "cannot take a completion");
		return -1;
	}
}

uint8_t *endpoint_next_buffer(struct endpoint *ep)
{
	return ep->send_buffer[ep->sends_posted % SLOTS];
}

int endpoint_send(struct endpoint *ep, size_t length)
{
	unsigned long slot = ep->sends_posted % SLOTS;
	VIP_RETURN code;

	fill_descriptor(ep, ep->send[slot], ep->send_buffer[slot], length);
	code = VipPostSend(ep->vi, ep->send[slot], ep->memory_handle);
	if (code != VIP_SUCCESS) {
		complain_code(code, "cannot post a send");
		return -1;
	}
	++ep->sends_posted;

	if (endpoint_post_receives(ep))
		return -1;
	while (ep->sends_posted - ep->sends_done >= SLOTS)
		if (harvest(ep, VIP_FALSE))
			return -1;
	return 0;
}

int endpoint_receive(struct endpoint *ep, const uint8_t **data, size_t *length)
{
	unsigned long slot = ep->receives_taken % SLOTS;

	while (ep->receives_done == ep->receives_taken)
		if (harvest(ep, VIP_TRUE))
			return -1;
	++ep->receives_taken;
	*data = ep->receive_buffer[slot];
	*length = ep->receive[slot]->CS.Length;
	return 0;
}

int endpoint_drain(struct endpoint *ep)
{
	while (ep->sends_done != ep->sends_posted)
		if (harvest(ep, VIP_FALSE))
			return -1;
	return 0;
}
