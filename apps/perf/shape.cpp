// SPDX-License-Identifier: BSD-2-Clause
/* Converts shapes to and from JSON, and to names for legends. */
#include "transport.h"

namespace
{
constexpr size_t most_room = size_t{1} << 30;
constexpr unsigned most_depth = 512, most_segments = 250, most_vis = 65536;
constexpr uint64_t most_memory = uint64_t{1} << 32;

size_t aligned(size_t bytes)
{
	constexpr size_t to = VIP_DESCRIPTOR_ALIGNMENT;

	return (bytes + to - 1) / to * to;
}
} // namespace

size_t descriptor_bytes(const Shape &shape)
{
	return aligned(sizeof(VIP_CONTROL_SEGMENT) +
		       (size_t{shape.segments} + 1) * sizeof(VIP_DESCRIPTOR_SEGMENT));
}

size_t buffer_bytes(const Shape &shape)
{
	return aligned(shape.room);
}

uint64_t memory_of(const Shape &shape)
{
	return 2 * uint64_t{shape.vis} *
	       (uint64_t{shape.depth} * descriptor_bytes(shape) +
		uint64_t{shape.buffers} * buffer_bytes(shape));
}

void to_json(Json &json, const Shape &shape)
{
	json = {{"kind", shape.kind},
		{"transfer", shape.transfer},
		{"level", shape.level},
		{"waiting", shape.waiting},
		{"cqs", shape.cqs},
		{"room", shape.room},
		{"depth", shape.depth},
		{"buffers", shape.buffers},
		{"segments", shape.segments},
		{"vis", shape.vis},
		{"spin_us", shape.spin_us}};
}

void from_json(const Json &json, Shape &shape)
{
	json.at("kind").get_to(shape.kind);
	json.at("transfer").get_to(shape.transfer);
	json.at("level").get_to(shape.level);
	json.at("waiting").get_to(shape.waiting);
	json.at("cqs").get_to(shape.cqs);
	json.at("room").get_to(shape.room);
	json.at("depth").get_to(shape.depth);
	json.at("buffers").get_to(shape.buffers);
	json.at("segments").get_to(shape.segments);
	json.at("vis").get_to(shape.vis);
	json.at("spin_us").get_to(shape.spin_us);
	/* The parser reads unknown words and numbers that do not fit as other values. */
	if (Json(shape) != json)
		throw Failure("a shape that cannot be: " + text_of(json));
	expect_possible(shape);
}

void expect_possible(const Shape &shape)
{
	if (shape.room < sizeof(uint64_t) || shape.room > most_room || shape.depth < 2 ||
	    shape.depth > most_depth || shape.buffers < 1 || shape.buffers > shape.depth ||
	    shape.segments < 1 || shape.segments > most_segments || shape.vis < 1 ||
	    shape.vis > most_vis || shape.spin_us > most_spin_us)
		throw Failure("a shape that cannot be: " + text_of(shape));
	if (memory_of(shape) > most_memory)
		throw Failure("buffers for messages of " + std::to_string(shape.room) + " bytes, " +
			      std::to_string(shape.depth) + " under way, would be more than 4 GiB "
			      "on each side");
}

double ways_of_ping(const Shape &shape)
{
	return shape.transfer == Transfer::read ? 1 : 2;
}

std::string name_of(const Shape &shape)
{
	static const char *const transfers[] = {"send", "RDMA write", "RDMA read"};
	static const char *const levels[] = {", Unreliable", "", ", Reliable Reception"};
	static const char *const waits[] = {"polling", "blocking", "spinning, then blocking"};
	static const char *const kinds[] = {"VIPL ", "TCP", "Unix socket", "Bare copy"};
	std::string name = kinds[static_cast<int>(shape.kind)];

	if (shape.kind == Kind::vipl)
		name += transfers[static_cast<int>(shape.transfer)];
	name += std::string(", ") + waits[static_cast<int>(shape.waiting)];
	if (shape.kind == Kind::vipl)
		name += levels[static_cast<int>(shape.level)];
	return name;
}

VIP_RELIABILITY_LEVEL level_of(const Shape &shape)
{
	static const VIP_RELIABILITY_LEVEL levels[] = {VIP_SERVICE_UNRELIABLE,
						       VIP_SERVICE_RELIABLE_DELIVERY,
						       VIP_SERVICE_RELIABLE_RECEPTION};

	return levels[static_cast<int>(shape.level)];
}
