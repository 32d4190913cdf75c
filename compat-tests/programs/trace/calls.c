/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls each function of the API, and makes the library call each kind of handler. The order is
 * always the same.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

struct address {
	VIP_NET_ADDRESS net;
	unsigned char more[32];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int called;
static VIP_PVOID memory;
static VIP_MEM_HANDLE handle;

static void count_call(void)
{
	pthread_mutex_lock(&lock);
	called++;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}

static void await_calls(int count)
{
	pthread_mutex_lock(&lock);
	while (called < count)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	(void)context, (void)error;
	count_call();
}

static void on_descriptor(VIP_PVOID context, VIP_NIC_HANDLE from, VIP_VI_HANDLE vi,
			  VIP_DESCRIPTOR *descriptor)
{
	(void)context, (void)from, (void)vi, (void)descriptor;
	count_call();
}

static void on_entry(VIP_PVOID context, VIP_NIC_HANDLE from, VIP_VI_HANDLE vi,
		     VIP_BOOLEAN is_receive)
{
	VIP_DESCRIPTOR *done;

	(void)context, (void)from, (void)is_receive;
	must(VipRecvDone(vi, &done) == VIP_SUCCESS, "VipRecvDone in a handler");
	count_call();
}

/* Returns an address for this process alone. */
static struct address address(const char *what)
{
	struct address a = {.net = {6, 0, {0}}};
	char *host = (char *)&a + offsetof(VIP_NET_ADDRESS, HostAddress);

	memcpy(host, "\177\0\0\1\0\0", 6);
	a.net.DiscriminatorLen = (VIP_UINT16)snprintf(host + 6, 20, "%s %d", what, getpid());
	return a;
}

static VIP_DESCRIPTOR *describe(unsigned length, unsigned control)
{
	VIP_DESCRIPTOR *descriptor = make_descriptor();

	descriptor->CS.SegCount = 1;
	descriptor->CS.Control = (VIP_UINT16)control;
	descriptor->CS.ImmediateData = 0x77;
	descriptor->DS[0].Local.Data.AddressBits = (VIP_UINT64)(size_t)memory;
	descriptor->DS[0].Local.Handle = handle;
	descriptor->DS[0].Local.Length = length;
	return descriptor;
}

static void *request_twice(void *argument)
{
	struct address local = address("client"), remote = address("server");
	VIP_VI_HANDLE vi = argument;
	VIP_VI_ATTRIBUTES attributes;

	must(VipConnectRequest(vi, &local.net, &remote.net, MSEC, &attributes) == VIP_REJECT,
	     "VipConnectRequest");
	must(VipConnectRequest(vi, &local.net, &remote.net, MSEC, &attributes) == VIP_SUCCESS,
	     "VipConnectRequest");
	return NULL;
}

static void ask_nic(void)
{
	struct address found = address("");
	VIP_NIC_ATTRIBUTES attributes;
	VIP_AUTODISCOVERY_LIST list = {0, NULL, 0};
	char host[256];
	VIP_ULONG room = sizeof(host);

	name("LIST", &list);
	VipQueryNic(nic, &attributes);
	VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list);
	VipErrorCallback(nic, &called, on_error);
	VipNSInit(nic, NULL);
	VipNSGetHostByName(nic, (char *)"local host", &found.net, 0); /* there is no such name */
	VipNSGetHostByName(nic, (char *)"localhost", &found.net, 0);
	VipNSGetHostByAddr(nic, &found.net, host, &room);
	VipNSShutdown(nic);
}

static void use_memory(VIP_PROTECTION_HANDLE *tag)
{
	VIP_MEM_ATTRIBUTES rights = {NULL, VIP_TRUE, VIP_FALSE};

	VipCreatePtag(nic, tag);
	rights.Ptag = *tag;
	memory = make_descriptor();
	VipRegisterMem(nic, memory, 128, &rights, &handle);
	VipQueryMem(nic, memory, handle, &rights);
	VipSetMemAttributes(nic, memory, handle, &rights);
	name("TAG", *tag);
	name("MEMORY", memory);
	name("HANDLE", (void *)(size_t)handle);
}

static void connect_equals(VIP_VI_HANDLE a, VIP_VI_HANDLE b)
{
	struct address one = address("one"), two = address("two");
	VIP_VI_ATTRIBUTES attributes;

	VipConnectPeerRequest(a, &one.net, &two.net, MSEC);
	VipConnectPeerDone(a, &attributes);
	VipConnectPeerRequest(b, &two.net, &one.net, MSEC);
	must(VipConnectPeerWait(a, &attributes) == VIP_SUCCESS, "VipConnectPeerWait");
	must(VipConnectPeerWait(b, &attributes) == VIP_SUCCESS, "VipConnectPeerWait");
	must(VipConnectPeerDone(b, &attributes) == VIP_SUCCESS, "VipConnectPeerDone");
}

