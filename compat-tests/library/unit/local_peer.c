/* SPDX-License-Identifier: BSD-2-Clause */
#include "local_peer.h"

#include <string.h>

#include "loopback/describe.h"
#include "loopback/loopback.h"

bool local_describe(struct description *own, bool accepts)
{
	const struct path_description path = {.domain = 1};
	struct region_entries *regions;
	struct link *link;

	memset(own, 0, sizeof(*own));
	memcpy(own->bytes, &path, sizeof(path));
	regions = region_entries_create(&own->fds[0]);
	if (!regions)
		return false;
	region_entries_unmap(regions);
	own->fd_count = 1;
	if (!accepts)
		return true;
	link = link_create(&own->fds[1]);
	if (!link)
		return false;
	link_unmap(link);
	own->fd_count = 2;
	return true;
}
