/* SPDX-License-Identifier: BSD-2-Clause */
/* Words for values of the API: trace_words.h. */
#include "trace_words.h"

#include "base/address.h"
#include "vipl_names.h"

static const char *result_name(VIP_RETURN rc)
{
#define NAME(name, sense) [name] = #name,
	static const char *const names[] = {VIPL_RESULTS(NAME)};
#undef NAME

	return names[rc];
}

void text_timeout(struct text *t, VIP_ULONG msec)
{
	if (msec >= 0xFFFFFFFFUL)
		text_word(t, "timeout", "infinite");
	else
		text_number(t, "timeout", msec);
}

void text_host(struct text *t, const char *key, const VIP_NET_ADDRESS *address)
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

void text_discriminator(struct text *t, const char *key, const VIP_NET_ADDRESS *address)
{
	struct discriminator found;

	if (!address)
		return;
	if (address_discriminator(address, &found))
		text_bytes(t, key, found.bytes, found.length);
	else
		text_word(t, key, "?");
}

void text_address(struct text *t, const char *host_key, const char *key,
		  const VIP_NET_ADDRESS *address)
{
	struct discriminator found;

	if (address && address_discriminator(address, &found))
		text_host(t, host_key, address);
	text_discriminator(t, key, address);
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
	text_handle(t, "tag", tag);
	text_number(t, "write", write != 0);
	text_number(t, "read", read != 0);
}

void text_vi_attributes(struct text *t, const VIP_VI_ATTRIBUTES *attributes)
{
	level(t, attributes->ReliabilityLevel);
	text_number(t, "mtu", attributes->MaxTransferSize);
	rights(t, attributes->Ptag, attributes->EnableRdmaWrite, attributes->EnableRdmaRead);
}

void text_mem_attributes(struct text *t, const VIP_MEM_ATTRIBUTES *attributes)
{
	if (attributes)
		rights(t, attributes->Ptag, attributes->EnableRdmaWrite,
		       attributes->EnableRdmaRead);
}

void text_descriptor(struct text *t, const VIP_DESCRIPTOR *descriptor)
{
	text_handle(t, "desc", descriptor);
	text_hex(t, "status", descriptor->CS.Status);
	text_number(t, "bytes", descriptor->CS.Length);
	if (descriptor->CS.Status & VIP_STATUS_IMMEDIATE)
		text_hex(t, "imm", descriptor->CS.ImmediateData);
}

void trace_asks(struct trace_line *l, enum trace_queue which, const char *key, VIP_PVOID owner,
		VIP_PVOID context, uintptr_t handler)
{
	trace_about(l, which, owner);
	text_handle(&l->text, key, owner);
	text_handle(&l->text, "context", context);
	text_hex(&l->text, "handler", handler);
}

void text_entry(struct text *t, VIP_VI_HANDLE vi, VIP_BOOLEAN receives)
{
	text_handle(t, "vi", vi);
	text_word(t, "queue", receives ? "recv" : "send");
}

VIP_RETURN trace_polled(const struct trace_line *line)
{
	trace_poll(line, false);
	return VIP_NOT_DONE;
}

VIP_RETURN trace_result(struct trace_line *line, VIP_RETURN rc)
{
	trace_return(line, result_name(rc));
	return rc;
}
