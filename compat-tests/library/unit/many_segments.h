/* SPDX-License-Identifier: BSD-2-Clause */
// Descriptors of many segments, on a device that takes few of them in a request.
#pragma once

#include "support.h"

#include <cstring>
#include <numeric>

constexpr size_t MOST = 252; // VIA's MaxSegmentsPerDesc

class ManySegments : public NicTest
{
      protected:
	static constexpr size_t STRIDE = 4096, DESCRIPTORS = 64, DATA = 1 << 20;

	void open_with(int max_sge, const std::function<void(fake_device &)> &change = {})
	{
		NicTest::open_with([&](fake_device &device) {
			device.max_sge = max_sge;
			if (change)
				change(device);
		});
		VIP_MEM_ATTRIBUTES rights{};
		rights.EnableRdmaWrite = VIP_TRUE;
		if (!base_)
			base_.reset(static_cast<char *>(aligned_alloc(4096, SIZE)));
		memset(base_.get(), 0, SIZE);
		ASSERT_EQ(VipRegisterMem(nic, base_.get(), SIZE, &rights, &handle_), VIP_SUCCESS);
	}
	// The lengths of `count` segments. Each differs from its neighbours.
	static std::vector<size_t> uneven(size_t count)
	{
		std::vector<size_t> lengths(count);

		for (size_t i = 0; i < count; i++)
			lengths[i] = 1 + i * 7 % 61;
		return lengths;
	}
	static size_t sum(const std::vector<size_t> &lengths)
	{
		return std::accumulate(lengths.begin(), lengths.end(), size_t{0});
	}
	// The segments lie one after the other from `offset` in the data, with gaps of `gap` bytes.
	VIP_DESCRIPTOR *many(size_t number, size_t offset, const std::vector<size_t> &lengths, unsigned control = 0,
			     size_t gap = 3)
	{
		auto *d = reinterpret_cast<VIP_DESCRIPTOR *>(base_.get() + number * STRIDE);

		memset(static_cast<void *>(d), 0, STRIDE);
		d->CS.Control = static_cast<VIP_UINT16>(control);
		for (size_t length : lengths) {
			add(d, data(offset), length);
			offset += length + gap;
		}
		return d;
	}
	// Makes an RDMA write to the offset `to` of the same data.
	VIP_DESCRIPTOR *write_many(size_t number, size_t to, size_t offset, const std::vector<size_t> &lengths,
				   unsigned control = 0)
	{
		VIP_DESCRIPTOR *d = many(number, offset, {}, control | VIP_CONTROL_OP_RDMAWRITE);

		add(d, data(to), 0);
		for (size_t length : lengths) {
			add(d, data(offset), length);
			offset += length + 3;
		}
		return d;
	}
	void add(VIP_DESCRIPTOR *d, void *at, size_t length)
	{
		VIP_DATA_SEGMENT &added = segment(d, d->CS.SegCount++);

		added.Data.Address = at;
		added.Handle = handle_;
		added.Length = static_cast<VIP_UINT32>(length);
	}
	static VIP_DATA_SEGMENT &segment(VIP_DESCRIPTOR *d, size_t number)
	{
		return (&d->DS[0] + number)->Local;
	}
	char *data(size_t offset)
	{
		return base_.get() + DESCRIPTORS * STRIDE + offset;
	}
	void paint(size_t offset, const std::vector<size_t> &lengths, size_t gap = 3)
	{
		unsigned value = 1;

		for (size_t length : lengths) {
			for (size_t i = 0; i < length; i++)
				data(offset)[i] = static_cast<char>(value++ * 37 >> 2);
			offset += length + gap;
		}
	}
	// The bytes of the segments, without the gaps. The bytes in the gaps must be zero.
	std::string bytes(size_t offset, const std::vector<size_t> &lengths, size_t gap = 3)
	{
		std::string all;

		for (size_t length : lengths) {
			all.append(data(offset), length);
			offset += length;
			EXPECT_EQ(std::string(data(offset), gap), std::string(gap, '\0'))
				<< "behind a segment, at " << all.size();
			offset += gap;
		}
		return all;
	}
	uint64_t requests()
	{
		return fake_calls("ibv_post_send");
	}

      private:
	static constexpr size_t SIZE = DESCRIPTORS * STRIDE + DATA;
	struct Free {
		void operator()(char *memory) const
		{
			free(memory);
		}
	};
	std::unique_ptr<char, Free> base_;
	VIP_MEM_HANDLE handle_ = 0;
};
