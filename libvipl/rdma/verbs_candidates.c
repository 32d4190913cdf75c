/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of candidates for a NIC: verbs_candidates.h. */
#include "verbs_candidates.h"

#include <dirent.h>
#include <linux/if_addr.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/fd.h"

enum { RANK_GLOBAL, RANK_LINK_LOCAL, RANK_DEPRECATED };

/* What is being listed. */
struct finder {
	struct candidates *list;
	struct own_network network;
	const char *name; /* NULL: any */
	bool is_devices;  /* the name, of a device in the list */
	bool takes_ipv6;
	int error; /* of memory */
};

struct port {
	const char *device;
	uint8_t number;
	bool is_ethernet;
	enum ibv_port_state state;
	struct ibv_gid_entry gids[MOST_GIDS];
	unsigned gid_count;
};

/* ---- the list ---- */

/* Adds a candidate. The port, and its interface, may be NULL. NULL: there is no memory. */
static struct candidate *add(struct finder *finder, const char *device, const struct port *port,
			     const struct own_interface *interface)
{
	struct candidates *list = finder->list;
	struct candidate *added = realloc(list->all, (list->count + 1) * sizeof(*added));

	if (!added) {
		finder->error = cause("realloc()", ENOMEM);
		return NULL;
	}
	list->all = added;
	added += list->count++;
	*added = (struct candidate){.number = -1, .reason = CANDIDATE_USABLE};
	snprintf(added->device, sizeof(added->device), "%s", device);
	if (port) {
		added->port = port->number;
		added->is_ethernet = port->is_ethernet;
	}
	if (interface) {
		added->index = interface->index;
		snprintf(added->interface, sizeof(added->interface), "%s", interface->name);
	}
	return added;
}

static void __attribute__((format(printf, 3, 4)))
refuse(struct candidate *candidate, enum candidate_reason reason, const char *format, ...)
{
	va_list args;

	if (!candidate)
		return;
	va_start(args, format);
	vsnprintf(candidate->why, sizeof(candidate->why), format, args);
	va_end(args);
	candidate->reason = reason;
}

/* ---- an address ---- */

static bool is_link_local(const struct in6_addr *host)
{
	return host_is_ipv4(host) ? host->s6_addr[12] == 169 && host->s6_addr[13] == 254 : IN6_IS_ADDR_LINKLOCAL(host);
}

static bool has_gid(const struct port *port, const struct own_address *address)
{
	for (unsigned i = 0; i < port->gid_count; i++)
		/* InfiniBand's tell no interface, nor do all kernels. */
		if ((!port->gids[i].ndev_ifindex || port->gids[i].ndev_ifindex == address->index) &&
		    !memcmp(&port->gids[i].gid, &address->gid, sizeof(address->gid)))
			return true;
	return false;
}

/* What keeps all addresses of the port from being used. False: nothing does. */
static bool refuse_by_port(const struct finder *finder, struct candidate *candidate, const struct port *port)
{
	if (port->state == IBV_PORT_INIT || port->state == IBV_PORT_ARMED)
		refuse(candidate, CANDIDATE_PORT_DOWN, "the port is not active yet: no subnet manager has set it up");
	else if (port->state != IBV_PORT_ACTIVE)
		refuse(candidate, CANDIDATE_PORT_DOWN, "the port is not active: is the cable plugged in?");
	else if (finder->network.reason)
		refuse(candidate, finder->network.reason, "%s", finder->network.why);
	else
		return false;
	return true;
}

/*
 * rdma_cm says whose an address is. librdmacm opens that device for it, and keeps it open until the process ends. So only addresses
 * of this port are asked for.
 */
