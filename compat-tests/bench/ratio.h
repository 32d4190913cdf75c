/* The two paths that vip_ratio compares, each with both of its ends in this process. */
#ifndef VIP_BENCH_RATIO_H
#define VIP_BENCH_RATIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench {
	const char *nic;
	unsigned long size;       /* bytes per message */
	unsigned long iterations; /* round trips per block */
	unsigned long pairs;
	bool wait; /* event mode */
	bool json;
};

enum {
	/* Of the raw queues; one message is under way at a time, so any depth would do. */
	QUEUE_DEPTH = 64,

	/* A message that takes longer will not come any more. */
	MESSAGE_LIMIT_MS = 5000,
};

/* The IPv4 address of the NIC, by which the raw path finds the same device. */
struct nic_address {
	uint8_t ipv4[4];
};

/* How a path is run. They return -1 after a message of their own. */
struct path_runs {
	int (*both)(void *path, unsigned long iterations); /* both ends, one thread */
	int (*ping)(void *path, unsigned long iterations); /* end 0 alone, it begins */
	int (*echo)(void *path, unsigned long iterations); /* end 1 alone */
};

struct vipl_path;
struct raw_path;

extern const struct path_runs vipl_runs;
extern const struct path_runs raw_runs;

/* These return NULL after a message of their own. */
struct vipl_path *vipl_path_open(const struct bench *bench, struct nic_address *address);
void vipl_path_close(struct vipl_path *path);

struct raw_path *raw_path_open(const struct bench *bench, const struct nic_address *address);
const char *raw_path_device(const struct raw_path *path);
void raw_path_close(struct raw_path *path);

#endif
