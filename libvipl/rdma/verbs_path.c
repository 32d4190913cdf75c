/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The path between two queue pairs: what each end tells the other, and the attributes that follow. The requester has found the
 * path by rdma_cm. The accepting end uses the same one in the other direction.
 */
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/bytes.h"
#include "base/log.h"
#include "rdma.h"

#define READS_AT_ONCE 16
#define HOPS	      64
#define ANY_PKEY      0xffff
#define PKEY_NUMBER   0x7fff
#define PKEY_FULL     0x8000 /* without it, only full members can be talked to */
#define LATEST_ROCE   2
#define HEADERS	      96u /* bytes at most, with RoCE: as Linux reckons, iboe_get_mtu() */

/*
 * A peer that gives no acknowledgement for 4.096 us * 2^18 * (6 + 1) = 7.5 s is gone, as InfiniBand's specification has it. Some
 * adapters take longer, or have a time of their own. TCP's word ends the connection if it comes first: socket_prepare(). With
 * soft-RoCE the peer's processors make acknowledgements, so on a busy host these may take seconds.
 */
#define ACK_TIMEOUT 18
#define ACK_RETRIES 6 /* 7 means for ever on some devices */

/* In messages: docs/WIRE.md. */
struct description_bytes {
	uint8_t qp[3], psn[3];
	uint8_t flush_rkey[4];
	uint8_t gid[16];
	uint8_t lid[2], peer_lid[2], pkey[2];
	uint8_t sl, traffic_class, hop_limit, rate, mtu;
	uint8_t reads_answered, reads_asked; /* at a time */
	uint8_t roce_version;
	uint8_t takes_other; /* a requester: that of the answer */
};

_Static_assert(sizeof(struct description_bytes) <= DESCRIPTION_BYTES, "a description holds it");

/* ---- our own port ---- */

static uint8_t roce_version(const struct ibv_gid_entry *entry)
{
	return entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 : entry->gid_type == IBV_GID_TYPE_ROCE_V1 ? 1 : 0;
}

/* Finds the index of our GID at this interface, or at any if that is 0. */
static int find_gid_at(const struct verbs_device *device, struct verbs_path *path, unsigned interface)
{
	const uint8_t wanted = path->roce_version || !device->is_ethernet ? path->roce_version : LATEST_ROCE;
	const bool is_only = path->roce_version && path->is_agreed;
	struct ibv_gid_entry entry;
	int error, found = ENODEV;

	for (unsigned next = 0; !(error = verbs_gid_next(device->context, device->port, next, &entry));
	     next = entry.gid_index + 1) {
		const uint8_t version = roce_version(&entry);

		if (memcmp(&entry.gid, &path->own_gid, sizeof(path->own_gid)) || (interface && entry.ndev_ifindex != interface))
			continue;
		found = is_only ? EPROTO : 0;
		if (is_only && version != wanted)
			continue;
		path->interface = entry.ndev_ifindex;
		path->to.grh.sgid_index = (uint8_t)entry.gid_index;
		path->roce_version = version;
		if (version == wanted)
			return 0;
	}
	return error == ENOENT ? found : cause("ibv_query_gid_ex()", error);
}

/* A VLAN may have the same GID, which leads elsewhere, so that of our interface comes first. Not all kernels tell the interface. */
int verbs_path_find_gid(const struct verbs_device *device, struct verbs_path *path)
{
	const unsigned interface = device->is_ethernet ? device->interface : 0; /* InfiniBand's GIDs are the port's */
	int error = find_gid_at(device, path, interface);

	return error == ENODEV && interface ? find_gid_at(device, path, 0) : error;
}

/* Finds the index of the partition key of our port, if possible one of a full member. 0 or errno; ENODEV: none. */
static int find_pkey(struct verbs_device *device, struct verbs_path *path)
{
	int error = ENODEV, failed = 0;
	__be16 found;

	path->pkey_index = 0;
	if (device->is_ethernet) /* which has the default one only */
		return 0;
	for (int i = 0; i < device->limits.max_pkeys; i++) {
		if (ibv_query_pkey(device->context, device->port, i, &found)) {
			failed = cause("ibv_query_pkey()", errno);
			continue;
		}
		if ((be16toh(found) & PKEY_NUMBER) != (path->pkey & PKEY_NUMBER))
			continue;
		if (error || be16toh(found) & PKEY_FULL)
			path->pkey_index = (uint16_t)i;
		error = 0;
		if (be16toh(found) & PKEY_FULL)
			break;
	}
	return error && failed ? failed : error;
}

