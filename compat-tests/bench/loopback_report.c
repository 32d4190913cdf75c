/* Prints the figures of vip_loopback, as a table or as JSON. */
#include "loopback.h"

#include <json-c/json.h>
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

/* Three decimals are more than a clock tells. */
static struct json_object *json_decimal(double value)
{
	struct json_object *number = json_object_new_double(value);

	json_object_set_serializer(number, json_object_double_to_json_string, "%.3f", NULL);
	return number;
}

static void add_number(json_object *to, const char *key, unsigned long number)
{
	json_object_object_add(to, key, json_object_new_int64((int64_t)number));
}

static json_object *contender_json(const struct figures *figures, enum measure measure,
				   enum contender_id id)
{
	struct summary summary = summarize(figures, measure, id);
	json_object *contender = json_object_new_object();
	json_object *rounds = json_object_new_array();

	for (unsigned long i = 0; i < figures->settings->rounds; ++i)
		json_object_array_add(rounds, json_decimal(figure(figures, measure, id, i)));
	json_object_object_add(contender, "median", json_decimal(summary.median));
	json_object_object_add(contender, "min", json_decimal(summary.min));
	json_object_object_add(contender, "max", json_decimal(summary.max));
	if (id != VIPL && figures->measured[measure][VIPL])
		json_object_object_add(contender, "median_ratio",
				       json_decimal(vipl_ratio(figures, measure, id)));
	json_object_object_add(contender, "rounds", rounds);
	return contender;
}

static json_object *measure_json(const struct figures *figures, enum measure measure)
{
	json_object *object = json_object_new_object();
	json_object *contenders = json_object_new_object();

	json_object_object_add(object, "what", json_object_new_string(measures[measure].title));
	json_object_object_add(object, "unit", json_object_new_string(measures[measure].unit));
	for (enum contender_id id = 0; id < CONTENDERS; ++id)
		if (figures->measured[measure][id])
			json_object_object_add(contenders, contender_names[id],
					       contender_json(figures, measure, id));
	json_object_object_add(object, "contenders", contenders);
	return object;
}

static json_object *bars_json(const struct figures *figures)
{
	json_object *list = json_object_new_array();
	struct bar bars[MAX_BARS];
	size_t count = judge(figures, bars);

	for (size_t i = 0; i < count; ++i) {
		json_object *bar = json_object_new_object();

		json_object_object_add(bar, "what", json_object_new_string(bars[i].text));
		json_object_object_add(bar, bars[i].at_most ? "at_most" : "at_least",
				       json_decimal(bars[i].limit));
		json_object_object_add(bar, "value", json_decimal(bars[i].value));
		json_object_object_add(bar, "met", json_object_new_boolean(is_met(&bars[i])));
		json_object_array_add(list, bar);
	}
	return list;
}

void print_json(const struct figures *figures)
{
	const struct settings *s = figures->settings;
	json_object *root = json_object_new_object();
	json_object *cpus = json_object_new_array();
	json_object *list = json_object_new_object();

	if (s->contenders & 1u << VIPL) {
		json_object_object_add(root, "nic", json_object_new_string(s->nic));
		json_object_object_add(root, "device", json_object_new_string(figures->device));
	}
	for (int i = 0; i < 2; ++i)
		json_object_array_add(cpus, json_object_new_int(figures->cpus[i]));
	json_object_object_add(root, "cpus", cpus);
	add_number(root, "rounds", s->rounds);
	add_number(root, "iterations", s->iterations);
	add_number(root, "messages", s->messages);
	add_number(root, "bytes", s->bytes);
	add_number(root, "window", s->window);
	add_number(root, "connects", s->connects);
	add_number(root, "preemptions", figures->preemptions);
	for (enum measure measure = 0; measure < MEASURES; ++measure) {
		bool any = false;

		for (enum contender_id id = 0; id < CONTENDERS; ++id)
			any = any || figures->measured[measure][id];
		if (any)
			json_object_object_add(list, measures[measure].key,
					       measure_json(figures, measure));
	}
	json_object_object_add(root, "measures", list);
	json_object_object_add(root, "bars", bars_json(figures));
	puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY |
							  JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
}
