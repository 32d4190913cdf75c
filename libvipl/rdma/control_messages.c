/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages of a control connection: docs/WIRE.md. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "control.h"

/* Is the endpoint's peer, or the host that it asks, this host? */
static bool is_peer(const struct verbs_endpoint *endpoint, const struct in6_addr *host)
{
	return host_equal(verbs_is_asking(endpoint) ? &endpoint->probe.host : &endpoint->peer.host, host);
}

/* 0 or errno. */
static int try_to_send(struct control *control, enum wire_code code, uint32_t own_qp,
		       uint32_t peer_qp, uint32_t number)
{
	const struct wire_control_fields fields = {
		.port = control_port(control->device, &control->host),
		.from = own_qp,
		.to = peer_qp,
		.number = number,
	};
	struct wire_control message;
	ssize_t sent;

	wire_write_control(&message, code, &fields);
	if (!fd_is_own(control->fd))
		return EBADF;
	sent = sendto(control->fd, &message, sizeof(message), MSG_NOSIGNAL, NULL, 0);
	if (sent < 0)
		return errno;
	return sent == (ssize_t)sizeof(message) ? 0 : EIO;
}

void control_reset(struct control *control, int error)
{
	const struct linger none = {.l_onoff = 1};

	control->error = error;
	if (!fd_is_own(control->fd))
		return;
	setsockopt(control->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	shutdown(control->fd, SHUT_RD);
}

bool control_send(struct control *control, enum wire_code code, uint32_t own_qp, uint32_t peer_qp,
		  uint32_t number)
{
	int error = try_to_send(control, code, own_qp, peer_qp, number);

	if (error) /* EAGAIN: the peer has read none of thousands of messages, or more than those wait */
		control_reset(control, error);
	return !error;
}

bool control_tell(struct verbs_endpoint *endpoint, enum wire_code code, uint32_t peer_qp,
		  uint32_t number)
{
	struct control *control = NULL;

	if (!control_is_off(endpoint->device))
		control = control_find(endpoint->device, &endpoint->peer.host, endpoint->peer_extra.port);
	return control && control->state == CONTROL_UP &&
	       control_send(control, code, endpoint->qp->qp_num, peer_qp, number);
}

/* Asks as many as there is room for; an event tells when there is more. */
static void ask_more(struct control *control)
{
	struct verbs_endpoint *endpoint;
	int error = 0;

	LIST_FOREACH(endpoint, &control->device->endpoints, in_device) {
		if (!endpoint->is_to_be_asked || endpoint->phase != VERBS_CONNECTED ||
		    !control_is_peers(endpoint, &control->host, control->port))
			continue;
		error = try_to_send(control, WIRE_ASK, endpoint->qp->qp_num, endpoint->peer_qp,
				    endpoint->own_psn);
		if (error)
			break;
		endpoint->is_to_be_asked = false;
	}
	if (error && error != EAGAIN)
		control_reset(control, error);
	control_watch(control->device, EPOLL_CTL_MOD, control->fd, control,
		      EPOLLIN | (error == EAGAIN ? EPOLLOUT : 0));
}

/* Connections may have ended before the control connection was up. Asks whether they are still there. */
static void ask_all(struct control *control)
{
	struct verbs_endpoint *endpoint;

	LIST_FOREACH(endpoint, &control->device->endpoints, in_device)
		if (control_is_peers(endpoint, &control->host, control->port))
			endpoint->is_to_be_asked = true;
	ask_more(control);
}

/* The connecting NIC says which NIC it is; the other one says that it is there. */
static bool take_hello(struct control *control, uint16_t port)
{
	if (control->state == CONTROL_UP) /* once is enough */
		return true;
	if (control->state != CONTROL_STRANGER && port != control->port)
		return false;
	if (control->state == CONTROL_STRANGER) {
		control->port = port;
		if (!port || !control_send(control, WIRE_HELLO, 0, 0, 0))
			return false;
	}
	control->state = CONTROL_UP;
	control->is_last = control->was_reset = control->was_put_off = false;
	ping_drop(&control->ping);
	ping_init(&control->ping, control->device, &control->host);
	ask_all(control);
	return true;
}

/* False when it is no message that this end may be sent. */
static bool take(struct control *control)
{
	struct verbs_endpoint *endpoint;
	struct wire_control_fields fields;
	enum wire_code code = wire_read_control(&control->input, &fields), answer = 0;

	if (code == WIRE_HELLO)
		return take_hello(control, fields.port);
	if (control->state != CONTROL_UP || !code)
		return false;
	LIST_FOREACH(endpoint, &control->device->endpoints, in_device)
		if (endpoint->qp->qp_num == fields.to && is_peer(endpoint, &control->host))
			break;
	if (endpoint)
		answer = verbs_control_arrived(endpoint, code, &fields, control->port);
	else if (code == WIRE_ASK || code == WIRE_CONNECTED)
		answer = WIRE_GONE;
	if (answer)
		control_send(control, answer, fields.to, fields.from, fields.number);
	return true;
}

void control_receive(struct control *control, uint32_t events)
{
	ssize_t got;

	if (events & EPOLLOUT)
		ask_more(control);
	if (!(events & ~(uint32_t)EPOLLOUT))
		return;
	if (control->error && control->error != EPIPE) { /* what a peer that reads nothing still sends is not read */
		control_ended(control, control->error);
		return;
	}
	got = recv(control->fd, (char *)&control->input + control->have,
		   sizeof(control->input) - control->have, 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		control_ended(control, got ? errno : 0);
		return;
	}
	control->have += (size_t)got;
	if (control->have < sizeof(control->input))
		return;
	control->have = 0;
	if (!take(control))
		control_ended(control, EPROTO);
}
