/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The status of a NIC for an operator: an abstract socket, at which the agent answers a reader with a file in memory. This has
 * lines of JSON about the NIC, each discriminator that a thread waits for, and each VI. Queues are read without their locks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/strange.h"
#include "base/closer.h"
#include "base/user.h"
#include "connect/connect.h"
#include "core/nic.h"
#include "agent.h"
#include "vipl_names.h"

#define STATUS_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int status_open(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	struct timespec now;
	unsigned length;
	int fd;

	/* Containers that share a network may have the same process numbers: the time tells them apart. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	length = (unsigned)offsetof(struct sockaddr_un, sun_path) + 1 +
		 (unsigned)snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "vipl-status-%d-%lld%09ld",
				    (int)getpid(), (long long)now.tv_sec, now.tv_nsec);
	fd = fd_above_standard(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), NULL);
	if (fd < 0)
		return -1;
	strange_refuse(fd);
	if (bind(fd, (const struct sockaddr *)&name, length) || listen(fd, 1)) {
		log_debug("vip_stat will not see this NIC: %s", failure_of("bind() or listen()", errno));
		close(fd);
		return -1;
	}
	return fd;
}

static bool may_read(int reader)
{
	uid_t user;

	return user_of_peer(reader, &user, NULL) && (user == own_user() || user == 0) && closer_admits(user);
}

static void print_discriminator(FILE *out, const struct discriminator *discriminator)
{
	for (unsigned i = 0; i < discriminator->length; i++)
		fprintf(out, "%02x", discriminator->bytes[i]);
}

static void print_peer(FILE *out, const struct in6_addr *host, const struct discriminator *discriminator)
{
	fprintf(out, ", \"peer\": {\"host\": \"%s\", \"discriminator\": \"", host_name(host));
	print_discriminator(out, discriminator);
	fputs("\"}", out);
}

static void print_queue(FILE *out, const char *key, const struct workqueue *queue)
{
	/* In this order, since a completion may come between the two. */
	uint32_t done = atomic_load(&queue->done), tail = atomic_load(&queue->tail);
	/* Handlers at a CQ count as one waiter, but not as a thread. `watched` is true only while they are counted. */
	bool watched = atomic_load(&queue->cq->notifies.watched);
	unsigned waiters = atomic_load(&queue->cq->waiters);

	fprintf(out, ", \"%s\": {\"done\": %u, \"posted\": %u, \"waiting_threads\": %u}", key, done, tail - done,
		waiters > watched ? waiters - watched : 0);
}

/* The error bit of the descriptor that broke the connection; "" if none did. */
static const char *failure_name(uint32_t status)
{
#define NAME(name, sense) \
	if (status & VIP_STATUS_##name) \
		return #name;
	VIPL_STATUS_ERRORS(NAME)
#undef NAME
	return "";
}

static void print_vi(FILE *out, const struct vi *vi)
{
	static const char *const states[] = {
		[VIP_STATE_IDLE] = "idle",
		[VIP_STATE_CONNECT_PENDING] = "connect pending",
		[VIP_STATE_CONNECTED] = "connected",
		[VIP_STATE_ERROR] = "error",
	};
	static const char *const levels[] = {
		[VIP_SERVICE_UNRELIABLE] = "unreliable",
		[VIP_SERVICE_RELIABLE_DELIVERY] = "reliable delivery",
		[VIP_SERVICE_RELIABLE_RECEPTION] = "reliable reception",
	};
	const struct target *target = &vi->connection->target;
	VIP_VI_STATE state = atomic_load(&vi->state);

	fprintf(out, "{\"vi\": \"%p\", \"state\": \"%s\", \"level\": \"%s\"", object_handle(&vi->object),
		states[state], levels[vi->attributes.ReliabilityLevel]);
	if (state == VIP_STATE_CONNECTED || state == VIP_STATE_ERROR)
		print_peer(out, &vi->peer.host, &vi->peer.discriminator);
	else if (state == VIP_STATE_CONNECT_PENDING)
		print_peer(out, &target->host, &target->wanted);
	print_queue(out, "sends", &vi->send);
	print_queue(out, "receives", &vi->receive);
	fprintf(out, ", \"failure\": \"%s\"}\n", failure_name(atomic_load(&vi->failure)));
}

static void print_nic(FILE *out, const struct nic *nic)
{
	const struct request *request;
	const struct listener *listener;
	unsigned requests = 0;
	const struct vi *vi;

	TAILQ_FOREACH(request, &nic->requests, in_list)
		requests++;
	fprintf(out, "{\"nic\": \"%s\", \"host\": \"%s\", \"failed\": %s, \"regions\": %u, \"requests\": %u}\n",
		nic->attributes.Name, host_name(&nic->host), atomic_load(&nic->failed) ? "true" : "false", nic->regions.used,
		requests);
	TAILQ_FOREACH(listener, &nic->listeners, in_nic) {
		if (!listener->waiters)
			continue;
		fputs("{\"waits_for\": \"", out);
		print_discriminator(out, &listener->wanted);
		fputs("\"}\n", out);
	}
	LIST_FOREACH(vi, &nic->vis, in_nic)
		print_vi(out, vi);
}

/* A byte, and a file in memory if there is one. */
static void send_answer(const struct nic *nic, int reader)
{
	int fd = fd_above_standard(memfd_create("vipl-status", MFD_CLOEXEC | MFD_ALLOW_SEALING), NULL);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	bool is_whole = false;

	if (out) {
		print_nic(out, nic);
		/* The seals tell the reader that the file does not change. */
		is_whole = !fflush(out) && !ferror(out) && !fcntl(fd, F_ADD_SEALS, STATUS_SEALS);
	}
	socket_send(reader, &(char){0}, 1, &fd, is_whole); /* the reader may be gone */
	if (out)
		fclose(out);
	else if (fd >= 0)
		close(fd);
}

bool status_serve(struct nic *nic, int listener)
{
	int reader;

	if (closer_is_busy() || !fd_is_own(listener))
		return false;
	reader = fd_above_standard(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), NULL);
	if (reader < 0)
		return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
	if (may_read(reader))
		send_answer(nic, reader);
	strange_close(reader);
	return true;
}
