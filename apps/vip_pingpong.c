/*
 * vip_pingpong - latency and bandwidth between two VIs, and whether every
 * byte arrives. One process is the server, another one the client.
 *
 * The client's first message, the plan, tells the server what will come, so
 * that the server needs no options. Then, for each size, messages go to and
 * fro: a few that are checked byte by byte, then the timed ones. At the end
 * the client says goodbye: only after that may either side find the
 * connection gone.
 */
#include "pingpong.h"

#include <arpa/inet.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

enum {
	PLAN_MAGIC = 0x56695050,
	PLAN_VERSION = 1,
	PLAN_CHECK = 1,
	PLAN_WAIT = 2,
	PLAN_WATCH = 4,
};

const char *program_name = "vip_pingpong";

/* As it travels: 32-bit numbers, most significant byte first. */
struct plan_message {
	uint32_t magic;
	uint32_t version;
	uint32_t flags;
	uint32_t iterations;
	uint32_t num_sizes;
	uint32_t sizes[MAX_SIZES];
};

struct pingpong {
	struct endpoint ep;
	const struct settings *settings;
	bool is_server;
	double usec[MAX_SIZES]; /* one way */
};

/* What a byte has to be depends on all that could be mixed up. */
static uint8_t pattern(size_t at, size_t size, unsigned long iteration, bool from_server)
{
	return (uint8_t)(at * 7 + (at >> 8) * 13 + size * 31 + iteration * 3 +
			 (from_server ? 101 : 0));
}

/* In timed messages only the ends are written and checked: see --help. */
static void fill(uint8_t *data, size_t size, unsigned long i, bool from_server, bool full)
{
	for (size_t at = 0; full && at < size; ++at)
		data[at] = pattern(at, size, i, from_server);
	if (size) {
		data[0] = pattern(0, size, i, from_server);
		data[size - 1] = pattern(size - 1, size, i, from_server);
	}
}

static int check(const uint8_t *data, size_t size, unsigned long i, bool from_server, bool full)
{
	size_t step = full || size < 2 ? 1 : size - 1;

	for (size_t at = 0; at < size; at += step) {
		uint8_t right = pattern(at, size, i, from_server);

		if (data[at] == right)
			continue;
		complain("message %lu of %zu bytes: byte %zu is 0x%02x instead of 0x%02x", i, size,
			 at, data[at], right);
		return -1;
	}
	return 0;
}

static int take(struct pingpong *pp, size_t size, unsigned long i, bool full)
{
	const uint8_t *data;
	size_t length;

	if (endpoint_receive(&pp->ep, &data, &length))
		return -1;
	if (length != size) {
		complain("message %lu has %zu bytes instead of %zu", i, length, size);
		return -1;
	}
	return pp->settings->check ? check(data, size, i, !pp->is_server, full) : 0;
}

/* The same loop on both sides: the server only starts with the other half. */
static int exchange(struct pingpong *pp, size_t size, unsigned long count, bool full)
{
	for (unsigned long i = 0; i < count; ++i) {
		if (pp->is_server && take(pp, size, i, full))
			return -1;
		if (pp->settings->check)
			fill(endpoint_next_buffer(&pp->ep), size, i, pp->is_server, full);
		if (endpoint_send(&pp->ep, size))
			return -1;
		if (!pp->is_server && take(pp, size, i, full))
			return -1;
	}
	return 0;
}

/* What both forms of output tell before the figures. */
static json_object *describe(const struct pingpong *pp)
{
	const struct endpoint *ep = &pp->ep;
	json_object *head = json_object_new_object();
	char local[ADDRESS_TEXT_MAX], remote[ADDRESS_TEXT_MAX];

	host_text(ep->local.net.HostAddress, ep->local.net.HostAddressLen, local);
	host_text(ep->remote.net.HostAddress, ep->remote.net.HostAddressLen, remote);
	json_object_object_add(head, "nic", json_object_new_string(ep->options.nic));
	json_object_object_add(head, "device", json_object_new_string(ep->attributes.Name));
	json_object_object_add(head, "local", json_object_new_string(local));
	json_object_object_add(head, "remote", json_object_new_string(remote));
	json_object_object_add(head, "reliability",
			       json_object_new_string(reliability_name(ep->options.reliability)));
	json_object_object_add(head, "completion",
			       json_object_new_string(ep->options.wait	  ? "wait"
						      : ep->options.watch ? "watch"
									  : "poll"));
	json_object_object_add(head, "queue",
			       json_object_new_string(ep->options.use_cq ? "cq" : "vi"));
	json_object_object_add(head, "checked", json_object_new_boolean(pp->settings->check));
	return head;
}