/*
 * Linux, too, has a GRH on InfiniBand where the path has hops. And a port may demand it, such as that of a virtual function, which
 * shares its LID with others.
 */
static int ask_port(const struct verbs_device *device, struct verbs_path *path)
{
	struct ibv_port_attr port;
	int error = ibv_query_port(device->context, device->port, &port);

	if (error)
		return cause("ibv_query_port()", error);
	if (port.active_mtu < path->mtu)
		path->mtu = port.active_mtu;
	path->to.port_num = device->port;
	path->to.src_path_bits = (uint8_t)(path->own_lid & ((1u << port.lmc) - 1));
	if (device->is_ethernet)
		path->own_lid = 0;
	else if (port.lid) /* a virtual function's port may tell none: the path has that of the card's port */
		path->own_lid = (uint16_t)(port.lid | path->to.src_path_bits);
	path->to.is_global = device->is_ethernet || path->to.grh.hop_limit || port.flags & IBV_QPF_GRH_REQUIRED;
	if (path->to.is_global && !path->to.grh.hop_limit)
		path->to.grh.hop_limit = HOPS;
	return 0;
}

static void tell_lack(const struct verbs_device *device, const struct verbs_path *path, int of_gid)
{
	const char *name = ibv_get_device_name(device->context->device);

	if (of_gid == EPROTO)
		log_error_ratelimited("RDMA device %s: its port has no GID of RoCE v%u for a connection, which the peer's has", name,
				      path->roce_version);
	else if (of_gid)
		log_error_ratelimited("RDMA device %s: its port has no GID for a connection; if another device has the address now, "
				      "as after a bond's failover, the NIC has to be opened anew",
				      name);
	else
		log_error_ratelimited("RDMA device %s: its port has no partition key for a connection", name);
}

int verbs_path_complete(struct verbs_device *device, struct verbs_path *path)
{
	const int of_gid = verbs_path_find_gid(device, path), error = of_gid ? of_gid : find_pkey(device, path);

	if (error == ENODEV || error == EPROTO)
		tell_lack(device, path, of_gid);
	return error ? error : ask_port(device, path);
}

/*
 * Packets to our former LID are lost. A partition's key that has moved is another one to a queue pair, which knows the index. But
 * the kernel keeps a GID for queue pairs that use it.
 */
enum endpoint_way verbs_endpoint_way(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	const struct verbs_path *path = &endpoint->path;
	const bool is_unreliable = verbs_is_unreliable(endpoint);
	struct verbs_path now = *path;
	bool has_other_key;

	if ((endpoint->device->is_ethernet && !is_unreliable) || verbs_path_complete(endpoint->device, &now))
		return ENDPOINT_STAYS;
	has_other_key = now.pkey_index != path->pkey_index;
	if (now.own_lid != path->own_lid || (has_other_key && !is_unreliable))
		return ENDPOINT_CUT;
	return is_unreliable && (endpoint->is_adrift || has_other_key || now.to.grh.sgid_index != path->to.grh.sgid_index)
		       ? ENDPOINT_MOVED
		       : ENDPOINT_STAYS;
}

/* ---- what the ends tell each other ---- */

static uint8_t reads_at_once(int limit)
{
	return (uint8_t)(limit < READS_AT_ONCE ? limit : READS_AT_ONCE);
}

/* The port's MTU is that of its largest interface: a VLAN may have less. */
static void limit_mtu(struct verbs_path *path, const struct verbs_device *device, int socket)
{
	struct ifreq interface = {.ifr_ifindex = (int)(path->interface ? path->interface : device->interface)};

	if (!device->is_ethernet || ioctl(socket, SIOCGIFNAME, &interface) || ioctl(socket, SIOCGIFMTU, &interface))
		return;
	while (path->mtu > IBV_MTU_256 && (128u << path->mtu) + HEADERS > (unsigned)interface.ifr_mtu)
		path->mtu--;
}

