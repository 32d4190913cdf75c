// SPDX-License-Identifier: BSD-2-Clause
// Posting work requests and completing them.
#include "world.h"

namespace fake
{

static void emit(Qp *qp, ibv_cq *cq, const ibv_wc &wc)
{
	World &w = world();

	if (w.opt.hold_completions)
		w.held.push_back({static_cast<Cq *>(cq), wc});
	else if (!add_completion(static_cast<Cq *>(cq), wc) && qp->now != IBV_QPS_ERR)
		qp_to_error(qp);
}

static ibv_wc_opcode completed_opcode(ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

void complete_send(Qp *qp, ibv_wc_status status)
{
	if (qp->sq.empty()) // flushed meanwhile: the queue pair is connected to itself
		return;
	SendWork &work = qp->sq.front();
	bool wanted = status || qp->signal_all || (work.flags & IBV_SEND_SIGNALED);
	ibv_wc wc{};

	wc.wr_id = work.wr_id;
	wc.status = status;
	wc.qp_num = qp->qp_num;
	if (!status) { // the other members mean nothing in an error completion
		wc.opcode = completed_opcode(work.opcode);
		wc.byte_len = work.length;
	}
	qp->sq.pop_front();
	if (wanted)
		emit(qp, qp->send_cq, wc);
	if (status && qp->now != IBV_QPS_ERR)
		qp_to_error(qp);
}

void complete_recv(Qp *qp, ibv_wc wc)
{
	wc.wr_id = qp->rq.front().wr_id;
	wc.qp_num = qp->qp_num;
	qp->rq.pop_front();
	emit(qp, qp->recv_cq, wc);
	if (wc.status && qp->now != IBV_QPS_ERR && !(world().opt.late_answers && qp->qp_type == IBV_QPT_RC))
		qp_to_error(qp);
}

void complete_recv(Qp *qp, ibv_wc_status status)
{
	ibv_wc wc{};
	wc.status = status;
	complete_recv(qp, wc);
}

void run_sends(Qp *qp)
{
	if (world().opt.manual)
		return;
	qp->waiting = false;
	while (qp->now == IBV_QPS_RTS && !qp->sq.empty()) {
		if (execute(qp) == Step::WAIT) {
			qp->waiting = true;
			return;
		}
	}
}

void run_sender_to(Qp *qp)
{
	Qp *peer = qp_by_num(qp->attr.dest_qp_num);

	if (peer && peer->waiting)
		run_sends(peer);
}

static int check_send(const Qp *qp, const ibv_send_wr *wr, uint32_t *length)
{
	const fake_device &cfg = ctx_of(qp)->dev->cfg;
	uint64_t sum = 0;

	if (wr->num_sge < 0 || static_cast<uint32_t>(wr->num_sge) > qp->cap.max_send_sge)
		return EINVAL;
	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		break;
	case IBV_WR_RDMA_READ:
		if (!(wr->send_flags & IBV_SEND_INLINE) && (!cfg.max_sge_rd || wr->num_sge <= cfg.max_sge_rd))
			break;
		return EINVAL;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		if (!(wr->send_flags & IBV_SEND_INLINE) && wr->num_sge == 1 && wr->sg_list[0].length == 8 &&
		    wr->wr.atomic.remote_addr % 8 == 0 && cfg.atomics)
			break;
		return EINVAL;
	default:
		return EINVAL;
	}
	for (int i = 0; i < wr->num_sge; ++i)
		sum += wr->sg_list[i].length;
	if ((wr->send_flags & IBV_SEND_INLINE) && sum > qp->cap.max_inline_data)
		return EINVAL;
	*length = sum > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(sum);
	return qp->sq.size() >= qp->sq_size ? ENOMEM : 0;
}

static void take_inline(SendWork &work, const ibv_send_wr *wr)
{
	for (int i = 0; i < wr->num_sge; ++i) {
		auto *data = reinterpret_cast<const uint8_t *>(static_cast<uintptr_t>(wr->sg_list[i].addr));
		work.inline_data.insert(work.inline_data.end(), data, data + wr->sg_list[i].length);
	}
}

static void enqueue_send(Qp *qp, const ibv_send_wr *wr, uint32_t length)
{
	if (qp->sq.size() >= qp->cap.max_send_wr)
		misuse("ibv_post_send: more than the %u sends that queue pair %u was made for", qp->cap.max_send_wr,
		       qp->qp_num);
	SendWork &work = qp->sq.emplace_back();
	work.wr_id = wr->wr_id;
	work.seq = world().seq++;
	work.opcode = wr->opcode;
	work.flags = wr->send_flags;
	work.imm = wr->imm_data;
	work.remote_addr = wr->wr.rdma.remote_addr;
	work.rkey = wr->wr.rdma.rkey;
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		work.remote_addr = wr->wr.atomic.remote_addr;
		work.rkey = wr->wr.atomic.rkey;
		work.add = wr->wr.atomic.compare_add;
	}
	work.length = length;
	if (ctx_of(qp)->dev->cfg.inlines == FAKE_INLINE_IGNORED)
		work.flags &= ~unsigned(IBV_SEND_INLINE);
	if (work.flags & IBV_SEND_INLINE)
		take_inline(work, wr);
	else
		work.sges.assign(wr->sg_list, wr->sg_list + wr->num_sge);
}

