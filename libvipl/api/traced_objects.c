/* SPDX-License-Identifier: BSD-2-Clause */
/* The traced calls of NICs, VIs, CQs, memory and their attributes: traced.h. */
#include "pvip.h"
#include "base/address.h"
#include "trace/trace_words.h"
#include "traced.h"

static void vi_state(struct text *t, VIP_VI_STATE state, VIP_BOOLEAN sends_empty,
		     VIP_BOOLEAN receives_empty)
{
	static const char *const names[] = {
		[VIP_STATE_IDLE] = "IDLE",
		[VIP_STATE_CONNECTED] = "CONNECTED",
		[VIP_STATE_CONNECT_PENDING] = "CONNECT_PENDING",
		[VIP_STATE_ERROR] = "ERROR",
	};

	text_word(t, "state", names[state]);
	text_number(t, "sendempty", sends_empty != 0);
	text_number(t, "recvempty", receives_empty != 0);
}

static void opened(struct text *t, VIP_NIC_HANDLE nic)
{
	char written[INET6_ADDRSTRLEN];
	VIP_NIC_ATTRIBUTES found;
	struct in6_addr own;

	text_handle(t, "nic", nic);
	if (PVipQueryNic(nic, &found) != VIP_SUCCESS)
		return;
	text_string(t, "device", found.Name);
	if (!host_read(found.LocalNicAddress, found.NicAddressLen, &own))
		return;
	host_text(&own, written);
	trace_remark("nic=%p device=%s address=%s", nic, found.Name, written);
}

