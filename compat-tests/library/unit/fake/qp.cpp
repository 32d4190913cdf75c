// SPDX-License-Identifier: BSD-2-Clause
// Queue pairs: creation, states, destruction.
#include "world.h"

#include <algorithm>

namespace fake
{

size_t rounded(size_t depth)
{
	if (world().opt.exact_depths)
		return depth;
	size_t power = 1;
	while (power - 1 < depth)
		power *= 2;
	return power - 1;
}

Qp *qp_by_num(uint32_t num)
{
	auto it = world().qps.find(num);
	return it == world().qps.end() ? nullptr : it->second;
}

void qp_to_error(Qp *qp)
{
	qp->now = IBV_QPS_ERR;
	qp->waiting = false;
	while (!qp->sq.empty())
		complete_send(qp, IBV_WC_WR_FLUSH_ERR);
	while (!qp->rq.empty())
		complete_recv(qp, IBV_WC_WR_FLUSH_ERR);
}

static void clean_completions(Qp *qp)
{
	if (!world().opt.reset_cleans_cq)
		return;
	remove_completions(static_cast<Cq *>(qp->send_cq), qp->qp_num);
	remove_completions(static_cast<Cq *>(qp->recv_cq), qp->qp_num);
}

// What the device is still at when the queue pair is destroyed: it flushes that, and leaves it in the CQs.
static void leave_completions(Qp *qp)
{
	if (qp->now == IBV_QPS_ERR)
		qp_to_error(qp);
	if (!world().opt.late_completions)
		release_completions(qp->qp_num);
	clean_completions(qp);
}

static void qp_to_reset(Qp *qp)
{
	qp->sq.clear();
	qp->rq.clear();
	qp->attr = ibv_qp_attr{};
	qp->waiting = qp->deaf = false;
	qp->asker = 0;
	qp->now = IBV_QPS_RESET;
	clean_completions(qp);
}

// The attributes that a transition needs. The library gives no others.
struct Transition {
	ibv_qp_state from, to;
	int rc_needs, uc_needs;
};

static const int INIT_MASK = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
static const int UC_RTR_MASK = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
static const int RC_RTR_MASK = UC_RTR_MASK | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
static const int RC_RTS_MASK =
	IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

static const Transition transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, INIT_MASK, INIT_MASK},
	{IBV_QPS_INIT, IBV_QPS_INIT, IBV_QP_PKEY_INDEX, IBV_QP_PKEY_INDEX},
	{IBV_QPS_INIT, IBV_QPS_RTR, RC_RTR_MASK, UC_RTR_MASK},
	{IBV_QPS_RTR, IBV_QPS_RTS, RC_RTS_MASK, IBV_QP_SQ_PSN},
};

static bool legal(const Qp *qp, ibv_qp_state to, int mask)
{
	mask &= ~IBV_QP_STATE;
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return mask == 0;
	for (const Transition &t : transitions)
		if (t.from == qp->now && t.to == to)
			return mask == (qp->qp_type == IBV_QPT_UC ? t.uc_needs : t.rc_needs);
	return false;
}

static bool values_ok(const Qp *qp, const ibv_qp_attr &a, int mask)
{
	const fake_device &cfg = ctx_of(qp)->dev->cfg;

	if ((mask & IBV_QP_PORT) && a.port_num != cfg.port)
		return false;
	if ((mask & IBV_QP_PKEY_INDEX) && (a.pkey_index > 3 || !cfg.pkeys[a.pkey_index]))
		return false;
	if ((mask & IBV_QP_PATH_MTU) && (128 << a.path_mtu) > cfg.mtu)
		return false;
	if ((mask & IBV_QP_AV) && !a.ah_attr.is_global && (!cfg.infiniband || cfg.grh_required || cfg.hops))
		return false;
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && a.max_rd_atomic > cfg.max_rd_atomic)
		return false;
	if ((mask & IBV_QP_RETRY_CNT) && a.retry_cnt > 7)
		return false;
	if ((mask & IBV_QP_RNR_RETRY) && a.rnr_retry > 7)
		return false;
	return !(mask & IBV_QP_TIMEOUT) || a.timeout < 32;
}