static bool is_deaf_in_error(const Qp *qp)
{
	return ctx_of(qp)->dev->cfg.deaf_in_error && qp->state == IBV_QPS_ERR;
}

static int post_one_send(Qp *qp, const ibv_send_wr *wr)
{
	uint32_t length = 0;
	int err = check_send(qp, wr, &length);

	if (is_deaf_in_error(qp))
		return EINVAL;
	if (err) {
		misuse("ibv_post_send: queue pair %u: %s", qp->qp_num,
		       err == ENOMEM ? "the queue is full" : "the request is not valid");
		return err;
	}
	if (qp->now != IBV_QPS_RTS && qp->now != IBV_QPS_ERR) {
		misuse("ibv_post_send: queue pair %u is in state %d, not ready to send", qp->qp_num, qp->now);
		enqueue_send(qp, wr, length);
		return EINVAL;
	}
	enqueue_send(qp, wr, length);
	if (qp->now == IBV_QPS_ERR)
		complete_send(qp, IBV_WC_WR_FLUSH_ERR);
	else if (!qp->waiting)
		run_sends(qp);
	return 0;
}

int post_send(ibv_qp *ibqp, ibv_send_wr *wr, ibv_send_wr **bad)
{
	FAKE_ENTER(ibv_post_send);
	auto *qp = static_cast<Qp *>(ibqp);

	if (ctx_of(qp)->dead) // it goes into memory that nobody reads
		return 0;
	for (; wr; wr = wr->next) {
		if (!fault)
			fault = post_one_send(qp, wr);
		if (fault) {
			*bad = wr;
			return by_value(fault);
		}
	}
	return 0;
}

static int post_one_recv(Qp *qp, const ibv_recv_wr *wr)
{
	const char *wrong = nullptr;
	int err = EINVAL;

	if (is_deaf_in_error(qp))
		return EINVAL;
	if (qp->now == IBV_QPS_RESET)
		wrong = "it is in RESET";
	else if (wr->num_sge < 0 || static_cast<uint32_t>(wr->num_sge) > qp->cap.max_recv_sge)
		wrong = "too many segments";
	else if (qp->rq.size() >= qp->rq_size)
		wrong = "the queue is full", err = ENOMEM;
	else if (qp->rq.size() >= qp->cap.max_recv_wr)
		wrong = "more receives than it was made for (but there is room)", err = 0;
	if (wrong)
		misuse("ibv_post_recv: queue pair %u: %s", qp->qp_num, wrong);
	if (wrong && err)
		return err;
	RecvWork &work = qp->rq.emplace_back();
	work.wr_id = wr->wr_id;
	work.sges.assign(wr->sg_list, wr->sg_list + wr->num_sge);
	return 0;
}

int post_recv(ibv_qp *ibqp, ibv_recv_wr *wr, ibv_recv_wr **bad)
{
	FAKE_ENTER(ibv_post_recv);
	auto *qp = static_cast<Qp *>(ibqp);

	if (ctx_of(qp)->dead)
		return 0;
	for (; wr; wr = wr->next) {
		if (!fault)
			fault = post_one_recv(qp, wr);
		if (fault) {
			*bad = wr;
			return by_value(fault);
		}
	}
	if (qp->now == IBV_QPS_ERR && world().opt.by_specification)
		qp_to_error(qp);
	return 0;
}

} // namespace fake

using namespace fake;

static Qp *oldest_sender(const std::set<Qp *> &blocked)
{
	Qp *oldest = nullptr;

	for (auto [number, qp] : world().qps)
		if (qp->now == IBV_QPS_RTS && !qp->sq.empty() && !blocked.count(qp) &&
		    (!oldest || qp->sq.front().seq < oldest->sq.front().seq))
			oldest = qp;
	return oldest;
}

int fake_progress(int count)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	std::set<Qp *> blocked;
	int n = 0;

	while (n != count) {
		Qp *qp = oldest_sender(blocked);
		if (!qp)
			break;
		if (execute(qp) == Step::DONE)
			++n;
		else
			blocked.insert(qp);
	}
	return n;
}

void fake_complete_next(uint32_t qp_num, fake_direction direction, ibv_wc_status status)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	world().next.push_back({qp_num, direction, status});
}
