// SPDX-License-Identifier: BSD-2-Clause
// Connections: request, response, rejection, disconnection.
//
//   active:  ROUTE_RESOLVED -> REQ_SENT -> REP_RCVD -> ESTABLISHED -> DREQ_SENT or DREQ_RCVD ->
//            DEAD
//   passive: REQ_RCVD -> REP_SENT -> ESTABLISHED -> ...
#include "world.h"

#include <algorithm>

namespace fake
{

static const size_t REQ_DATA = 56, REP_DATA = 196, REJ_DATA = 148;
static const int SILENT_MS = 102000; // Linux gives up then
static const int NO_ANSWER = 4, NO_LISTENER = 8, STALE = 10, CONSUMER = 28; // reasons of a rejection

// True when the CM on that side still has a connection with this remote queue pair.
static bool connected(const Id *id)
{
	switch (id->state) {
	case Cm::REQ_RCVD:
	case Cm::REP_SENT:
	case Cm::REP_RCVD:
	case Cm::ESTABLISHED:
	case Cm::DREQ_SENT:
	case Cm::DREQ_RCVD:
		return true;
	default:
		return false;
	}
}

static Id *find_stale(uint32_t qpn)
{
	for (Id *id : world().ids)
		if (id->remote_qpn == qpn && connected(id))
			return id;
	return nullptr;
}

static bool is_lost(fake_message message)
{
	int &count = world().lose[message];

	return count > 0 && count--;
}

static void end(Id *id)
{
	id->state = Cm::DEAD;
	id->peer = nullptr;
}

static void timewait(Id *id)
{
	int ms = world().opt.timewait_ms;

	if (ms >= 0 && id->accepted)
		queue_event_in(channel_of(id),
			       make_event(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, nullptr, 0, 0), ms);
}

// The other side has asked to disconnect.
static void disconnect_arrives(Id *id)
{
	id->state = Cm::DREQ_RCVD;
	report(id, RDMA_CM_EVENT_DISCONNECTED);
}

// The other side has answered our request to disconnect.
static void reply_arrives(Id *id)
{
	report(id, RDMA_CM_EVENT_DISCONNECTED);
	end(id);
	timewait(id);
}

static void tear_down(Id *stale)
{
	Id *peer = stale->peer;

	if (stale->state != Cm::ESTABLISHED)
		return;
	if (peer && peer->state == Cm::ESTABLISHED)
		disconnect_arrives(peer);
	report(stale, RDMA_CM_EVENT_DISCONNECTED);
	end(stale);
}

void hang_up(Id *id)
{
	Id *peer = id->peer;

	id->peer = nullptr;
	if (!peer)
		return;
	switch (id->state) {
	case Cm::REQ_SENT: // a server that has not accepted gets no event; its accept will fail
		if (peer->state == Cm::REP_SENT)
			report_reject(peer, NO_ANSWER);
		end(peer);
		break;
	case Cm::REQ_RCVD:
	case Cm::REP_SENT:
	case Cm::REP_RCVD:
		end(peer);
		report_reject(peer, CONSUMER);
		break;
	case Cm::ESTABLISHED:
		peer->peer = nullptr;
		if (!is_lost(FAKE_DREQ))
			disconnect_arrives(peer);
		break;
	case Cm::DREQ_RCVD:
		if (peer->state == Cm::DREQ_SENT)
			reply_arrives(peer);
		break;
	default:
		peer->peer = nullptr;
		break;
	}
}

void vanish(Id *id)
{
	hang_up(id);
	end(id);
	id->accepted = false; // no more events
}

static Id *find_listener(const Addr &dst)
{
	auto range = world().ports.equal_range(dst.port);

	if (!device_of(dst)) // no address of this host
		return nullptr;
	for (auto it = range.first; it != range.second; ++it) {
		Id *id = it->second;
		if (id->state == Cm::LISTEN && id->src.same_ip(dst))
			return id;
	}
	return nullptr;
}

static void refuse(Id *requester, int reason)
{
	end(requester);
	report_reject(requester, reason);
}

static Id *make_child(Id *listener, Id *requester)
{
	auto *child = new Id;

	child->channel = listener->channel;
	child->context = listener->context;
	child->ps = listener->ps;
	child->qp_type = IBV_QPT_RC;
	attach(child, device_of(requester->dst));
	child->state = Cm::REQ_RCVD;
	child->passive = true;
	child->visible = child->accepted = false;
	child->src = requester->dst;
	child->dst = requester->src;
	child->remote_qpn = requester->local_qpn;
	child->local_psn = world().next_psn++;
	child->remote_psn = requester->local_psn;
	child->retry = requester->retry;
	child->rnr_retry = requester->rnr_retry;
	child->responder = requester->initiator;
	child->initiator = requester->responder;
	child->peer = requester;
	requester->peer = child;
	set_addresses(child);
	world().ids.insert(child);
	return child;
}

static Event *response_or_request(Id *id, rdma_cm_event_type type, const rdma_conn_param &param,
				  size_t reported)
{
	Event *event = make_event(id, type, 0, param.private_data,
				  param.private_data ? param.private_data_len : 0, reported);

	event->param.conn.responder_resources = param.initiator_depth;
	event->param.conn.initiator_depth = param.responder_resources;
	event->param.conn.flow_control = param.flow_control;
	event->param.conn.retry_count = param.retry_count;
	event->param.conn.rnr_retry_count = param.rnr_retry_count;
	event->param.conn.srq = param.srq;
	event->param.conn.qp_num = param.qp_num;
	return event;
}

static bool refuse_stale(Id *requester)
{
	Id *stale = find_stale(requester->local_qpn);

	if (stale) {
		tear_down(stale);
		refuse(requester, STALE);
	}
	return stale;
}

static void send_request(Id *id, const rdma_conn_param &param)
{
	World &w = world();

	id->state = Cm::REQ_SENT;
	if (w.reject_count > 0) {
		--w.reject_count;
		refuse(id, w.reject_status);
		return;
	}
	if (id->silent || is_lost(FAKE_REQ)) {
		Event *event = make_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, nullptr, 0, 0);
		queue_event_in(channel_of(id), event,
			       id->silent_ms >= 0 ? id->silent_ms : SILENT_MS);
		return;
	}
	if (refuse_stale(id)) // with or without a listener
		return;
	Id *listener = find_listener(id->dst);
	if (!listener) {
		refuse(id, NO_LISTENER);
		return;
	}
	Event *event = response_or_request(make_child(listener, id), RDMA_CM_EVENT_CONNECT_REQUEST,
					   param, REQ_DATA);
	event->listen_id = listener;
	event->owner = listener;
	queue_event(channel_of(listener), event);
}

