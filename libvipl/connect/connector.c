/* SPDX-License-Identifier: BSD-2-Clause */
/* What all conversations of a NIC share: whose turn it is. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/deadline.h"
#include "base/fd.h"
#include "inside.h"

#define EVENTS_AT_ONCE 64u /* then it is the turn of the NIC's other work */

struct connector *connector_open(struct nic *nic, struct device *device)
{
	struct connector *connector = calloc(1, sizeof(*connector));
	int error;

	if (!connector)
		return NULL;
	connector->nic = nic;
	connector->device = device;
	TAILQ_INIT(&connector->timed);
	TAILQ_INIT(&connector->farewells);
	connector->epoll_fd = fd_keep(epoll_create1(EPOLL_CLOEXEC));
	if (connector->epoll_fd >= 0) {
		connector->spare_fd = fcntl(connector->epoll_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		if (connector->spare_fd >= 0)
			return connector;
	}
	error = errno;
	fd_close(connector->epoll_fd);
	free(connector);
	errno = error;
	return NULL;
}

void connector_close(struct connector *connector)
{
	farewells_leave(connector);
	fd_close(connector->spare_fd);
	fd_close(connector->epoll_fd);
	free(connector);
}

int connector_fd(const struct connector *connector)
{
	return connector->epoll_fd;
}

void connector_serve(struct connector *connector)
{
	struct epoll_event event;

	/*
	 * One at a time: what one event does may end what another one is about. The program may close the epoll's descriptor, and
	 * then it may be one of the program's.
	 */
	for (unsigned i = 0; i < EVENTS_AT_ONCE && fd_is_own(connector->epoll_fd); i++) {
		struct watched_socket *watched;

		if (epoll_wait(connector->epoll_fd, &event, 1, 0) <= 0)
			break;
		watched = event.data.ptr;
		watched->ready(watched);
	}
}

int64_t connector_tick(struct connector *connector)
{
	struct conversation *conversation = TAILQ_FIRST(&connector->timed);
	int64_t now = conversation ? clock_nsec() : 0, next = DEADLINE_NEVER;

	while (conversation) {
		if (conversation->deadline <= now) {
			conversation_set_deadline(conversation, DEADLINE_NEVER);
			conversation->expired(conversation);
			conversation = TAILQ_FIRST(&connector->timed); /* any of them may have ended */
			next = DEADLINE_NEVER;
			continue;
		}
		if (conversation->deadline < next)
			next = conversation->deadline;
		conversation = TAILQ_NEXT(conversation, in_timed);
	}
	return next;
}
