/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waking the agents of a connection's two ends. One byte over the connection's socket wakes the peer's agent, which watches
 * that socket in any case, and so learns whose news it is. Our own agent finds the endpoint in a list.
 */
#include <errno.h>
#include <sys/socket.h>

#include "base/cause.h"
#include "base/fd.h"
#include "base/thread.h"
#include "loopback.h"

/* Returns false if it is in the list already. */
static bool add_news(struct loopback_endpoint *endpoint)
{
	struct loopback_device *device = endpoint->device;
	bool is_new;

	pthread_mutex_lock(&device->news.lock);
	is_new = !endpoint->has_news;
	if (is_new) {
		TAILQ_INSERT_TAIL(&device->news.endpoints, endpoint, in_news);
		device->news.count++;
	}
	endpoint->has_news = true;
	pthread_mutex_unlock(&device->news.lock);
	return is_new;
}

/* The news' lock is held. */
static void remove_news(struct loopback_endpoint *endpoint)
{
	struct loopback_device *device = endpoint->device;

	TAILQ_REMOVE(&device->news.endpoints, endpoint, in_news);
	device->news.count--;
	endpoint->has_news = false;
}

void endpoint_wake_agent(struct loopback_endpoint *endpoint)
{
	if (add_news(endpoint))
		device_wake(endpoint->device->nic);
}

void endpoint_forget_news(struct loopback_endpoint *endpoint)
{
	struct loopback_device *device = endpoint->device;

	pthread_mutex_lock(&device->news.lock);
	if (endpoint->has_news)
		remove_news(endpoint);
	pthread_mutex_unlock(&device->news.lock);
}

struct loopback_endpoint *endpoint_with_news(struct loopback_device *device)
{
	struct loopback_endpoint *endpoint;

	pthread_mutex_lock(&device->news.lock);
	endpoint = TAILQ_FIRST(&device->news.endpoints);
	if (endpoint)
		remove_news(endpoint);
	pthread_mutex_unlock(&device->news.lock);
	return endpoint;
}

/* 0 or errno: the peer has not been woken. */
static int wake_peer(struct loopback_endpoint *endpoint)
{
	struct iovec byte = {&(char){0}, 1};
	const struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1};

	/* Else the program has closed it, and the number may be that of a file of its own. */
	if (!fd_is_own(endpoint->socket) || sendmsg(endpoint->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	/* Behind a full socket there is a wake-up already. An end that is gone needs none. */
	if (errno == EAGAIN || errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN || errno == EBADF || errno == ENOTSOCK)
		return 0;
	return errno;
}

void endpoint_wake_peer(struct loopback_endpoint *endpoint)
{
	if (!wake_peer(endpoint))
		return;
	atomic_store(&endpoint->must_wake_peer, true);
	endpoint_wake_agent(endpoint);
}

bool endpoint_wake_peer_again(struct loopback_endpoint *endpoint)
{
	int error = atomic_exchange(&endpoint->must_wake_peer, false) ? wake_peer(endpoint) : 0;

	if (!error)
		return true;
	if (is_refused(error) && thread_is_agent) {
		device_lost(endpoint->device->nic, "sendmsg()", error);
		return true;
	}
	atomic_store(&endpoint->must_wake_peer, true);
	add_news(endpoint);
	return false;
}
