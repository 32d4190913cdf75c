/* SPDX-License-Identifier: BSD-2-Clause */
/* The RDMA device: which one a NIC is at, opening and closing it, its channels and completion queues. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/aligned.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/user.h"
#include "rdma.h"

#define VENDOR_BROADCOM  0x14e4u
#define MESSAGES_VERSION 3 /* between hosts: docs/WIRE.md */

/* ---- which one a NIC is at ---- */

/* The places of ports that cannot be used, and the first reason of each. */
static void list_refused(const struct candidates *list, size_t end, const char *name, char *out, size_t room)
{
	const struct candidate *before = NULL;
	size_t length = 0;

	*out = '\0';
	for (size_t i = 0; i < end && length < room; i++) {
		const struct candidate *one = &list->all[i];
		char place[PLACE_TEXT];

		if (one->reason == CANDIDATE_USABLE || (before && candidates_share_port(one, before)) ||
		    (name ? !candidate_is_called(one, name) : candidates_use_port(list, one)))
			continue;
		candidate_place(one, place);
		length +=
			(size_t)snprintf(out + length, room - length, "%s%s: %s", length ? "; " : "", place, one->why);
		before = one;
	}
}

/* There is none of this name or number that can be used. */
static enum opening tell_why_none(const struct candidates *list, const char *name, unsigned index)
{
	char refused[400];

	if (!list->count && !name)
		return OPENING_NO_DEVICE; /* the caller knows what to do */
	if (!name && candidate_numbered(list, 0)) {
		log_info("nic%u would be the RDMA port number %u of those that can be used, counted from 0: there are "
			 "not so many",
			 index, index);
		return OPENING_NO_SUCH;
	}
	list_refused(list, list->count, name, refused, sizeof(refused));
	if (*refused) {
		log_error("no RDMA device can be used%s%s: %s", name ? " as " : "", name ? name : "", refused);
		return OPENING_FAILED;
	}
	for (size_t i = 0; i < list->count; i++)
		if ((list->all[i].reason == CANDIDATE_FAILED && !*list->all[i].interface) ||
		    (!list->all[i].port && list->all[i].reason != CANDIDATE_IWARP)) {
			log_error("cannot learn what is called %s: RDMA device %s: %s", name, list->all[i].device,
				  list->all[i].why);
			return OPENING_FAILED;
		}
	log_warning(list->has_devices ? "no RDMA device, port, interface or address is called \"%s\": see vip_info"
				: "there is no RDMA device, so none called \"%s\" "
				  "(VIPL_NIC_MAP=NAME=via_lo would make the program's NAME the loopback device)",
		    name);
	return OPENING_NO_SUCH;
}

static void become(struct verbs_device *device, const struct candidates *list, const struct candidate *chosen)
{
	const struct candidate *ipv4 = candidate_beside(list, chosen, true),
			       *ipv6 = candidate_beside(list, chosen, false);

	device->port = chosen->port;
	device->is_ethernet = chosen->is_ethernet;
	device->interface = chosen->index;
	if (ipv4)
		device->ipv4 = ipv4->host;
	if (ipv6)
		device->ipv6 = ipv6->host;
}

/* Tells in one line of the log which port the NIC is at, and which ones before it cannot be used. */
static void tell(const struct verbs_device *device, const char *name, unsigned index, const struct candidates *list,
		 const struct candidate *at)
{
	struct verbs_path path = {.own_gid = {{0}}};
	char place[PLACE_TEXT], nic[16], gid[48] = "no GID", both[INET6_ADDRSTRLEN + 8] = "", passed_over[300];

	candidate_place(at, place);
	snprintf(nic, sizeof(nic), "nic%u", index);
	if (host_is_ipv4(&at->host) && !IN6_IS_ADDR_UNSPECIFIED(&device->ipv6)) {
		memcpy(both, " and ", sizeof(" and "));
		host_text(&device->ipv6, both + strlen(both));
	}
	memcpy(&path.own_gid, &at->host, sizeof(path.own_gid));
	if (!device->is_ethernet)
		ibv_query_gid(device->context, device->port, 0, &path.own_gid);
	if (!verbs_path_find_gid(device, &path))
		snprintf(gid, sizeof(gid), path.roce_version ? "GID %u (RoCE v%u)" : "GID %u", path.to.grh.sgid_index,
			 path.roce_version);
	list_refused(list, name ? 0 : (size_t)(at - list->all), NULL, passed_over, sizeof(passed_over));
	log_info("%s is RDMA device %s%s: %s, %s; it is %s%s%s", name ? name : nic, place, both, gid,
		 device->is_ethernet ? "Ethernet" : "InfiniBand",
		 name    ? "called so"
		 : index ? "the next port that can be used"
			 : "the first port that can be used",
		 *passed_over ? ", after " : "", passed_over);
}

