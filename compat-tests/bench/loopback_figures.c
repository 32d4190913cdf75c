/* What vip_loopback makes of its measurements: units, medians, ratios, and the bars. */
#include "loopback.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

double median(double *values, unsigned long count)
{
	qsort(values, count, sizeof(values[0]), compare);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

bool is_rate(enum measure measure)
{
	return measure == BANDWIDTH || measure == RING;
}

double figure(const struct figures *figures, enum measure measure, enum contender_id id,
	      unsigned long round)
{
	double usec = figures->usec[measure][id][round];

	/* A MiB is 1048576 bytes. */
	return is_rate(measure) ? (double)figures->settings->bytes / usec * 1e6 / (1 << 20) : usec;
}

struct summary summarize(const struct figures *figures, enum measure measure, enum contender_id id)
{
	unsigned long rounds = figures->settings->rounds;
	double values[MAX_ROUNDS];
	struct summary summary;

	for (unsigned long i = 0; i < rounds; ++i)
		values[i] = figure(figures, measure, id, i);
	summary.median = median(values, rounds); /* and so they are in order */
	summary.min = values[0];
	summary.max = values[rounds - 1];
	return summary;
}

double vipl_ratio(const struct figures *figures, enum measure measure, enum contender_id id)
{
	unsigned long rounds = figures->settings->rounds;
	double ratios[MAX_ROUNDS];

	for (unsigned long i = 0; i < rounds; ++i)
		ratios[i] = figure(figures, measure, VIPL, i) / figure(figures, measure, id, i);
	return median(ratios, rounds);
}

/* Where VIPL and the other one were measured. */
static bool both(const struct figures *figures, enum measure measure, enum contender_id id)
{
	return figures->measured[measure][VIPL] && figures->measured[measure][id];
}

size_t judge(const struct figures *figures, struct bar bars[MAX_BARS])
{
	size_t count = 0;

	if (both(figures, LATENCY, VIPL))
		bars[count++] = (struct bar){"8 bytes one way, usec (the aim: 0.15)", true, 0.3,
					     summarize(figures, LATENCY, VIPL).median};
	if (both(figures, LATENCY, TCP))
		bars[count++] = (struct bar){"8 bytes, times faster than non-blocking TCP", false,
					     15, 1 / vipl_ratio(figures, LATENCY, TCP)};
	if (both(figures, BANDWIDTH, BARE))
		bars[count++] = (struct bar){"bandwidth, share of the bare loop's", false, 0.9,
					     vipl_ratio(figures, BANDWIDTH, BARE)};
	if (both(figures, RING, BARE))
		bars[count++] = (struct bar){"ring, share of the bare loop's bandwidth", false, 0.9,
					     vipl_ratio(figures, RING, BARE)};
	if (both(figures, CONNECT, VIPL))
		bars[count++] = (struct bar){"VipConnectRequest, usec", true, 200,
					     summarize(figures, CONNECT, VIPL).median};
	return count;
}
