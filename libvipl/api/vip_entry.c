/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions that programs call, made from functions.def. Each leads to the one that does the work (PVipPostSend, in the
 * files beside this one), or, while calls are traced, to one here (traced_VipPostSend) that calls it and writes a line about the
 * call. On the data path it is a jump. All other calls look at the arguments first, and the thread is not cancelled. What may
 * be gone after the call is read before it.
 */
#include <string.h>

#include "base/address.h"
#include "base/cancel.h"
#include "base/deadline.h"
#include "core/nic.h"
#include "pvip.h"
#include "trace/trace.h"

/* ---- the words for values ---- */

static const char *const states[] = {"IDLE", "CONNECTED", "CONNECT_PENDING", "ERROR"}; /* VIP_STATE_ */

static void host(struct trace_line *l, const char *key, const VIP_NET_ADDRESS *address)
{
	char written[INET6_ADDRSTRLEN] = "?";
	struct in6_addr found;

	if (!address->HostAddressLen)
		strcpy(written, "-");
	else if (host_length_is_known(address->HostAddressLen) && address_host(address, &found))
		host_text(&found, written);
	trace_say(l, "%s%s", key, written);
}

static void discriminator(struct trace_line *l, const char *key, const VIP_NET_ADDRESS *address)
{
	struct discriminator found;

	if (address_discriminator(address, &found))
		trace_say_bytes(l, key, found.bytes, found.length);
	else
		trace_say(l, "%s?", key);
}

static void address(struct trace_line *l, const char *key, const VIP_NET_ADDRESS *address)
{
	struct discriminator found;

	if (address_discriminator(address, &found)) /* else the host is not looked at */
		host(l, " peer=", address);
	discriminator(l, key, address);
}

static void mem_attributes(struct trace_line *l, const VIP_MEM_ATTRIBUTES *a)
{
	if (a)
		trace_say(l, " tag=0x%lx write=%d read=%d", TRACE_HEX(a->Ptag), a->EnableRdmaWrite != 0,
			  a->EnableRdmaRead != 0);
}

static void vi_attributes(struct trace_line *l, const VIP_VI_ATTRIBUTES *a)
{
	static const char *const levels[] = {[VIP_SERVICE_UNRELIABLE] = "unreliable",
					     [VIP_SERVICE_RELIABLE_DELIVERY] = "delivery",
					     [VIP_SERVICE_RELIABLE_RECEPTION] = "reception"};
	VIP_MEM_ATTRIBUTES rights = {a->Ptag, a->EnableRdmaWrite, a->EnableRdmaRead};
	unsigned level = a->ReliabilityLevel;

	if (level <= VIP_SERVICE_RELIABLE_RECEPTION && levels[level])
		trace_say(l, " level=%s", levels[level]);
	else
		trace_say(l, " level=0x%x", level);
	trace_say(l, " mtu=%lu", (unsigned long)a->MaxTransferSize);
	mem_attributes(l, &rights);
}

static void opened(struct trace_line *l, VIP_NIC_HANDLE handle)
{
	struct nic *nic = nic_get(handle);
	char address[INET6_ADDRSTRLEN];

	trace_say(l, " nic=0x%lx", TRACE_HEX(handle));
	if (!nic)
		return;
	trace_say(l, " device=%s", nic->attributes.Name);
	host_text(&nic->host, address);
	trace_remark("nic=0x%lx device=%s address=%s", TRACE_HEX(handle), nic->attributes.Name, address);
	nic_put(nic);
}

/* A descriptor before it is posted. */
static void posted(struct trace_line *l, const VIP_DESCRIPTOR *descriptor, bool looks)
{
	static const char *const operations[] = {"send", "write", "read", "reserved"};
	const VIP_CONTROL_SEGMENT *control;
	unsigned long long bytes = 0;
	unsigned operation;

	trace_say(l, " desc=0x%lx", TRACE_HEX(descriptor));
	if (!looks || !descriptor || (uintptr_t)descriptor % VIP_DESCRIPTOR_ALIGNMENT)
		return;
	control = &descriptor->CS;
	operation = control->Control & VIP_CONTROL_OP_MASK;
	if (l->queue == TRACE_SEND || operation != VIP_CONTROL_OP_SENDRECV)
		trace_say(l, " op=%s", operations[operation]);
	if (control->SegCount <= MAX_SEGMENTS)
		for (unsigned i = operation != VIP_CONTROL_OP_SENDRECV; i < control->SegCount; i++)
			bytes += descriptor->DS[i].Local.Length;
	trace_say(l, " segs=%u bytes=%llu", control->SegCount, bytes);
	if (control->Control & VIP_CONTROL_IMMEDIATE)
		trace_say(l, " imm=0x%x", control->ImmediateData);
	if (control->Control & ~(VIP_CONTROL_OP_MASK | VIP_CONTROL_IMMEDIATE))
		trace_say(l, " control=0x%x", control->Control);
}

/* After a call that asks whether a descriptor is done. Such a call of an empty queue is a poll, too. */
static void say_done(struct trace_line *l, VIP_DESCRIPTOR *const *descriptor, VIP_RETURN rc)
{
	if (rc != VIP_SUCCESS && rc != VIP_DESCRIPTOR_ERROR)
		return;
	if (*descriptor)
		trace_done(l, *descriptor);
	else
		l->found_empty = true;
}

/* ---- the functions ---- */

/* For kinds.def. */
#define IF(condition, words) ((condition) ? (words) : (void)0)
#define PASSED(words)	     IF(rc != VIP_INVALID_PARAMETER, words)
#define TOLD(words)	     IF(rc == VIP_SUCCESS, words)
#define NOTHING		     (void)0
#define say(...)	     trace_say(l, __VA_ARGS__)
#define SAY_NAME(l, name)    trace_say_bytes(l, " name=", name, strnlen(name, 120))
#define SAY_TIMEOUT(l, msec) \
	((msec) < 0xFFFFFFFFUL ? trace_say(l, " timeout=%lu", msec) : trace_say(l, " timeout=infinite"))
