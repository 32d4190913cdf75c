/*
 * vip_perf latency - the time of one message one way, by size.
 *
 * NetPIPE's method: a ping-pong over sizes that grow exponentially.
 */
#include <memory>

#include "match.h"
#include "run.h"
#include "statistics.h"

namespace
{
Report measure(const Side &side, const Shape &wanted)
{
	Report report("latency", {{"bytes", "message size", "B"}, {"us", "one way", "us"}});
	Shape shape = wanted;

	shape.room = 4096;
	Match match(side, shape);
	for (size_t bytes = 1; bytes <= shape.room; bytes *= 2) {
		progress(name_of(shape) + ", " + std::to_string(bytes) + " bytes");
		report.add(name_of(shape), {{"bytes", bytes},
					    {"us", match.one_way_us(bytes, match.count_for(20000, bytes))}});
	}
	return report;
}
} // namespace

void add_latency(CLI::App &app)
{
	auto shape = std::make_shared<Shape>();
	CLI::App *command = add_measurement(app, "latency", "Time of a message one way, by size",
					    [=](const Side &side) { return measure(side, *shape); });

	add_waiting_option(command, shape->waiting);
}
