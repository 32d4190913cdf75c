/*
 * vip_ratio - what VIPL costs over raw verbs.
 *
 * Measured: the time of an 8 byte (--size) ping-pong over VIPL, divided by
 * that of the same ping-pong over raw verbs, on the same device, in the same
 * process. For each message both do the same: post a signalled send, take the
 * receive at the other end, post the next receive there, take the send's
 * completion. Reliable connections and small messages inline on both.
 *
 * Polling: one thread has both ends, so that no scheduler is in the figure:
 * send on A, take on B, send on B, take on A, take both sends' completions.
 * Event mode (--wait): each end has a thread, since a thread which has both
 * would find its message there already and never sleep where the device works
 * within the call that posts, as software devices do.
 *
 * Why like that: separate runs of identical code differ far more than the
 * figure looked for (other CPUs, other frequency, other neighbours). So blocks
 * of both paths take turns, two that follow each other form a pair, and only
 * the ratios within pairs count; the result is their median. Which path comes
 * first changes from pair to pair, so that a drift does not favour one.
 */
#include "ratio.h"

#include <getopt.h>
#include <json-c/json.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_PAIRS = 1000, MAX_SIZE = 1 << 20 };

struct pair {
	double raw; /* microseconds one way */
	double vipl;
	double ratio;
};

static double now_usec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

struct path {
	const struct path_runs *runs;
	void *path;
	unsigned long iterations;
};

/* The thread of end 1 in event mode; returns NULL when all went well. */
static void *echo(void *argument)
{
	struct path *path = argument;

	return path->runs->echo(path->path, path->iterations) ? path : NULL;
}

static int run_two_threads(struct path *path)
{
	pthread_t thread;
	void *failed;
	int result;

	if (pthread_create(&thread, NULL, echo, path)) {
		fprintf(stderr, "vip_ratio: cannot start a thread\n");
		return -1;
	}
	result = path->runs->ping(path->path, path->iterations);
	pthread_join(thread, &failed);
	return result || failed ? -1 : 0;
}

/* One block: microseconds one way, or negative when it failed. */
static double time_block(struct path *path, bool wait)
{
	double start = now_usec();
	int result = wait ? run_two_threads(path) : path->runs->both(path->path, path->iterations);

	return result ? -1 : (now_usec() - start) / (double)path->iterations / 2;
}