static void ask_manager(const struct finder *finder, struct candidate *candidate, const struct port *port,
			const struct own_address *address)
{
	struct sockaddr_storage socket = address->socket;
	struct rdma_cm_id *id;
	int error;

	if (!has_gid(port, address)) {
		refuse(candidate, CANDIDATE_NOT_TAKEN, "the port has no GID for this address");
		return;
	}
	if (rdma_create_id(finder->network.manager, &id, NULL, RDMA_PS_TCP)) {
		refuse(candidate, CANDIDATE_FAILED, "%s", failure_of("rdma_create_id()", errno ? errno : EIO));
		return;
	}
	errno = 0;
	error = rdma_bind_addr(id, (struct sockaddr *)&socket) ? errno ? errno : EIO : 0;
	if (error == ENODEV)
		refuse(candidate, CANDIDATE_FAILED,
		       "librdmacm cannot open the device, though the kernel gives it this address (one of: "
		       "hca_handle of the cgroup's rdma.max; ulimit -n)");
	else if (error == EADDRNOTAVAIL)
		refuse(candidate, CANDIDATE_NOT_TAKEN, "rdma_cm takes no RDMA device for this address");
	else if (error)
		refuse(candidate, CANDIDATE_FAILED, "%s", failure_of("rdma_bind_addr()", error));
	else if (!id->verbs)
		refuse(candidate, CANDIDATE_NOT_TAKEN, "rdma_cm knows no device for this address (is the device's node GUID 0?)");
	else if (id->port_num != port->number || strcmp(ibv_get_device_name(id->verbs->device), port->device) != 0)
		refuse(candidate, CANDIDATE_NOT_TAKEN, "rdma_cm takes another port for this address (%s port %u)",
		       ibv_get_device_name(id->verbs->device), id->port_num);
	rdma_destroy_id(id);
}

static void judge(const struct finder *finder, struct candidate *candidate, const struct port *port,
		  const struct own_interface *interface, const struct own_address *address)
{
	const bool is_ipv4 = host_is_ipv4(&address->host);

	candidate->host = address->host;
	host_text(&address->host, candidate->address);
	candidate->rank = is_link_local(&address->host)                   ? RANK_LINK_LOCAL
			  : !is_ipv4 && address->flags & IFA_F_DEPRECATED ? RANK_DEPRECATED
									  : RANK_GLOBAL;
	if (!interface->is_up)
		refuse(candidate, CANDIDATE_INTERFACE_DOWN, "the interface is down");
	else if (refuse_by_port(finder, candidate, port))
		return;
	else if (address->flags & IFA_F_DADFAILED)
		refuse(candidate, CANDIDATE_TENTATIVE,
		       "another host has this address (duplicate address detection failed)");
	else if (address->flags & IFA_F_TENTATIVE && !(address->flags & IFA_F_OPTIMISTIC))
		refuse(candidate, CANDIDATE_TENTATIVE,
		       "the address is tentative: duplicate address detection is not done");
	else if (!is_ipv4 && !finder->takes_ipv6)
		refuse(candidate, CANDIDATE_LONG_ADDRESS, "IPv6 needs VIPL_ADDRESS_BYTES=16");
	else
		ask_manager(finder, candidate, port, address);
}

/* ---- an interface ---- */

/*
 * A GID tells the number of its interface in the network namespace where that is. It is the one of this number here if
 * the port has a GID of one of its addresses, or one that is made of its hardware address, as a port's first GID is. Where no GID
 * tells, it counts as here.
 */
static bool is_here(const struct finder *finder, const struct port *port, const struct own_interface *interface)
{
	static const uint8_t none[sizeof(interface->mac)];

	if (!interface)
		return false;
	for (size_t i = 0; i < finder->network.address_count; i++)
		if (finder->network.addresses[i].index == interface->index &&
		    has_gid(port, &finder->network.addresses[i]))
			return true;
	for (unsigned i = 0; i < port->gid_count; i++) {
		const uint8_t *gid = port->gids[i].gid.raw, *mac = interface->mac;
		const uint8_t made[] = {mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};

		if (port->gids[i].ndev_ifindex == interface->index && gid[11] == 0xff && gid[12] == 0xfe &&
		    memcmp(mac, none, sizeof(none)))
			return !memcmp(gid + 8, made, sizeof(made));
	}
	return true;
}

