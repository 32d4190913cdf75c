/* SPDX-License-Identifier: BSD-2-Clause */
/* Which candidate is the NIC of a number, or of a name. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "verbs_candidates.h"

/* Is `one` to be taken before `best`? What has failed may be the one, so no later one takes its place. */
static bool is_better(const struct candidate *one, const struct candidate *best)
{
	return one->reason <= CANDIDATE_FAILED && (!best || one->rank < best->rank);
}

bool candidates_share_port(const struct candidate *a, const struct candidate *b)
{
	return a->port == b->port && !strcmp(a->device, b->device);
}

const struct candidate *candidate_beside(const struct candidates *list, const struct candidate *other, bool ipv4)
{
	const struct candidate *best = NULL;

	if (other->reason == CANDIDATE_USABLE && host_is_ipv4(&other->host) == ipv4)
		return other;
	for (size_t i = 0; i < list->count; i++) {
		const struct candidate *one = &list->all[i];

		if (one->reason == CANDIDATE_USABLE && one->index == other->index &&
		    candidates_share_port(one, other) && host_is_ipv4(&one->host) == ipv4 && is_better(one, best))
			best = one;
	}
	return best;
}

void candidates_number(struct candidates *list)
{
	int next = 0;

	for (size_t first = 0, i; first < list->count; first = i) {
		const struct candidate *best = NULL;

		for (i = first; i < list->count && candidates_share_port(&list->all[i], &list->all[first]); i++)
			if (is_better(&list->all[i], best))
				best = &list->all[i];
		if (!best)
			continue;
		for (struct candidate *one = &list->all[first]; one < &list->all[i]; one++)
			if (one == best || one == candidate_beside(list, best, host_is_ipv4(&one->host)))
				one->number = next;
		next++;
	}
}

bool candidates_use_port(const struct candidates *list, const struct candidate *port)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->all[i].reason == CANDIDATE_USABLE && candidates_share_port(&list->all[i], port))
			return true;
	return false;
}

const struct candidate *candidate_numbered(const struct candidates *list, unsigned wanted)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->all[i].number == (int)wanted)
			return &list->all[i];
	return NULL;
}

/* Where no address is known, it may be any. */
static bool is_at(const struct candidate *candidate, const char *address)
{
	struct in6_addr host;
	struct in_addr ipv4;

	if (inet_pton(AF_INET, address, &ipv4) == 1)
		host = host_from_ipv4(ipv4);
	else if (inet_pton(AF_INET6, address, &host) != 1)
		return false;
	return !*candidate->address || host_equal(&candidate->host, &host);
}

/* What of the name is behind this first part. NULL: it does not begin so. A device's name may have any characters. */
static const char *behind(const char *name, const char *first)
{
	const size_t length = strlen(first);

	return length && !strncmp(name, first, length) ? name + length : NULL;
}

bool is_name_at(const char *name, const char *first, const char *marks)
{
	const char *rest = behind(name, first);

	return rest && (!*rest || strchr(marks, *rest));
}

static bool has_name(const struct candidate *candidate, const char *name, bool by_interface)
{
	const char *rest = behind(name, by_interface ? candidate->interface : candidate->device);
	char port[8];

	if (rest && *rest == ':' && !by_interface) {
		snprintf(port, sizeof(port), ":%u", candidate->port);
		rest = candidate->port ? behind(rest, port) : rest + strcspn(rest, "@");
	}
	return rest && (!*rest || (*rest == '@' && is_at(candidate, rest + 1)));
}

bool candidate_is_called(const struct candidate *candidate, const char *name)
{
	return has_name(candidate, name, false) || has_name(candidate, name, true);
}

const struct candidate *candidate_named(const struct candidates *list, const char *name)
{
	const struct candidate *best = NULL;

	/* The name of a device comes before that of an interface. */
	for (size_t i = 0; i < 2 * list->count && !(i == list->count && best); i++) {
		const struct candidate *one = &list->all[i % list->count];

		if (!has_name(one, name, i >= list->count))
			continue;
		if (one->number >= 0) /* the best one of the first port that has any of this name */
			return one;
		if (is_better(one, best))
			best = one;
	}
	return best;
}

void candidate_place(const struct candidate *candidate, char out[PLACE_TEXT])
{
	char port[16] = "";

	if (candidate->port)
		snprintf(port, sizeof(port), " port %u", candidate->port);
	snprintf(out, PLACE_TEXT, "%s%s%s%s%s%s", candidate->device, port, *candidate->interface ? ", " : "",
		 candidate->interface, *candidate->address ? ", " : "", candidate->address);
}
