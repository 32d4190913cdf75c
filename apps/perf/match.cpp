// SPDX-License-Identifier: BSD-2-Clause
#include "match.h"

#include <algorithm>
#include <ctime>
#include <map>

#include "arithmetic.h"

namespace
{
/* The first messages come while the server begins, and touch the buffers. */
constexpr uint64_t uncounted = 4;
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
} // namespace

std::unique_ptr<Transport> make_transport(const Side &side, const Shape &shape)
{
	expect_room(shape);
	switch (shape.kind) {
	case Kind::vipl:
		return make_vipl_link(side, shape);
	case Kind::bare:
		return make_bare_link(side, shape);
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

Block Match::run(const char *what, size_t bytes, uint64_t count)
{
	Block block;
	double start, used;

	order(what, bytes, count);
	used = processor_us();
	start = now_us();
	side_.control.together([&] {
		if (std::string(what) == "echo")
			transport_->ping(bytes, count);
		else
			transport_->stream(bytes, count);
	});
	block.us = now_us() - start;
	block.client_us = processor_us() - used;

	const Json server = side_.control.read();

	block.server_us = server.at("processor_us").get<double>();
	block.server_took_us = server.at("us").get<double>();
	return block;
}

Block Match::ping(size_t bytes, uint64_t count)
{
	return run("echo", bytes, count);
}

Block Match::stream(size_t bytes, uint64_t count)
{
	return run("sink", bytes, count);
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

Usage Match::server_usage()
{
	return usage_of_server(side_.control);
}

double Match::one_way_us(size_t bytes, uint64_t count)
{
	return ping(bytes, count).us / static_cast<double>(count) / ways_of_ping(shape_);
}

uint64_t Match::pings_for(double us, size_t bytes)
{
	constexpr uint64_t least = 3, first = 2;
	const Send send = [&](uint64_t count) { return ping(bytes, count).us; };

	return std::max(least, count_for(us, first, send));
}

std::unique_ptr<Match> match_if_room(const Side &side, const Shape &shape)
try {
	return std::make_unique<Match>(side, shape);
} catch (const Failure &e) {
	side.control.recover(e);
	throw NoRoom(e.what());
}

namespace
{
/* The server's side of a match. */
class Opponent
{
public:
	Opponent(const Side &side, const Shape &shape)
	    : side_(side), room_(shape.room), transport_(make_transport(side, shape))
	{
	}
	void obey(const Json &order);

private:
	const Side &side_;
	const size_t room_;
	std::unique_ptr<Transport> transport_;
};

void Opponent::obey(const Json &order)
{
	const std::string what = order.at("do").get<std::string>();
	const size_t bytes = order.at("bytes").get<size_t>();
	const uint64_t count = order.at("count").get<uint64_t>();
	double start, used;

	if (bytes > room_)
		throw Failure("the client asks for more than it said");
	side_.control.meet();
	used = processor_us();
	start = now_us();
	if (what == "echo")
		transport_->echo(bytes, count);
	else
		transport_->sink(bytes, count);
	side_.control.write({{"us", now_us() - start}, {"processor_us", processor_us() - used}});
}
} // namespace

void serve_match(const Side &side, const Json &request)
{
	std::map<uint64_t, Opponent> opponents;
	Json order = request;

	for (;;) {
		const std::string what = order.at("do").get<std::string>();
		const uint64_t number = order.value("match", uint64_t{0});

		if (what == "match") {
			opponents.try_emplace(number, side, order.at("shape").get<Shape>());
			side.control.meet();
		} else if (what == "end") {
			opponents.erase(number);
			side.control.meet();
		} else if (what == "usage") {
			side.control.write(usage_now());
		} else if (opponents.count(number)) {
			opponents.at(number).obey(order);
		} else {
			throw Failure("the client speaks of a match that has not begun");
		}
		if (opponents.empty())
			return;
		order = side.control.read();
	}
}
