/* SPDX-License-Identifier: BSD-2-Clause */
/* A VI with sends and receives of eight bytes, used in turn. Each message is a number. */
#ifndef VIP_PERF_SMALL_VI_H
#define VIP_PERF_SMALL_VI_H

#include "transport.h"

class SmallVi
{
public:
	/* Posts `depth` receives; as many sends may be under way. `cq` is for both queues, or NULL. */
	SmallVi(const Nic &nic, VIP_RELIABILITY_LEVEL level, unsigned depth, VIP_CQ_HANDLE cq);

	Vi &vi()
	{
		return vi_;
	}
	void send(uint64_t number);
	/* Posts the oldest taken receive again. */
	void post_receive();

	/* Returns false if none is done. Fails when it is done with an error. */
	bool take_sent();
	bool take_message(uint64_t &number);

	/* Waits as long as Patience allows, by polling or by the calls that block. */
	void await_sent(Waiting waiting = Waiting::poll);
	uint64_t await_message(Waiting waiting = Waiting::poll);
	/* Waits as a program does that reads only the descriptor's status in memory. */
	void watch_sent();
	uint64_t watch_message();

private:
	/* A descriptor, followed by its buffer. */
	struct Slot {
		VIP_DESCRIPTOR *descriptor;
		uint64_t *number;
	};
	Slot slot(bool is_receive, uint64_t count) const;
	void fill(const Slot &slot);
	void watch(const Slot &slot, const char *what);

	const unsigned depth_;
	Memory memory_;
	Vi vi_;
	uint64_t sent_ = 0, collected_ = 0, posted_ = 0, taken_ = 0;
};

#endif
