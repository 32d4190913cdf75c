// SPDX-License-Identifier: BSD-2-Clause
// Asynchronous events of devices, queue pairs and completion queues.
#include "world.h"

#include <algorithm>

namespace fake
{

static bool about_cq(ibv_event_type type)
{
	return type == IBV_EVENT_CQ_ERR;
}

static bool about_qp(ibv_event_type type)
{
	return type == IBV_EVENT_QP_LAST_WQE_REACHED || (type <= IBV_EVENT_PATH_MIG_ERR && !about_cq(type));
}

static void add_async(ibv_context *context, const ibv_async_event &event)
{
	ctx_of(context)->async.push_back(event);
	ctx_of(context)->signal.set(true);
}

void raise(Qp *qp, ibv_event_type type)
{
	ibv_async_event event{};

	event.event_type = type;
	event.element.qp = qp;
	add_async(qp->context, event);
}

void raise(Cq *cq, ibv_event_type type)
{
	ibv_async_event event{};

	event.event_type = type;
	event.element.cq = cq;
	add_async(cq->context, event);
}

void drop_async(Context *ctx, const void *element)
{
	auto gone = [&](const ibv_async_event &event) {
		return (about_qp(event.event_type) || about_cq(event.event_type)) && event.element.qp == element;
	};
	ctx->async.erase(std::remove_if(ctx->async.begin(), ctx->async.end(), gone), ctx->async.end());
	ctx->signal.set(!ctx->async.empty());
}

} // namespace fake

using namespace fake;

// The library's log has this text. No test reads it.
const char *ibv_event_type_str(ibv_event_type)
{
	return "an asynchronous event";
}

int ibv_get_async_event(ibv_context *context, ibv_async_event *event)
{
	FAKE_ENTER(ibv_get_async_event);
	Context *ctx = ctx_of(context);

	if (fault)
		return by_minus(fault);
	if (ctx->async.empty())
		return ctx->dead ? by_minus(ctx->dead) : nothing_to_read(ctx->signal.fd);
	*event = ctx->async.front();
	ctx->async.pop_front();
	ctx->signal.set(!ctx->async.empty());
	if (about_qp(event->event_type))
		++static_cast<Qp *>(event->element.qp)->async_reported;
	else if (about_cq(event->event_type))
		++static_cast<Cq *>(event->element.cq)->async_reported;
	return 0;
}

void ibv_ack_async_event(ibv_async_event *event)
{
	FAKE_ENTER(ibv_ack_async_event);
	(void)fault;
	if (about_qp(event->event_type))
		++event->element.qp->events_completed;
	else if (about_cq(event->event_type))
		++event->element.cq->async_events_completed;
}

void fake_async_event_qp(ibv_event_type type, uint32_t qp_num)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	Qp *qp = qp_by_num(qp_num);

	if (!qp)
		die("fake_async_event_qp: no queue pair %u", qp_num);
	raise(qp, type);
}

void fake_quiet_event_qp(ibv_event_type type, uint32_t qp_num)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	Qp *qp = qp_by_num(qp_num);

	raise(qp, type);
	ctx_of(qp)->signal.set(false);
}

void fake_async_event_cq(ibv_event_type type, ibv_cq *cq)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	raise(static_cast<Cq *>(cq), type);
}

void fake_disassociate(const char *device, int error)
{
	std::lock_guard<std::mutex> lock(world().mutex);

	for (Context *ctx : world().contexts) {
		if (strcmp(ctx->dev->name, device))
			continue;
		ctx->dead = error;
		ctx->signal.end();
		for (Channel *channel : world().channels)
			if (ctx_of(channel->context) == ctx)
				channel->signal.end();
	}
}

void fake_async_event_port(ibv_event_type type, const char *device, int port)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	ibv_async_event event{};

	event.event_type = type;
	event.element.port_num = port;
	for (Context *ctx : world().contexts) {
		if (strcmp(ctx->dev->name, device))
			continue;
		if (type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR)
			ctx->dev->cfg.port_up = type == IBV_EVENT_PORT_ACTIVE;
		if (ctx != ctx->dev->cm_context)
			add_async(&ctx->context, event);
	}
}