static void add_interface(struct finder *finder, const struct port *port, unsigned index)
{
	const struct own_interface *interface = own_interface(&finder->network, index);
	struct candidate *added;
	bool has_ipv4 = false, has_ipv6 = false;

	if (!is_here(finder, port, interface)) {
		refuse(add(finder, port->device, port, NULL), CANDIDATE_ELSEWHERE,
		       "its network interface is in another network namespace");
		return;
	}
	for (size_t i = 0; i < finder->network.address_count; i++) {
		const struct own_address *address = &finder->network.addresses[i];

		if (address->index != index)
			continue;
		has_ipv4 |= host_is_ipv4(&address->host);
		has_ipv6 |= !host_is_ipv4(&address->host);
		if (!has_ipv4 && has_ipv6 && !finder->takes_ipv6)
			break;
		added = add(finder, port->device, port, interface);
		if (!added)
			return;
		judge(finder, added, port, interface, address);
	}
	if (has_ipv4 || (has_ipv6 && finder->takes_ipv6))
		return;
	added = add(finder, port->device, port, interface);
	if (!interface->is_up)
		refuse(added, CANDIDATE_INTERFACE_DOWN, "the interface is down");
	else if (has_ipv6)
		refuse(added, CANDIDATE_LONG_ADDRESS,
		       "the interface has no IPv4 address; its IPv6 address needs host addresses of 16 bytes "
		       "(VIPL_ADDRESS_BYTES=16)");
	else
		refuse(added, CANDIDATE_NO_ADDRESS, "the interface has no %s address",
		       finder->takes_ipv6 ? "IP" : "IPv4");
}

/* ---- a port ---- */

/* The least number of an interface of the port that is above this one, or 0. */
static unsigned next_interface(const struct finder *finder, const struct port *port, unsigned above)
{
	unsigned next = 0;

	for (size_t i = 0; i < finder->network.address_count; i++) {
		const struct own_address *address = &finder->network.addresses[i];

		if (has_gid(port, address) && address->index > above && (!next || address->index < next))
			next = address->index;
	}
	for (unsigned i = 0; i < port->gid_count; i++) {
		const unsigned index = port->gids[i].ndev_ifindex;

		if (index > above && (!next || index < next))
			next = index;
	}
	return next;
}

static void add_port(struct finder *finder, struct ibv_context *context, const char *device, uint8_t number)
{
	struct port port = {.device = device, .number = number};
	const size_t before = finder->list->count;
	struct ibv_port_attr attributes;
	struct ibv_gid_entry entry;
	struct candidate *added;
	int error = ibv_query_port(context, number, &attributes);
	unsigned index = 0;

	if (error) {
		refuse(add(finder, device, &port, NULL), CANDIDATE_FAILED, "%s", failure_of("ibv_query_port()", error));
		return;
	}
	port.is_ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
	port.state = attributes.state;
	for (unsigned next = 0; !verbs_gid_next(context, number, next, &entry); next = entry.gid_index + 1)
		port.gids[port.gid_count++] = entry;
	/* What failed before there was a list of interfaces is the cause of all. */
	while (finder->network.interfaces && (index = next_interface(finder, &port, index)))
		add_interface(finder, &port, index);
	if (finder->list->count > before)
		return;
	added = add(finder, device, &port, NULL);
	if (!refuse_by_port(finder, added, &port))
		refuse(added, CANDIDATE_NO_ADDRESS, "no network interface of it has an address in this network namespace");
}

/* ---- a device ---- */

#define CLASS_DEVICES "/sys/class/infiniband"

/* libibverbs may tell another error than that of the file. Returns false if the file can be opened. */
static bool refuse_by_node(struct candidate *added, const char *device)
{
	char node[64];
	int fd, error;

	if (!verbs_device_node(device, node)) {
		refuse(added, CANDIDATE_NO_UVERBS, "the kernel does not let programs use it: modprobe ib_uverbs");
		return true;
	}
	fd = fd_above_standard(open(node, O_RDWR | O_CLOEXEC), NULL);
	error = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	if (error == ENOENT)
		refuse(added, CANDIDATE_NO_NODE, "there is no %s here, which a container has to be given", node);
	else if (error == EPERM)
		refuse(added, CANDIDATE_ELSEWHERE,
		       "another network namespace has it (rdma system show), or this container may not open %s", node);
	else if (error == EACCES)
		refuse(added, CANDIDATE_NO_PERMISSION, "this user may not open %s", node);
	else if (error)
		refuse(added, CANDIDATE_FAILED, "cannot open %s: %s", node, failure_of("open()", error));
	return error;
}

