/* The private data of connection messages: bytes in a fixed order, nothing of the host's. */
#include "wire.h"

#include <string.h>

static const uint8_t magic[4] = {'V', 'I', 'P', 'L'};

enum { LEVEL_MASK = 0x0f, RIGHT_RDMA_WRITE = 0x10, RIGHT_RDMA_READ = 0x20 };

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

void wire_write(struct wire_message *message, enum wire_code code, const struct connect_info *own,
		const struct discriminator *wanted)
{
	memset(message, 0, sizeof(*message));
	memcpy(message->magic, magic, sizeof(magic));
	message->version = WIRE_VERSION;
	message->code = (uint8_t)code;
	if (own) {
		message->level_and_rights =
			(uint8_t)(own->reliability |
				  (own->rights.rdma_write ? RIGHT_RDMA_WRITE : 0) |
				  (own->rights.rdma_read ? RIGHT_RDMA_READ : 0));
		write_number(message->max_transfer, sizeof(message->max_transfer),
			     own->max_transfer);
		message->own_length = own->discriminator.length;
		memcpy(message->own, own->discriminator.bytes, own->discriminator.length);
	}
	if (wanted) {
		message->wanted_length = wanted->length;
		memcpy(message->wanted, wanted->bytes, wanted->length);
	}
}

static void read_discriminator(struct discriminator *out, uint8_t length, const uint8_t *bytes)
{
	memset(out, 0, sizeof(*out));
	out->length = length;
	memcpy(out->bytes, bytes, length);
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
	if (message.own_length > MAX_DISCRIMINATOR_LEN ||
	    message.wanted_length > MAX_DISCRIMINATOR_LEN)
		return 0;
	memset(own, 0, sizeof(*own));
	own->mutual = message.code == WIRE_MUTUAL_REQUEST;
	own->reliability = message.level_and_rights & LEVEL_MASK;
	own->rights.rdma_write = message.level_and_rights & RIGHT_RDMA_WRITE;
	own->rights.rdma_read = message.level_and_rights & RIGHT_RDMA_READ;
	own->max_transfer = read_number(message.max_transfer, sizeof(message.max_transfer));
	read_discriminator(&own->discriminator, message.own_length, message.own);
	read_discriminator(wanted, message.wanted_length, message.wanted);
	return message.code;
}

void wire_write_mark(struct wire_message *message, uint32_t mark)
{
	write_number(message->mark, sizeof(message->mark), mark);
}

uint32_t wire_read_mark(const void *data)
{
	struct wire_message message;

	memcpy(&message, data, sizeof(message));
	return read_number(message.mark, sizeof(message.mark));
}
