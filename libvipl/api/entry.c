/*
 * What programs call. Each function is a jump to the one of the same name in the API's files, or,
 * when calls are traced, a call of that with a line of the trace around it. The table says what is
 * in the line.
 */
#include <stdint.h>
#include <string.h>

#include "base/address.h"
#include "core/memory.h"
#include "core/object.h"
#include "trace/trace.h"
#include "trace/trace_words.h"
#include "vipl.h"
#include "vipl_names.h"

enum how { RUNS, WAITS, POLLS };

#define HIDDEN __attribute__((visibility("hidden")))

static const char *result_name(VIP_RETURN rc)
{
#define NAME(name, sense) [name] = #name,
	static const char *const names[] = {VIPL_RESULTS(NAME)};
#undef NAME

	return names[rc];
}

/* Is the handle one that the function will go on with? Otherwise it looks at nothing else. */
static bool is_live(VIP_PVOID value, enum object_kind kind)
{
	struct object *object = object_get(value, kind);

	if (object)
		object_put(object);
	return object;
}

static void timeout(struct text *t, VIP_ULONG msec)
{
	if (msec >= 0xFFFFFFFFUL)
		text_word(t, "timeout", "infinite");
	else
		text_number(t, "timeout", msec);
}

static void host(struct text *t, const char *key, const VIP_NET_ADDRESS *address)
{
	char written[INET6_ADDRSTRLEN];
	struct in6_addr found;

	if (!address)
		return;
	if (!address->HostAddressLen) {
		text_word(t, key, "-");
	} else if (!host_length_is_known(address->HostAddressLen) ||
		   !address_host(address, &found)) {
		text_word(t, key, "?");
	} else {
		host_text(&found, written);
		text_word(t, key, written);
	}
}

static void discriminator(struct text *t, const char *key, const VIP_NET_ADDRESS *address)
{
	struct discriminator found;

	if (!address)
		return;
	if (address_discriminator(address, &found))
		text_bytes(t, key, found.bytes, found.length);
	else
		text_word(t, key, "?");
}

/* A function that finds the discriminator too long has not looked at the rest. */
static void address(struct text *t, const char *host_key, const char *key,
		    const VIP_NET_ADDRESS *address)
{
	struct discriminator found;

	if (address && address_discriminator(address, &found))
		host(t, host_key, address);
	discriminator(t, key, address);
}

static void level(struct text *t, VIP_RELIABILITY_LEVEL level)
{
	switch (level) {
	case VIP_SERVICE_UNRELIABLE:
		text_word(t, "level", "unreliable");
		break;
	case VIP_SERVICE_RELIABLE_DELIVERY:
		text_word(t, "level", "delivery");
		break;
	case VIP_SERVICE_RELIABLE_RECEPTION:
		text_word(t, "level", "reception");
		break;
	default:
		text_hex(t, "level", level);
	}
}

static void rights(struct text *t, VIP_PROTECTION_HANDLE tag, VIP_BOOLEAN write, VIP_BOOLEAN read)
{
	handle(t, "tag", tag);
	text_number(t, "write", write != 0);
	text_number(t, "read", read != 0);
}

static void vi_attributes(struct text *t, const VIP_VI_ATTRIBUTES *attributes)
{
	level(t, attributes->ReliabilityLevel);
	text_number(t, "mtu", attributes->MaxTransferSize);
	rights(t, attributes->Ptag, attributes->EnableRdmaWrite, attributes->EnableRdmaRead);
}

static void mem_attributes(struct text *t, const VIP_MEM_ATTRIBUTES *attributes)
{
	if (attributes)
		rights(t, attributes->Ptag, attributes->EnableRdmaWrite,
		       attributes->EnableRdmaRead);
}

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

/* ---- descriptors ---- */

/* Of the program's, before it is posted. */
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
	queue(l, which, vi);
	handle(&l->text, "vi", vi);
	handle(&l->text, "desc", descriptor);
	text_hex(&l->text, "mem", mem);
	if (descriptor && (uintptr_t)descriptor % VIP_DESCRIPTOR_ALIGNMENT == 0 &&
	    is_live(vi, OBJECT_VI))
		descriptor_read(&l->text, which == TRACE_SEND, descriptor);
}