void verbs_describe(struct device_endpoint *base, struct description *own)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	const struct ibv_device_attr *limits = &endpoint->device->limits;
	struct verbs_path *path = &endpoint->path;
	struct description_bytes bytes;

	if (!path->is_agreed) /* a requester's: the server takes no more than it is told */
		limit_mtu(path, endpoint->device, own->socket);
	bytes = (struct description_bytes){
		.sl = path->to.sl,
		.traffic_class = path->to.grh.traffic_class,
		.hop_limit = path->to.grh.hop_limit,
		.rate = path->to.static_rate,
		.mtu = (uint8_t)path->mtu,
		.reads_answered = reads_at_once(limits->max_qp_rd_atom),
		.reads_asked = reads_at_once(limits->max_qp_init_rd_atom),
		.roce_version = path->roce_version,
		.takes_other = !path->is_agreed,
	};

	bytes_put(bytes.qp, sizeof(bytes.qp), endpoint->qp->qp_num);
	bytes_put(bytes.psn, sizeof(bytes.psn), endpoint->own_psn);
	bytes_put(bytes.flush_rkey, sizeof(bytes.flush_rkey), endpoint->flush_mr ? endpoint->flush_mr->rkey : 0);
	memcpy(bytes.gid, &path->own_gid, sizeof(bytes.gid));
	bytes_put(bytes.lid, sizeof(bytes.lid), path->own_lid);
	bytes_put(bytes.peer_lid, sizeof(bytes.peer_lid), path->to.dlid);
	bytes_put(bytes.pkey, sizeof(bytes.pkey), path->pkey);
	memcpy(own->bytes, &bytes, sizeof(bytes));
}

/* If the requester's port has no GID of that version, it gives up. */
static void tell_other_version(const struct verbs_device *device, const struct verbs_path *path, uint8_t asked_for,
			       const struct in6_addr *host)
{
	log_ratelimited(LOG_LEVEL_INFO,
			"RDMA device %s: its port has no GID of RoCE v%u, with which %s asks, so it answers with v%u",
			ibv_get_device_name(device->context->device), asked_for, host_name(host), path->roce_version);
}

/* The requester's path, seen from here. On Ethernet the peer is where its socket is, whatever it says. */
static int reverse_path(struct verbs_endpoint *endpoint, const struct description_bytes *bytes, const struct in6_addr *host)
{
	struct verbs_device *device = endpoint->device;
	const struct in6_addr *own_host = verbs_own_host(device, host);
	struct verbs_path *path = &endpoint->path;
	int error;

	*path = (struct verbs_path){
		.own_lid = (uint16_t)bytes_get(bytes->peer_lid, sizeof(bytes->peer_lid)),
		.pkey = (uint16_t)bytes_get(bytes->pkey, sizeof(bytes->pkey)),
		.to = {.grh = {.hop_limit = bytes->hop_limit, .traffic_class = bytes->traffic_class},
		       .dlid = (uint16_t)bytes_get(bytes->lid, sizeof(bytes->lid)),
		       .sl = bytes->sl & 0xf,
		       .static_rate = bytes->rate},
		.roce_version = bytes->roce_version,
		.is_agreed = !bytes->takes_other,
		.mtu = IBV_MTU_4096,
	};
	if (!own_host)
		return EPROTO;
	if (device->is_ethernet) {
		path->pkey = ANY_PKEY;
		memcpy(&path->to.grh.dgid, host, sizeof(path->to.grh.dgid));
		memcpy(&path->own_gid, own_host, sizeof(path->own_gid));
	} else {
		memcpy(&path->to.grh.dgid, bytes->gid, sizeof(path->to.grh.dgid));
		if (ibv_query_gid(device->context, device->port, 0, &path->own_gid))
			return errno ? errno : EIO;
	}
	error = verbs_path_complete(device, path);
	path->is_agreed = true;
	if (!error && path->roce_version != bytes->roce_version)
		tell_other_version(device, path, bytes->roce_version, host);
	return error;
}

/* ---- the queue pair ---- */

/* At least one: the peer refuses a read if it has none, but with 0 the read would wait for ever. */
static uint8_t clamp(uint8_t value, int limit)
{
	if (limit >= 0 && value > limit)
		return (uint8_t)limit;
	return value || limit <= 0 ? value : 1;
}

