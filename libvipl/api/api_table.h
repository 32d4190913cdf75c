/*
 * The functions of the API, in the order of vipl.h, and what a trace tells of each:
 *
 *   API(function, how, parameters, arguments, before, after)
 *
 * how     WAITS: it may, so its beginning is told, too; RUNS; POLLS: what finds nothing is counted
 * before  what is noted before the call (what the parameters point to may be gone afterwards)
 * after   what is noted behind it; rc is its result. A function that has refused its arguments may
 *         not have looked at what they point to, and neither does this.
 *
 * API_OTHER(function) is written out in entry.c. Included by those who say what API is.
 */
// clang-format off

/* Hardware connection */
API(VipOpenNic, WAITS, (const VIP_CHAR *name, VIP_NIC_HANDLE *nic), (name, nic),
	if (nic) text_string(t, "name", name),
	if (rc == VIP_SUCCESS) opened(t, *nic))
API(VipCloseNic, WAITS, (VIP_NIC_HANDLE nic), (nic), handle(t, "nic", nic), )

/* Endpoint creation and destruction */
API(VipCreateVi, RUNS, (VIP_NIC_HANDLE nic, VIP_VI_ATTRIBUTES *attributes, VIP_CQ_HANDLE send_cq,
		VIP_CQ_HANDLE recv_cq, VIP_VI_HANDLE *vi), (nic, attributes, send_cq, recv_cq, vi), ,
	handle(t, "nic", nic);
	handle(t, "sendcq", send_cq);
	handle(t, "recvcq", recv_cq);
	if (rc != VIP_INVALID_PARAMETER) vi_attributes(t, attributes);
	if (rc == VIP_SUCCESS) handle(t, "vi", *vi))
API(VipDestroyVi, WAITS, (VIP_VI_HANDLE vi), (vi), handle(t, "vi", vi), )

/* Connection management */
API(VipConnectWait, WAITS, (VIP_NIC_HANDLE nic, VIP_NET_ADDRESS *local, VIP_ULONG msec,
		VIP_NET_ADDRESS *remote, VIP_VI_ATTRIBUTES *attributes, VIP_CONN_HANDLE *connection),
	(nic, local, msec, remote, attributes, connection),
	handle(t, "nic", nic);
	if (remote && attributes && connection && is_live(nic, OBJECT_NIC))
		discriminator(t, "disc", local);
	timeout(t, msec),
	if (rc == VIP_SUCCESS) handle(t, "conn", *connection);
	if (rc == VIP_SUCCESS) address(t, "peer", "peerdisc", remote);
	if (rc == VIP_SUCCESS) vi_attributes(t, attributes))
API(VipConnectAccept, WAITS, (VIP_CONN_HANDLE connection, VIP_VI_HANDLE vi), (connection, vi),
	handle(t, "conn", connection);
	handle(t, "vi", vi), )
API(VipConnectReject, RUNS, (VIP_CONN_HANDLE connection), (connection), ,
	handle(t, "conn", connection))
API(VipConnectRequest, WAITS, (VIP_VI_HANDLE vi, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote,
		VIP_ULONG msec, VIP_VI_ATTRIBUTES *attributes), (vi, local, remote, msec, attributes),
	handle(t, "vi", vi);
	if (attributes && msec && is_live(vi, OBJECT_VI)) {
		address(t, "peer", "disc", remote);
		discriminator(t, "owndisc", local);
	}
	timeout(t, msec),
	if (rc == VIP_SUCCESS) vi_attributes(t, attributes))
API(VipConnectPeerRequest, RUNS, (VIP_VI_HANDLE vi, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote,
		VIP_ULONG msec), (vi, local, remote, msec),
	queue(l, TRACE_PEER, vi),
	handle(t, "vi", vi);
	if (rc != VIP_INVALID_PARAMETER) {
		address(t, "peer", "disc", remote);
		discriminator(t, "owndisc", local);
	}
	timeout(t, msec))
API(VipConnectPeerDone, POLLS, (VIP_VI_HANDLE vi, VIP_VI_ATTRIBUTES *attributes), (vi, attributes),
	queue(l, TRACE_PEER, vi),
	handle(t, "vi", vi);
	if (rc == VIP_SUCCESS) vi_attributes(t, attributes))
API(VipConnectPeerWait, WAITS, (VIP_VI_HANDLE vi, VIP_VI_ATTRIBUTES *attributes), (vi, attributes),
	queue(l, TRACE_PEER, vi);
	handle(t, "vi", vi),
	if (rc == VIP_SUCCESS) vi_attributes(t, attributes))
API(VipDisconnect, WAITS, (VIP_VI_HANDLE vi), (vi), handle(t, "vi", vi), )

/* Memory protection and registration */
API(VipCreatePtag, RUNS, (VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE *tag), (nic, tag), ,
	handle(t, "nic", nic);
	if (rc == VIP_SUCCESS) handle(t, "tag", *tag))
