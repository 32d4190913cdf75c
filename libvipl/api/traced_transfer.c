/* SPDX-License-Identifier: BSD-2-Clause */
/* The traced calls of descriptors and of completion queues: traced.h. */
#include "pvip.h"
#include "device.h"
#include "trace/trace_words.h"
#include "traced.h"

bool is_live(VIP_PVOID value, enum object_kind kind)
{
	struct object *object = object_get(value, kind);

	if (object)
		object_put(object);
	return object;
}

/* The words about a descriptor before it is posted. */
static void descriptor_read(struct text *t, bool is_send, const VIP_DESCRIPTOR *descriptor)
{
	static const char *const operations[] = {"send", "write", "read", "reserved"};
	const VIP_CONTROL_SEGMENT *control = &descriptor->CS;
	const VIP_DESCRIPTOR_SEGMENT *segment = descriptor->DS;
	unsigned operation = control->Control & VIP_CONTROL_OP_MASK;
	uint64_t bytes = 0;

	if (is_send || operation != VIP_CONTROL_OP_SENDRECV)
		text_word(t, "op", operations[operation]);
	text_number(t, "segs", control->SegCount);
	if (control->SegCount <= MAX_SEGMENTS)
		for (unsigned i = operation != VIP_CONTROL_OP_SENDRECV; i < control->SegCount; i++)
			bytes += segment[i].Local.Length;
	text_number(t, "bytes", bytes);
	if (control->Control & VIP_CONTROL_IMMEDIATE)
		text_hex(t, "imm", control->ImmediateData);
	if (control->Control & ~(VIP_CONTROL_OP_MASK | VIP_CONTROL_IMMEDIATE))
		text_hex(t, "control", control->Control);
}

static void posted(struct trace_line *l, enum trace_queue which, VIP_VI_HANDLE vi,
		   const VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE mem)
{
	trace_about(l, which, vi);
	text_handle(&l->text, "vi", vi);
	text_handle(&l->text, "desc", descriptor);
	text_hex(&l->text, "mem", mem);
	if (descriptor && (uintptr_t)descriptor % VIP_DESCRIPTOR_ALIGNMENT == 0 &&
	    is_live(vi, OBJECT_VI))
		descriptor_read(&l->text, which == TRACE_SEND, descriptor);
}

static void waited(struct text *t, VIP_RETURN rc, VIP_DESCRIPTOR *const *descriptor)
{
	if ((rc == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR) && *descriptor)
		text_descriptor(t, *descriptor);
}

/* Behind a look whether a descriptor is done. Where none is in the queue, that was a poll, too. */
static VIP_RETURN done(struct trace_line *l, VIP_VI_HANDLE vi, VIP_RETURN rc,
		       VIP_DESCRIPTOR *const *descriptor)
{
	if (rc == VIP_NOT_DONE)
		return trace_polled(l);
	trace_returned(l);
	text_handle(&l->text, "vi", vi);
	waited(&l->text, rc, descriptor);
	if (rc != VIP_DESCRIPTOR_ERROR || *descriptor)
		return trace_result(l, rc);
	trace_poll(l, true);
	return rc;
}

static void waits(struct trace_line *l, enum trace_queue which, VIP_VI_HANDLE vi, VIP_ULONG msec)
{
	trace_about(l, which, vi);
	text_handle(&l->text, "vi", vi);
	text_timeout(&l->text, msec);
}

