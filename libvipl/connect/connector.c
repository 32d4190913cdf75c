/* SPDX-License-Identifier: BSD-2-Clause */
/* What all conversations of a NIC share: the time that each has. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/deadline.h"
#include "base/fd.h"
#include "inside.h"

int spare_fd(void)
{
	return fd_keep(eventfd(0, EFD_CLOEXEC));
}

struct connector *connector_open(struct nic *nic, struct device *device)
{
	struct connector *connector = calloc(1, sizeof(*connector));
	int error;

	if (!connector)
		return NULL;
	connector->nic = nic;
	connector->device = device;
	TAILQ_INIT(&connector->timed);
	TAILQ_INIT(&connector->farewells.sockets);
	connector->spare_fd = spare_fd();
	if (connector->spare_fd >= 0)
		return connector;
	error = errno;
	free(connector);
	errno = error;
	return NULL;
}

/* What was said last arrives nevertheless. */
void connector_close(struct connector *connector)
{
	crowd_end(&connector->farewells);
	fd_close(connector->spare_fd);
	free(connector);
}

int64_t connector_tick(struct connector *connector)
{
	struct watched_socket *watched = TAILQ_FIRST(&connector->timed);
	int64_t now = watched ? clock_nsec() : 0, next = DEADLINE_NEVER;

	while (watched) {
		if (watched->deadline <= now) {
			socket_set_deadline(watched, DEADLINE_NEVER);
			watched->expired(watched);
			watched = TAILQ_FIRST(&connector->timed); /* any of them may have ended */
			next = DEADLINE_NEVER;
			continue;
		}
		if (watched->deadline < next)
			next = watched->deadline;
		watched = TAILQ_NEXT(watched, in_timed);
	}
	return next;
}