/* Sends from a to b, whose receives are on the CQ. */
static void transfer(VIP_VI_HANDLE a, VIP_VI_HANDLE b, VIP_CQ_HANDLE cq)
{
	VIP_DESCRIPTOR *receive = describe(64, 0), *send = describe(8, VIP_CONTROL_IMMEDIATE);
	VIP_DESCRIPTOR *done;
	VIP_BOOLEAN is_receive;
	VIP_VI_HANDLE which;

	name("RECEIVE", receive);
	name("SEND", send);
	VipPostRecv(b, receive, handle);
	VipPostSend(a, send, handle);
	VipSendWait(a, MSEC, &done);
	VipCQWait(cq, VIP_INFINITE, &which, &is_receive);
	VipRecvDone(b, &done);
	VipCQDone(cq, &which, &is_receive);
	VipRecvWait(b, 0, &done);
	VipSendDone(a, &done);
	VipCQNotify(cq, &called, on_entry);
	VipPostRecv(b, receive, handle);
	VipPostSend(a, send, handle);
	await_calls(1);
	VipSendNotify(a, &called, on_descriptor);
	await_calls(2);
	VipPostRecv(a, receive, handle);
	VipRecvNotify(a, NULL, on_descriptor);
	VipPostSend(b, send, handle);
	await_calls(3);
	VipPostSend(a, (VIP_DESCRIPTOR *)(void *)((char *)send + 8), handle);
	await_calls(4);
}

static void connect_unequals(VIP_VI_HANDLE a, VIP_VI_HANDLE b)
{
	struct address server = address("server"), client = address("client"), remote;
	VIP_CONN_HANDLE connection;
	VIP_VI_ATTRIBUTES attributes;
	pthread_t requester;

	VipConnectWait(nic, &server.net, 0, &remote.net, &attributes, &connection);
	VipConnectRequest(a, &client.net, &server.net, MSEC, &attributes);
	must(!pthread_create(&requester, NULL, request_twice, a), "pthread_create");
	VipConnectWait(nic, &server.net, MSEC, &remote.net, &attributes, &connection);
	name("FIRST", connection);
	VipConnectReject(connection);
	VipConnectWait(nic, &server.net, MSEC, &remote.net, &attributes, &connection);
	name("SECOND", connection);
	VipConnectAccept(connection, b);
	pthread_join(requester, NULL);
}

void call_everything(void)
{
	VIP_VI_ATTRIBUTES attributes;
	VIP_VI_STATE state;
	VIP_BOOLEAN sends_empty, receives_empty, deferred;
	VIP_PROTECTION_HANDLE tag;
	VIP_EVENT_HANDLE event = NULL;
	void *nowhere = (void *)VIP_DESCRIPTOR_ALIGNMENT;
	VIP_DESCRIPTOR *done, *last = make_descriptor();
	VIP_BOOLEAN is_receive;
	VIP_VI_HANDLE a, b, which;
	VIP_CQ_HANDLE cq;

	name("NIC", nic);
	name("CONTEXT", &called);
	name("ON_ERROR", (void *)(size_t)on_error);
	name("ON_DESCRIPTOR", (void *)(size_t)on_descriptor);
	name("ON_ENTRY", (void *)(size_t)on_entry);
	ask_nic();
	use_memory(&tag);
	name("EVENT", &event);
	VipCreateCQ(nic, 8, &cq);
	VipResizeCQ(cq, 16);
	VipAddTagCQ(cq, &event, 5, 6);
	VipRemoveTagCQ(cq, event, 5);
	a = make_vi(NULL);
	b = make_vi(cq);
	name("CQ", cq);
	name("A", a);
	name("B", b);
	VipQueryVi(a, &state, &attributes, &sends_empty, &receives_empty);
	VipSetViAttributes(a, &attributes);
	VipSetUserData(a, memory);
	VipGetUserData(a);
	VipPostDeferredSends(a, VIP_FALSE, &deferred);
	connect_equals(a, b);
	transfer(a, b, cq);
	name("LAST", last);
	VipPostRecv(b, last, 0); /* it is flushed when the connection is lost */
	VipDisconnect(a);
	await_calls(5);
	VipDisconnect(b);
	VipSendDone(b, &done);
	VipCQDone(cq, &which, &is_receive);
	VipRecvDone(b, &done);
	connect_unequals(a, b);
	VipDisconnect(a);
	await_calls(6);
	VipDisconnect(b);
	VipErrorCallback(nic, NULL, NULL);
	VipDestroyVi(a);
	VipDestroyVi(b);
	VipDestroyCQ(cq);
	VipDeregisterMem(nic, memory, handle);
	VipDestroyPtag(nic, tag);
	/* The handle is not valid now,. */
	VipQueryVi(a, &state, &attributes, &sends_empty, &receives_empty);
	VipPostSend(a, nowhere, 0); /* so the library does not read the descriptor */
	VipConnectRequest(a, nowhere, nowhere, MSEC, &attributes);
	VipCloseNic(nic);
}
