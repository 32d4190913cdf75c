/* SPDX-License-Identifier: BSD-2-Clause */
/* The loopback NIC: opening it, its limits, and the file descriptors that its agent serves. */
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "loopback.h"

#define NAME "via_lo"

/* 0 or errno. What has been made is closed by loopback_close(). */
static int open_files(struct loopback_device *device)
{
	int fd, error;

	device->base.event_fd = fd_keep(epoll_create1(EPOLL_CLOEXEC), "epoll_create1()");
	if (device->base.event_fd < 0)
		return errno;
	device->regions = region_entries_create(&fd);
	if (!device->regions)
		return errno;
	fd_share(&device->regions_file, fd);
	fd = fd_keep(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create()");
	if (fd < 0)
		return errno;
	error = watch_begin(device->base.event_fd, &device->timer, fd, EPOLLIN);
	if (error)
		close(fd);
	return error;
}

static void loopback_close(struct device *base)
{
	struct loopback_device *device = (struct loopback_device *)base;

	fd_close(watch_end(base->event_fd, &device->timer));
	if (device->regions) {
		munmap(device->regions, sizeof(*device->regions));
		fd_close_shared(&device->regions_file);
	}
	fd_close(base->event_fd);
	nonce_page_destroy(device->nonce_page);
	pthread_mutex_destroy(&device->news.lock);
	pthread_mutex_destroy(&device->lock);
	free(device);
}

static enum opening loopback_open(const char *name, unsigned index, struct nic *nic, struct device **out)
{
	struct loopback_device *device;
	int error;

	(void)index; /* any number means the one there is */
	if (name && strcmp(name, NAME))
		return OPENING_NO_SUCH;
	device = zeroed(1, sizeof(*device));
	if (!device) {
		log_error("no memory for a device: %s", failure(errno));
		return OPENING_FAILED;
	}
	device->base.ops = &loopback_device_ops;
	device->base.version = LOOPBACK_VERSION;
	device->base.host = host_from_ipv4((struct in_addr){htonl(INADDR_LOOPBACK)});
	device->nic = nic;
	device->timer = (struct watch){.fd = -1, .ready = loopback_timer_ready};
	device->nonce_page = nonce_page_create();
	pthread_mutex_init(&device->lock, NULL);
	pthread_mutex_init(&device->news.lock, NULL);
	TAILQ_INIT(&device->news.endpoints);
	TAILQ_INIT(&device->cqs);
	error = open_files(device);
	if (error) {
		log_error("cannot open the loopback NIC: %s", failure(error));
		loopback_close(&device->base);
		return OPENING_FAILED;
	}
	*out = &device->base;
	return OPENING_DONE;
}

static void loopback_query(struct device *base, VIP_NIC_ATTRIBUTES *attributes,
			   struct in6_addr *host)
{
	strcpy(attributes->Name, NAME);
	attributes->HardwareVersion = LOOPBACK_VERSION;
	attributes->MaxRegisterBytes = LONG_MAX;
	attributes->MaxRegisterRegions = TABLE_REGIONS;
	attributes->MaxRegisterBlockBytes = LONG_MAX;
	attributes->MaxVI = 65536;
	attributes->MaxCQ = 65536;
	attributes->MaxCQEntries = 1 << 20;
	attributes->MaxPtags = 65536;
	attributes->NativeMTU = LANE_PIECE;
	attributes->ReliabilityLevelSupport = VIP_SERVICE_UNRELIABLE |
					      VIP_SERVICE_RELIABLE_DELIVERY |
					      VIP_SERVICE_RELIABLE_RECEPTION;
	attributes->RDMAReadSupport =
		VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION;
	*host = base->host;
}

/*
 * Is the address one of this machine's? 0, EADDRNOTAVAIL, or another error: it is not known. bind() would not tell: it takes
 * any address where net.ipv4.ip_nonlocal_bind is set.
 *
 * To an address of its own, also one of a local route only, the kernel sends from that address. Nothing is sent here.
 */
static int look_for_source(const struct in6_addr *host)
{
	struct sockaddr_storage address;
	socklen_t length = host_to_socket(host, 0, &address);
	int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct in6_addr source;
	bool has_source;

	if (fd < 0)
		return cause("socket()", errno);
	has_source = !connect(fd, (struct sockaddr *)&address, length) &&
		     !getsockname(fd, (struct sockaddr *)&address, &length);
	close(fd);
	source = host_from_socket((struct sockaddr *)&address);
	return has_source && host_equal(&source, host) ? 0 : EADDRNOTAVAIL;
}

/* The same of an interface's address. It may not be the source: it is its interface's second, or link-local. */
static int look_for_interface(const struct in6_addr *host)
{
	struct ifaddrs *all;
	bool is = false;

	if (getifaddrs(&all))
		return cause("getifaddrs()", errno);
	for (struct ifaddrs *one = all; one && !is; one = one->ifa_next) {
		if (one->ifa_addr && (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6)) {
			struct in6_addr own = host_from_socket(one->ifa_addr);

			is = host_equal(&own, host);
		}
	}
	freeifaddrs(all);
	return is ? 0 : EADDRNOTAVAIL;
}

static bool is_short(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* All addresses of this machine mean this NIC. */
static VIP_RETURN loopback_find_host(struct device *base, struct in6_addr *host, struct in6_addr *own)
{
	int error = host_is_loopback(host) ? 0 : look_for_source(host);

	if (error && !is_short(error))
		error = look_for_interface(host);
	*own = base->host;
	if (error && error != EADDRNOTAVAIL)
		log_error_ratelimited("cannot see whether an address is one of this machine's: %s", failure(error));
	if (error)
		return is_short(error) ? VIP_ERROR_RESOURCE : VIP_NOT_REACHABLE;
	*host = *own;
	return VIP_SUCCESS;
}

#define ENTRY(name) .name = loopback_##name,

const struct device_ops loopback_device_ops = {
	.open = loopback_open,
	.close = loopback_close,
	.query = loopback_query,
	.find_host = loopback_find_host,
	.takes_fd = memory_may_be_shared,
	LOOPBACK_OPERATIONS(ENTRY)
};