/* Chooses, opens the device, and sets its port and addresses. The log tells of it, or what is wrong. */
static enum opening choose(struct verbs_device *device, const char *name, unsigned index)
{
	const struct candidate *chosen;
	enum opening opening = OPENING_FAILED;
	struct candidates list;
	char place[PLACE_TEXT];
	int error = candidates_find(&list, name, index);

	if (error) {
		log_error("cannot list the RDMA devices: %s", failure(error));
		return OPENING_FAILED;
	}
	chosen = name ? candidate_named(&list, name) : candidate_numbered(&list, index);
	if (list.count && !*list.all[0].device)
		chosen = &list.all[0];
	if (!chosen) {
		opening = tell_why_none(&list, name, index);
	} else if (chosen->reason != CANDIDATE_USABLE) {
		candidate_place(chosen, place);
		log_error("%s%s%s%s", *place ? "cannot use RDMA device " : "", place, *place ? ": " : "", chosen->why);
	} else if ((device->context = verbs_device_open(chosen->device))) {
		become(device, &list, chosen);
		tell(device, name, index, &list, chosen);
		opening = OPENING_DONE;
	} else {
		log_error("cannot open RDMA device %s: %s", chosen->device, failure(errno));
	}
	candidates_free(&list);
	return opening;
}

/* ---- opening and closing ---- */

/* Finds out what the device offers. The library emulates no level: docs/WIRE.md says why. */
static int ask_caps(struct verbs_device *device)
{
	const char *name = ibv_get_device_name(device->context->device);
	int error = verbs_ask_caps(device->context, &device->limits, &device->caps);

	if (error) {
		log_error("cannot find out what RDMA device %s offers: %s", name, failure(error));
		return error;
	}
	device->cq_entries = verbs_most_entries(device->context, &device->limits);
	/* Processes that use few CQs each shall not share one interrupt, by which one processor would serve all. */
	device->next_vector = (unsigned)getpid();
	if (!device->caps.has_uc)
		log_info("RDMA device %s has no UC queue pairs, so no Unreliable VIs", name);
	if (!device->caps.has_atomics)
		log_info("RDMA device %s has no atomic operations, so no VIs at Reliable Reception", name);
	return 0;
}

static int open_events(struct verbs_device *device)
{
	int error;

	fd_mark(device->context->async_fd);
	device->user = own_user();
	device->events = rdma_create_event_channel();
	if (!device->events) {
		log_error("no RDMA connection manager: %s", failure_of("rdma_create_event_channel()", errno));
		return EIO;
	}
	fd_mark(device->events->fd);
	device->base.event_fd = fd_keep(epoll_create1(EPOLL_CLOEXEC), "epoll_create1()");
	error = device->base.event_fd < 0 ? errno : verbs_watch_events(device);
	if (error)
		log_error("cannot watch the events of an RDMA device: %s", failure(error));
	return error;
}

/* An id that is bound to the device gets an event when it is removed. Without one connections end by other errors. */
static void watch_for_removal(struct verbs_device *device)
{
	const struct in6_addr *host = IN6_IS_ADDR_UNSPECIFIED(&device->ipv4) ? &device->ipv6 : &device->ipv4;
	struct sockaddr_storage address;

	if (rdma_create_id(device->events, &device->id, NULL, RDMA_PS_TCP)) {
		device->id = NULL;
		return;
	}
	verbs_socket(device, host, 0, &address);
	rdma_bind_addr(device->id, (struct sockaddr *)&address);
}

/* Also of a device that has not been opened, or not to the end. */
static void verbs_close(struct device *base)
{
	struct verbs_device *device = (struct verbs_device *)base;

	verbs_routes_free(device);
	verbs_destroy_id(device->id);
	if (device->events && fd_is_own(device->events->fd)) /* see verbs_channel_destroy() */
		rdma_destroy_event_channel(device->events);
	fd_close(device->base.event_fd);
	verbs_endpoints_free(device);
	if (device->context && fd_is_own(device->context->async_fd))
		ibv_close_device(device->context);
	pthread_mutex_destroy(&device->staging.lock);
	free(device);
}

static enum opening verbs_open(const char *name, unsigned index, struct nic *nic, struct device **opened)
{
	struct verbs_device *device = zeroed(1, sizeof(*device));
	enum opening opening;

