// SPDX-License-Identifier: BSD-2-Clause
/* The memory of shapes, and their names for legends. */
#include "transport.h"

namespace
{
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

void expect_room(const Shape &shape)
{
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

VIP_RELIABILITY_LEVEL level_of(Level level)
{
	static const VIP_RELIABILITY_LEVEL levels[] = {VIP_SERVICE_UNRELIABLE,
						       VIP_SERVICE_RELIABLE_DELIVERY,
						       VIP_SERVICE_RELIABLE_RECEPTION};

	return levels[static_cast<int>(level)];
}