static void waited(struct text *t, VIP_RETURN rc, VIP_DESCRIPTOR *const *descriptor)
{
	if ((rc == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR) && *descriptor)
		descriptor_done(t, *descriptor);
}

static void done(struct trace_line *l, VIP_VI_HANDLE vi, VIP_RETURN rc,
		 VIP_DESCRIPTOR *const *descriptor)
{
	handle(&l->text, "vi", vi);
	waited(&l->text, rc, descriptor);
	l->is_empty = rc == VIP_DESCRIPTOR_ERROR && !*descriptor;
}

static void waits(struct trace_line *l, enum trace_queue which, VIP_VI_HANDLE vi, VIP_ULONG msec)
{
	queue(l, which, vi);
	handle(&l->text, "vi", vi);
	timeout(&l->text, msec);
}

/* ---- the functions ---- */

HIDDEN __typeof__(VipQueryNic) PVipQueryNic;

static void opened(struct text *t, VIP_NIC_HANDLE nic)
{
	char written[INET6_ADDRSTRLEN];
	VIP_NIC_ATTRIBUTES found;
	struct in6_addr own;

	handle(t, "nic", nic);
	if (PVipQueryNic(nic, &found) != VIP_SUCCESS)
		return;
	text_string(t, "device", found.Name);
	if (!host_read(found.LocalNicAddress, found.NicAddressLen, &own))
		return;
	host_text(&own, written);
	trace_remark("nic=%p device=%s address=%s", nic, found.Name, written);
}

/* What is called when nothing is traced comes first, so that it is together in memory. */
// clang-format off
#define API_OTHER(name)
#define API(name, how, parameters, arguments, before, after)                                      \
	HIDDEN __typeof__(name) P##name;                                                         \
	static __typeof__(name) traced_##name;                                                    \
	VIP_RETURN name parameters                                                                \
	{                                                                                         \
		return trace_is_on() ? traced_##name arguments : P##name arguments;       \
	}
#include "api_table.h"
#undef API

#define API(name, how, parameters, arguments, before, after)                                      \
	static __attribute__((noinline)) VIP_RETURN traced_##name parameters                      \
	{                                                                                         \
		struct trace_line line, *const l = &line;                                         \
		struct text *const t = &line.text;                                                \
		VIP_RETURN rc;                                                                    \
		trace_begin(l, #name);                                                            \
		before;                                                                           \
		trace_enter(l, (how) == WAITS);                                                   \
		rc = P##name arguments;                                                   \
		if ((how) == POLLS && rc == VIP_NOT_DONE) {                                       \
			trace_poll(l, false);                                                     \
			return rc;                                                                \
		}                                                                                 \
		trace_returned(l);                                                                \
		after;                                                                            \
		if (l->is_empty)                                                                  \
			trace_poll(l, true);                                                      \
		else                                                                              \
			trace_return(l, result_name(rc));                                         \
		(void)t;                                                                          \
		return rc;                                                                        \
	}
#include "api_table.h"
#undef API
#undef API_OTHER
// clang-format on

HIDDEN __typeof__(VipGetUserData) PVipGetUserData;
HIDDEN __typeof__(VipSetUserData) PVipSetUserData;

static void user_data(struct trace_line *line, VIP_VI_HANDLE vi, VIP_PVOID data)
{
	trace_returned(line);
	handle(&line->text, "vi", vi);
	handle(&line->text, "data", data);
	trace_return(line, "-");
}

VIP_PVOID VipGetUserData(VIP_VI_HANDLE vi)
{
	struct trace_line line;
	VIP_PVOID data;

	if (!trace_is_on())
		return PVipGetUserData(vi);
	trace_begin(&line, "VipGetUserData");
	trace_enter(&line, false);
	data = PVipGetUserData(vi);
	user_data(&line, vi, data);
	return data;
}

void VipSetUserData(VIP_VI_HANDLE vi, VIP_PVOID data)
{
	struct trace_line line;

	if (!trace_is_on()) {
		PVipSetUserData(vi, data);
		return;
	}
	trace_begin(&line, "VipSetUserData");
	trace_enter(&line, false);
	PVipSetUserData(vi, data);
	user_data(&line, vi, data);
}