	if (!device) {
		log_error("no memory for a device: %s", failure(errno));
		return OPENING_FAILED;
	}
	device->base = (struct device){.ops = &verbs_device_ops, .event_fd = -1, .version = MESSAGES_VERSION};
	device->nic = nic;
	pthread_mutex_init(&device->staging.lock, NULL);
	STAILQ_INIT(&device->unused_endpoints);
	verbs_prepare_for_fork();
	opening = choose(device, name, index);
	if (opening == OPENING_DONE && (open_events(device) || ask_caps(device)))
		opening = OPENING_FAILED;
	if (opening == OPENING_DONE) {
		watch_for_removal(device);
		*opened = &device->base;
	} else {
		verbs_close(&device->base);
	}
	return opening;
}

static VIP_ULONG limit(uint64_t value)
{
	return value > LONG_MAX ? LONG_MAX : (VIP_ULONG)value;
}

static unsigned capacity_of(const struct verbs_device *device, unsigned entries)
{
	return entries > 1 ? entries - soft_own_entries(device) : entries;
}

static void verbs_query(struct device *base, VIP_NIC_ATTRIBUTES *attributes, struct in6_addr *host)
{
	struct verbs_device *device = (struct verbs_device *)base;
	const struct ibv_device_attr *limits = &device->limits;
	const struct verbs_caps *caps = &device->caps;
	struct ibv_port_attr port;

	strncpy(attributes->Name, ibv_get_device_name(device->context->device),
		sizeof(attributes->Name) - 1);
	attributes->HardwareVersion = limits->hw_ver;
	attributes->MaxRegisterBytes = limit(limits->max_mr_size);
	attributes->MaxRegisterRegions = (VIP_ULONG)limits->max_mr;
	attributes->MaxRegisterBlockBytes = limit(limits->max_mr_size);
	attributes->MaxVI = (VIP_ULONG)limits->max_qp;
	attributes->MaxCQ = (VIP_ULONG)limits->max_cq;
	attributes->MaxCQEntries = capacity_of(device, device->cq_entries);
	attributes->MaxPtags = (VIP_ULONG)limits->max_pd;
	attributes->ReliabilityLevelSupport =
		(VIP_UINT16)(VIP_SERVICE_RELIABLE_DELIVERY |
			     (caps->has_uc ? VIP_SERVICE_UNRELIABLE : 0) |
			     (caps->has_atomics ? VIP_SERVICE_RELIABLE_RECEPTION : 0));
	if (caps->has_reads)
		attributes->RDMAReadSupport = (VIP_UINT16)(attributes->ReliabilityLevelSupport &
							   ~VIP_SERVICE_UNRELIABLE);
	if (!ibv_query_port(device->context, device->port, &port)) {
		attributes->NativeMTU = 128ul << port.active_mtu;
		if (port.max_msg_sz && port.max_msg_sz < attributes->MaxTransferSize)
			attributes->MaxTransferSize = port.max_msg_sz;
	}
	*host = IN6_IS_ADDR_UNSPECIFIED(&device->ipv6) ? device->ipv4 : device->ipv6;
}

static VIP_RETURN verbs_find_host(struct device *base, struct in6_addr *host, struct in6_addr *own)
{
	const struct in6_addr *found = verbs_own_host((struct verbs_device *)base, host);

	if (!found)
		return VIP_NOT_REACHABLE;
	*own = *found;
	if (host_is_loopback(host))
		*host = *found;
	return VIP_SUCCESS; /* whether that host exists is seen when it is asked */
}

/* ---- channels and completion queues ---- */

static struct device_channel *verbs_channel_create(struct device *base, int *fd)
{
	struct ibv_comp_channel *channel =
		ibv_create_comp_channel(((struct verbs_device *)base)->context);
	int error = channel ? verbs_set_nonblocking(channel->fd) : cause("ibv_create_comp_channel()", errno);

	if (!error) {
		*fd = fd_mark(channel->fd);
		return (struct device_channel *)channel;
	}
	if (channel)
		ibv_destroy_comp_channel(channel);
	errno = error;
	return NULL;
}

static void verbs_channel_destroy(struct device_channel *channel)
{
	/* Otherwise the program has closed it, and this would close a file of the program's. */
	const int fd = ((struct ibv_comp_channel *)channel)->fd;

	/* CQs of a device that is gone count as there for ever. */
	if (fd_is_own(fd) && ibv_destroy_comp_channel((struct ibv_comp_channel *)channel))
		fd_close(fd);
}

static int verbs_channel_read(struct device_channel *base, bool all)
{
	struct ibv_comp_channel *channel = (struct ibv_comp_channel *)base;
	struct ibv_cq *cq;
	void *context;

	for (bool is_first = true; is_first || all; is_first = false) {
		if (ibv_get_cq_event(channel, &cq, &context))
			return is_first ? verbs_death_of(channel->fd) : 0;
		cq_announced(context);
		ibv_ack_cq_events(cq, 1); /* from here on the CQ may be destroyed */
	}
	return 0;
}

