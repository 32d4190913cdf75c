/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions that programs call, made from functions.def. Each leads to the one that does the work (PVipPostSend, in the
 * files beside this one), or, while calls are traced, to one here (traced_VipPostSend) that calls it and writes a line about the
 * call. On the data path it is a jump; in all other calls the thread is not cancelled. What may be gone after the call is read
 * before it.
 */
#include <string.h>

#include "base/address.h"
#include "base/cancel.h"
#include "base/deadline.h"
#include "core/object.h"
#include "device.h"
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

static void opened(struct trace_line *l, VIP_NIC_HANDLE nic)
{
	char address[INET6_ADDRSTRLEN];
	VIP_NIC_ATTRIBUTES found;
	struct in6_addr own;

	trace_say(l, " nic=0x%lx", TRACE_HEX(nic));
	if (PVipQueryNic(nic, &found) != VIP_SUCCESS)
		return;
	trace_say(l, " device=%s", found.Name);
	if (!host_read(found.LocalNicAddress, found.NicAddressLen, &own))
		return;
	host_text(&own, address);
	trace_remark("nic=0x%lx device=%s address=%s", TRACE_HEX(nic), found.Name, address);
}

/* A descriptor before it is posted. */
static void posted(struct trace_line *l, const VIP_DESCRIPTOR *descriptor)
{
	static const char *const operations[] = {"send", "write", "read", "reserved"};
	const VIP_CONTROL_SEGMENT *control;
	unsigned long long bytes = 0;
	unsigned operation;

	trace_say(l, " desc=0x%lx", TRACE_HEX(descriptor));
	if (!descriptor || (uintptr_t)descriptor % VIP_DESCRIPTOR_ALIGNMENT || !object_is_live(l->handle, OBJECT_VI))
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

#define K(kind, type, right, before, behind)                                              \
	typedef type arg_##kind;                                                          \
	static inline bool right_##kind(type v)                                           \
	{                                                                                 \
		return ((void)v, right);                                                  \
	}                                                                                 \
	static inline void before_##kind(struct trace_line *l, type v, bool looks)        \
	{                                                                                 \
		(void)l, (void)v, (void)looks, before;                                    \
	}                                                                                 \
	static inline void behind_##kind(struct trace_line *l, type v, VIP_RETURN rc)     \
	{                                                                                 \
		(void)l, (void)v, (void)rc, behind;                                       \
	}
#include "kinds.def"

/*
 * PARAMETERS(VI, TIMEOUT) is "arg_VI a1, arg_TIMEOUT a2", ARGUMENTS(VI, TIMEOUT) is "a1, a2", and EACH(m, VI, TIMEOUT) is
 * "m(VI, a1), m(TIMEOUT, a2)".
 */
#define PICK(a, b, c, d, e, f, picked, ...) picked
#define EACH(m, ...)		   PICK(__VA_ARGS__, EACH6, EACH5, EACH4, EACH3, EACH2, EACH1, none)(m, __VA_ARGS__)
#define EACH1(m, a)		   m(a, a1)
#define EACH2(m, a, b)		   EACH1(m, a), m(b, a2)
#define EACH3(m, a, b, c)	   EACH2(m, a, b), m(c, a3)
#define EACH4(m, a, b, c, d)	   EACH3(m, a, b, c), m(d, a4)
#define EACH5(m, a, b, c, d, e)	   EACH4(m, a, b, c, d), m(e, a5)
#define EACH6(m, a, b, c, d, e, f) EACH5(m, a, b, c, d, e), m(f, a6)

#define PARAMETER(kind, name) arg_##kind name
#define ARGUMENT(kind, name)  name
#define PARAMETERS(...)	      EACH(PARAMETER, __VA_ARGS__)
#define ARGUMENTS(...)	      EACH(ARGUMENT, __VA_ARGS__)

#define LOOKS(kind, name)  (looks = looks && right_##kind(name))
#define BEFORE(kind, name) before_##kind(&line, name, looks)
#define BEHIND(kind, name) behind_##kind(&line, name, rc)

#define COLD static __attribute__((noinline, cold)) /* so that the jumps stay jumps */

#define TRACED(name, may_wait, ...)                                    \
	COLD VIP_RETURN traced_##name(PARAMETERS(__VA_ARGS__))         \
	{                                                              \
		struct trace_line line;                                \
		bool looks = true;                                     \
		VIP_RETURN rc;                                         \
                                                                       \
		trace_begin(&line, #name);                             \
		EACH(LOOKS, __VA_ARGS__);                              \
		EACH(BEFORE, __VA_ARGS__);                             \
		trace_enter(&line, may_wait);                          \
		rc = P##name(ARGUMENTS(__VA_ARGS__));                  \
		line.now = clock_nsec();                               \
		EACH(BEHIND, __VA_ARGS__);                             \
		return trace_result(&line, rc);                        \
	}
#define JUMP(name, ...)                                                \
	TRACED(name, false, __VA_ARGS__)                               \
	VIP_RETURN name(PARAMETERS(__VA_ARGS__))                       \
	{                                                              \
		if (trace_is_on())                                     \
			return traced_##name(ARGUMENTS(__VA_ARGS__));  \
		return P##name(ARGUMENTS(__VA_ARGS__));                \
	}
#define CALL(name, may_wait, ...)                                      \
	TRACED(name, may_wait, __VA_ARGS__)                            \
	VIP_RETURN name(PARAMETERS(__VA_ARGS__))                       \
	{                                                              \
		VIP_RETURN rc;                                         \
                                                                       \
		cancel_begin_call();                                   \
		rc = trace_is_on() ? traced_##name(ARGUMENTS(__VA_ARGS__)) : P##name(ARGUMENTS(__VA_ARGS__)); \
		cancel_end_call();                                     \
		return rc;                                             \
	}
#define F(name, ...)  CALL(name, false, __VA_ARGS__)
#define W(name, ...)  CALL(name, true, __VA_ARGS__)
#define D(name, ...)  JUMP(name, __VA_ARGS__)
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
