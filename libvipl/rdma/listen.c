/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for requests: listeners on ports that discriminators select, and what arrives there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/user.h"
#include "rdma.h"
#include "wire.h"

#define FIRST_PORT 0x4000u /* below the ports that the system gives to programs that ask for any */
#define BUCKETS	   4096u
#define ADDRESSES  2u /* IPv4, IPv6: a listener of rdma_cm's hears one of them */
#define BACKLOG	   1024 /* requests beyond it are dropped silently, and repeated after seconds */

/* One for all discriminators of a bucket that this NIC's threads wait for. */
struct verbs_listener {
	enum verbs_role role;
	LIST_ENTRY(verbs_listener) in_device;
	struct rdma_cm_id *ids[ADDRESSES]; /* NULLs at the end */
	uint16_t first_port;
	unsigned users;
};

/* FNV-1a: peers must agree, so this is part of the protocol. */
uint16_t verbs_bucket_port(const struct discriminator *discriminator, unsigned index)
{
	uint32_t hash = 2166136261u;

	for (unsigned i = 0; i < discriminator->length; i++)
		hash = (hash ^ discriminator->bytes[i]) * 16777619u;
	return (uint16_t)(FIRST_PORT + hash % BUCKETS * VERBS_BUCKET_PORTS + index);
}

static struct verbs_listener *find(struct verbs_device *device,
				  const struct discriminator *discriminator)
{
	uint16_t first_port = verbs_bucket_port(discriminator, 0);
	struct verbs_listener *listener;

	LIST_FOREACH(listener, &device->listeners, in_device)
		if (listener->first_port == first_port)
			return listener;
	return NULL;
}

/* NULL and errno on failure. */
static struct rdma_cm_id *listen_at(struct verbs_device *device, struct verbs_listener *listener,
				    const struct in6_addr *host, uint16_t port)
{
	struct sockaddr_storage address;
	struct rdma_cm_id *id;
	int error;

	if (rdma_create_id(device->events, &id, listener, RDMA_PS_TCP))
		return NULL;
	verbs_socket(device, host, port, &address);
	if (!rdma_bind_addr(id, (struct sockaddr *)&address) && !rdma_listen(id, BACKLOG))
		return id;
	error = errno;
	rdma_destroy_id(id);
	errno = error;
	return NULL;
}

static void stop(struct verbs_listener *listener)
{
	for (unsigned i = 0; i < ADDRESSES && listener->ids[i]; i++)
		rdma_destroy_id(listener->ids[i]);
}

/* Listens at the same port of all addresses that are there; an interface may have lost one. 0 or errno. */
static int listen_on(struct verbs_device *device, struct verbs_listener *listener, uint16_t port)
{
	const struct in6_addr *const hosts[ADDRESSES] = {&device->ipv4, &device->ipv6};
	unsigned used = 0;

	memset(listener->ids, 0, sizeof(listener->ids));
	for (unsigned i = 0; i < ADDRESSES; i++) {
		if (IN6_IS_ADDR_UNSPECIFIED(hosts[i]))
			continue;
		listener->ids[used] = listen_at(device, listener, hosts[i], port);
		if (listener->ids[used]) {
			used++;
		} else if (errno != EADDRNOTAVAIL) {
			int error = errno;

			stop(listener);
			return error;
		}
	}
	return used ? 0 : EADDRNOTAVAIL;
}

int verbs_listen(struct device *base, const struct discriminator *discriminator)
{
	struct verbs_device *device = (struct verbs_device *)base;
	struct verbs_listener *listener = find(device, discriminator);
	int error = EADDRINUSE;

	if (listener) {
		listener->users++;
		return 0;
	}
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return ENOMEM;
	listener->role = VERBS_LISTENER;
	listener->users = 1;
	listener->first_port = verbs_bucket_port(discriminator, 0);
	for (unsigned i = 0; i < VERBS_BUCKET_PORTS && error == EADDRINUSE; i++)
		error = listen_on(device, listener, (uint16_t)(listener->first_port + i));
	if (!error) {
		LIST_INSERT_HEAD(&device->listeners, listener, in_device);
		return 0;
	}
	log_ratelimited(error == EADDRINUSE ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR,
			"cannot listen on ports %u to %u: %s%s", listener->first_port,
			listener->first_port + VERBS_BUCKET_PORTS - 1, strerror(error),
			error == EADDRINUSE
				? ": all four ports of this discriminator's bucket are in use"
				: user_hint(error));
	free(listener);
	return error;
}

int verbs_relisten(struct device *base, const struct discriminator *discriminator)
{
	struct verbs_device *device = (struct verbs_device *)base;

	(void)discriminator;
	if (device->user == own_user() && !device->is_refused)
		return 0;
	log_error_ratelimited("cannot wait for a connection: %s%s", strerror(EACCES), user_hint(EACCES));
	return EACCES;
}

void verbs_unlisten(struct device *base, const struct discriminator *discriminator)
{
	struct verbs_listener *listener = find((struct verbs_device *)base, discriminator);

	if (!listener || --listener->users)
		return;
	LIST_REMOVE(listener, in_device);
	stop(listener);
	free(listener);
}

/* Says no, and forgets the request. */
static void refuse(struct rdma_cm_id *id, enum wire_code code)
{
	struct wire_message message;

	wire_write(&message, code, NULL, NULL);
	rdma_reject(id, &message, sizeof(message)); /* the requester may be gone: no matter */
	rdma_destroy_id(id);
}

void verbs_request_arrived(struct verbs_device *device, struct rdma_cm_id *id,
			  const struct rdma_conn_param *parameters)
{
	const void *private_data = parameters->private_data;
	struct discriminator wanted;
	struct verbs_request *request = NULL;
	struct connect_info peer;
	VIP_RETURN refusal;
	enum wire_code code = wire_read(private_data, parameters->private_data_len, &peer, &wanted);

	id->context = NULL; /* it had the listener's */
	if (code == WIRE_BAD_VERSION) {
		log_warning_ratelimited("refused a request by another version of this library");
		refuse(id, WIRE_BAD_VERSION);
		return;
	}
	if (code == WIRE_REQUEST || code == WIRE_PEER_REQUEST)
		request = calloc(1, sizeof(*request));
	if (!request) {
		refuse(id, WIRE_NO_MATCH);
		return;
	}
	peer.host = host_from_socket(rdma_get_peer_addr(id));
	peer.number = parameters->qp_num;
	*request = (struct verbs_request){VERBS_REQUEST, id, peer,
					 wire_read_extra(private_data)};
	id->context = request;
	refusal = request_arrived(device->nic, (struct device_request *)request, &peer, &wanted);
	if (refusal != VIP_SUCCESS)
		verbs_reject((struct device_request *)request, refusal);
}

void verbs_reject(struct device_request *base, VIP_RETURN refusal)
{
	struct verbs_request *request = (struct verbs_request *)base;

	refuse(request->id, refusal == VIP_NO_MATCH   ? WIRE_NO_MATCH
			    : refusal == VIP_NOT_DONE ? WIRE_BUSY
						      : WIRE_REJECT);
	free(request);
}

/* No event tells of a requester that has given up, but then nothing can be made of its request. */
bool verbs_has_requester(const struct device_request *base)
{
	const struct verbs_request *request = (const struct verbs_request *)base;
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTR};
	int mask;

	return !rdma_init_qp_attr(request->id, &attributes, &mask);
}
