/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory that a path's messages go from and to, and whether they came as they were sent. */
#ifndef VIP_PERF_OVERHEAD_MESSAGES_H
#define VIP_PERF_OVERHEAD_MESSAGES_H

#include <cstddef>
#include <cstdint>
#include <vector>

/* What goes over a path. */
struct Traffic {
	uint32_t bytes = 8; /* of a message */
	bool unreliable = false;
	bool writes = false; /* RDMA, with immediate data: the target's receive completes, too */
	bool waits = false;
	unsigned window = 1; /* messages under way on a link, each with buffers of its own */
	unsigned links = 1;
	bool has_limit = false; /* the raw side, too, waits no longer than some time, as VIPL does */
	/* Of many raw links: queues as long as those of a VI; and a CQ for both, by which none waits. */
	bool is_deep = false, has_one_cq = false;
};

constexpr uint32_t immediate_data = 0x56495041;

/* What a completion told. */
struct Received {
	uint32_t length, immediate;
};

class Messages
{
public:
	static size_t size(const Traffic &traffic);
	/* `memory`: of that size, the caller's. */
	Messages(const Traffic &traffic, uint8_t *memory);

	/* Of the ends 2 * link and 2 * link + 1. */
	uint8_t *to_send(unsigned end, unsigned slot) const;
	uint8_t *to_receive(unsigned end, unsigned slot) const;
	Received *received(unsigned end)
	{
		return &received_[end * traffic_.window];
	}
	uint8_t *peers_receive(unsigned end, unsigned slot) const
	{
		return to_receive(end ^ 1, slot);
	}

	/* Writes messages that there have not been before, and wipes what came of the former. */
	void prepare();
	/* Fails unless all have come, at both ends or at the odd ones only. */
	void check(bool at_both) const;

private:
	uint8_t expected(unsigned end, unsigned slot, size_t at) const;
	void check_one(unsigned end, unsigned slot) const;

	const Traffic traffic_;
	uint8_t *const memory_;
	const size_t stride_;
	std::vector<Received> received_;
	unsigned round_ = 0;
};

#endif
