// SPDX-License-Identifier: BSD-2-Clause
// Completion queues and channels.
#include "world.h"

#include <algorithm>
#include <cstdio>

namespace fake
{

bool add_completion(Cq *cq, const ibv_wc &wc)
{
	if (static_cast<int>(cq->ring.size()) >= cq->cqe) {
		if (!cq->overflowed) {
			misuse("completion queue overflow: %d entries, queue pair %u", cq->cqe, wc.qp_num);
			raise(cq, IBV_EVENT_CQ_ERR);
		}
		cq->overflowed = true;
		return false;
	}
	cq->ring.push_back(wc);
	if (cq->armed) {
		auto *channel = static_cast<Channel *>(cq->channel);
		cq->armed = false;
		channel->events.push_back(cq);
		channel->signal.set(true);
	}
	return true;
}

int poll_cq(ibv_cq *ibcq, int count, ibv_wc *wc)
{
	FAKE_ENTER(ibv_poll_cq);
	auto *cq = static_cast<Cq *>(ibcq);
	int n = 0;

	if (fault)
		return by_minus(fault);
	for (; n < count && !cq->ring.empty(); ++n) {
		wc[n] = cq->ring.front();
		cq->ring.pop_front();
	}
	return n;
}

// A completion that is there already raises no event. So a program has to poll once more after it
// has armed.
int req_notify_cq(ibv_cq *ibcq, int)
{
	FAKE_ENTER(ibv_req_notify_cq);
	auto *cq = static_cast<Cq *>(ibcq);

	if (ctx_of(cq->context)->dead == EIO)
		fault = EIO;
	if (fault)
		return by_value(fault);
	if (!cq->channel) {
		misuse("ibv_req_notify_cq: the completion queue has no channel");
		return by_value(EINVAL);
	}
	cq->armed = true;
	return 0;
}

void remove_completions(Cq *cq, uint32_t qp_num)
{
	auto &held = world().held;
	auto &ring = cq->ring;

	ring.erase(std::remove_if(ring.begin(), ring.end(), [=](const ibv_wc &wc) { return wc.qp_num == qp_num; }),
		   ring.end());
	held.erase(std::remove_if(held.begin(), held.end(),
				  [=](const HeldWc &h) { return h.cq == cq && h.wc.qp_num == qp_num; }),
		   held.end());
}

void release_completions(uint32_t qp_num)
{
	auto &held = world().held;
	auto other = [&](const HeldWc &h) { return h.wc.qp_num != qp_num; };
	auto first = std::stable_partition(held.begin(), held.end(), other);

	for (auto each = first; each != held.end(); ++each)
		add_completion(each->cq, each->wc);
	held.erase(first, held.end());
}

void free_cq(Cq *cq)
{
	auto &held = world().held;

	held.erase(std::remove_if(held.begin(), held.end(), [=](const HeldWc &h) { return h.cq == cq; }), held.end());
	drop_async(ctx_of(cq->context), static_cast<ibv_cq *>(cq));
	if (auto *channel = static_cast<Channel *>(cq->channel)) {
		auto &events = channel->events;
		events.erase(std::remove(events.begin(), events.end(), cq), events.end());
		channel->signal.set(!events.empty());
	}
	world().cqs.erase(cq);
	delete cq;
}

void free_channel(Channel *channel)
{
	channel->signal.close();
	world().channels.erase(channel);
	delete channel;
}

static int check_size(const Device *dev, int cqe)
{
	return cqe < 1 || cqe > dev->cfg.max_cqe ? refusal_of(dev->cfg, EINVAL) : 0;
}

// The entries that the device reports of a CQ for which so many are asked. 0: it refuses.
static int entries_of(const Device *dev, int asked)
{
	const fake_cq_sizes &sizes = dev->cfg.cq_sizes;
	int64_t made = int64_t(asked) * sizes.factor + sizes.more, unit = sizes.unit;

	if (world().opt.exact_depths)
		return asked;
	for (int64_t power = 1; !sizes.unit && unit < made; power *= 2)
		unit = power;
	made = (made + unit - 1) / unit * unit;
	if (sizes.most && made > sizes.most)
		return 0;
	return sizes.tells_asked ? asked : static_cast<int>(made - sizes.less);
}

} // namespace fake

using namespace fake;

// The library's log has this text.
const char *ibv_wc_status_str(ibv_wc_status status)
{
	static thread_local char text[40];

	snprintf(text, sizeof text, "work completion status %d", status);
	return text;
}

