/* SPDX-License-Identifier: BSD-2-Clause */
// The objects that the parts of one process share: its NIC, its registered memory, its rank and its
// life.
#pragma once

#include "board.h"
#include "plan.h"

#include <vector>

namespace stress
{

// Registered memory on pages of its own.
class Region
{
      public:
	Region(VIP_NIC_HANDLE nic, size_t bytes, VIP_BOOLEAN rdmaWrite = VIP_FALSE);
	Region(const Region &) = delete;
	Region &operator=(const Region &) = delete;
	~Region(); // frees the memory; the NIC is closed by then
	void deregister();
	void registerAnew();
	uint8_t *data() const
	{
		return data_;
	}
	VIP_MEM_HANDLE handle() const
	{
		return handle_;
	}

      private:
	VIP_NIC_HANDLE nic_;
	size_t bytes_;
	VIP_BOOLEAN rdmaWrite_;
	uint8_t *data_ = nullptr;
	VIP_MEM_HANDLE handle_ = 0;
};

// A few large buffers for all connections. A link that gets none sends from the pattern.
class LargeBuffers
{
      public:
	explicit LargeBuffers(VIP_NIC_HANDLE nic);
	uint8_t *take(); // NULL: none is free
	void give(uint8_t *buffer)
	{
		free_.push_back(buffer);
	}
	Region region;

      private:
	std::vector<uint8_t *> free_;
};

struct Home {
	Home(const Options &someOptions, Board &someBoard, unsigned aRank);
	void open(VIP_ERROR_HANDLER handler, void *context);
	bool closing() const
	{
		return board.phase == Phase::Close;
	}
	Watch &watch()
	{
		return seat.watch[kMain];
	}

	const Options &options;
	Board &board;
	const unsigned rank;
	Seat &seat;
	const uint32_t life;
	Random random;
	VIP_NIC_HANDLE nic = nullptr;
	VIP_NIC_ATTRIBUTES attributes{};
	// Some processes have all of their queues on the CQ, some have a part of them there, some
	// have no CQ.
	VIP_CQ_HANDLE cq = nullptr;
	const bool allOnCq = random.once(2);
	size_t largest = 0; // bytes of the longest message
};

// The pattern that the contents of messages are cut from, and the large buffers.
struct Stock {
	Stock(VIP_NIC_HANDLE nic, uint64_t seed);
	Region pattern;
	LargeBuffers large;
};

} // namespace stress
