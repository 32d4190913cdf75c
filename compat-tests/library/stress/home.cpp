// SPDX-License-Identifier: BSD-2-Clause
// Opens the NIC, and registers memory.
#include "home.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace stress
{

Region::Region(VIP_NIC_HANDLE nic, size_t bytes, VIP_BOOLEAN rdmaWrite) : nic_(nic), bytes_(bytes), rdmaWrite_(rdmaWrite)
{
	void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		fail("no memory for %zu bytes: %s", bytes, strerror(errno));
	data = static_cast<uint8_t *>(memory);
	registerAnew();
}

void Region::registerAnew()
{
	VIP_MEM_ATTRIBUTES attributes{nullptr, rdmaWrite_, VIP_FALSE};
	must(VipRegisterMem(nic_, data, bytes_, &attributes, &handle), "VipRegisterMem");
	if (handle == 0 || handle == 0xFFFFFFFF)
		fail("VipRegisterMem gave the handle 0x%x", handle);
}

void Region::deregister()
{
	must(VipDeregisterMem(nic_, data, handle), "VipDeregisterMem");
}

Region::~Region()
{
	munmap(data, bytes_);
}

static VIP_NIC_HANDLE opened(const Options &options)
{
	VIP_NIC_HANDLE nic;
	must(VipOpenNic(options.nic.c_str(), &nic), "VipOpenNic");
	return nic;
}

Home::Home(const Options &someOptions, Board &someBoard, unsigned aRank, VIP_ERROR_HANDLER handler, void *context)
    : options(someOptions), board(someBoard), rank(aRank), seat(board.seat[rank]), life(seat.life),
      random{options.seed, rank, life}, nic(opened(options)), pattern(nic, kPatternBytes)
{
	unsigned peers = options.processes - 1;
	must(VipErrorCallback(nic, context, handler), "VipErrorCallback");
	must(VipQueryNic(nic, &attributes), "VipQueryNic");
	if (!(attributes.ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_DELIVERY))
		fail("the NIC %s has no Reliable Delivery", attributes.Name);
	if (attributes.MaxVI < peers)
		fail("the NIC %s has only %lu VIs", attributes.Name, attributes.MaxVI);
	largest = std::min<size_t>(kLarge, attributes.MaxTransferSize);
	fillPattern(options.seed, pattern.data);
	if (!random.once(4)) // a quarter of all processes has no CQ
		must(VipCreateCQ(nic, VIP_ULONG{4} * kDepth * peers, &cq), "VipCreateCQ");
}

} // namespace stress
