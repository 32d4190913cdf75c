/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing and checking messages: nothing in one that comes in is believed. */
#include "message.h"

#include <stddef.h>
#include <string.h>

#include "base/bytes.h"

static const uint8_t magic[4] = {'V', 'I', 'P', 'L'};

enum { LEVEL_MASK = 0x0f, RIGHT_RDMA_WRITE = 0x10, RIGHT_RDMA_READ = 0x20 };

void message_write(struct message *message, uint8_t version, enum message_code code, const struct connect_info *own,
		   const struct discriminator *wanted, const struct description *description)
{
	*message = (struct message){.version = version, .code = (uint8_t)code};
	memcpy(message->magic, magic, sizeof(magic));
	if (own) {
		message->flags = (uint8_t)(own->reliability | (own->rights.rdma_write ? RIGHT_RDMA_WRITE : 0) |
					   (own->rights.rdma_read ? RIGHT_RDMA_READ : 0));
		bytes_put(message->max_transfer, sizeof(message->max_transfer), own->max_transfer);
		message->own_length = own->discriminator.length;
		memcpy(message->own, own->discriminator.bytes, own->discriminator.length);
	}
	if (wanted) {
		message->wanted_length = wanted->length;
		memcpy(message->wanted, wanted->bytes, wanted->length);
	}
	if (description)
		memcpy(message->description, description->bytes, sizeof(message->description));
}

int message_look(const struct message *message, size_t length, uint8_t version)
{
	if (memcmp(message->magic, magic, length < sizeof(magic) ? length : sizeof(magic)))
		return MESSAGE_NONSENSE;
	if (length <= offsetof(struct message, version))
		return MESSAGE_NONE;
	if (message->version != version)
		return MESSAGE_OF_OTHER_VERSION;
	if (length < sizeof(*message))
		return MESSAGE_NONE;
	if (!message->code || message->code > MESSAGE_DISCONNECT || message->own_length > MAX_DISCRIMINATOR_LEN ||
	    message->wanted_length > MAX_DISCRIMINATOR_LEN)
		return MESSAGE_NONSENSE;
	return message->code;
}

static void read_discriminator(struct discriminator *out, const uint8_t *bytes, uint8_t length)
{
	*out = (struct discriminator){.length = length};
	memcpy(out->bytes, bytes, length);
}

void message_read(const struct message *message, struct connect_info *own, struct discriminator *wanted,
		  struct description *description)
{
	*own = (struct connect_info){
		.host = own->host,
		.reliability = message->flags & LEVEL_MASK,
		.max_transfer = (uint32_t)bytes_get(message->max_transfer, sizeof(message->max_transfer)),
		.rights = {.rdma_write = message->flags & RIGHT_RDMA_WRITE,
			   .rdma_read = message->flags & RIGHT_RDMA_READ},
		.peer_to_peer = message->code == MESSAGE_PEER_REQUEST,
	};
	read_discriminator(&own->discriminator, message->own, message->own_length);
	read_discriminator(wanted, message->wanted, message->wanted_length);
	memcpy(description->bytes, message->description, sizeof(description->bytes));
}