VIP_RETURN traced_VipPostSend(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE mem)
{
	struct trace_line line;
	VIP_RETURN rc;

	trace_begin(&line, "VipPostSend");
	posted(&line, TRACE_SEND, vi, descriptor, mem);
	trace_enter(&line, false);
	rc = PVipPostSend(vi, descriptor, mem);
	trace_returned(&line);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipSendDone(VIP_VI_HANDLE vi, VIP_DESCRIPTOR **descriptor)
{
	struct trace_line line;
	VIP_RETURN rc;

	trace_begin(&line, "VipSendDone");
	trace_about(&line, TRACE_SEND, vi);
	trace_enter(&line, false);
	rc = PVipSendDone(vi, descriptor);
	return done(&line, vi, rc, descriptor);
}

VIP_RETURN traced_VipSendWait(VIP_VI_HANDLE vi, VIP_ULONG msec, VIP_DESCRIPTOR **descriptor)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipSendWait");
	waits(&line, TRACE_SEND, vi, msec);
	trace_enter(&line, true);
	rc = PVipSendWait(vi, msec, descriptor);
	trace_returned(&line);
	waited(t, rc, descriptor);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipSendNotify(VIP_VI_HANDLE vi, VIP_PVOID context, VIP_VI_CALLBACK handler)
{
	struct trace_line line;
	VIP_RETURN rc;

	trace_begin(&line, "VipSendNotify");
	trace_asks(&line, TRACE_SEND, "vi", vi, context, (uintptr_t)handler);
	trace_enter(&line, false);
	rc = PVipSendNotify(vi, context, handler);
	trace_returned(&line);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipPostRecv(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE mem)
{
	struct trace_line line;
	VIP_RETURN rc;

	trace_begin(&line, "VipPostRecv");
	posted(&line, TRACE_RECV, vi, descriptor, mem);
	trace_enter(&line, false);
	rc = PVipPostRecv(vi, descriptor, mem);
	trace_returned(&line);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipRecvDone(VIP_VI_HANDLE vi, VIP_DESCRIPTOR **descriptor)
{
	struct trace_line line;
	VIP_RETURN rc;

	trace_begin(&line, "VipRecvDone");
	trace_about(&line, TRACE_RECV, vi);
	trace_enter(&line, false);
	rc = PVipRecvDone(vi, descriptor);
	return done(&line, vi, rc, descriptor);
}

VIP_RETURN traced_VipRecvWait(VIP_VI_HANDLE vi, VIP_ULONG msec, VIP_DESCRIPTOR **descriptor)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipRecvWait");
	waits(&line, TRACE_RECV, vi, msec);
	trace_enter(&line, true);
	rc = PVipRecvWait(vi, msec, descriptor);
	trace_returned(&line);
	waited(t, rc, descriptor);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipRecvNotify(VIP_VI_HANDLE vi, VIP_PVOID context, VIP_VI_CALLBACK handler)
{
	struct trace_line line;
	VIP_RETURN rc;

	trace_begin(&line, "VipRecvNotify");
	trace_asks(&line, TRACE_RECV, "vi", vi, context, (uintptr_t)handler);
	trace_enter(&line, false);
	rc = PVipRecvNotify(vi, context, handler);
	trace_returned(&line);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipCreateCQ(VIP_NIC_HANDLE nic, VIP_ULONG entries, VIP_CQ_HANDLE *cq)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipCreateCQ");
	trace_enter(&line, false);
	rc = PVipCreateCQ(nic, entries, cq);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	text_number(t, "entries", entries);
	if (rc == VIP_SUCCESS)
		text_handle(t, "cq", *cq);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipDestroyCQ(VIP_CQ_HANDLE cq)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipDestroyCQ");
	text_handle(t, "cq", cq);
	trace_enter(&line, true);
	rc = PVipDestroyCQ(cq);
	trace_returned(&line);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipResizeCQ(VIP_CQ_HANDLE cq, VIP_ULONG entries)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipResizeCQ");
	trace_enter(&line, false);
	rc = PVipResizeCQ(cq, entries);
	trace_returned(&line);
	text_handle(t, "cq", cq);
	text_number(t, "entries", entries);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipCQDone(VIP_CQ_HANDLE cq, VIP_VI_HANDLE *vi, VIP_BOOLEAN *receives)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipCQDone");
	trace_about(&line, TRACE_CQ, cq);
	trace_enter(&line, false);
	rc = PVipCQDone(cq, vi, receives);
	if (rc == VIP_NOT_DONE)
		return trace_polled(&line);
	trace_returned(&line);
	text_handle(t, "cq", cq);
	if (rc == VIP_SUCCESS)
		text_entry(t, *vi, *receives);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipCQWait(VIP_CQ_HANDLE cq, VIP_ULONG msec, VIP_VI_HANDLE *vi,
			    VIP_BOOLEAN *receives)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipCQWait");
	trace_about(&line, TRACE_CQ, cq);
	text_handle(t, "cq", cq);
	text_timeout(t, msec);
	trace_enter(&line, true);
	rc = PVipCQWait(cq, msec, vi, receives);
	trace_returned(&line);
	if (rc == VIP_SUCCESS)
		text_entry(t, *vi, *receives);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipCQNotify(VIP_CQ_HANDLE cq, VIP_PVOID context, VIP_CQ_CALLBACK handler)
{
	struct trace_line line;
	VIP_RETURN rc;

	trace_begin(&line, "VipCQNotify");
	trace_asks(&line, TRACE_CQ, "cq", cq, context, (uintptr_t)handler);
	trace_enter(&line, false);
	rc = PVipCQNotify(cq, context, handler);
	trace_returned(&line);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipAddTagCQ(VIP_CQ_HANDLE cq, VIP_EVENT_HANDLE *event, VIP_ULONG tag,
			      VIP_ULONG priority)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipAddTagCQ");
	trace_enter(&line, false);
	rc = PVipAddTagCQ(cq, event, tag, priority);
	trace_returned(&line);
	text_handle(t, "cq", cq);
	text_handle(t, "event", event);
	text_number(t, "tag", tag);
	text_number(t, "priority", priority);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipRemoveTagCQ(VIP_CQ_HANDLE cq, VIP_EVENT_HANDLE event, VIP_ULONG tag)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipRemoveTagCQ");
	trace_enter(&line, false);
	rc = PVipRemoveTagCQ(cq, event, tag);
	trace_returned(&line);
	text_handle(t, "cq", cq);
	text_handle(t, "event", event);
	text_number(t, "tag", tag);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipPostDeferredSends(VIP_VI_HANDLE vi, VIP_BOOLEAN interrupt,
				       VIP_BOOLEAN *deferred)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipPostDeferredSends");
	trace_enter(&line, false);
	rc = PVipPostDeferredSends(vi, interrupt, deferred);
	trace_returned(&line);
	text_handle(t, "vi", vi);
	text_number(t, "interrupt", interrupt != 0);
	return trace_result(&line, rc);
}
