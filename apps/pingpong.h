/* What vip_pingpong was asked to do. */
#ifndef VIP_APPS_PINGPONG_H
#define VIP_APPS_PINGPONG_H

#include "endpoint.h"

enum {
	MAX_SIZES = 32,
	MAX_CHECKED = 100, /* messages per size that are checked in full */
};

struct settings {
	struct endpoint_options endpoint;
	const char *server;
	size_t sizes[MAX_SIZES];
	size_t num_sizes;
	unsigned long iterations;
	bool check;
	bool json;
	bool has_timeout;
};

/* Takes the command line; returns -1, or the status to exit with at once. */
int parse_arguments(int argc, char **argv, struct settings *settings);

/* "unreliable" and so on. */
const char *reliability_name(VIP_RELIABILITY_LEVEL level);

#endif
