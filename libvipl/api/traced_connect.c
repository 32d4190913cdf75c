/* SPDX-License-Identifier: BSD-2-Clause */
/* The traced calls of connections and of the name service: traced.h. */
#include "pvip.h"
#include "trace/trace_words.h"
#include "traced.h"

VIP_RETURN traced_VipConnectWait(VIP_NIC_HANDLE nic, VIP_NET_ADDRESS *local, VIP_ULONG msec,
				 VIP_NET_ADDRESS *remote, VIP_VI_ATTRIBUTES *attributes,
				 VIP_CONN_HANDLE *connection)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipConnectWait");
	text_handle(t, "nic", nic);
	if (remote && attributes && connection && is_live(nic, OBJECT_NIC))
		text_discriminator(t, "disc", local);
	text_timeout(t, msec);
	trace_enter(&line, true);
	rc = PVipConnectWait(nic, local, msec, remote, attributes, connection);
	trace_returned(&line);
	if (rc == VIP_SUCCESS) {
		text_handle(t, "conn", *connection);
		text_address(t, "peer", "peerdisc", remote);
		text_vi_attributes(t, attributes);
	}
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipConnectAccept(VIP_CONN_HANDLE connection, VIP_VI_HANDLE vi)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipConnectAccept");
	text_handle(t, "conn", connection);
	text_handle(t, "vi", vi);
	trace_enter(&line, true);
	rc = PVipConnectAccept(connection, vi);
	trace_returned(&line);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipConnectReject(VIP_CONN_HANDLE connection)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipConnectReject");
	trace_enter(&line, false);
	rc = PVipConnectReject(connection);
	trace_returned(&line);
	text_handle(t, "conn", connection);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipConnectRequest(VIP_VI_HANDLE vi, VIP_NET_ADDRESS *local,
				    VIP_NET_ADDRESS *remote, VIP_ULONG msec,
				    VIP_VI_ATTRIBUTES *attributes)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipConnectRequest");
	text_handle(t, "vi", vi);
	if (attributes && msec && is_live(vi, OBJECT_VI)) {
		text_address(t, "peer", "disc", remote);
		text_discriminator(t, "owndisc", local);
	}
	text_timeout(t, msec);
	trace_enter(&line, true);
	rc = PVipConnectRequest(vi, local, remote, msec, attributes);
	trace_returned(&line);
	if (rc == VIP_SUCCESS)
		text_vi_attributes(t, attributes);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipConnectPeerRequest(VIP_VI_HANDLE vi, VIP_NET_ADDRESS *local,
					VIP_NET_ADDRESS *remote, VIP_ULONG msec)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipConnectPeerRequest");
	trace_about(&line, TRACE_PEER, vi);
	trace_enter(&line, false);
	rc = PVipConnectPeerRequest(vi, local, remote, msec);
	trace_returned(&line);
	text_handle(t, "vi", vi);
	if (rc != VIP_INVALID_PARAMETER) {
		text_address(t, "peer", "disc", remote);
		text_discriminator(t, "owndisc", local);
	}
	text_timeout(t, msec);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipConnectPeerDone(VIP_VI_HANDLE vi, VIP_VI_ATTRIBUTES *attributes)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipConnectPeerDone");
	trace_about(&line, TRACE_PEER, vi);
	trace_enter(&line, false);
	rc = PVipConnectPeerDone(vi, attributes);
	if (rc == VIP_NOT_DONE)
		return trace_polled(&line);
	trace_returned(&line);
	text_handle(t, "vi", vi);
	if (rc == VIP_SUCCESS)
		text_vi_attributes(t, attributes);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipConnectPeerWait(VIP_VI_HANDLE vi, VIP_VI_ATTRIBUTES *attributes)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipConnectPeerWait");
	trace_about(&line, TRACE_PEER, vi);
	text_handle(t, "vi", vi);
	trace_enter(&line, true);
	rc = PVipConnectPeerWait(vi, attributes);
	trace_returned(&line);
	if (rc == VIP_SUCCESS)
		text_vi_attributes(t, attributes);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipDisconnect(VIP_VI_HANDLE vi)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipDisconnect");
	text_handle(t, "vi", vi);
	trace_enter(&line, true);
	rc = PVipDisconnect(vi);
	trace_returned(&line);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipNSInit(VIP_NIC_HANDLE nic, VIP_PVOID info)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipNSInit");
	trace_enter(&line, false);
	rc = PVipNSInit(nic, info);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	text_handle(t, "info", info);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipNSGetHostByName(VIP_NIC_HANDLE nic, VIP_CHAR *name, VIP_NET_ADDRESS *found,
				     VIP_ULONG index)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipNSGetHostByName");
	text_handle(t, "nic", nic);
	if (found && is_live(nic, OBJECT_NIC))
		text_string(t, "name", name);
	text_number(t, "index", index);
	trace_enter(&line, true);
	rc = PVipNSGetHostByName(nic, name, found, index);
	trace_returned(&line);
	if (rc == VIP_SUCCESS)
		text_host(t, "host", found);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipNSGetHostByAddr(VIP_NIC_HANDLE nic, VIP_NET_ADDRESS *wanted, VIP_CHAR *name,
				     VIP_ULONG *room)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipNSGetHostByAddr");
	text_handle(t, "nic", nic);
	if (name && room && is_live(nic, OBJECT_NIC))
		text_host(t, "host", wanted);
	trace_enter(&line, true);
	rc = PVipNSGetHostByAddr(nic, wanted, name, room);
	trace_returned(&line);
	if (rc == VIP_SUCCESS)
		text_string(t, "name", name);
	return trace_result(&line, rc);
}

VIP_RETURN traced_VipNSShutdown(VIP_NIC_HANDLE nic)
{
	struct trace_line line;
	struct text *t = &line.text;
	VIP_RETURN rc;

	trace_begin(&line, "VipNSShutdown");
	trace_enter(&line, false);
	rc = PVipNSShutdown(nic);
	trace_returned(&line);
	text_handle(t, "nic", nic);
	return trace_result(&line, rc);
}