VIP_RETURN traced_VipOpenNic(const VIP_CHAR *name, VIP_NIC_HANDLE *nic)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipOpenNic");
	if (nic)
		text_string(t, "name", name);
	trace_enter(&line, true);
	rc = PVipOpenNic(name, nic);
	trace_returned(&line);
	if (rc == VIP_SUCCESS)
		opened(t, *nic);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipCloseNic(VIP_NIC_HANDLE nic)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipCloseNic");
	text_handle(t, "nic", nic);
	trace_enter(&line, true);
	rc = PVipCloseNic(nic);
	trace_returned(&line);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipCreateVi(VIP_NIC_HANDLE nic, VIP_VI_ATTRIBUTES *attributes,
			      VIP_CQ_HANDLE send_cq, VIP_CQ_HANDLE recv_cq, VIP_VI_HANDLE *vi)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipCreateVi");
	trace_enter(&line, false);
	rc = PVipCreateVi(nic, attributes, send_cq, recv_cq, vi);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	text_handle(t, "sendcq", send_cq);
	text_handle(t, "recvcq", recv_cq);
	if (rc != VIP_INVALID_PARAMETER)
		text_vi_attributes(t, attributes);
	if (rc == VIP_SUCCESS)
		text_handle(t, "vi", *vi);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipDestroyVi(VIP_VI_HANDLE vi)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipDestroyVi");
	text_handle(t, "vi", vi);
	trace_enter(&line, true);
	rc = PVipDestroyVi(vi);
	trace_returned(&line);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipCreatePtag(VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE *tag)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipCreatePtag");
	trace_enter(&line, false);
	rc = PVipCreatePtag(nic, tag);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	if (rc == VIP_SUCCESS)
		text_handle(t, "tag", *tag);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipDestroyPtag(VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE tag)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipDestroyPtag");
	trace_enter(&line, false);
	rc = PVipDestroyPtag(nic, tag);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	text_handle(t, "tag", tag);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipRegisterMem(VIP_NIC_HANDLE nic, VIP_PVOID memory, VIP_ULONG bytes,
				 VIP_MEM_ATTRIBUTES *attributes, VIP_MEM_HANDLE *mem)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipRegisterMem");
	trace_enter(&line, false);
	rc = PVipRegisterMem(nic, memory, bytes, attributes, mem);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	text_handle(t, "addr", memory);
	text_number(t, "bytes", bytes);
	if (rc != VIP_INVALID_PARAMETER)
		text_mem_attributes(t, attributes);
	if (rc == VIP_SUCCESS)
		text_hex(t, "mem", *mem);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipDeregisterMem(VIP_NIC_HANDLE nic, VIP_PVOID memory, VIP_MEM_HANDLE mem)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipDeregisterMem");
	trace_enter(&line, false);
	rc = PVipDeregisterMem(nic, memory, mem);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	text_handle(t, "addr", memory);
	text_hex(t, "mem", mem);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipQueryNic(VIP_NIC_HANDLE nic, VIP_NIC_ATTRIBUTES *attributes)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipQueryNic");
	trace_enter(&line, false);
	rc = PVipQueryNic(nic, attributes);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipSetViAttributes(VIP_VI_HANDLE vi, VIP_VI_ATTRIBUTES *attributes)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipSetViAttributes");
	trace_enter(&line, false);
	rc = PVipSetViAttributes(vi, attributes);
	trace_returned(&line);
	text_handle(t, "vi", vi);
	if (rc != VIP_INVALID_PARAMETER)
		text_vi_attributes(t, attributes);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipQueryVi(VIP_VI_HANDLE vi, VIP_VI_STATE *state, VIP_VI_ATTRIBUTES *attributes,
			     VIP_BOOLEAN *sends_empty, VIP_BOOLEAN *receives_empty)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipQueryVi");
	trace_enter(&line, false);
	rc = PVipQueryVi(vi, state, attributes, sends_empty, receives_empty);
	trace_returned(&line);
	text_handle(t, "vi", vi);
	if (rc == VIP_SUCCESS) {
		vi_state(t, *state, *sends_empty, *receives_empty);
		text_vi_attributes(t, attributes);
	}
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipSetMemAttributes(VIP_NIC_HANDLE nic, VIP_PVOID memory, VIP_MEM_HANDLE mem,
				      VIP_MEM_ATTRIBUTES *attributes)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipSetMemAttributes");
	trace_enter(&line, false);
	rc = PVipSetMemAttributes(nic, memory, mem, attributes);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	text_handle(t, "addr", memory);
	text_hex(t, "mem", mem);
	if (rc != VIP_INVALID_PARAMETER)
		text_mem_attributes(t, attributes);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipQueryMem(VIP_NIC_HANDLE nic, VIP_PVOID memory, VIP_MEM_HANDLE mem,
			      VIP_MEM_ATTRIBUTES *attributes)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipQueryMem");
	trace_enter(&line, false);
	rc = PVipQueryMem(nic, memory, mem, attributes);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	text_handle(t, "addr", memory);
	text_hex(t, "mem", mem);
	if (rc == VIP_SUCCESS)
		text_mem_attributes(t, attributes);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipQuerySystemManagementInfo(VIP_NIC_HANDLE nic, VIP_ULONG type, VIP_PVOID info)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipQuerySystemManagementInfo");
	trace_enter(&line, false);
	rc = PVipQuerySystemManagementInfo(nic, type, info);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	text_number(t, "type", type);
	text_handle(t, "info", info);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipErrorCallback(VIP_NIC_HANDLE nic, VIP_PVOID context, VIP_ERROR_HANDLER handler)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipErrorCallback");
	trace_enter(&line, false);
	rc = PVipErrorCallback(nic, context, handler);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	text_handle(t, "context", context);
	text_hex(t, "handler", (uintptr_t)handler);
	return trace_result(&line, rc);
}

static void user_data(struct trace_line *line, VIP_VI_HANDLE vi, VIP_PVOID data)
{
	trace_returned(line);
	text_handle(&line->text, "vi", vi);
	text_handle(&line->text, "data", data);
	trace_return(line, "-");
}

VIP_PVOID traced_VipGetUserData(VIP_VI_HANDLE vi)
{
	struct trace_line line;
	VIP_PVOID data;

	trace_begin(&line, "VipGetUserData");
	trace_enter(&line, false);
	data = PVipGetUserData(vi);
	user_data(&line, vi, data);
	return data;
}

void traced_VipSetUserData(VIP_VI_HANDLE vi, VIP_PVOID data)
{
	struct trace_line line;

	trace_begin(&line, "VipSetUserData");
	trace_enter(&line, false);
	PVipSetUserData(vi, data);
	user_data(&line, vi, data);
}