// Those that the fake, or a test, looks at.
static void keep(ibv_qp_attr &to, const ibv_qp_attr &from, int mask)
{
#define KEEP(bit, field)  \
	if (mask & (bit)) \
	to.field = from.field
	KEEP(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	KEEP(IBV_QP_AV, ah_attr);
	KEEP(IBV_QP_PKEY_INDEX, pkey_index);
	KEEP(IBV_QP_PATH_MTU, path_mtu);
	KEEP(IBV_QP_RQ_PSN, rq_psn);
	KEEP(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	KEEP(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	KEEP(IBV_QP_DEST_QPN, dest_qp_num);
#undef KEEP
}

static void change_state(Qp *qp, ibv_qp_state to)
{
	if (to == IBV_QPS_RESET)
		qp_to_reset(qp);
	else if (to == IBV_QPS_ERR)
		qp_to_error(qp);
	else
		qp->now = to;
	qp->state = to;
	if (to == IBV_QPS_RTS) // runs sends that were posted too early, too
		run_sends(qp);
}

void free_qp(Qp *qp)
{
	clean_completions(qp);
	drop_async(ctx_of(qp), static_cast<ibv_qp *>(qp));
	world().qps.erase(qp->qp_num);
	delete qp;
}

static int check_creation(const fake_device &cfg, const ibv_qp_init_attr *init)
{
	ibv_qp_cap cap = init->cap;
	auto over = [](uint32_t value, int limit) { return value > static_cast<uint32_t>(limit); };

	if (cfg.inlines >= FAKE_INLINE_LESS)
		cap.max_inline_data = 0;
	if (init->qp_type == IBV_QPT_UC && !cfg.uc && cfg.uc_error)
		return cfg.uc_error;
	if (init->qp_type != IBV_QPT_RC && !(init->qp_type == IBV_QPT_UC && cfg.uc))
		return cfg.silent_errno ? refusal_of(cfg, EINVAL) : EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq || init->srq)
		return EINVAL;
	if (over(cap.max_send_wr, cfg.max_qp_wr) || over(cap.max_recv_wr, cfg.max_qp_wr) ||
	    over(cap.max_send_sge, cfg.max_sge) || over(cap.max_recv_sge, cfg.max_sge) ||
	    over(cap.max_inline_data, cfg.max_inline))
		return refusal_of(cfg, EINVAL);
	return over(static_cast<uint32_t>(world().qps.size()) + 1, cfg.max_qp) ? ENOMEM : 0;
}

static uint32_t inline_of(const fake_device &cfg, const ibv_qp_cap &asked)
{
	const auto most = static_cast<uint32_t>(cfg.max_inline);

	if (cfg.inlines == FAKE_INLINE_IGNORED)
		return asked.max_inline_data;
	if (cfg.inlines == FAKE_INLINE_SHARED)
		return std::min(std::max(asked.max_inline_data, asked.max_send_sge * 16), most);
	return std::min(asked.max_inline_data, most);
}

static Qp *make_qp(ibv_pd *pd, const ibv_qp_init_attr *init)
{
	auto *qp = new Qp();
	const fake_device &cfg = ctx_of(pd->context)->dev->cfg;

	qp->context = pd->context;
	qp->pd = pd;
	qp->send_cq = init->send_cq;
	qp->recv_cq = init->recv_cq;
	qp->qp_type = init->qp_type;
	qp->signal_all = init->sq_sig_all;
	qp->cap = init->cap;
	qp->cap.max_inline_data = inline_of(cfg, init->cap);
	qp->sq_size = rounded(init->cap.max_send_wr);
	qp->rq_size = rounded(init->cap.max_recv_wr);
	return qp;
}

} // namespace fake

using namespace fake;

ibv_qp *ibv_create_qp(ibv_pd *pd, ibv_qp_init_attr *init)
{
	FAKE_ENTER(ibv_create_qp);
	fault = fault_of(pd->context, fault);
	if (!fault)
		fault = check_creation(ctx_of(pd->context)->dev->cfg, init);
	if (fault)
		return by_null(fault);
	Qp *qp = make_qp(pd, init);
	init->cap = qp->cap;
	qp->qp_num = world().next_qp_num++;
	world().qps[qp->qp_num] = qp;
	return qp;
}

int ibv_modify_qp(ibv_qp *ibqp, ibv_qp_attr *attr, int mask)
{
	FAKE_ENTER(ibv_modify_qp);
	auto *qp = static_cast<Qp *>(ibqp);
	ibv_qp_state to = (mask & IBV_QP_STATE) ? attr->qp_state : qp->now;

	fault = fault_of(qp->context, fault);
	if (fault)
		return by_value(fault);
	if (!legal(qp, to, mask) || !values_ok(qp, *attr, mask)) {
		misuse("ibv_modify_qp: state %d to %d of queue pair %u with mask 0x%x is illegal", qp->now, to,
		       qp->qp_num, static_cast<unsigned>(mask));
		return by_value(EINVAL);
	}
	keep(qp->attr, *attr, mask);
	if (mask & IBV_QP_AV)
		qp->gid = gid_at(ctx_of(qp)->dev, attr->ah_attr.grh.sgid_index);
	if (mask & IBV_QP_STATE)
		change_state(qp, to);
	run_sender_to(qp);
	return 0;
}

int ibv_query_qp(ibv_qp *ibqp, ibv_qp_attr *attr, int, ibv_qp_init_attr *init)
{
	FAKE_ENTER(ibv_query_qp);
	auto *qp = static_cast<Qp *>(ibqp);

	fault = fault_of(qp->context, fault);
	if (!fault && ctx_of(qp)->dev->cfg.no_query_qp)
		fault = EOPNOTSUPP;
	if (fault)
		return by_value(fault);
	*attr = qp->attr;
	attr->qp_state = qp->state = qp->now;
	attr->cap = qp->cap;
	*init = ibv_qp_init_attr{};
	return 0;
}

int ibv_destroy_qp(ibv_qp *ibqp)
{
	FAKE_ENTER(ibv_destroy_qp);
	auto *qp = static_cast<Qp *>(ibqp);

	if (fault)
		return by_value(fault);
	if (qp->async_reported != qp->events_completed)
		die("ibv_destroy_qp would wait for ever: asynchronous events not acknowledged");
	Qp *peer = qp_by_num(qp->attr.dest_qp_num);
	const int gone = fault_of(qp->context, 0);
	if (!gone)
		leave_completions(qp);
	free_qp(qp);
	if (peer && peer != qp && peer->waiting)
		run_sends(peer);
	return gone ? by_value(gone) : 0;
}

ibv_qp *fake_qp(uint32_t qp_num)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	return qp_by_num(qp_num);
}

int fake_qps(uint32_t *numbers, int max)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	int n = 0;

	for (auto [number, qp] : world().qps)
		if (n++ < max)
			numbers[n - 1] = number;
	return n;
}

unsigned fake_posted_flags(uint32_t qp_num, int index)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	Qp *qp = qp_by_num(qp_num);

	if (!qp || index < 0 || static_cast<size_t>(index) >= qp->sq.size())
		die("fake_posted_flags: no send %d on queue pair %u", index, qp_num);
	return qp->sq[static_cast<size_t>(index)].flags;
}

int fake_posted(uint32_t qp_num, fake_direction direction)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	Qp *qp = qp_by_num(qp_num);

	if (!qp)
		return 0;
	return static_cast<int>(direction == FAKE_SEND ? qp->sq.size() : qp->rq.size());
}