#define ABOUT(l, which, of)  ((l)->queue = (which), (l)->handle = (of))

#define WORDS(kind, type, before, behind)                                                 \
	static inline void before_##kind(struct trace_line *l, type v, bool looks)        \
	{                                                                                 \
		(void)l, (void)v, (void)looks, before;                                    \
	}                                                                                 \
	static inline void behind_##kind(struct trace_line *l, type v, VIP_RETURN rc)     \
	{                                                                                 \
		(void)l, (void)v, (void)rc, behind;                                       \
	}
#define K(kind, type, right, before, behind)                                              \
	WORDS(kind, type, before, behind)                                                 \
	static inline bool take_##kind(type v, struct object **object)                    \
	{                                                                                 \
		return ((void)v, (void)object, right);                                    \
	}                                                                                 \
	static inline type pass_##kind(type v, void *object)                              \
	{                                                                                 \
		return ((void)object, v);                                                 \
	}
#define O(kind, type, structure, object_kind, words)                                      \
	WORDS(kind, type, words, NOTHING)                                                 \
	static inline bool take_##kind(type v, struct object **object)                    \
	{                                                                                 \
		return (*object = object_get(v, object_kind));                            \
	}                                                                                 \
	static inline struct structure *pass_##kind(type v, void *object)                 \
	{                                                                                 \
		return ((void)v, object);                                                 \
	}
#include "kinds.def"

#define PARAMETER(kind, name) arg_##kind name
#define ARGUMENT(kind, name)  name
#define PARAMETERS(...)	      EACH(PARAMETER, __VA_ARGS__)
#define ARGUMENTS(...)	      EACH(ARGUMENT, __VA_ARGS__)

#define TAKE(kind, name)   (are_right &= take_##kind(name, &object))
#define PASS(kind, name)   pass_##kind(name, object)
#define BEFORE(kind, name) before_##kind(&line, name, are_right)
#define BEHIND(kind, name) behind_##kind(&line, name, rc)

#define COLD static __attribute__((noinline, cold)) /* so that the jumps stay jumps */

#define TRACED(name, function, may_wait, ...)                          \
	COLD VIP_RETURN traced_##name(PARAMETERS(__VA_ARGS__))         \
	{                                                              \
		struct object *object = NULL;                          \
		struct trace_line line;                                \
		bool are_right = true;                                 \
		VIP_RETURN rc;                                         \
                                                                       \
		trace_begin(&line, #name);                             \
		EACH(TAKE, __VA_ARGS__);                               \
		if (object)                                            \
			object_put(object);                            \
		EACH(BEFORE, __VA_ARGS__);                             \
		trace_enter(&line, may_wait);                          \
		rc = function(ARGUMENTS(__VA_ARGS__));                 \
		line.now = clock_nsec();                               \
		EACH(BEHIND, __VA_ARGS__);                             \
		return trace_result(&line, rc);                        \
	}
#define D(name, ...)                                                   \
	TRACED(name, P##name, false, __VA_ARGS__)                      \
	VIP_RETURN name(PARAMETERS(__VA_ARGS__))                       \
	{                                                              \
		if (trace_is_on())                                     \
			return traced_##name(ARGUMENTS(__VA_ARGS__));  \
		return P##name(ARGUMENTS(__VA_ARGS__));                \
	}
#define CALL(name, may_wait, ...)                                      \
	static VIP_RETURN checked_##name(PARAMETERS(__VA_ARGS__))      \
	{                                                              \
		VIP_RETURN rc = VIP_INVALID_PARAMETER;                 \
		struct object *object = NULL;                          \
		bool are_right = true;                                 \
                                                                       \
		EACH(TAKE, __VA_ARGS__);                               \
		if (are_right)                                         \
			rc = P##name(EACH(PASS, __VA_ARGS__));         \
		if (object)                                            \
			object_put(object);                            \
		return rc;                                             \
	}                                                              \
	TRACED(name, checked_##name, may_wait, __VA_ARGS__)            \
	VIP_RETURN name(PARAMETERS(__VA_ARGS__))                       \
	{                                                              \
		VIP_RETURN rc;                                         \
                                                                       \
		cancel_begin_call();                                   \
		rc = (trace_is_on() ? traced_##name : checked_##name)(ARGUMENTS(__VA_ARGS__)); \
		cancel_end_call();                                     \
		return rc;                                             \
	}
#define F(name, ...)  CALL(name, false, __VA_ARGS__)
#define W(name, ...)  CALL(name, true, __VA_ARGS__)
#include "functions.def"

COLD VIP_PVOID traced_user_data(VIP_VI_HANDLE vi, bool sets, VIP_PVOID data)
{
	struct trace_line line;

	trace_begin(&line, sets ? "VipSetUserData" : "VipGetUserData");
	trace_enter(&line, false);
	if (sets)
		PVipSetUserData(vi, data);
	else
		data = PVipGetUserData(vi);
	line.now = clock_nsec();
	trace_say(&line, " vi=0x%lx data=0x%lx", TRACE_HEX(vi), TRACE_HEX(data));
	trace_event(&line, '=', "-");
	return data;
}

void *VipGetUserData(VIP_VI_HANDLE vi)
{
	return trace_is_on() ? traced_user_data(vi, false, NULL) : PVipGetUserData(vi);
}

void VipSetUserData(VIP_VI_HANDLE vi, VIP_PVOID data)
{
	if (trace_is_on())
		traced_user_data(vi, true, data);
	else
		PVipSetUserData(vi, data);
}
