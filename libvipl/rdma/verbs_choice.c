/* SPDX-License-Identifier: BSD-2-Clause */
/* Which candidate a NIC becomes that is being opened, and what the log says of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "rdma.h"

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

enum opening verbs_choose(struct verbs_device *device, const char *name, unsigned index)
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