API(VipDestroyPtag, RUNS, (VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE tag), (nic, tag), ,
	handle(t, "nic", nic);
	handle(t, "tag", tag))
API(VipRegisterMem, RUNS, (VIP_NIC_HANDLE nic, VIP_PVOID memory, VIP_ULONG bytes,
		VIP_MEM_ATTRIBUTES *attributes, VIP_MEM_HANDLE *mem),
	(nic, memory, bytes, attributes, mem), ,
	handle(t, "nic", nic);
	handle(t, "addr", memory);
	text_number(t, "bytes", bytes);
	if (rc != VIP_INVALID_PARAMETER) mem_attributes(t, attributes);
	if (rc == VIP_SUCCESS) text_hex(t, "mem", *mem))
API(VipDeregisterMem, RUNS, (VIP_NIC_HANDLE nic, VIP_PVOID memory, VIP_MEM_HANDLE mem),
	(nic, memory, mem), ,
	handle(t, "nic", nic);
	handle(t, "addr", memory);
	text_hex(t, "mem", mem))

/* Data transfer and completion */
API(VipPostSend, RUNS, (VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE mem),
	(vi, descriptor, mem), posted(l, TRACE_SEND, vi, descriptor, mem), )
API(VipSendDone, POLLS, (VIP_VI_HANDLE vi, VIP_DESCRIPTOR **descriptor), (vi, descriptor),
	queue(l, TRACE_SEND, vi), done(l, vi, rc, descriptor))
API(VipSendWait, WAITS, (VIP_VI_HANDLE vi, VIP_ULONG msec, VIP_DESCRIPTOR **descriptor),
	(vi, msec, descriptor), waits(l, TRACE_SEND, vi, msec), waited(t, rc, descriptor))
API(VipSendNotify, RUNS, (VIP_VI_HANDLE vi, VIP_PVOID context, VIP_VI_CALLBACK handler),
	(vi, context, handler), asks(l, TRACE_SEND, "vi", vi, context, (uintptr_t)handler), )
API(VipPostRecv, RUNS, (VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE mem),
	(vi, descriptor, mem), posted(l, TRACE_RECV, vi, descriptor, mem), )
API(VipRecvDone, POLLS, (VIP_VI_HANDLE vi, VIP_DESCRIPTOR **descriptor), (vi, descriptor),
	queue(l, TRACE_RECV, vi), done(l, vi, rc, descriptor))
API(VipRecvWait, WAITS, (VIP_VI_HANDLE vi, VIP_ULONG msec, VIP_DESCRIPTOR **descriptor),
	(vi, msec, descriptor), waits(l, TRACE_RECV, vi, msec), waited(t, rc, descriptor))
API(VipRecvNotify, RUNS, (VIP_VI_HANDLE vi, VIP_PVOID context, VIP_VI_CALLBACK handler),
	(vi, context, handler), asks(l, TRACE_RECV, "vi", vi, context, (uintptr_t)handler), )

/* Completion queues */
API(VipCreateCQ, RUNS, (VIP_NIC_HANDLE nic, VIP_ULONG entries, VIP_CQ_HANDLE *cq),
	(nic, entries, cq), ,
	handle(t, "nic", nic);
	text_number(t, "entries", entries);
	if (rc == VIP_SUCCESS) handle(t, "cq", *cq))
API(VipDestroyCQ, WAITS, (VIP_CQ_HANDLE cq), (cq), handle(t, "cq", cq), )
API(VipResizeCQ, RUNS, (VIP_CQ_HANDLE cq, VIP_ULONG entries), (cq, entries), ,
	handle(t, "cq", cq);
	text_number(t, "entries", entries))
API(VipCQDone, POLLS, (VIP_CQ_HANDLE cq, VIP_VI_HANDLE *vi, VIP_BOOLEAN *receives),
	(cq, vi, receives),
	queue(l, TRACE_CQ, cq),
	handle(t, "cq", cq);
	if (rc == VIP_SUCCESS) entry(t, *vi, *receives))
API(VipCQWait, WAITS, (VIP_CQ_HANDLE cq, VIP_ULONG msec, VIP_VI_HANDLE *vi, VIP_BOOLEAN *receives),
	(cq, msec, vi, receives),
	queue(l, TRACE_CQ, cq);
	handle(t, "cq", cq);
	timeout(t, msec),
	if (rc == VIP_SUCCESS) entry(t, *vi, *receives))
API(VipCQNotify, RUNS, (VIP_CQ_HANDLE cq, VIP_PVOID context, VIP_CQ_CALLBACK handler),
	(cq, context, handler), asks(l, TRACE_CQ, "cq", cq, context, (uintptr_t)handler), )