static void send_response(Id *id, const rdma_conn_param &param)
{
	Id *active = id->peer;

	id->state = Cm::REP_SENT;
	id->accepted = true;
	id->local_qpn = param.qp_num;
	id->responder = param.responder_resources;
	id->initiator = param.initiator_depth;
	if (is_lost(FAKE_REP))
		return;
	active->state = Cm::REP_RCVD;
	active->remote_qpn = param.qp_num;
	active->remote_psn = id->local_psn;
	active->rnr_retry = param.rnr_retry_count & 7; // each side sets the other's value
	active->responder = param.initiator_depth;
	active->initiator = param.responder_resources;
	queue_event_in(channel_of(active),
		       response_or_request(active, RDMA_CM_EVENT_CONNECT_RESPONSE, param, REP_DATA),
		       world().opt.response_ms);
}

static bool too_long(const rdma_conn_param *param, size_t limit)
{
	return param->private_data_len > limit || (param->private_data_len && !param->private_data);
}

} // namespace fake

using namespace fake;

void fake_late_request(uint32_t qp_num)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	Id *stale = find_stale(qp_num);

	if (!stale)
		die("fake_late_request: no connection of queue pair %u", qp_num);
	tear_down(stale);
}

int rdma_connect(rdma_cm_id *rid, rdma_conn_param *param)
{
	FAKE_ENTER(rdma_connect);
	auto *id = static_cast<Id *>(rid);

	if (refused(fault, id->state != Cm::ROUTE_RESOLVED || !param || too_long(param, REQ_DATA)))
		return -1;
	id->local_qpn = param->qp_num;
	id->local_psn = world().next_psn++;
	id->retry = param->retry_count & 7;
	id->rnr_retry = param->rnr_retry_count & 7;
	id->responder = param->responder_resources;
	id->initiator = param->initiator_depth;
	send_request(id, *param);
	return 0;
}

int rdma_accept(rdma_cm_id *rid, rdma_conn_param *param)
{
	FAKE_ENTER(rdma_accept);
	auto *id = static_cast<Id *>(rid);

	if (id->state != Cm::REQ_RCVD)
		return by_minus(fault ? fault : EINVAL);
	if (!fault && (!param || too_long(param, REP_DATA)))
		fault = EINVAL;
	if (fault) { // the client gets a rejection at once
		hang_up(id);
		end(id);
		return by_minus(fault);
	}
	send_response(id, *param);
	return 0;
}

int rdma_establish(rdma_cm_id *rid)
{
	FAKE_ENTER(rdma_establish);
	auto *id = static_cast<Id *>(rid);

	if (refused(fault, id->state != Cm::REP_RCVD))
		return -1;
	id->state = Cm::ESTABLISHED;
	if (id->peer->state == Cm::ESTABLISHED) // rdma_notify() has been called
		return 0;
	if (is_lost(FAKE_RTU))
		return 0;
	id->peer->state = Cm::ESTABLISHED;
	report(id->peer, RDMA_CM_EVENT_ESTABLISHED);
	return 0;
}

int rdma_notify(rdma_cm_id *rid, ibv_event_type type)
{
	FAKE_ENTER(rdma_notify);
	auto *id = static_cast<Id *>(rid);

	if (refused(fault, type != IBV_EVENT_COMM_EST || id->state != Cm::REP_SENT))
		return -1;
	id->state = Cm::ESTABLISHED;
	report(id, RDMA_CM_EVENT_ESTABLISHED);
	return 0;
}

int rdma_reject(rdma_cm_id *rid, const void *private_data, uint8_t length)
{
	FAKE_ENTER(rdma_reject);
	auto *id = static_cast<Id *>(rid);

	if (!fault &&
	    ((id->state != Cm::REQ_RCVD && id->state != Cm::REP_RCVD) || length > REJ_DATA))
		fault = EINVAL;
	if (fault)
		return by_minus(fault);
	Id *peer = id->peer;
	end(peer);
	report_reject(peer, CONSUMER, private_data, length);
	end(id);
	return 0;
}

int rdma_disconnect(rdma_cm_id *rid)
{
	FAKE_ENTER(rdma_disconnect);
	auto *id = static_cast<Id *>(rid);

	if (refused(fault, id->state < Cm::REQ_SENT))
		return -1;
	Id *peer = id->peer;
	if (id->state == Cm::ESTABLISHED) {
		id->state = Cm::DREQ_SENT;
		if (peer && !is_lost(FAKE_DREQ))
			disconnect_arrives(peer);
	} else if (id->state == Cm::DREQ_RCVD) {
		if (peer && peer->state == Cm::DREQ_SENT)
			reply_arrives(peer);
		end(id);
		timewait(id);
	}
	return 0;
}
