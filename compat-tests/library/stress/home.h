/* SPDX-License-Identifier: BSD-2-Clause */
// The objects that the parts of one process share: its NIC, its registered memory, its rank and its life.
#pragma once

#include "board.h"
#include "plan.h"

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
	uint8_t *data = nullptr;
	VIP_MEM_HANDLE handle = 0;

      private:
	VIP_NIC_HANDLE nic_;
	size_t bytes_;
	VIP_BOOLEAN rdmaWrite_;
};

// Opens the NIC.
struct Home {
	Home(const Options &someOptions, Board &someBoard, unsigned aRank, VIP_ERROR_HANDLER handler, void *context);
	bool closing() const
	{
		return board.phase == Phase::Close;
	}
	// The CQ, or NULL: some processes have all of their queues on it, some have a part of them there, some have no CQ.
	VIP_CQ_HANDLE maybeOnCq()
	{
		return allOnCq || random.once(2) ? cq : nullptr;
	}
	// Of this process's connection to a peer.
	End &end(unsigned peer)
	{
		return seat.end[life][peer];
	}

	const Options &options;
	Board &board;
	const unsigned rank;
	Seat &seat;
	const uint32_t life;
	Random random;
	const VIP_NIC_HANDLE nic;
	VIP_NIC_ATTRIBUTES attributes{};
	Region pattern; // the contents of messages are cut from it
	VIP_CQ_HANDLE cq = nullptr;
	const bool allOnCq = random.once(2);
	size_t largest = 0; // bytes of the longest message
};

} // namespace stress