static void add_device(struct finder *finder, struct ibv_device *device)
{
	const char *name = ibv_get_device_name(device);
	struct ibv_device_attr attributes;
	struct ibv_context *context;
	int error;

	if (device->transport_type != IBV_TRANSPORT_IB) {
		refuse(add(finder, name, NULL, NULL), CANDIDATE_IWARP,
		       device->transport_type == IBV_TRANSPORT_IWARP
			       ? "the device speaks iWARP, which is not supported yet; some devices can be switched to RoCE"
			       : "the device has no queue pairs of InfiniBand or RoCE");
		return;
	}
	errno = 0;
	context = ibv_open_device(device);
	if (!context) {
		const char *failed = failure_of("ibv_open_device()", errno ? errno : ENODEV);
		struct candidate *added = add(finder, name, NULL, NULL);

		refuse(added, CANDIDATE_FAILED, "%s", failed);
		if (!access(CLASS_DEVICES, F_OK))
			refuse_by_node(added, name);
		return;
	}
	error = ibv_query_device(context, &attributes);
	if (error)
		refuse(add(finder, name, NULL, NULL), CANDIDATE_FAILED, "%s", failure_of("ibv_query_device()", error));
	if (!error && !attributes.phys_port_cnt)
		refuse(add(finder, name, NULL, NULL), CANDIDATE_FAILED, "the device has no port");
	for (unsigned port = 1; !error && port <= attributes.phys_port_cnt; port++)
		add_port(finder, context, name, (uint8_t)port);
	ibv_close_device(context);
}

/* The kernel tells the interfaces of a device that is not opened. */
static bool is_wanted(const struct finder *finder, const char *device, const char *path)
{
	const struct own_network *network = &finder->network;

	if (!finder->name || is_name_at(finder->name, device, BEHIND_DEVICE))
		return true;
	for (size_t i = 0; i < network->interface_count && !finder->is_devices; i++)
		if (is_name_at(finder->name, network->interfaces[i].name, BEHIND_INTERFACE) &&
		    verbs_device_may_own(path, &network->interfaces[i]))
			return true;
	return !finder->is_devices && !network->interfaces;
}

/* Devices of the kernel that libibverbs does not list. */
static void add_absent_ones(struct finder *finder, struct ibv_device **list)
{
	struct dirent **entries;
	const int all = scandir(CLASS_DEVICES, &entries, NULL, alphasort);

	for (int each = 0; each < all; each++) {
		const char *name = entries[each]->d_name;
		char path[320];

		snprintf(path, sizeof(path), CLASS_DEVICES "/%s", name);
		if (name[0] != '.' && !verbs_device_called(list, name) && is_wanted(finder, name, path)) {
			struct candidate *added = add(finder, name, NULL, NULL);

			if (!refuse_by_node(added, name))
				refuse(added, CANDIDATE_NO_PROVIDER,
				       "libibverbs has no driver for it: see the package ibverbs-providers");
		}
		finder->list->has_devices |= name[0] != '.';
		free(entries[each]);
	}
	if (all >= 0)
		free(entries);
}

/* ---- all ---- */

/* Returns false when the last one that is wanted has been found. */
static bool add_all(struct finder *finder, struct ibv_device **list, unsigned last)
{
	for (struct ibv_device **each = list; each && *each; each++)
		finder->is_devices |= finder->name && is_name_at(finder->name, ibv_get_device_name(*each), BEHIND_DEVICE);
	for (; list && *list; list++) {
		finder->list->has_devices = true;
		if (is_wanted(finder, ibv_get_device_name(*list), (*list)->ibdev_path))
			add_device(finder, *list);
		if (finder->name) /* then the number does not matter */
			continue;
		candidates_number(finder->list);
		if (candidate_numbered(finder->list, last))
			return false;
	}
	return true;
}

int candidates_find(struct candidates *out, const char *name, unsigned last)
{
	struct finder finder = {.list = out, .name = name, .takes_ipv6 = host_length() == LONG_HOST_LEN};
	struct ibv_device **list = ibv_get_device_list(NULL);

	*out = (struct candidates){0};
	if (!list && errno != ENOSYS) { /* by which libibverbs says that the kernel has none */
		refuse(add(&finder, "", NULL, NULL), CANDIDATE_FAILED, "cannot list the RDMA devices: %s",
		       failure_of("ibv_get_device_list()", errno));
	} else {
		if (list && *list)
			own_network_find(&finder.network);
		if (add_all(&finder, list, last))
			add_absent_ones(&finder, list);
		candidates_number(out);
		own_network_free(&finder.network);
	}
	if (list)
		ibv_free_device_list(list);
	if (finder.error)
		candidates_free(out);
	return finder.error;
}

void candidates_free(struct candidates *list)
{
	free(list->all);
	*list = (struct candidates){0};
}
