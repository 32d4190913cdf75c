/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private data of connection messages, and control messages: bytes in a fixed order, nothing of
 * the host's.
 */
#include "wire.h"

#include <string.h>

static const uint8_t magic[4] = {'V', 'I', 'P', 'L'};

enum {
	LEVEL_MASK = 0x0f,
	RIGHT_RDMA_WRITE = 0x10,
	RIGHT_RDMA_READ = 0x20,
	OWN_IS_FULL = 0x40,
	WANTED_IS_FULL = 0x80,
};

static void write_number(uint8_t *bytes, unsigned count, uint32_t number)
{
	while (count--) {
		bytes[count] = (uint8_t)number;
		number >>= 8;
	}
}

static uint32_t read_number(const uint8_t *bytes, unsigned count)
{
	uint32_t number = 0;

	while (count--)
		number = number << 8 | *bytes++;
	return number;
}

/* The last byte is the length where it is not needed; returns the flag for where it is. */
static uint8_t write_discriminator(uint8_t *bytes, const struct discriminator *from, uint8_t full)
{
	memcpy(bytes, from->bytes, from->length);
	if (from->length == MAX_DISCRIMINATOR_LEN)
		return full;
	bytes[MAX_DISCRIMINATOR_LEN - 1] = from->length;
	return 0;
}

void wire_write(struct wire_message *message, enum wire_code code, const struct connect_info *own,
		const struct discriminator *wanted)
{
	memset(message, 0, sizeof(*message));
	memcpy(message->magic, magic, sizeof(magic));
	message->version = WIRE_VERSION;
	message->code = (uint8_t)code;
	if (own) {
		message->flags = (uint8_t)(own->reliability |
					   (own->rights.rdma_write ? RIGHT_RDMA_WRITE : 0) |
					   (own->rights.rdma_read ? RIGHT_RDMA_READ : 0));
		write_number(message->max_transfer, sizeof(message->max_transfer),
			     own->max_transfer);
		message->flags |= write_discriminator(message->own, &own->discriminator, OWN_IS_FULL);
	}
	if (wanted)
		message->flags |= write_discriminator(message->wanted, wanted, WANTED_IS_FULL);
}

/* False when it makes no sense. */
static bool read_discriminator(struct discriminator *out, const uint8_t *bytes, bool full)
{
	uint8_t length = full ? MAX_DISCRIMINATOR_LEN : bytes[MAX_DISCRIMINATOR_LEN - 1];

	memset(out, 0, sizeof(*out));
	if (length > MAX_DISCRIMINATOR_LEN - !full)
		return false;
	out->length = length;
	memcpy(out->bytes, bytes, length);
	return true;
}

enum wire_code wire_read(const void *data, size_t length, struct connect_info *own,
			 struct discriminator *wanted)
{
	struct wire_message message;

	if (!data || length < sizeof(message))
		return 0;
	memcpy(&message, data, sizeof(message));
	if (memcmp(message.magic, magic, sizeof(magic)))
		return 0;
	if (message.version != WIRE_VERSION)
		return WIRE_BAD_VERSION;
	memset(own, 0, sizeof(*own));
	if (!read_discriminator(&own->discriminator, message.own, message.flags & OWN_IS_FULL) ||
	    !read_discriminator(wanted, message.wanted, message.flags & WANTED_IS_FULL))
		return 0;
	own->peer_to_peer = message.code == WIRE_PEER_REQUEST;
	own->reliability = message.flags & LEVEL_MASK;
	own->rights.rdma_write = message.flags & RIGHT_RDMA_WRITE;
	own->rights.rdma_read = message.flags & RIGHT_RDMA_READ;
	own->max_transfer = read_number(message.max_transfer, sizeof(message.max_transfer));
	return message.code;
}

void wire_write_extra(struct wire_message *message, struct wire_extra extra)
{
	write_number(message->flush_rkey, sizeof(message->flush_rkey), extra.flush_rkey);
	write_number(message->port, sizeof(message->port), extra.port);
	if (message->code == WIRE_ACCEPT)
		message->wanted[0] = extra.mtu;
}

struct wire_extra wire_read_extra(const void *data)
{
	struct wire_message message;

	memcpy(&message, data, sizeof(message));
	return (struct wire_extra){
		.flush_rkey = read_number(message.flush_rkey, sizeof(message.flush_rkey)),
		.port = (uint16_t)read_number(message.port, sizeof(message.port)),
		.mtu = message.code == WIRE_ACCEPT ? message.wanted[0] : 0,
	};
}

void wire_write_control(struct wire_control *message, enum wire_code code,
			const struct wire_control_fields *fields)
{
	memcpy(message->magic, magic, sizeof(magic));
	message->version = WIRE_VERSION;
	message->code = (uint8_t)code;
	write_number(message->port, sizeof(message->port), fields->port);
	write_number(message->from, sizeof(message->from), fields->from);
	write_number(message->to, sizeof(message->to), fields->to);
	write_number(message->number, sizeof(message->number), fields->number);
}

enum wire_code wire_read_control(const struct wire_control *message,
				 struct wire_control_fields *fields)
{
	if (memcmp(message->magic, magic, sizeof(magic)) || message->version != WIRE_VERSION)
		return 0;
	*fields = (struct wire_control_fields){
		.port = (uint16_t)read_number(message->port, sizeof(message->port)),
		.from = read_number(message->from, sizeof(message->from)),
		.to = read_number(message->to, sizeof(message->to)),
		.number = read_number(message->number, sizeof(message->number)),
	};
	return message->code;
}
