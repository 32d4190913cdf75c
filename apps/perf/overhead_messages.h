/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory for the messages of a path, and the check of what arrives. */
#ifndef VIP_PERF_OVERHEAD_MESSAGES_H
#define VIP_PERF_OVERHEAD_MESSAGES_H

#include <cstddef>
#include <cstdint>
#include <vector>

/* A description of the messages on a path. */
struct Traffic {
	uint32_t bytes = 8; /* of a message */
	bool unreliable = false;
	/* RDMA writes with immediate data, so that the target's receive completes, too. */
	bool writes = false;
	bool waits = false;
	unsigned window = 1; /* messages under way on a link, each with buffers of its own */
	unsigned links = 1;
	bool has_limit = false; /* the raw side, too, waits with a time limit, as VIPL does */
	/*
	 * For many raw links: queues as long as those of a VI, and one CQ for both queues, on which no
	 * thread waits.
	 */
	bool is_deep = false, has_one_cq = false;
};

constexpr uint32_t immediate_data = 0x56495041;

/* The length and the immediate data of a completion. */
struct Received {
	uint32_t length, immediate;
};

class Messages
{
public:
	static size_t size(const Traffic &traffic);
	/* `memory` has size() bytes and belongs to the caller. */
	Messages(const Traffic &traffic, uint8_t *memory);

	/* `end` is 2 * link or 2 * link + 1. */
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

	/* Writes messages that differ from all former ones, and overwrites the received ones. */
	void prepare();
	/* Fails unless all messages have come, at both ends or at the odd ends only. */
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
