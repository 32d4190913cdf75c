// SPDX-License-Identifier: BSD-2-Clause
#include "raw_device.h"

#include <cstring>

namespace raw
{
RawDevice::RawDevice(const Nic &nic)
{
	find_device(nic.attributes().Name);
	find_gid(nic.host_address());
	domain_.reset(made(ibv_alloc_pd(device_.get()), "make a protection domain"));
}

void RawDevice::find_device(const char *name)
{
	int count = 0;
	ibv_device **list = ibv_get_device_list(&count);

	for (int i = 0; list && i < count && !device_; i++)
		if (!std::strcmp(ibv_get_device_name(list[i]), name))
			device_.reset(ibv_open_device(list[i]));
	if (list)
		ibv_free_device_list(list);
	if (!device_)
		throw Failure(std::string("the NIC is ") + name + ", which is no RDMA device: " +
			      "there are no verbs to compare with "
			      "(vip_info tells what is missing)");
}

/*
 * Finds the GID by the NIC's address, from which RoCE makes its GIDs. If RoCE v1 and v2 have the same
 * GID it takes v2, as rdma_cm does.
 */
void RawDevice::find_gid(const std::vector<uint8_t> &host)
{
	std::vector<ibv_gid_entry> entries(256);
	const ssize_t count = ibv_query_gid_table(device_.get(), entries.data(), entries.size(), 0);
	uint8_t wanted[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	bool found = false;

	if (host.size() == sizeof(wanted))
		std::memcpy(wanted, host.data(), sizeof(wanted));
	else
		std::memcpy(wanted + 12, host.data(), 4);
	for (ssize_t i = 0; i < count; i++) {
		const ibv_gid_entry &entry = entries[static_cast<size_t>(i)];

		if (std::memcmp(entry.gid.raw, wanted, sizeof(wanted)) != 0 ||
		    (found && entry.gid_type != IBV_GID_TYPE_ROCE_V2))
			continue;
		port_ = static_cast<uint8_t>(entry.port_num);
		gid_ = entry.gid;
		gid_index_ = static_cast<uint8_t>(entry.gid_index);
		found = true;
	}
	must(ibv_query_port(device_.get(), port_, &port_attributes_), "query the port");
	if (!found && port_attributes_.link_layer == IBV_LINK_LAYER_INFINIBAND)
		found = !ibv_query_gid(device_.get(), port_, 0, &gid_);
	if (!found)
		throw Failure("the RDMA device has no GID of the NIC's address (raw verbs)");
}

Qp RawDevice::make_qp(const Size &size, ibv_cq *sends, ibv_cq *receives, unsigned &inline_bytes,
		      bool is_unreliable) const
{
	ibv_qp_init_attr init = {};

	init.qp_type = is_unreliable ? IBV_QPT_UC : IBV_QPT_RC;
	init.send_cq = sends;
	init.recv_cq = receives;
	init.cap = {size.sends, size.receives, size.send_segments, size.receive_segments, inline_bytes};
	/* Some devices refuse more than they have, and some have 96 or 101. */
	for (const unsigned less : {128u, 96u, 64u, 32u, 0u}) {
		init.cap.max_inline_data = inline_bytes;
		if (Qp qp{ibv_create_qp(domain_.get(), &init)})
			return qp;
		if (less < inline_bytes)
			inline_bytes = less;
	}
	init.cap.max_inline_data = inline_bytes;
	return Qp(made(ibv_create_qp(domain_.get(), &init), "create a queue pair"));
}

void RawDevice::initialise(ibv_qp *qp, unsigned access) const
{
	ibv_qp_attr attributes = {};

	attributes.qp_state = IBV_QPS_INIT;
	attributes.port_num = port_;
	attributes.qp_access_flags = access;
	must(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "initialise a queue pair");
}

/* The numbers of packets begin with 0. */
void RawDevice::connect(ibv_qp *qp, const End &peer, bool is_unreliable) const
{
	ibv_qp_attr attributes = {};
	int to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	int to_rts = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (!is_unreliable) {
		to_rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		to_rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			  IBV_QP_MAX_QP_RD_ATOMIC;
	}
	attributes.qp_state = IBV_QPS_RTR;
	attributes.path_mtu = port_attributes_.active_mtu;
	attributes.dest_qp_num = peer.qp;
	attributes.max_dest_rd_atomic = 1;
	attributes.min_rnr_timer = 12;
	attributes.ah_attr.is_global = 1;
	attributes.ah_attr.port_num = port_;
	attributes.ah_attr.dlid = peer.lid;
	attributes.ah_attr.grh.dgid = peer.gid;
	attributes.ah_attr.grh.sgid_index = gid_index_;
	attributes.ah_attr.grh.hop_limit = 64;
	must(ibv_modify_qp(qp, &attributes, to_rtr), "connect a queue pair (RTR)");

	attributes.qp_state = IBV_QPS_RTS;
	attributes.timeout = 16;
	attributes.retry_cnt = 6;
	attributes.max_rd_atomic = 1;
	must(ibv_modify_qp(qp, &attributes, to_rts), "connect a queue pair (RTS)");
}
} // namespace raw
