/* SPDX-License-Identifier: BSD-2-Clause */
/* A device by its name, its file, whether an interface may be a device's, and the GIDs of a port. */
#include <errno.h>
#include <glob.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "verbs_candidates.h"

struct ibv_device *verbs_device_called(struct ibv_device *const *list, const char *name)
{
	while (list && *list && strcmp(ibv_get_device_name(*list), name) != 0)
		list++;
	return list ? *list : NULL;
}

struct ibv_context *verbs_device_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *device = verbs_device_called(list, name);
	struct ibv_context *context = NULL;
	int error = ENODEV;

	if (!list) {
		cause("ibv_get_device_list()", errno);
		return NULL;
	}
	if (device)
		context = ibv_open_device(device);
	if (!context)
		error = cause("ibv_open_device()", device ? errno : error);
	ibv_free_device_list(list);
	errno = error;
	return context;
}

static bool says(const char *path, const char *word)
{
	FILE *file = fopen(path, "re");
	char said[64] = "";
	bool is_same = file && fscanf(file, "%63s", said) == 1 && !strcmp(said, word);

	if (file)
		fclose(file);
	return is_same;
}

bool verbs_device_node(const char *name, char node[64])
{
	static const char of_class[] = "/sys/class/infiniband_verbs/";
	bool is_found = false;
	glob_t files;

	if (glob("/sys/class/infiniband_verbs/*/ibdev", GLOB_NOSORT, NULL, &files))
		return false;
	for (size_t i = 0; i < files.gl_pathc && !is_found; i++) {
		const char *file = files.gl_pathv[i] + strlen(of_class);

		is_found = says(files.gl_pathv[i], name);
		snprintf(node, 64, "/dev/infiniband/%.*s", (int)strcspn(file, "/"), file);
	}
	globfree(&files);
	return is_found;
}

/* The kernel lists the interfaces of Ethernet's GIDs. An interface of InfiniBand has one of the port's GIDs. */
bool verbs_device_may_own(const char *device_path, const struct own_interface *interface)
{
	const uint8_t *gid = interface->gid;
	char pattern[320], word[64];
	bool may = false;
	glob_t files;

	if (interface->is_infiniband)
		for (int i = 0; i < 8; i++)
			sprintf(word + 5 * i, i < 7 ? "%02x%02x:" : "%02x%02x", gid[2 * i], gid[2 * i + 1]);
	else
		snprintf(word, sizeof(word), "%s", interface->name);
	snprintf(pattern, sizeof(pattern), "%s/ports/*/%s", device_path, interface->is_infiniband ? "gids/*" : "gid_attrs/ndevs/*");
	if (glob(pattern, GLOB_NOSORT, NULL, &files))
		return true; /* which nobody knows */
	for (size_t i = 0; i < files.gl_pathc && !may; i++)
		may = says(files.gl_pathv[i], word);
	globfree(&files);
	return may;
}

int verbs_gid_next(struct ibv_context *context, uint8_t port, unsigned from, struct ibv_gid_entry *entry)
{
	int error = ENOENT;

	for (unsigned i = from; i < MOST_GIDS; i++) {
		error = ibv_query_gid_ex(context, port, i, entry, 0);
		if (error != ENODATA && error != ENODEV) /* an empty one, or its interface is elsewhere */
			break;
	}
	return error == EINVAL || error == ENODATA || error == ENODEV ? ENOENT : error;
}