ibv_comp_channel *ibv_create_comp_channel(ibv_context *context)
{
	FAKE_ENTER(ibv_create_comp_channel);
	fault = fault_of(context, fault);
	if (fault)
		return by_null(fault);
	auto *channel = new Channel();
	if (!channel->signal.open()) {
		delete channel;
		return nullptr;
	}
	channel->context = context;
	channel->fd = channel->signal.fd;
	world().channels.insert(channel);
	return channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel *ibchannel)
{
	FAKE_ENTER(ibv_destroy_comp_channel);
	const auto &cqs = world().cqs;

	if (fault)
		return by_value(fault);
	if (std::any_of(cqs.begin(), cqs.end(), [=](const Cq *cq) { return cq->channel == ibchannel; })) {
		misuse("ibv_destroy_comp_channel: completion queues use the channel");
		return by_value(EBUSY);
	}
	free_channel(static_cast<Channel *>(ibchannel));
	return 0;
}

ibv_cq *ibv_create_cq(ibv_context *context, int cqe, void *cq_context, ibv_comp_channel *channel, int comp_vector)
{
	FAKE_ENTER(ibv_create_cq);
	fault = fault_of(context, fault);
	if (!fault)
		fault = comp_vector < 0 || comp_vector >= context->num_comp_vectors ? EINVAL : check_size(ctx_of(context)->dev, cqe);
	const int entries = fault ? 0 : entries_of(ctx_of(context)->dev, cqe);
	if (!fault && !entries)
		fault = EINVAL;
	if (fault)
		return by_null(fault);
	auto *cq = new Cq();
	cq->context = context;
	cq->channel = channel;
	cq->cq_context = cq_context;
	cq->vector = comp_vector;
	cq->cqe = entries;
	world().cqs.insert(cq);
	return cq;
}

int fake_cqs_at(int comp_vector)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	const auto &cqs = world().cqs;

	return static_cast<int>(
		std::count_if(cqs.begin(), cqs.end(), [=](const Cq *cq) { return cq->vector == comp_vector; }));
}

int ibv_resize_cq(ibv_cq *ibcq, int cqe)
{
	FAKE_ENTER(ibv_resize_cq);
	auto *cq = static_cast<Cq *>(ibcq);
	Device *dev = ctx_of(cq->context)->dev;

	fault = fault_of(cq->context, fault);
	if (!fault && !dev->cfg.resize_cq)
		fault = EOPNOTSUPP;
	if (!fault)
		fault = check_size(dev, cqe);
	const int entries = fault ? 0 : entries_of(dev, cqe);
	if (!fault && (!entries || static_cast<size_t>(cqe) < cq->ring.size()))
		fault = EINVAL;
	if (fault)
		return by_value(fault);
	cq->cqe = entries;
	return 0;
}

int ibv_destroy_cq(ibv_cq *ibcq)
{
	FAKE_ENTER(ibv_destroy_cq);
	auto *cq = static_cast<Cq *>(ibcq);

	if (fault)
		return by_value(fault);
	for (auto [number, qp] : world().qps)
		if (qp->send_cq == cq || qp->recv_cq == cq) {
			misuse("ibv_destroy_cq: queue pair %u uses it", number);
			return by_value(EBUSY);
		}
	if (cq->reported != cq->comp_events_completed)
		die("ibv_destroy_cq would wait for ever: %u completion events reported, %u acknowledged", cq->reported,
		    cq->comp_events_completed);
	if (cq->async_reported != cq->async_events_completed)
		die("ibv_destroy_cq would wait for ever: asynchronous events not acknowledged");
	const int gone = fault_of(cq->context, 0);
	free_cq(cq);
	return gone ? by_value(gone) : 0;
}

int ibv_get_cq_event(ibv_comp_channel *ibchannel, ibv_cq **cq, void **cq_context)
{
	FAKE_ENTER(ibv_get_cq_event);
	auto *channel = static_cast<Channel *>(ibchannel);

	if (fault)
		return by_minus(fault);
	if (channel->events.empty()) {
		const int dead = ctx_of(channel->context)->dead;
		return dead ? by_minus(dead) : nothing_to_read(channel->fd);
	}
	Cq *first = channel->events.front();
	channel->events.pop_front();
	channel->signal.set(!channel->events.empty());
	++first->reported;
	*cq = first;
	*cq_context = first->cq_context;
	return 0;
}

void ibv_ack_cq_events(ibv_cq *cq, unsigned int nevents)
{
	FAKE_ENTER(ibv_ack_cq_events);
	(void)fault;
	cq->comp_events_completed += nevents;
	if (cq->comp_events_completed > static_cast<Cq *>(cq)->reported)
		misuse("ibv_ack_cq_events: more events acknowledged than were reported");
}

int fake_release(int count)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	auto &held = world().held;
	int n = 0;

	for (; n != count && !held.empty(); ++n) {
		HeldWc first = held.front();
		held.pop_front();
		if (!add_completion(first.cq, first.wc))
			if (Qp *qp = qp_by_num(first.wc.qp_num))
				qp_to_error(qp);
	}
	return n;
}
