/*
 * vip_loopback - VIPL between two processes of one machine, against bare
 * shared memory, sockets and process_vm_writev; --help says what exactly.
 *
 * Why one program and two pinned processes: on the same machine the same code
 * differs by a factor of two with the CPUs it runs on, and from one run to the
 * next by more than what is looked for. So blocks of all contenders take turns
 * in one pair of processes, whose CPUs never change, and the ratios that count
 * are those of a round. In the first round all is touched, and it is forgotten.
 *
 * Both processes run the same schedule, each its own side of it, and meet
 * before every block; only the client looks at the clock.
 */
#include "loopback.h"

#include <stdio.h>
#include <string.h>

struct bench {
	struct pair pair;
	void *states[CONTENDERS];
	struct figures *figures;
};

static const struct contender *const contenders[CONTENDERS] = {
	[VIPL] = &vipl_contender,
	[BARE] = &bare_contender,
	[UNIX] = &unix_contender,
	[TCP] = &tcp_contender,
};

/* The first of the rounds only warms up. */
static void note(struct bench *bench, enum measure measure, enum contender_id id,
		 unsigned long round, double usec)
{
	if (!round)
		return;
	bench->figures->measured[measure][id] = true;
	bench->figures->usec[measure][id][round - 1] = usec;
}

static int run_latency(struct bench *bench, enum contender_id id, unsigned long round)
{
	const struct contender *contender = contenders[id];
	unsigned long count = bench->pair.settings->iterations;
	double start;
	int result;

	if (pair_meet(&bench->pair))
		return -1;
	start = now_usec();
	result = (bench->pair.is_server ? contender->echo : contender->ping)(bench->states[id],
									     count);
	note(bench, LATENCY, id, round, (now_usec() - start) / (double)count / 2);
	return result;
}

static int run_stream(struct bench *bench, enum contender_id id, enum measure measure,
		      unsigned long round)
{
	const struct settings *s = bench->pair.settings;
	struct stream checked = {.measure = measure,
				 .messages = s->window,
				 .window = 1,
				 .buffers = measure == RING ? s->window : 1,
				 .batch = 1,
				 .check = true};
	struct stream timed = {.measure = measure,
			       .messages = s->messages,
			       .window = s->window,
			       .buffers = checked.buffers,
			       .batch = (s->window + 1) / 2};
	int (*run)(void *, const struct stream *) =
		bench->pair.is_server ? contenders[id]->sink : contenders[id]->stream;
	double start;

	if (pair_meet(&bench->pair) || run(bench->states[id], &checked) || pair_meet(&bench->pair))
		return -1;
	start = now_usec();
	if (run(bench->states[id], &timed))
		return -1;
	note(bench, measure, id, round, (now_usec() - start) / (double)s->messages);
	return 0;
}

static int run_connects(struct bench *bench, enum contender_id id, unsigned long round)
{
	static double requests[MAX_CONNECTS], disconnects[MAX_CONNECTS];
	const struct contender *contender = contenders[id];
	unsigned long count = bench->pair.settings->connects;

	for (unsigned long i = 0; i < count; ++i)
		if (bench->pair.is_server
			    ? contender->accept(bench->states[id])
			    : contender->request(bench->states[id], &requests[i], &disconnects[i]))
			return -1;
	note(bench, CONNECT, id, round, median(requests, count));
	note(bench, DISCONNECT, id, round, median(disconnects, count));
	return 0;
}

static int run_block(struct bench *bench, enum contender_id id, enum measure measure,
		     unsigned long round)
{
	if (!(bench->pair.settings->contenders & 1u << id))
		return 0;
	switch (measure) {
	case LATENCY:
		return run_latency(bench, id, round);
	case BANDWIDTH:
	case RING:
		return contenders[id]->stream ? run_stream(bench, id, measure, round) : 0;
	case CONNECT:
		return contenders[id]->request ? run_connects(bench, id, round) : 0;
	default:
		return 0;
	}
}

static int run_rounds(struct bench *bench)
{
	const struct settings *s = bench->pair.settings;

	for (unsigned long round = 0; round <= s->rounds; ++round)
		for (enum measure measure = 0; measure < MEASURES; ++measure)
			for (unsigned long i = 0; i < CONTENDERS; ++i)
				if (s->measures & 1u << measure &&
				    run_block(bench, (i + round) % CONTENDERS, measure, round))
					return -1;
	return 0;
}

/* What both processes do, once there are two. */
static int run_side(struct bench *bench)
{
	const struct settings *s = bench->pair.settings;

	for (enum contender_id id = 0; id < CONTENDERS; ++id)
		if (s->contenders & 1u << id && contenders[id]->start(bench->states[id]))
			return -1;
	if (s->contenders & 1u << VIPL)
		snprintf(bench->figures->device, DEVICE_NAME, "%.*s", DEVICE_NAME - 1,
			 vipl_device(bench->states[VIPL]));
	return pair_meet(&bench->pair) || run_rounds(bench) || pair_meet(&bench->pair) ? -1 : 0;
}

static int open_contenders(struct bench *bench)
{
	for (enum contender_id id = 0; id < CONTENDERS; ++id) {
		if (!(bench->pair.settings->contenders & 1u << id))
			continue;
		bench->states[id] = contenders[id]->open(&bench->pair);
		if (!bench->states[id])
			return -1;
	}
	return 0;
}

static void close_contenders(struct bench *bench)
{
	for (enum contender_id id = 0; id < CONTENDERS; ++id)
		if (bench->states[id])
			contenders[id]->close(bench->states[id]);
}

int main(int argc, char **argv)
{
	static struct figures figures;
	struct settings settings;
	struct bench bench = {.figures = &figures};
	int result = parse_arguments(argc, argv, &settings);

	if (result >= 0)
		return result;
	figures.settings = &settings;
	memcpy(figures.cpus, settings.cpus, sizeof(figures.cpus));
	if (pair_open(&bench.pair, &settings))
		return 1;
	result = open_contenders(&bench) || pair_fork(&bench.pair) || run_side(&bench) ? -1 : 0;
	close_contenders(&bench);
	if (bench.pair.is_server)
		return result ? 1 : 0;
	if (pair_close(&bench.pair, result))
		return 1;
	figures.preemptions = pair_preemptions();
	(settings.json ? print_json : print_text)(&figures);
	return 0;
}
