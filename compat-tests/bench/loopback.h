/*
 * What the files of vip_loopback share: what it was asked to do, the pair of
 * processes it runs in, the contenders, and the figures.
 *
 * Functions that return int return -1 after a message of their own.
 */
#ifndef VIP_BENCH_LOOPBACK_H
#define VIP_BENCH_LOOPBACK_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	MAX_ROUNDS = 1000,
	MAX_CONNECTS = 10000,
	MAX_WINDOW = 128,
	MAX_BYTES = 1 << 23,
	DEVICE_NAME = 64,

	/* Two cache lines: the prefetcher of some CPUs fetches them in pairs. */
	APART = 128,

	/* Who is silent for so long will not come any more. */
	SILENCE_LIMIT_MS = 10000,
	SPINS_PER_CLOCK = 4096,
};

enum contender_id { VIPL, BARE, UNIX, TCP, CONTENDERS };

enum measure { LATENCY, BANDWIDTH, RING, CONNECT, DISCONNECT, MEASURES };

struct settings {
	const char *nic;
	int cpus[2];             /* of the client, of the server; -1: the first two allowed */
	unsigned int contenders; /* bits 1 << id */
	unsigned int measures;   /* likewise */
	unsigned long rounds;
	unsigned long iterations; /* round trips in a block */
	unsigned long messages;   /* streamed in a block */
	unsigned long bytes;      /* of a streamed message */
	unsigned long window;     /* streamed messages under way */
	unsigned long connects;   /* in a round */
	unsigned long time_limit; /* seconds */
	bool json;
};

/* Takes the command line; returns -1 to go on, or the status to exit with. */
int parse_arguments(int argc, char **argv, struct settings *settings);

extern const char *const contender_names[CONTENDERS];

/* --- the pair of processes: loopback_pair.c ---------------------------------------- */

/* One word that one process writes and the other one spins on. */
struct line {
	alignas(APART) atomic_ulong word;
};

/* The memory that both processes have. */
struct shared {
	struct line arrived[2]; /* how often each process came to a meeting */
	struct line ping[2];    /* bare: the message to the server, to the client */
	struct line written;    /* bare: messages streamed so far */
	struct line taken;      /* bare: of these, what the server has looked at */
	uintptr_t sink;         /* bare: where the server has its buffers */
	atomic_bool failed;
};

struct pair {
	const struct settings *settings;
	struct shared *shared;
	bool is_server;
	pid_t client;
	pid_t server; /* known to the client only */
};

/* Prints the message, unless either process has printed one before; returns -1. */
int fail(struct pair *pair, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Maps the shared memory. */
int pair_open(struct pair *pair, const struct settings *settings);

/* Forks the server. From here both processes run, each pinned to its CPU. */
int pair_fork(struct pair *pair);

/* Returns when both processes have called it. */
int pair_meet(struct pair *pair);

/* Ends the pair, in the client; result is its own. Returns -1 if the server failed, too. */
int pair_close(struct pair *pair, int result);

/*
 * How often the scheduler gave a CPU away that this program was using, in both processes; after
 * pair_close. With many, other programs are in the figures.
 */
unsigned long pair_preemptions(void);

double now_usec(void);

/* A wait that spins, begins as {0}. */
struct patience {
	unsigned long spins;
	double since;
};

/* The slow part of keep_waiting. */
int pair_look(struct pair *pair, struct patience *patience, const char *what);

/* To be called for each look in vain: -1 when the wait is over. */
static inline int keep_waiting(struct pair *pair, struct patience *patience, const char *what)
{
	return ++patience->spins % SPINS_PER_CLOCK ? 0 : pair_look(pair, patience, what);
}

/* Room that is touched already, on pages of its own; NULL after a message. */
uint8_t *pages_new(struct pair *pair, size_t bytes);
void pages_free(uint8_t *pages, size_t bytes);

/* What streamed message number "message" has to be. */
void pattern_fill(uint8_t *data, size_t bytes, unsigned long message);
int pattern_check(struct pair *pair, const uint8_t *data, size_t bytes, unsigned long message);

/* What the message to the server and the one back have to be, in exchange number i. */
static inline uint64_t ping_value(uint64_t i)
{
	return i;
}

static inline uint64_t pong_value(uint64_t i)
{
	return ~i;
}

/* --- the contenders ---------------------------------------------------------------- */

struct stream {
	enum measure measure;
	unsigned long messages;
	unsigned long window;  /* sent and not known to be received */
	unsigned long buffers; /* different ones at each end */
	unsigned long batch;   /* received messages that one answer tells of */
	bool check;            /* every byte, which is not for timed streams */
};

struct contender {
	/* Before the fork; returns the contender's state, NULL after a message. */
	void *(*open)(struct pair *pair);
	int (*start)(void *state); /* after it, in both processes at once */

	int (*ping)(void *state, unsigned long round_trips); /* the client begins */
	int (*echo)(void *state, unsigned long round_trips); /* the server answers */

	/* The client returns when all has arrived. NULL where there is no stream. */
	int (*stream)(void *state, const struct stream *stream);
	int (*sink)(void *state, const struct stream *stream);

	/* One connection, made, tried and ended; NULL likewise. */
	int (*request)(void *state, double *request_usec, double *disconnect_usec);
	int (*accept)(void *state);

	void (*close)(void *state);
};

extern const struct contender vipl_contender;
extern const struct contender bare_contender;
extern const struct contender unix_contender;
extern const struct contender tcp_contender;

/* The name the VIPL contender's NIC has for itself. */
const char *vipl_device(const void *state);

/* --- the figures: loopback_figures.c, loopback_report.c ---------------------------- */

struct figures {
	const struct settings *settings;
	int cpus[2];
	char device[DEVICE_NAME];
	unsigned long preemptions;
	bool measured[MEASURES][CONTENDERS];
	double usec[MEASURES][CONTENDERS][MAX_ROUNDS]; /* of one message, or one call */
};

struct summary {
	double median, min, max;
};

/* How VIPL did against somebody else, or against a fixed number. */
struct bar {
	const char *text;
	bool at_most; /* else at least */
	double limit;
	double value;
};

enum { MAX_BARS = 8 };

double median(double *values, unsigned long count); /* sorts them */

/* In the unit of the measure: usec, or MiB/s. */
double figure(const struct figures *figures, enum measure measure, enum contender_id id,
	      unsigned long round);
struct summary summarize(const struct figures *figures, enum measure measure, enum contender_id id);

/* The median of the rounds' ratios, VIPL's figure divided by the other one's. */
double vipl_ratio(const struct figures *figures, enum measure measure, enum contender_id id);

/* Those that there are figures for; returns how many. */
size_t judge(const struct figures *figures, struct bar bars[MAX_BARS]);

bool is_rate(enum measure measure);
void print_text(const struct figures *figures);
void print_json(const struct figures *figures);

#endif
