// SPDX-License-Identifier: BSD-2-Clause
// Queue pair attributes of a connection, and connections found by queue pair.
#include "world.h"

using namespace fake;

static void init_attr(ibv_qp_attr *attr, int *mask)
{
	attr->pkey_index = 0;
	attr->port_num = 1;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

static int gid_index(const Device *dev, const Addr &addr)
{
	for (size_t i = 0; i < dev->addrs.size(); ++i)
		if (dev->addrs[i].same_ip(addr))
			return static_cast<int>(i) + 1;
	return 1;
}

static void rtr_attr(const Id *id, ibv_qp_attr *attr, int *mask)
{
	const Device *dev = ctx_of(id->verbs)->dev;
	int code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && (128 << code) < dev->cfg.mtu)
		++code;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = 1;
	attr->ah_attr.grh.dgid = id->dst.gid();
	attr->ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index(dev, id->src));
	attr->ah_attr.grh.hop_limit = 64;
	attr->path_mtu = static_cast<ibv_mtu>(code);
	attr->dest_qp_num = id->remote_qpn;
	attr->rq_psn = id->remote_psn;
	attr->max_dest_rd_atomic = id->responder;
	attr->min_rnr_timer = 0;
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static void rts_attr(const Id *id, ibv_qp_attr *attr, int *mask)
{
	attr->timeout = id->timeout;
	attr->retry_cnt = id->retry;
	attr->rnr_retry = id->rnr_retry;
	attr->sq_psn = id->local_psn;
	attr->max_rd_atomic = id->initiator;
	*mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
}

int rdma_init_qp_attr(rdma_cm_id *rid, ibv_qp_attr *attr, int *mask)
{
	FAKE_ENTER(rdma_init_qp_attr);
	auto *id = static_cast<Id *>(rid);
	ibv_qp_state wanted = attr->qp_state;
	bool ready = id->state == Cm::REQ_RCVD || id->state == Cm::REP_SENT ||
		     id->state == Cm::REP_RCVD || id->state == Cm::ESTABLISHED;

	if (!fault && (!id->verbs || id->state == Cm::DEAD))
		fault = EINVAL;
	if (!fault && wanted != IBV_QPS_INIT && !ready)
		fault = EINVAL;
	if (refused(fault, wanted != IBV_QPS_INIT && wanted != IBV_QPS_RTR && wanted != IBV_QPS_RTS))
		return -1;
	*attr = ibv_qp_attr{};
	attr->qp_state = wanted;
	if (wanted == IBV_QPS_INIT)
		init_attr(attr, mask);
	else if (wanted == IBV_QPS_RTR)
		rtr_attr(id, attr, mask);
	else
		rts_attr(id, attr, mask);
	return 0;
}

// Several ids may have used a queue pair number, one after the other.
static Id *newest_id_of(uint32_t qp_num)
{
	Id *newest = nullptr;

	for (Id *id : world().ids)
		if (id->local_qpn == qp_num && (!newest || id->local_psn > newest->local_psn))
			newest = id;
	return newest;
}

rdma_cm_id *fake_id_of_qp(uint32_t qp_num)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	return newest_id_of(qp_num);
}

int fake_ids_of_qp(uint32_t qp_num, rdma_cm_id **ids, int max)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	std::map<uint32_t, Id *> by_age; // numbers are given in order of age
	int n = 0;

	for (Id *id : world().ids)
		if (id->local_qpn == qp_num)
			by_age[id->local_psn] = id;
	for (auto [age, id] : by_age)
		if (n++ < max)
			ids[n - 1] = id;
	return n;
}

rdma_cm_id *fake_id_asking(uint16_t port)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	Id *newest = nullptr;

	for (Id *id : world().ids)
		if (id->state == Cm::REQ_SENT && id->dst.port == port &&
		    (!newest || id->local_psn > newest->local_psn))
			newest = id;
	return newest;
}

void fake_kill_peer_of(uint32_t qp_num)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	Id *id = newest_id_of(qp_num);

	if (!id)
		die("fake_kill_peer_of: no connection of queue pair %u", qp_num);
	if (Qp *other = qp_by_num(id->remote_qpn))
		other->dead = true;
	if (id->peer)
		vanish(id->peer);
}
