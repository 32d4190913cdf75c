/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who meets where: a process that waits for a discriminator listens on a socket whose abstract name is made of the
 * discriminator and the user. Several processes of a user may wait for the same one.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/closer.h"
#include "base/config.h"
#include "base/log.h"
#include "base/user.h"
#include "loopback.h"

#define PLACES 4u /* of a user's processes that wait for a discriminator at the same time */

/* The users that we connect to and that may connect to us, ourselves first; false after the last. */
static bool user_at(unsigned index, uid_t *user)
{
	static atomic_bool told;
	const char *list = config()->lo_users;

	*user = own_user();
	while (index--) {
		unsigned long long number;
		char *end;

		if (!*list)
			return false;
		number = strtoull(list, &end, 10);
		if (*list < '0' || *list > '9' || number >= UINT32_MAX || (*end && *end != ',')) {
			if (!atomic_exchange(&told, true))
				log_warning("VIPL_LO_USERS: \"%s\" is no list of user numbers",
					    list);
			return false;
		}
		*user = (uid_t)number;
		list = *end ? end + 1 : end;
	}
	return true;
}

static bool is_permitted(uid_t wanted)
{
	uid_t user;

	for (unsigned i = 0; user_at(i, &user); i++)
		if (user == wanted)
			return true;
	return false;
}

struct hex {
	char text[2 * MAX_DISCRIMINATOR_LEN + 1];
};

static struct hex hex_of(const struct discriminator *wanted)
{
	struct hex hex = {""};

	for (unsigned i = 0; i < wanted->length; i++)
		snprintf(hex.text + 2 * (size_t)i, 3, "%02x", wanted->bytes[i]);
	return hex;
}

/* As vip_stat shows it: as text if it is that, else as hexadecimal digits. */
static struct hex shown(const struct discriminator *wanted)
{
	struct hex text = {""};

	for (unsigned i = 0; i < wanted->length; i++) {
		if (wanted->bytes[i] < '!' || wanted->bytes[i] > '~')
			return hex_of(wanted);
		text.text[i] = (char)wanted->bytes[i];
	}
	return text;
}

unsigned loopback_place(struct device *device, const struct in6_addr *host, const struct discriminator *wanted,
			unsigned number, struct place at[PLACE_ADDRESSES])
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uid_t user;

	(void)device;
	/* We listen as ourselves alone. */
	if ((!host && number >= PLACES) || !user_at(number / PLACES, &user))
		return 0;
	at->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				 (size_t)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "vipl-%u-%s-%u",
						  (unsigned)user, hex_of(wanted).text, number % PLACES));
	memset(&at->address, 0, sizeof(at->address));
	memcpy(&at->address, &address, sizeof(address));
	return 1;
}

bool loopback_admit(struct device *device, int fd, struct description *peer)
{
	uid_t other;

	(void)device;
	if (!user_of_peer(fd, &other, &peer->process))
		return false;
	/*
	 * Memory is accessed directly only among processes that could do so anyway: with others, an
	 * access can take as long as the owner of the memory likes.
	 */
	if (other != own_user())
		peer->process = 0;
	if (is_permitted(other))
		return closer_admits(other);
	log_debug_ratelimited("user %u is not permitted to connect (see VIPL_LO_USERS)", (unsigned)other);
	return false;
}

/*
 * A user that listens for the discriminator, and that we do not connect to. In a user namespace its number here may be another
 * one: the name has the one that it has itself.
 */
static bool find_other_user(const struct discriminator *wanted, unsigned *user)
{
	const struct hex hex = hex_of(wanted);
	FILE *sockets = fopen("/proc/self/net/unix", "re");
	bool is_found = false;
	char line[512], *name, *end;

	while (sockets && !is_found && fgets(line, sizeof(line), sockets)) {
		name = strstr(line, "@vipl-");
		if (!name || name[6] < '0' || name[6] > '9')
			continue;
		*user = (unsigned)strtoul(name + 6, &end, 10);
		is_found = *end == '-' && !strncmp(end + 1, hex.text, strlen(hex.text)) && end[1 + strlen(hex.text)] == '-' &&
			   !is_permitted((uid_t)*user);
	}
	if (sockets)
		fclose(sockets);
	return is_found;
}

void loopback_tell_no_match(const struct discriminator *wanted)
{
	static _Atomic int64_t next;
	unsigned user;

	if (config()->log_level < LOG_LEVEL_INFO || !log_is_due(&next))
		return;
	if (find_other_user(wanted, &user))
		log_info("no permitted listener for discriminator %s, but user %u listens, by the number that this user has there (see "
			 "VIPL_LO_USERS)", shown(wanted).text, user);
	else
		log_info("no permitted listener for discriminator %s in this network namespace (vip_stat shows what servers wait for; "
			 "docs/OPERATING.md)", shown(wanted).text);
}
