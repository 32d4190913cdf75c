// SPDX-License-Identifier: BSD-2-Clause
// Executes one send: checks it, moves the data, and completes it on both sides.
#include "world.h"

#include <algorithm>

namespace fake
{

static bool injected(const Qp *qp, fake_direction direction, ibv_wc_status *status)
{
	auto &next = world().next;

	for (size_t i = 0; i < next.size(); ++i) {
		if (next[i].direction != direction || (next[i].qp_num && next[i].qp_num != qp->qp_num))
			continue;
		*status = next[i].status;
		next.erase(next.begin() + static_cast<long>(i));
		return true;
	}
	return false;
}

static size_t mtu_bytes(const Qp *qp)
{
	return static_cast<size_t>(128) << qp->attr.path_mtu;
}

static bool is_write(ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool has_imm(ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

// True when the operation brings data back.
static bool is_answered(ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool in_bounds(const Mr *mr, uint64_t addr, uint64_t length)
{
	return addr >= mr->iova && length <= mr->length && addr - mr->iova <= mr->length - length;
}

static uint8_t *memory_at(const Mr *mr, uint64_t addr)
{
	return static_cast<uint8_t *>(mr->addr) + static_cast<size_t>(addr - mr->iova);
}

// Appends up to limit bytes of the local segments to the spans.
static ibv_wc_status map_local(const Qp *qp, const std::vector<ibv_sge> &sges, int access, uint64_t limit,
			       std::vector<Span> &spans)
{
	const ibv_wc_status bad_key = world().opt.by_specification ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_QP_OP_ERR;

	spans.clear();
	for (const ibv_sge &sge : sges) {
		auto length = std::min<uint64_t>(sge.length, limit);
		if (!length)
			continue; // the key of an empty segment does not matter
		const Mr *mr = mr_by_key(sge.lkey, false);
		if (!mr || mr->pd != qp->pd || (static_cast<int>(mr->access) & access) != access)
			return bad_key;
		if (!in_bounds(mr, sge.addr, length))
			return IBV_WC_LOC_PROT_ERR;
		spans.push_back({memory_at(mr, sge.addr), static_cast<size_t>(length)});
		limit -= length;
	}
	return IBV_WC_SUCCESS;
}

static uint8_t *map_remote(const Qp *to, const SendWork &work, int access)
{
	const Mr *mr = mr_by_key(work.rkey, true);

	if (!mr || mr->pd != to->pd || !(static_cast<int>(mr->access) & access) ||
	    !(static_cast<int>(to->attr.qp_access_flags) & access) || !in_bounds(mr, work.remote_addr, work.length))
		return nullptr;
	return memory_at(mr, work.remote_addr);
}

static void move_bytes(const std::vector<Span> &from, const std::vector<Span> &to, size_t limit)
{
	size_t i = 0, j = 0, done_i = 0, done_j = 0;

	while (limit && i < from.size() && j < to.size()) {
		size_t n = std::min({from[i].length - done_i, to[j].length - done_j, limit});
		memmove(to[j].data + done_j, from[i].data + done_i, n);
		limit -= n;
		if ((done_i += n) == from[i].length)
			++i, done_i = 0;
		if ((done_j += n) == to[j].length)
			++j, done_j = 0;
	}
}

static ibv_wc_status map_source(Qp *qp, SendWork &work)
{
	auto &spans = world().from;
	const uint32_t most = ctx_of(qp)->dev->cfg.max_msg_size;

	if (most && work.length > most)
		return IBV_WC_LOC_LEN_ERR;
	if (work.flags & IBV_SEND_INLINE) {
		spans.clear();
		spans.push_back({work.inline_data.data(), work.inline_data.size()});
		return IBV_WC_SUCCESS;
	}
	int access = is_answered(work.opcode) ? IBV_ACCESS_LOCAL_WRITE : 0;
	return map_local(qp, work.sges, access, UINT64_MAX, spans);
}

// The peer, when it can receive; NULL when it has gone, or is not ready yet.
static Qp *find_peer(const Qp *qp)
{
	Qp *peer = qp_by_num(qp->attr.dest_qp_num);
	bool ready = peer && peer->qp_type == qp->qp_type && (peer->now == IBV_QPS_RTR || peer->now == IBV_QPS_RTS) &&
		     peer->attr.dest_qp_num == qp->qp_num;

	return ready ? peer : nullptr;
}

static Step finish(Qp *qp, ibv_wc_status status)
{
	complete_send(qp, status);
	return Step::DONE;
}

// On an unreliable connection the sender gets no report of the receiver's errors.
static Step finish_failed(Qp *qp, ibv_wc_status status)
{
	return finish(qp, qp->qp_type == IBV_QPT_UC ? IBV_WC_SUCCESS : status);
}

// The answer to a request at fault, which moves the receiver's QP to ERR.
static Step answer(Qp *qp, Qp *to, ibv_wc_status status)
{
	if (world().opt.late_answers && qp->qp_type == IBV_QPT_RC) {
		to->asker = qp->qp_num;
		to->answer = status;
		return Step::WAIT;
	}
	if (qp->qp_type == IBV_QPT_RC || to->now == IBV_QPS_ERR)
		qp_to_error(to);
	return finish_failed(qp, status);
}

static Step no_receive(Qp *qp, Qp *to, const SendWork &work)
{
	if (qp->qp_type == IBV_QPT_UC) {
		if (is_write(work.opcode) && work.length > mtu_bytes(qp))
			to->deaf = !world().opt.by_specification;
		return finish(qp, IBV_WC_SUCCESS);
	}
	return finish(qp, IBV_WC_RNR_RETRY_EXC_ERR); // the library asks for no retries
}

static Step deliver(Qp *qp, Qp *to, const SendWork &work)
{
	ibv_wc wc{};

	wc.opcode = is_write(work.opcode) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	wc.byte_len = work.length;
	wc.src_qp = qp->qp_num;
	if (has_imm(work.opcode)) {
		wc.imm_data = work.imm;
		wc.wc_flags = IBV_WC_WITH_IMM;
	}
	complete_recv(to, wc);
	return finish(qp, IBV_WC_SUCCESS);
}

// The receive at the head of the queue cannot take this message.
static Step bad_receive(Qp *qp, Qp *to, ibv_wc_status theirs, ibv_wc_status ours)
{
	if (world().opt.by_specification && qp->qp_type == IBV_QPT_RC)
		raise(to, IBV_EVENT_QP_REQ_ERR);
	complete_recv(to, theirs);
	return answer(qp, to, ours);
}

static Step injected_receive(Qp *qp, Qp *to, ibv_wc_status status)
{
	complete_recv(to, status);
	return finish_failed(qp, status ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
}

static Step do_send(Qp *qp, Qp *to, const SendWork &work)
{
	World &w = world();
	ibv_wc_status status;
	uint64_t room = 0;

	if (to->rq.empty())
		return no_receive(qp, to, work);
	if (!w.next.empty() && injected(to, FAKE_RECV, &status))
		return injected_receive(qp, to, status);
	const RecvWork &receive = to->rq.front();
	for (const ibv_sge &sge : receive.sges)
		room += sge.length;
	if (work.length > room)
		return w.opt.by_specification ? bad_receive(qp, to, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR)
					      : bad_receive(qp, to, IBV_WC_LOC_QP_OP_ERR, IBV_WC_REM_OP_ERR);
	status = map_local(to, receive.sges, IBV_ACCESS_LOCAL_WRITE, work.length, w.to);
	if (status)
		return bad_receive(qp, to, w.opt.by_specification ? status : IBV_WC_LOC_QP_OP_ERR, IBV_WC_REM_OP_ERR);
	move_bytes(w.from, w.to, work.length);
	return deliver(qp, to, work);
}

static Step refuse_access(Qp *qp, Qp *to)
{
	if (world().opt.by_specification && qp->qp_type == IBV_QPT_RC)
		raise(to, IBV_EVENT_QP_ACCESS_ERR);
	return answer(qp, to, IBV_WC_REM_ACCESS_ERR);
}

static Step do_write(Qp *qp, Qp *to, const SendWork &work)
{
	World &w = world();
	bool missing = has_imm(work.opcode) && to->rq.empty();
	size_t mtu = mtu_bytes(qp), length = work.length;
	ibv_wc_status status;

	if (missing) // all packets but the last arrive
		length = length ? (length - 1) / mtu * mtu : 0;
	if (work.length) { // the key of an empty write does not matter
		uint8_t *target = map_remote(to, work, IBV_ACCESS_REMOTE_WRITE);
		if (!target)
			return refuse_access(qp, to);
		w.to.clear();
		w.to.push_back({target, work.length});
		move_bytes(w.from, w.to, length);
	}
	if (missing)
		return no_receive(qp, to, work);
	if (!has_imm(work.opcode))
		return finish(qp, IBV_WC_SUCCESS);
	if (!w.next.empty() && injected(to, FAKE_RECV, &status))
		return injected_receive(qp, to, status);
	return deliver(qp, to, work);
}

static Step do_read(Qp *qp, Qp *to, const SendWork &work)
{
	World &w = world();
	bool is_atomic = work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	if (!qp->attr.max_rd_atomic) {
		misuse("RDMA read or atomic operation on queue pair %u, whose max_rd_atomic is 0: "
		       "it never starts",
		       qp->qp_num);
		return Step::WAIT;
	}
	if (!to->attr.max_dest_rd_atomic) {
		qp_to_error(to);
		return finish(qp, IBV_WC_REM_INV_REQ_ERR);
	}
	if (work.length) {
		uint8_t *source = map_remote(to, work, is_atomic ? IBV_ACCESS_REMOTE_ATOMIC : IBV_ACCESS_REMOTE_READ);
		if (!source)
			return refuse_access(qp, to);
		w.to.clear();
		w.to.push_back({source, work.length});
		move_bytes(w.to, w.from, work.length);
		if (is_atomic)
			*reinterpret_cast<uint64_t *>(source) += work.add;
	}
	return finish(qp, IBV_WC_SUCCESS);
}

// The address of its path is not ours any more.
static bool has_lost_gid(const Qp *qp)
{
	const ibv_gid gid = gid_at(ctx_of(qp)->dev, qp->attr.ah_attr.grh.sgid_index);

	return qp->attr.ah_attr.is_global && memcmp(&gid, &qp->gid, sizeof gid);
}

Step execute(Qp *qp)
{
	SendWork &work = qp->sq.front();
	bool reliable = qp->qp_type == IBV_QPT_RC;
	ibv_wc_status status;

	if (!world().next.empty() && injected(qp, FAKE_SEND, &status))
		return finish(qp, status);
	if (!reliable && is_answered(work.opcode))
		return finish(qp, IBV_WC_LOC_QP_OP_ERR);
	if (has_lost_gid(qp))
		return finish(qp, IBV_WC_LOC_QP_OP_ERR);
	status = map_source(qp, work);
	if (status)
		return finish(qp, status);
	Qp *to = find_peer(qp);
	if (to && to->asker == qp->qp_num)
		return Step::WAIT;
	if (!to && reliable)
		return Step::WAIT;
	if (!to || to->deaf) // the message is lost
		return finish(qp, IBV_WC_SUCCESS);
	if (is_answered(work.opcode))
		return do_read(qp, to, work);
	return is_write(work.opcode) ? do_write(qp, to, work) : do_send(qp, to, work);
}

} // namespace fake

using namespace fake;

void fake_answer(uint32_t qp_num)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	Qp *to = qp_by_num(qp_num), *from = to ? qp_by_num(to->asker) : nullptr;

	if (!from || to->now == IBV_QPS_ERR)
		return;
	to->asker = 0;
	qp_to_error(to);
	complete_send(from, to->answer);
}
