/* Prints the figures of vip_loopback, as a table or as JSON. */
#include "loopback.h"

#include <stdio.h>

static const struct {
	const char *key, *title, *unit;
} measures[MEASURES] = {
	[LATENCY] = {"latency", "8 bytes one way, polling", "usec"},
	[BANDWIDTH] = {"bandwidth", "stream, one buffer at each end", "MiB/s"},
	[RING] = {"ring", "stream, as many buffers as the window", "MiB/s"},
	[CONNECT] = {"connect", "VipConnectRequest", "usec"},
	[DISCONNECT] = {"disconnect", "VipDisconnect", "usec"},
};

static bool is_met(const struct bar *bar)
{
	return bar->at_most ? bar->value <= bar->limit : bar->value >= bar->limit;
}

static void print_table(const struct figures *figures, enum measure measure)
{
	bool has_vipl = figures->measured[measure][VIPL];
	bool titled = false;

	for (enum contender_id id = 0; id < CONTENDERS; ++id) {
		struct summary summary;

		if (!figures->measured[measure][id])
			continue;
		if (!titled)
			printf("\n%s, %s\n%12s %12s %12s %12s%s\n", measures[measure].title,
			       measures[measure].unit, "", "median", "min", "max",
			       has_vipl ? "    VIPL/this" : "");
		titled = true;
		summary = summarize(figures, measure, id);
		printf("%12s %12.3f %12.3f %12.3f", contender_names[id], summary.median,
		       summary.min, summary.max);
		if (has_vipl && id != VIPL)
			printf(" %12.3f", vipl_ratio(figures, measure, id));
		putchar('\n');
	}
}

void print_text(const struct figures *figures)
{
	const struct settings *s = figures->settings;
	struct bar bars[MAX_BARS];
	size_t count = judge(figures, bars);

	if (s->contenders & 1u << VIPL)
		printf("nic %s, device %s\n", s->nic, figures->device);
	printf("CPUs %d and %d, %lu rounds; blocks of %lu round trips; %lu messages of %lu bytes, "
	       "window %lu\n",
	       figures->cpus[0], figures->cpus[1], s->rounds, s->iterations, s->messages, s->bytes,
	       s->window);
	for (enum measure measure = 0; measure < MEASURES; ++measure)
		print_table(figures, measure);
	printf("\nThe scheduler took a CPU away %lu times; on a quiet machine it is a few per "
	       "round.\n",
	       figures->preemptions);
	if (count)
		printf("\n%-48s %12s %12s\n", "bar", "wanted", "here");
	for (size_t i = 0; i < count; ++i)
		printf("%-48s %s %9.3g %12.3f  %s\n", bars[i].text,
		       bars[i].at_most ? "<=" : ">=", bars[i].limit, bars[i].value,
		       is_met(&bars[i]) ? "met" : "MISSED");
}

/* The names and texts here need no escapes, but for what the user calls the NIC. */
static void print_json_string(const char *text)
{
	putchar('"');
	for (; *text; ++text)
		printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	putchar('"');
}

/* Three decimals are more than a clock tells. */
static void print_contender_json(const struct figures *figures, enum measure measure,
				 enum contender_id id)
{
	struct summary summary = summarize(figures, measure, id);

	printf("\"%s\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f, ", contender_names[id],
	       summary.median, summary.min, summary.max);
	if (id != VIPL && figures->measured[measure][VIPL])
		printf("\"median_ratio\": %.3f, ", vipl_ratio(figures, measure, id));
	printf("\"rounds\": [");
	for (unsigned long i = 0; i < figures->settings->rounds; ++i)
		printf("%s%.3f", i ? ", " : "", figure(figures, measure, id, i));
	printf("]}");
}

/* Returns whether there was anything. */
static bool print_measure_json(const struct figures *figures, enum measure measure,
			       const char *comma)
{
	bool any = false;

	for (enum contender_id id = 0; id < CONTENDERS; ++id) {
		if (!figures->measured[measure][id])
			continue;
		if (!any)
			printf("%s\n    \"%s\": {\"what\": \"%s\", \"unit\": \"%s\", "
			       "\"contenders\": {",
			       comma, measures[measure].key, measures[measure].title,
			       measures[measure].unit);
		printf("%s\n      ", any ? "," : "");
		print_contender_json(figures, measure, id);
		any = true;
	}
	printf("%s", any ? "}}" : "");
	return any;
}

static void print_bars_json(const struct figures *figures)
{
	struct bar bars[MAX_BARS];
	size_t count = judge(figures, bars);

	for (size_t i = 0; i < count; ++i)
		printf("%s\n    {\"what\": \"%s\", \"%s\": %.3f, \"value\": %.3f, \"met\": %s}",
		       i ? "," : "", bars[i].text, bars[i].at_most ? "at_most" : "at_least",
		       bars[i].limit, bars[i].value, is_met(&bars[i]) ? "true" : "false");
}

void print_json(const struct figures *figures)
{
	const struct settings *s = figures->settings;
	const char *comma = "";

	printf("{");
	if (s->contenders & 1u << VIPL) {
		printf("\n  \"nic\": ");
		print_json_string(s->nic);
		printf(",\n  \"device\": ");
		print_json_string(figures->device);
		printf(",");
	}
	printf("\n  \"cpus\": [%d, %d],\n  \"rounds\": %lu,\n  \"iterations\": %lu,\n"
	       "  \"messages\": %lu,\n  \"bytes\": %lu,\n  \"window\": %lu,\n  \"connects\": %lu,\n"
	       "  \"preemptions\": %lu,\n  \"measures\": {",
	       figures->cpus[0], figures->cpus[1], s->rounds, s->iterations, s->messages, s->bytes,
	       s->window, s->connects, figures->preemptions);
	for (enum measure measure = 0; measure < MEASURES; ++measure)
		if (print_measure_json(figures, measure, comma))
			comma = ",";
	printf("},\n  \"bars\": [");
	print_bars_json(figures);
	puts("]\n}");
}
