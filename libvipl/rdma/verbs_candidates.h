/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a NIC can be: one list of the RDMA devices of this machine, their ports, the ports' network interfaces, and the
 * addresses there, with the reason why each can or cannot be used. VipOpenNic chooses from it. vip_info prints it, so
 * these files call nothing of the library but base/.
 */
#ifndef VIPL_VERBS_CANDIDATES_H
#define VIPL_VERBS_CANDIDATES_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/cause.h"

#define DEVICE_NAME_LEN 64 /* IBV_SYSFS_NAME_MAX */
#define MOST_GIDS	256u /* of a port: an index has 8 bits */

enum candidate_reason {
	CANDIDATE_USABLE,
	CANDIDATE_FAILED, /* a call has failed, so it is not known */
	/* It cannot be used as things are: */
	CANDIDATE_NO_UVERBS,
	CANDIDATE_NO_NODE,
	CANDIDATE_NO_PERMISSION,
	CANDIDATE_NO_PROVIDER,
	CANDIDATE_NO_MANAGER, /* rdma_cm */
	CANDIDATE_IWARP,
	CANDIDATE_ELSEWHERE, /* in another network namespace */
	CANDIDATE_PORT_DOWN,
	CANDIDATE_INTERFACE_DOWN,
	CANDIDATE_NO_ADDRESS,
	CANDIDATE_TENTATIVE,
	CANDIDATE_LONG_ADDRESS, /* the program does not take it */
	CANDIDATE_NOT_TAKEN,    /* by rdma_cm */
};

struct candidate {
	char device[DEVICE_NAME_LEN];   /* empty: the devices could not be listed */
	char interface[IF_NAMESIZE];    /* empty: none is known */
	uint8_t port;                   /* 0: none is known */
	bool is_ethernet;               /* RoCE; else InfiniBand */
	struct in6_addr host;           /* all zeros: there is none */
	char address[INET6_ADDRSTRLEN]; /* its text, or empty */
	unsigned index;                 /* of the interface */
	unsigned rank;                  /* of addresses that can be used, those of the least rank come first */
	int number;                     /* of the NIC that it is by the old names (nic0, ...), or -1 */
	enum candidate_reason reason;
	char why[400]; /* it cannot be used */
};

struct candidates {
	struct candidate *all;
	size_t count;
	bool has_devices; /* the kernel has any */
};

/*
 * The ports by device, the interfaces of a port by number, the addresses of an interface by family and age. With a name only
 * those of devices that may have it; else up to the device that has the candidate with the number `last`. No other device is
 * opened. 0 or errno: no list.
 */
int candidates_find(struct candidates *list, const char *name, unsigned last);
void candidates_free(struct candidates *list);

/* ---- verbs_candidate_names.c ---- */

/* Gives the best candidate of each port the next number, and the best one of the other family beside it the same. */
void candidates_number(struct candidates *list);
bool candidates_share_port(const struct candidate *a, const struct candidate *b);
/* Whether a candidate of this port can be used. */
bool candidates_use_port(const struct candidates *list, const struct candidate *port);
/* The one that the NIC with this number is at. NULL: there are not so many. */
const struct candidate *candidate_numbered(const struct candidates *list, unsigned number);
/* Whether the name begins with that of a device or interface, and ends, or goes on with one of these marks. */
bool is_name_at(const char *name, const char *first, const char *marks);
#define BEHIND_DEVICE	 ":@"
#define BEHIND_INTERFACE "@"
/* May it have this name? DEVICE or INTERFACE, DEVICE:PORT, each also with @ADDRESS behind it. */
bool candidate_is_called(const struct candidate *candidate, const char *name);
/* The best one of this name. NULL: there is none. */
const struct candidate *candidate_named(const struct candidates *list, const char *name);
/* The best one of this family on the interface of `other`, which can be used; NULL if there is none. */
const struct candidate *candidate_beside(const struct candidates *list, const struct candidate *other, bool ipv4);

#define PLACE_TEXT 192
/* "DEVICE port PORT, INTERFACE, ADDRESS", as much of it as there is. */
void candidate_place(const struct candidate *candidate, char out[PLACE_TEXT]);

/* ---- verbs_lookup.c ---- */

struct own_interface {
	unsigned index;
	char name[IF_NAMESIZE];
	bool is_up, is_infiniband;
	uint8_t mac[6]; /* all zeros: it has none, or another kind */
	uint8_t gid[16]; /* of InfiniBand's */
};

struct own_address {
	struct sockaddr_storage socket;
	struct in6_addr host;
	struct in6_addr gid; /* that its port has: the address on Ethernet, the interface's on InfiniBand */
	unsigned index;      /* of its interface */
	unsigned flags;      /* IFA_F_, of an IPv6 address */
};

/* The interfaces of this network namespace, and their addresses: IPv4 before IPv6, and the oldest of an interface first. */
struct own_network {
	struct own_interface *interfaces;
	struct own_address *addresses;
	size_t interface_count, address_count;
	struct rdma_event_channel *manager; /* rdma_cm; NULL: it cannot be asked */
	enum candidate_reason reason; /* CANDIDATE_USABLE, or why there is no list, or rdma_cm cannot be asked */
	char why[400];
};

void own_network_find(struct own_network *network);
void own_network_free(struct own_network *network);
/* NULL: there is none with this index. */
const struct own_interface *own_interface(const struct own_network *network, unsigned index);

/* NULL: there is none in this list. */
struct ibv_device *verbs_device_called(struct ibv_device *const *list, const char *name);
/* The device's file in /dev/infiniband. False: it has none. */
bool verbs_device_node(const char *name, char node[64]);
/* NULL and errno on failure. */
struct ibv_context *verbs_device_open(const char *name);
/* Whether this interface may be one of the device's, which is not opened. The path: in /sys/class/infiniband. */
bool verbs_device_may_own(const char *device_path, const struct own_interface *interface);
/* The first GID of the port from this index on. 0 or errno; ENOENT: there is none. */
int verbs_gid_next(struct ibv_context *context, uint8_t port, unsigned from, struct ibv_gid_entry *entry);

/* ---- verbs_caps.c: what a device offers beyond what ibv_query_device() tells, or less than that ---- */

struct verbs_caps {
	unsigned inline_bytes; /* that a queue pair can be asked for */
	unsigned send_segments, read_segments, receive_segments; /* of a request */
	unsigned vectors;    /* interrupts that completions can be announced by */
	bool has_uc, has_atomics, has_reads;
};

/*
 * The segments that queue pairs have room for. More would make each queue pair large, because it has a thousand receives. A
 * receive of 5 segments takes 128 bytes on soft-RoCE; adapters that need 16 bytes for each segment have room for 8 in that.
 * 1000 VIs with queues of their own take 0.6 GB on soft-RoCE; with 13 segments they would take 0.85.
 */
#define VERBS_SEND_SEGMENTS    16u
#define VERBS_RECEIVE_SEGMENTS 5u

/* Also what ibv_query_device() tells. 0 or errno. Only what the device lacks for good counts as lacking. */
int verbs_ask_caps(struct ibv_context *context, struct ibv_device_attr *limits, struct verbs_caps *caps);
/*
 * Of the largest CQ that can be had. max_cqe is more than that where the kernel compares a size that was rounded up. Only what was
 * tried is promised.
 */
unsigned verbs_most_entries(struct ibv_context *context, const struct ibv_device_attr *limits);

static inline unsigned verbs_lower(unsigned a, int b)
{
	return b > 0 && (unsigned)b < a ? (unsigned)b : a;
}

#endif
