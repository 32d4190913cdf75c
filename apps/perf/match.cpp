// SPDX-License-Identifier: BSD-2-Clause
#include "match.h"

#include <algorithm>
#include <ctime>

namespace
{
/* The first messages come while the server begins, and touch the buffers. */
constexpr uint64_t uncounted = 4;
constexpr uint64_t most_memory = uint64_t{1} << 32, most_vis = 65536, most_each = 4096; /* their product fits */

uint64_t next_number()
{
	static uint64_t last = 0;

	return ++last;
}

double processor_us()
{
	timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

template <typename Work> Took time_of(Work work)
{
	const double used = processor_us(), start = now_us();

	work();
	return {now_us() - start, processor_us() - used};
}
} // namespace

void expect_room(const Shape &shape)
{
	expect_number("bytes", shape.room, most_memory / 2);
	expect_number("messages under way", shape.depth, most_each);
	expect_number("buffers", shape.buffers, most_each);
	expect_number("segments", shape.segments, most_each);
	expect_number("VIs", shape.vis, most_vis);
	if (memory_of(shape) > most_memory)
		throw Failure("buffers for messages of " + std::to_string(shape.room) + " bytes, " +
			      std::to_string(shape.depth) + " under way, would be more than 4 GiB on each side");
}

std::string name_of(const Shape &shape)
{
	static const char *const transfers[] = {"send", "RDMA write", "RDMA read"};
	static const char *const levels[] = {", Unreliable", "", ", Reliable Reception"};
	static const char *const waits[] = {"polling", "blocking", "spinning, then blocking"};
	static const char *const kinds[] = {"VIPL ", "TCP", "Unix socket", "Bare copy", "Queue pairs"};
	std::string name = kinds[static_cast<int>(shape.kind)];

	if (shape.kind == Kind::vipl)
		name += transfers[static_cast<int>(shape.transfer)];
	name += std::string(", ") + waits[static_cast<int>(shape.waiting)];
	if (shape.kind == Kind::vipl)
		name += levels[static_cast<int>(shape.level)];
	return name;
}

std::unique_ptr<Transport> make_transport(const Side &side, const Shape &shape)
{
	expect_room(shape);
	switch (shape.kind) {
	case Kind::vipl:
		return make_vipl_link(side, shape);
	case Kind::bare:
		return make_bare_link(side, shape);
	case Kind::verbs:
		return make_verbs_link(side, shape);
	default:
		return make_socket_link(side, shape);
	}
}

Match::Match(const Side &side, const Shape &shape)
    : side_(side), shape_(shape), number_(next_number())
{
	side.control.write({{"do", "match"}, {"match", number_}, {"shape", shape}});
	transport_ = side.control.together([&] { return make_transport(side, shape); });
	side.control.meet();
}

Match::~Match()
{
	side_.control.end({{"do", "end"}, {"match", number_}});
}

/* Makes the server begin this work. */
void Match::order(const char *what, size_t bytes, uint64_t count)
{
	side_.control.write({{"do", what}, {"match", number_}, {"bytes", bytes}, {"count", count}});
	side_.control.meet();
}

Block Match::run(const char *what, void (Transport::*work)(size_t, uint64_t), size_t bytes, uint64_t count)
{
	order(what, bytes, count);
	const Took own = time_of([&] { side_.control.together([&] { (*transport_.*work)(bytes, count); }); });

	return {own, side_.control.read().get<Took>()};
}

Samples Match::ping_each(size_t bytes, uint64_t count)
{
	Samples us;

	us.reserve(count);
	order("echo", bytes, uncounted + count);
	side_.control.together([&] {
		transport_->ping(bytes, uncounted);
		while (us.size() < count) {
			const double start = now_us();

			transport_->ping(bytes, 1);
			us.push_back(now_us() - start);
		}
	});
	side_.control.read();
	return us;
}

double Match::look_us(uint64_t times)
{
	const double start = now_us();

	transport_->look_in_vain(times);
	return (now_us() - start) / static_cast<double>(times) / shape_.vis;
}

double Match::one_way_us(size_t bytes, uint64_t count)
{
	return ping(bytes, count).client.us / static_cast<double>(count) / ways_of_ping(shape_);
}

uint64_t Match::pings_for(double us, size_t bytes)
{
	constexpr uint64_t least = 3, first = 2;
	const Send send = [&](uint64_t count) { return ping(bytes, count).client.us; };

	return std::max(least, count_for(us, first, send));
}

std::unique_ptr<Match> match_if_room(const Side &side, const Shape &shape)
try {
	return std::make_unique<Match>(side, shape);
} catch (const Failure &e) {
	side.control.recover(e);
	throw NoMore(e.what());
}

void Opponents::obey(const Json &order)
{
	const std::string what = order.at("do").get<std::string>();
	const uint64_t number = order.at("match").get<uint64_t>();

	if (what == "match") {
		const Shape shape = order.at("shape").get<Shape>();

		all_[number] = {shape.room, make_transport(side_, shape)};
		return side_.control.meet();
	}
	const auto found = all_.find(number);
	if (found == all_.end())
		throw Failure("the client speaks of a match that has not begun");
	if (what == "end") {
		all_.erase(found);
		return side_.control.meet();
	}
	const auto &[room, transport] = found->second;
	const size_t bytes = order.at("bytes").get<size_t>();
	const uint64_t count = order.at("count").get<uint64_t>();

	if (bytes > room)
		throw Failure("the client asks for more than it said");
	side_.control.meet();
	side_.control.write(time_of([&, &link = *transport] {
		if (what == "echo")
			link.echo(bytes, count);
		else
			link.sink(bytes, count);
	}));
}