/* The partition was not known when the queue pair was prepared. 0 or errno. */
static int enter_partition(struct verbs_endpoint *endpoint)
{
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT, .pkey_index = endpoint->path.pkey_index};

	if (!endpoint->path.pkey_index)
		return 0;
	return cause("ibv_modify_qp()", ibv_modify_qp(endpoint->qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX));
}

static int begin_receiving(struct verbs_endpoint *endpoint)
{
	const struct ibv_device_attr *limits = &endpoint->device->limits;
	const struct verbs_path *path = &endpoint->path;
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = path->mtu,
		.dest_qp_num = endpoint->peer_qp,
		.rq_psn = endpoint->peer_psn,
		.max_dest_rd_atomic = clamp(endpoint->peer_reads_asked, limits->max_qp_rd_atom),
		.ah_attr = path->to,
	};

	if (!verbs_is_unreliable(endpoint))
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return cause("ibv_modify_qp()", ibv_modify_qp(endpoint->qp, &attributes, mask));
}

static int begin_sending(struct verbs_endpoint *endpoint)
{
	const struct ibv_device_attr *limits = &endpoint->device->limits;
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = endpoint->own_psn,
		.timeout = ACK_TIMEOUT,
		.retry_cnt = ACK_RETRIES,
		.rnr_retry = 0, /* VIA: a message without a receive breaks the connection */
		.max_rd_atomic = clamp(endpoint->peer_reads_answered, limits->max_qp_init_rd_atom),
	};

	if (!verbs_is_unreliable(endpoint))
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return cause("ibv_modify_qp()", ibv_modify_qp(endpoint->qp, &attributes, mask));
}

int verbs_endpoint_start(struct verbs_endpoint *endpoint)
{
	int error = enter_partition(endpoint);

	endpoint->was_connected = true;
	if (!error)
		error = begin_receiving(endpoint);
	if (error)
		return error;
	if (verbs_is_unreliable(endpoint))
		verbs_limit_requests(endpoint, soft_request_bytes(endpoint->device, endpoint->path.mtu));
	return begin_sending(endpoint);
}

/* The requester's path, as the server has answered. The server's port may demand a GRH where ours does not. 0 or errno. */
static int agree(struct verbs_endpoint *endpoint, const struct description_bytes *bytes)
{
	struct verbs_path *path = &endpoint->path;

	if (!path->to.grh.hop_limit)
		path->to.grh.hop_limit = bytes->hop_limit;
	path->is_agreed = true;
	if (path->roce_version)
		path->roce_version = bytes->roce_version;
	return verbs_path_complete(endpoint->device, path);
}

int verbs_raise(struct device_endpoint *base, bool accepts, const struct connect_info *own, const struct connect_info *peer,
		struct description *description)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	const uint16_t told = endpoint->path.own_lid;
	struct description_bytes bytes;
	int error;

	(void)own;
	memcpy(&bytes, description->bytes, sizeof(bytes));
	if (bytes.mtu < IBV_MTU_256 || bytes.mtu > IBV_MTU_4096)
		return EPROTO;
	error = accepts ? reverse_path(endpoint, &bytes, &peer->host) : agree(endpoint, &bytes);
	if (error)
		return error;
	limit_mtu(&endpoint->path, endpoint->device, description->socket);
	if (!accepts && (endpoint->path.own_lid != told || endpoint->path.mtu < bytes.mtu)) {
		verbs_routes_forget(endpoint->device);
		return cause("the port's LID or MTU, which the peer was told", ETIMEDOUT); /* so the caller asks again */
	}
	if (bytes.mtu < endpoint->path.mtu)
		endpoint->path.mtu = bytes.mtu;
	endpoint->peer_qp = (uint32_t)bytes_get(bytes.qp, sizeof(bytes.qp));
	endpoint->peer_psn = (uint32_t)bytes_get(bytes.psn, sizeof(bytes.psn));
	endpoint->peer_flush_rkey = (uint32_t)bytes_get(bytes.flush_rkey, sizeof(bytes.flush_rkey));
	endpoint->peer_reads_answered = bytes.reads_answered;
	endpoint->peer_reads_asked = bytes.reads_asked;
	return verbs_endpoint_start(endpoint);
}