static int measure(struct path *raw, struct path *vipl, const struct bench *bench,
		   struct pair *pairs)
{
	if (time_block(raw, bench->wait) < 0 || time_block(vipl, bench->wait) < 0)
		return -1;
	for (unsigned long i = 0; i < bench->pairs; ++i) {
		bool raw_first = i % 2 == 0;

		if (raw_first)
			pairs[i].raw = time_block(raw, bench->wait);
		pairs[i].vipl = time_block(vipl, bench->wait);
		if (!raw_first)
			pairs[i].raw = time_block(raw, bench->wait);
		if (pairs[i].raw < 0 || pairs[i].vipl < 0)
			return -1;
		pairs[i].ratio = pairs[i].vipl / pairs[i].raw;
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* The median of the member at that offset. */
static double median(const struct pair *pairs, unsigned long count, size_t offset)
{
	double values[MAX_PAIRS];

	for (unsigned long i = 0; i < count; ++i)
		memcpy(&values[i], (const char *)&pairs[i] + offset, sizeof(values[i]));
	qsort(values, count, sizeof(values[0]), compare);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

struct medians {
	double raw, vipl, ratio;
};

static void print_text(const struct bench *bench, const char *device, const struct pair *pairs,
		       const struct medians *medians)
{
	printf("nic %s, device %s, %lu bytes, %s, %lu round trips per block\n\n", bench->nic,
	       device, bench->size, bench->wait ? "waiting" : "polling", bench->iterations);
	printf("%8s %16s %16s %10s\n", "pair", "raw usec", "VIPL usec", "VIPL/raw");
	for (unsigned long i = 0; i < bench->pairs; ++i)
		printf("%8lu %16.3f %16.3f %10.4f\n", i + 1, pairs[i].raw, pairs[i].vipl,
		       pairs[i].ratio);
	printf("%8s %16.3f %16.3f %10.4f\n", "median", medians->raw, medians->vipl, medians->ratio);
}

/* Three decimals are more than a clock tells. */
static struct json_object *json_decimal(double value)
{
	struct json_object *number = json_object_new_double(value);

	json_object_set_serializer(number, json_object_double_to_json_string, "%.3f", NULL);
	return number;
}

static void print_json(const struct bench *bench, const char *device, const struct pair *pairs,
		       const struct medians *medians)
{
	json_object *root = json_object_new_object();
	json_object *list = json_object_new_array();

	for (unsigned long i = 0; i < bench->pairs; ++i) {
		json_object *pair = json_object_new_object();

		json_object_object_add(pair, "raw_usec", json_decimal(pairs[i].raw));
		json_object_object_add(pair, "vipl_usec", json_decimal(pairs[i].vipl));
		json_object_object_add(pair, "ratio", json_decimal(pairs[i].ratio));
		json_object_array_add(list, pair);
	}
	json_object_object_add(root, "nic", json_object_new_string(bench->nic));
	json_object_object_add(root, "device", json_object_new_string(device));
	json_object_object_add(root, "bytes", json_object_new_int64((int64_t)bench->size));
	json_object_object_add(root, "mode", json_object_new_string(bench->wait ? "wait" : "poll"));
	json_object_object_add(root, "iterations",
			       json_object_new_int64((int64_t)bench->iterations));
	json_object_object_add(root, "pairs", list);
	json_object_object_add(root, "median_raw_usec", json_decimal(medians->raw));
	json_object_object_add(root, "median_vipl_usec", json_decimal(medians->vipl));
	json_object_object_add(root, "median_ratio", json_decimal(medians->ratio));
	puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY |
							  JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
}

static int run(const struct bench *bench)
{
	static struct pair pairs[MAX_PAIRS];
	struct nic_address address;
	struct vipl_path *vipl = vipl_path_open(bench, &address);
	struct raw_path *raw = vipl ? raw_path_open(bench, &address) : NULL;
	struct path raw_side = {&raw_runs, raw, bench->iterations};
	struct path vipl_side = {&vipl_runs, vipl, bench->iterations};
	int result = raw ? measure(&raw_side, &vipl_side, bench, pairs) : -1;

	if (!result) {
		struct medians medians = {
			.raw = median(pairs, bench->pairs, offsetof(struct pair, raw)),
			.vipl = median(pairs, bench->pairs, offsetof(struct pair, vipl)),
			.ratio = median(pairs, bench->pairs, offsetof(struct pair, ratio)),
		};

		(bench->json ? print_json : print_text)(bench, raw_path_device(raw), pairs,
							&medians);
	}
	raw_path_close(raw);
	vipl_path_close(vipl);
	return result;
}

static void usage(void)
{
	puts("Usage: vip_ratio [OPTION]...\n"
	     "Measures what VIPL costs over raw verbs: the time of a ping-pong over VIPL\n"
	     "divided by that of the same ping-pong over raw verbs on the same device, both\n"
	     "in this process. It runs blocks of the two by turns; each two blocks in a row\n"
	     "are a pair. Prints for each pair both times in microseconds one way (half a\n"
	     "round trip, the mean of the block) and their ratio, and the medians. The median\n"
	     "ratio is the result: 1.00 means that VIPL costs nothing.\n"
	     "When polling, one thread has both ends of both; with --wait each end has a\n"
	     "thread. VIPL polls a while before it sleeps, the raw path does not: set\n"
	     "VIPL_SPIN_USEC=0 to compare sleeping alone.\n"
	     "\n"
	     "  -n, --nic=NAME      VI NIC (default nic0)\n"
	     "  -s, --size=BYTES    message, 0 to 1048576 (default 8)\n"
	     "  -w, --wait          event mode: VipSendWait, VipRecvWait against\n"
	     "                      ibv_req_notify_cq, ibv_get_cq_event (default polling)\n"
	     "  -p, --pairs=N       pairs of blocks, 1 to 1000 (default 15)\n"
	     "  -i, --iterations=N  round trips per block (default 1000)\n"
	     "  -j, --json          print JSON\n"
	     "  -h, --help          print this and end\n"
	     "\n"
	     "Exit status: 0 ok, 1 failed, 2 wrong usage.");
}

/* 0, or -1 after a message. */
static int parse_number(const char *text, unsigned long min, unsigned long max,
			unsigned long *number)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value < min || value > max) {
		fprintf(stderr, "vip_ratio: \"%s\" is not a number from %lu to %lu\n", text, min,
			max);
		return -1;
	}
	*number = value;
	return 0;
}

/* Returns -1 to go on, else the status to exit with. */
static int take_option(int option, struct bench *bench)
{
	switch (option) {
	case 'n':
		bench->nic = optarg;
		return -1;
	case 's':
		return parse_number(optarg, 0, MAX_SIZE, &bench->size) ? 2 : -1;
	case 'w':
		bench->wait = true;
		return -1;
	case 'p':
		return parse_number(optarg, 1, MAX_PAIRS, &bench->pairs) ? 2 : -1;
	case 'i':
		return parse_number(optarg, 1, 1000000000, &bench->iterations) ? 2 : -1;
	case 'j':
		bench->json = true;
		return -1;
	case 'h':
		usage();
		return 0;
	default:
		fputs("Try --help.\n", stderr);
		return 2;
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"nic", required_argument, NULL, 'n'},
		{"size", required_argument, NULL, 's'},
		{"wait", no_argument, NULL, 'w'},
		{"pairs", required_argument, NULL, 'p'},
		{"iterations", required_argument, NULL, 'i'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct bench bench = {.nic = "nic0", .size = 8, .iterations = 1000, .pairs = 15};
	int option, result;

	while ((option = getopt_long(argc, argv, "n:s:wp:i:jh", options, NULL)) != -1) {
		result = take_option(option, &bench);
		if (result >= 0)
			return result;
	}
	if (optind < argc) {
		fprintf(stderr, "vip_ratio: there are no arguments but options\n");
		return 2;
	}
	return run(&bench) ? 1 : 0;
}
