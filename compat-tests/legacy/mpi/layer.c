/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layer.c - starts and ends the whole layer of one process. It ends the parts in the reverse order.
 */
#include <string.h>
#include <unistd.h>

#include "layer.h"

struct settings settings;
struct counters counters;

int mp_rank(void)
{
	return settings.rank;
}

int mp_size(void)
{
	return settings.size;
}

/* Sends the launcher the address of this process, and reads the addresses of all. */
static void exchange(const struct host *own, struct host *hosts, int to_launcher,
		     int from_launcher)
{
	size_t wanted = settings.size * sizeof(*hosts), got = 0;
	ssize_t bytes;

	doing = "waiting for the launcher to tell the addresses";
	if (write(to_launcher, own, sizeof(*own)) != sizeof(*own))
		mp_fail("the launcher is gone");
	while (got < wanted) {
		bytes = read(from_launcher, (char *)hosts + got, wanted - got);
		if (bytes <= 0)
			mp_fail("the launcher told no addresses");
		got += bytes;
	}
}

void layer_open(const struct settings *with, int to_launcher, int from_launcher)
{
	static struct host hosts[MAX_PROCESSES]; /* static, because later connections use it */
	struct host own;

	settings = *with;
	memset(&own, 0, sizeof(own));
	progress_start();
	doing = "opening its NIC";
	nic_open(&own);
	packets_open();
	exchange(&own, hosts, to_launcher, from_launcher);
	doing = NULL;
	channels_open(hosts);
	progress_start();
}

void layer_close(void)
{
	mp_barrier();
	packets_goodbye();
	match_close();
	requests_close();
	doing = "disconnecting";
	regcache_close();
	channels_close();
	packets_close();
	nic_close();
}
