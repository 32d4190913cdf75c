// SPDX-License-Identifier: BSD-2-Clause
// Opens the NIC, and registers memory.
#include "home.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace stress
{

constexpr size_t kLargeBuffers = 2;

Region::Region(VIP_NIC_HANDLE nic, size_t bytes, VIP_BOOLEAN rdmaWrite)
    : nic_(nic), bytes_(bytes), rdmaWrite_(rdmaWrite)
{
	void *memory =
		mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		fail("no memory for %zu bytes: %s", bytes, strerror(errno));
	data_ = static_cast<uint8_t *>(memory);
	registerAnew();
}

void Region::registerAnew()
{
	VIP_MEM_ATTRIBUTES attributes{nullptr, rdmaWrite_, VIP_FALSE};
	must(VipRegisterMem(nic_, data_, bytes_, &attributes, &handle_), "VipRegisterMem");
	if (handle_ == 0 || handle_ == 0xFFFFFFFF)
		fail("VipRegisterMem gave the handle 0x%x", handle_);
}

void Region::deregister()
{
	must(VipDeregisterMem(nic_, data_, handle_), "VipDeregisterMem");
}

Region::~Region()
{
	munmap(data_, bytes_);
}

LargeBuffers::LargeBuffers(VIP_NIC_HANDLE nic) : region(nic, kLargeBuffers * kLarge)
{
	for (size_t i = 0; i < kLargeBuffers; i++)
		give(region.data() + i * kLarge);
}

uint8_t *LargeBuffers::take()
{
	if (free_.empty())
		return nullptr;
	uint8_t *buffer = free_.back();
	free_.pop_back();
	return buffer;
}

Stock::Stock(VIP_NIC_HANDLE nic, uint64_t seed) : pattern(nic, kPatternBytes), large(nic)
{
	fillPattern(seed, pattern.data());
}

Home::Home(const Options &someOptions, Board &someBoard, unsigned aRank)
    : options(someOptions), board(someBoard), rank(aRank), seat(board.seat[rank]),
      life(seat.life), random{options.seed, rank, life}
{
}

void Home::open(VIP_ERROR_HANDLER handler, void *context)
{
	must(VipOpenNic(options.nic.c_str(), &nic), "VipOpenNic");
	must(VipErrorCallback(nic, context, handler), "VipErrorCallback");
	must(VipQueryNic(nic, &attributes), "VipQueryNic");
	if (!(attributes.ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_DELIVERY))
		fail("the NIC %s has no Reliable Delivery", attributes.Name);
	if (attributes.MaxVI < options.processes - 1)
		fail("the NIC %s has only %lu VIs", attributes.Name, attributes.MaxVI);
	largest = std::min<size_t>(kLarge, attributes.MaxTransferSize);
}

} // namespace stress