static double mib_per_second(size_t size, double usec)
{
	return usec > 0 ? (double)size / usec * 1e6 / (1024 * 1024) : 0;
}

static void print_head(const struct pingpong *pp)
{
	json_object *head = describe(pp);

	json_object_object_foreach(head, key, value)
		printf("%-12s %s\n", key, json_object_get_string(value));
	if (!pp->is_server)
		printf("\n%10s %12s %14s %12s\n", "bytes", "iterations", "usec one way", "MiB/s");
	fflush(stdout);
	json_object_put(head);
}

static void print_row(const struct pingpong *pp, size_t i)
{
	size_t size = pp->settings->sizes[i];

	printf("%10zu %12lu %14.2f %12.2f\n", size, pp->settings->iterations, pp->usec[i],
	       mib_per_second(size, pp->usec[i]));
	fflush(stdout);
}

/* Three decimals are more than a clock tells. */
static struct json_object *json_decimal(double value)
{
	struct json_object *number = json_object_new_double(value);

	json_object_set_serializer(number, json_object_double_to_json_string, "%.3f", NULL);
	return number;
}

/* The figures are the client's: the server only says whom it served. */
static void print_json(const struct pingpong *pp)
{
	const struct settings *s = pp->settings;
	json_object *head = describe(pp);
	json_object *results = json_object_new_array();

	for (size_t i = 0; !pp->is_server && i < s->num_sizes; ++i) {
		json_object *row = json_object_new_object();
		double rate = mib_per_second(s->sizes[i], pp->usec[i]);

		json_object_object_add(row, "bytes", json_object_new_int64((int64_t)s->sizes[i]));
		json_object_object_add(row, "iterations",
				       json_object_new_int64((int64_t)s->iterations));
		json_object_object_add(row, "usec_one_way", json_decimal(pp->usec[i]));
		json_object_object_add(row, "mib_per_second", json_decimal(rate));
		json_object_array_add(results, row);
	}
	if (pp->is_server)
		json_object_put(results);
	else
		json_object_object_add(head, "results", results);
	puts(json_object_to_json_string_ext(head, JSON_C_TO_STRING_PRETTY |
							  JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(head);
}

static double usec_between(const struct timespec *start, const struct timespec *end)
{
	return (double)(end->tv_sec - start->tv_sec) * 1e6 +
	       (double)(end->tv_nsec - start->tv_nsec) / 1e3;
}

/*
 * The iterations before the timed ones are needed without any check as well:
 * they touch memory, fill caches and wake CPUs up.
 */
static unsigned long warm_up(unsigned long iterations)
{
	unsigned long count = iterations / 10 + 1;

	return count < MAX_CHECKED ? count : MAX_CHECKED;
}

static int run_sizes(struct pingpong *pp)
{
	const struct settings *s = pp->settings;
	struct timespec start, end;

	if (!s->json)
		print_head(pp);
	for (size_t i = 0; i < s->num_sizes; ++i) {
		if (exchange(pp, s->sizes[i], warm_up(s->iterations), s->check))
			return -1;
		clock_gettime(CLOCK_MONOTONIC, &start);
		if (exchange(pp, s->sizes[i], s->iterations, false))
			return -1;
		clock_gettime(CLOCK_MONOTONIC, &end);
		pp->usec[i] = usec_between(&start, &end) / (double)s->iterations / 2;
		if (!s->json && !pp->is_server)
			print_row(pp, i);
	}
	return 0;
}

static int send_plan(struct endpoint *ep, const struct settings *s)
{
	struct plan_message plan = {
		.magic = htonl(PLAN_MAGIC),
		.version = htonl(PLAN_VERSION),
		.flags = htonl((s->check ? PLAN_CHECK : 0) | (s->endpoint.wait ? PLAN_WAIT : 0) |
			       (s->endpoint.watch ? PLAN_WATCH : 0)),
		.iterations = htonl((uint32_t)s->iterations),
		.num_sizes = htonl((uint32_t)s->num_sizes),
	};

	for (size_t i = 0; i < s->num_sizes; ++i)
		plan.sizes[i] = htonl((uint32_t)s->sizes[i]);
	memcpy(endpoint_next_buffer(ep), &plan, sizeof(plan));
	return endpoint_send(ep, sizeof(plan));
}

static int receive_plan(struct endpoint *ep, struct settings *s)
{
	struct plan_message plan;
	const uint8_t *data;
	size_t length;
	bool known;

	if (endpoint_receive(ep, &data, &length))
		return -1;
	known = length == sizeof(plan);
	if (known)
		memcpy(&plan, data, sizeof(plan));
	known = known && ntohl(plan.magic) == PLAN_MAGIC && ntohl(plan.version) == PLAN_VERSION &&
		ntohl(plan.num_sizes) <= MAX_SIZES;
	if (!known) {
		complain("the client is not a vip_pingpong of this version");
		return -1;
	}
	s->iterations = ntohl(plan.iterations);
	s->check = ntohl(plan.flags) & PLAN_CHECK;
	s->num_sizes = ntohl(plan.num_sizes);
	ep->options.wait = ntohl(plan.flags) & PLAN_WAIT;
	ep->options.watch = ntohl(plan.flags) & PLAN_WATCH;
	for (size_t i = 0; i < s->num_sizes; ++i) {
		s->sizes[i] = ntohl(plan.sizes[i]);
		if (s->sizes[i] > ep->options.room) {
			complain("the client's sizes exceed its own maximum");
			return -1;
		}
	}
	/*
	 * A receive is posted again with the next send; but none follows here,
	 * and the first message would take the last one that is posted.
	 */
	return endpoint_post_receives(ep);
}

/* The plan is a message as well. */
static size_t longest_message(const struct settings *s)
{
	size_t longest = sizeof(struct plan_message);

	for (size_t i = 0; i < s->num_sizes; ++i)
		if (s->sizes[i] > longest)
			longest = s->sizes[i];
	return longest;
}

static int run_client(struct pingpong *pp)
{
	const struct settings *s = pp->settings;

	if (s->endpoint.room > pp->ep.attributes.MaxTransferSize) {
		complain("a message of %zu bytes is more than the NIC's %lu", s->endpoint.room,
			 pp->ep.attributes.MaxTransferSize);
		return -1;
	}
	if (endpoint_connect(&pp->ep, s->server) || send_plan(&pp->ep, s) || run_sizes(pp))
		return -1;

	/*
	 * The goodbye. Whether it is still reported as done does not matter:
	 * the server may be the first to disconnect.
	 */
	endpoint_send(&pp->ep, 0);
	endpoint_await_hangup(&pp->ep);
	if (s->json)
		print_json(pp);
	return 0;
}

static int run_server(struct pingpong *pp, struct settings *s)
{
	unsigned long limit = s->has_timeout ? s->endpoint.timeout : VIP_INFINITE;

	if (endpoint_accept(&pp->ep, limit) || receive_plan(&pp->ep, s) || run_sizes(pp))
		return -1;
	/* The goodbye: an empty message. Our last pong was received before it was sent. */
	if (endpoint_drain(&pp->ep) || take(pp, 0, 0, false))
		return -1;
	if (s->json)
		print_json(pp);
	return 0;
}

int main(int argc, char **argv)
{
	struct settings settings;
	struct pingpong pp = {.settings = &settings};
	int result = parse_arguments(argc, argv, &settings);

	if (result >= 0)
		return result;

	settings.endpoint.room = longest_message(&settings);
	pp.is_server = !settings.server;
	result = endpoint_open(&pp.ep, &settings.endpoint);
	if (!result)
		result = pp.is_server ? run_server(&pp, &settings) : run_client(&pp);
	if (endpoint_close(&pp.ep))
		result = -1;
	return result ? EXIT_FAILED : EXIT_OK;
}
