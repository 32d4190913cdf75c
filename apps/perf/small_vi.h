/* SPDX-License-Identifier: BSD-2-Clause */
/* A VI with receives and sends of eight bytes, which are used in turn: a number each. */
#ifndef VIP_PERF_SMALL_VI_H
#define VIP_PERF_SMALL_VI_H

#include "transport.h"

class SmallVi
{
public:
	/* `depth` receives are posted, and as many sends may be under way. cq: for both, or NULL. */
	SmallVi(const Nic &nic, VIP_RELIABILITY_LEVEL level, unsigned depth, VIP_CQ_HANDLE cq);

	Vi &vi()
	{
		return vi_;
	}
	void send(uint64_t number);
	/* The oldest receive that was taken is posted again. */
	void post_receive();

	/* False: there is none yet. Fail when it is done with an error. */
	bool take_sent();
	bool take_message(uint64_t &number);

	/* Wait, at most as long as Patience has it; `waiting`: by polling, or by the calls that block. */
	void await_sent(Waiting waiting = Waiting::poll);
	uint64_t await_message(Waiting waiting = Waiting::poll);
	/* The same for a program that looks at nothing but the descriptor's status in memory. */
	void watch_sent();
	uint64_t watch_message();

private:
	/* One of the descriptors, with its buffer behind it. */
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
