/* The private data of connection messages: bytes in a fixed order, nothing of the host's. */
#include "wire.h"

#include <string.h>

static const uint8_t magic[4] = {'V', 'I', 'P', 'L'};

enum { RIGHT_RDMA_WRITE = 1, RIGHT_RDMA_READ = 2 };

void wire_write(struct wire_message *message, enum wire_code code, const struct connect_info *own,
		const struct discriminator *wanted)
{
	memset(message, 0, sizeof(*message));
	memcpy(message->magic, magic, sizeof(magic));
	message->version = WIRE_VERSION;
	message->code = (uint8_t)code;
	if (own) {
		message->reliability = (uint8_t)own->reliability;
		message->rights = (uint8_t)((own->rights.rdma_write ? RIGHT_RDMA_WRITE : 0) |
					    (own->rights.rdma_read ? RIGHT_RDMA_READ : 0));
		for (unsigned i = 0; i < 4; i++)
			message->max_transfer[i] = (uint8_t)(own->max_transfer >> (24 - 8 * i));
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
	own->reliability = message.reliability;
	own->rights.rdma_write = message.rights & RIGHT_RDMA_WRITE;
	own->rights.rdma_read = message.rights & RIGHT_RDMA_READ;
	for (unsigned i = 0; i < 4; i++)
		own->max_transfer = own->max_transfer << 8 | message.max_transfer[i];
	read_discriminator(&own->discriminator, message.own_length, message.own);
	read_discriminator(wanted, message.wanted_length, message.wanted);
	return message.code;
}