/* Querying and setting attributes */
API(VipQueryNic, RUNS, (VIP_NIC_HANDLE nic, VIP_NIC_ATTRIBUTES *attributes), (nic, attributes), ,
	handle(t, "nic", nic))
API(VipSetViAttributes, RUNS, (VIP_VI_HANDLE vi, VIP_VI_ATTRIBUTES *attributes), (vi, attributes), ,
	handle(t, "vi", vi);
	if (rc != VIP_INVALID_PARAMETER) vi_attributes(t, attributes))
API(VipQueryVi, RUNS, (VIP_VI_HANDLE vi, VIP_VI_STATE *state, VIP_VI_ATTRIBUTES *attributes,
		VIP_BOOLEAN *sends_empty, VIP_BOOLEAN *receives_empty),
	(vi, state, attributes, sends_empty, receives_empty), ,
	handle(t, "vi", vi);
	if (rc == VIP_SUCCESS) vi_state(t, *state, *sends_empty, *receives_empty);
	if (rc == VIP_SUCCESS) vi_attributes(t, attributes))
API(VipSetMemAttributes, RUNS, (VIP_NIC_HANDLE nic, VIP_PVOID memory, VIP_MEM_HANDLE mem,
		VIP_MEM_ATTRIBUTES *attributes), (nic, memory, mem, attributes), ,
	handle(t, "nic", nic);
	handle(t, "addr", memory);
	text_hex(t, "mem", mem);
	if (rc != VIP_INVALID_PARAMETER) mem_attributes(t, attributes))
API(VipQueryMem, RUNS, (VIP_NIC_HANDLE nic, VIP_PVOID memory, VIP_MEM_HANDLE mem,
		VIP_MEM_ATTRIBUTES *attributes), (nic, memory, mem, attributes), ,
	handle(t, "nic", nic);
	handle(t, "addr", memory);
	text_hex(t, "mem", mem);
	if (rc == VIP_SUCCESS) mem_attributes(t, attributes))
API(VipQuerySystemManagementInfo, RUNS, (VIP_NIC_HANDLE nic, VIP_ULONG type, VIP_PVOID info),
	(nic, type, info), ,
	handle(t, "nic", nic);
	text_number(t, "type", type);
	handle(t, "info", info))

/* Error handling */
API(VipErrorCallback, RUNS, (VIP_NIC_HANDLE nic, VIP_PVOID context, VIP_ERROR_HANDLER handler),
	(nic, context, handler), ,
	handle(t, "nic", nic);
	handle(t, "context", context);
	text_hex(t, "handler", (uintptr_t)handler))

/* Name service */
API(VipNSInit, RUNS, (VIP_NIC_HANDLE nic, VIP_PVOID info), (nic, info), ,
	handle(t, "nic", nic);
	handle(t, "info", info))
API(VipNSGetHostByName, WAITS, (VIP_NIC_HANDLE nic, VIP_CHAR *name, VIP_NET_ADDRESS *found,
		VIP_ULONG index), (nic, name, found, index),
	handle(t, "nic", nic);
	if (found && is_live(nic, OBJECT_NIC)) text_string(t, "name", name);
	text_number(t, "index", index),
	if (rc == VIP_SUCCESS) host(t, "host", found))
API(VipNSGetHostByAddr, WAITS, (VIP_NIC_HANDLE nic, VIP_NET_ADDRESS *wanted, VIP_CHAR *name,
		VIP_ULONG *room), (nic, wanted, name, room),
	handle(t, "nic", nic);
	if (name && room && is_live(nic, OBJECT_NIC)) host(t, "host", wanted),
	if (rc == VIP_SUCCESS) text_string(t, "name", name))
API(VipNSShutdown, RUNS, (VIP_NIC_HANDLE nic), (nic), , handle(t, "nic", nic))

/* Giganet additions */
API_OTHER(VipGetUserData)
API_OTHER(VipSetUserData)
API(VipAddTagCQ, RUNS, (VIP_CQ_HANDLE cq, VIP_EVENT_HANDLE *event, VIP_ULONG tag,
		VIP_ULONG priority), (cq, event, tag, priority), ,
	handle(t, "cq", cq);
	handle(t, "event", event);
	text_number(t, "tag", tag);
	text_number(t, "priority", priority))
API(VipRemoveTagCQ, RUNS, (VIP_CQ_HANDLE cq, VIP_EVENT_HANDLE event, VIP_ULONG tag),
	(cq, event, tag), ,
	handle(t, "cq", cq);
	handle(t, "event", event);
	text_number(t, "tag", tag))
API(VipPostDeferredSends, RUNS, (VIP_VI_HANDLE vi, VIP_BOOLEAN interrupt, VIP_BOOLEAN *deferred),
	(vi, interrupt, deferred), ,
	handle(t, "vi", vi);
	text_number(t, "interrupt", interrupt != 0))
