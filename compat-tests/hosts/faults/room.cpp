// SPDX-License-Identifier: BSD-2-Clause
// Registered memory: the descriptors, and then the buffers.
#include "message.h"
#include "side.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace faults
{

constexpr size_t kDescriptorBytes = 128;
constexpr size_t kBuffersAt = 8192;
// A peer of 32 bits sets the lower half of an address.
#ifdef MAP_32BIT
constexpr int kReachable = MAP_32BIT;
#else
constexpr int kReachable = 0;
#endif
static_assert(Room::kInbox * kDescriptorBytes <= kBuffersAt);

void Room::open(VIP_NIC_HANDLE nic, size_t bytes, bool isReadable)
{
	slotBytes = (bytes + 63) / 64 * 64;
	size_t all = kBuffersAt + kBuffers * slotBytes;
	void *memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | kReachable, -1, 0);
	if (memory == MAP_FAILED)
		wrong("no memory for %zu bytes: %s", all, strerror(errno));
	data = static_cast<uint8_t *>(memory);
	VIP_MEM_ATTRIBUTES attributes{nullptr, VIP_TRUE, isReadable};
	must(VipRegisterMem(nic, data, all, &attributes, &handle), "VipRegisterMem");
}

void Room::close(VIP_NIC_HANDLE nic)
{
	must(VipDeregisterMem(nic, data, handle), "VipDeregisterMem");
	munmap(data, kBuffersAt + kBuffers * slotBytes);
}

VIP_DESCRIPTOR *Room::descriptor(unsigned number) const
{
	return reinterpret_cast<VIP_DESCRIPTOR *>(data + number * kDescriptorBytes);
}

uint8_t *Room::buffer(unsigned number) const
{
	return data + kBuffersAt + number * slotBytes;
}

void describe(VIP_DESCRIPTOR *descriptor, VIP_UINT16 control, const void *data, uint32_t length, VIP_MEM_HANDLE handle,
	      const Remote *remote)
{
	unsigned local = remote ? 1 : 0;
	memset(descriptor, 0, sizeof *descriptor);
	descriptor->CS.Control = control;
	descriptor->CS.SegCount = static_cast<VIP_UINT16>(local + 1);
	if (remote) {
		descriptor->DS[0].Remote.Data.AddressBits = remote->address;
		descriptor->DS[0].Remote.Handle = remote->handle;
	}
	descriptor->DS[local].Local.Data.AddressBits = reinterpret_cast<uintptr_t>(data);
	descriptor->DS[local].Local.Handle = handle;
	descriptor->DS[local].Local.Length = length;
}

} // namespace faults
