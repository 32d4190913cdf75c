/* The thread that calls the program's handlers. What to call is error.c's and notify.c's. */
#include "notifier.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent.h"
#include "core/channel.h"


struct notifier *notifier_create(VIP_NIC_HANDLE nic)
{
	struct notifier *notifier = calloc(1, sizeof(*notifier));
	int error;

	if (!notifier)
		return NULL;
	notifier->nic = nic;
	notifier->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (notifier->wake_fd < 0) {
		error = errno;
		free(notifier);
		errno = error;
		return NULL;
	}
	pthread_mutex_init(&notifier->lock, NULL);
	errors_init(&notifier->errors);
	notifies_init(&notifier->notifies);
	return notifier;
}

static void notifier_free(struct notifier *notifier)
{
	errors_free(&notifier->errors);
	notifies_free(&notifier->notifies);
	pthread_mutex_destroy(&notifier->lock);
	close(notifier->wake_fd);
	free(notifier);
}

bool notifier_is_caller(const struct notifier *notifier)
{
	return notifier->has_thread && pthread_equal(notifier->thread, pthread_self());
}

void notifier_wake(struct notifier *notifier)
{
	eventfd_write(notifier->wake_fd, 1); /* or it is awake */
}

void notifier_stop(struct notifier *notifier)
{
	pthread_mutex_lock(&notifier->lock);
	notifier->stop = true;
	notifier->self_stopped = notifier_is_caller(notifier);
	notify_cancel_all(notifier);
	pthread_mutex_unlock(&notifier->lock);
	notifier_wake(notifier);
}

void notifier_destroy(struct notifier *notifier)
{
	notifier_stop(notifier);
	if (!notifier->has_thread) {
		notifier_free(notifier);
	} else if (notifier_is_caller(notifier)) {
		notifier->orphaned = true;
		pthread_detach(notifier->thread);
	} else {
		pthread_join(notifier->thread, NULL);
		notifier_free(notifier);
	}
}

/* The lock is held on entry and on return. */
static void rest(struct notifier *notifier)
{
	struct pollfd fds[] = {
		{.fd = notifier->wake_fd, .events = POLLIN},
		{.fd = notifier->notifies.channels_fd, .events = POLLIN},
	};
	int msec = notifier->notifies.retry ? ARM_RETRY_MSEC : -1;
	eventfd_t wakes;

	pthread_mutex_unlock(&notifier->lock);
	poll(fds, 2, msec);
	eventfd_read(notifier->wake_fd, &wakes); /* or it was a channel, or time */
	pthread_mutex_lock(&notifier->lock);
	notify_look(notifier);
}

static void *run(void *argument)
{
	struct notifier *notifier = argument;
	bool orphaned;

	pthread_mutex_lock(&notifier->lock);
	while (!notifier->stop) {
		bool worked = error_deliver(notifier);

		worked |= notify_deliver(notifier);
		if (!worked && !notifier->stop)
			rest(notifier);
	}
	orphaned = notifier->orphaned;
	pthread_mutex_unlock(&notifier->lock);
	if (orphaned)
		notifier_free(notifier);
	return NULL;
}

int notifier_start(struct notifier *notifier)
{
	int error = 0;

	if (!notifier->has_thread) {
		error = thread_start(&notifier->thread, run, notifier);
		notifier->has_thread = !error;
	}
	return error;
}