static struct device_cq *verbs_cq_create(struct device *base, struct cq *context,
					struct device_channel *channel, bool is_shared,
					unsigned entries, unsigned *capacity)
{
	struct verbs_device *device = (struct verbs_device *)base;
	struct verbs_cq *cq = aligned_create(alignof(struct verbs_cq), sizeof(*cq));
	unsigned vector;
	int error;

	(void)is_shared;
	if (!cq)
		return NULL;
	entries = verbs_lower(entries + soft_own_entries(device), (int)device->cq_entries);
	errno = 0; /* as in create_qp() */
	vector = device->next_vector++ % device->caps.vectors;
	cq->cq = ibv_create_cq(device->context, (int)entries, context, (struct ibv_comp_channel *)channel, (int)vector);
	if (!cq->cq && vector) /* a virtual function may have fewer interrupts than it says */
		cq->cq = ibv_create_cq(device->context, (int)entries, context, (struct ibv_comp_channel *)channel, 0);
	if (cq->cq) {
		*capacity = capacity_of(device, (unsigned)cq->cq->cqe);
		return (struct device_cq *)cq;
	}
	error = errno ? errno : EINVAL;
	log_error_ratelimited("cannot create a completion queue of %u entries: %s", entries, failure_of("ibv_create_cq()", error));
	aligned_free(cq);
	errno = error;
	return NULL;
}

static void verbs_cq_destroy(struct device_cq *base)
{
	struct verbs_cq *cq = (struct verbs_cq *)base;
	int error = ibv_destroy_cq(cq->cq);

	if (error && error != EIO) /* the device is gone */
		log_error("cannot destroy a completion queue: %s", failure_of("ibv_destroy_cq()", error));
	aligned_free(cq);
}

static int verbs_cq_grow(struct device *base, struct device_cq *base_cq, unsigned entries,
			unsigned *capacity)
{
	const struct verbs_device *device = (struct verbs_device *)base;
	struct ibv_cq *cq = ((struct verbs_cq *)base_cq)->cq;
	int error;

	/* If the kernel refuses, libbnxt_re of rdma-core 65 frees the memory that the CQ still uses. */
	if (device->limits.vendor_id == VENDOR_BROADCOM)
		return cause("ibv_resize_cq()", EOPNOTSUPP);
	entries = verbs_lower(entries + soft_own_entries(device), device->limits.max_cqe);
	if (entries <= (unsigned)cq->cqe)
		return cause("the size of a completion queue", ENOSPC);
	error = ibv_resize_cq(cq, (int)entries);
	if (!error && (unsigned)cq->cqe < entries) /* as older ones return without memory */
		error = ENOMEM;
	if (!error)
		*capacity = capacity_of(device, (unsigned)cq->cqe);
	return cause("ibv_resize_cq()", error < 0 ? -error : error);
}

/* Of a device that is gone it is a command to some drivers, and fails, but the channel tells of it all the same. */
static int verbs_cq_arm(struct device_cq *cq)
{
	int error = ibv_req_notify_cq(((struct verbs_cq *)cq)->cq, 0);

	return error == EIO ? 0 : error;
}

const struct device_ops verbs_device_ops = {
	.open = verbs_open,
	.close = verbs_close,
	.query = verbs_query,
	.find_host = verbs_find_host,
	.domain_create = verbs_domain_create,
	.domain_destroy = verbs_domain_destroy,
	.region_create = verbs_region_create,
	.region_destroy = verbs_region_destroy,
	.region_change = verbs_region_change,
	.channel_create = verbs_channel_create,
	.channel_destroy = verbs_channel_destroy,
	.channel_read = verbs_channel_read,
	.cq_create = verbs_cq_create,
	.cq_destroy = verbs_cq_destroy,
	.cq_grow = verbs_cq_grow,
	.cq_poll = verbs_cq_poll,
	.cq_arm = verbs_cq_arm,
	.endpoint_create = verbs_endpoint_create,
	.endpoint_destroy = verbs_endpoint_destroy,
	.endpoint_prepare = verbs_endpoint_prepare,
	.endpoint_is_still = verbs_endpoint_is_still,
	.endpoint_stop = verbs_endpoint_stop,
	.endpoint_reset = verbs_endpoint_reset,
	.endpoint_rewind = verbs_endpoint_rewind,
	.endpoint_resume = verbs_endpoint_resume,
	.endpoint_way = verbs_endpoint_way,
	.post_send = verbs_post_send,
	.post_receive = verbs_post_receive,
	.place = verbs_place,
	.source = verbs_source,
	.route = verbs_route,
	.describe = verbs_describe,
	.raise = verbs_raise,
	.awaits_acks = verbs_awaits_acks,
};
