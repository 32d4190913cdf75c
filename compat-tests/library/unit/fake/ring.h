/* SPDX-License-Identifier: BSD-2-Clause */
// A FIFO that keeps its elements, and their memory, for later use. So the data path allocates
// nothing after a while.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace fake
{

template <typename T> class Ring
{
      public:
	size_t size() const
	{
		return count;
	}
	bool empty() const
	{
		return count == 0;
	}
	T &front()
	{
		return slots[head];
	}
	T &operator[](size_t i)
	{
		return slots[(head + i) & (slots.size() - 1)];
	}

	// The new last element still holds what the slot held before.
	T &push()
	{
		if (count == slots.size())
			grow();
		return (*this)[count++];
	}

	void pop()
	{
		head = (head + 1) & (slots.size() - 1);
		--count;
	}

	void clear()
	{
		count = 0;
	}

	template <typename Pred> void remove_if(Pred pred)
	{
		size_t kept = 0;
		for (size_t i = 0; i < count; ++i)
			if (!pred((*this)[i]) && kept++ != i)
				std::swap((*this)[kept - 1], (*this)[i]);
		count = kept;
	}

      private:
	void grow() // to the next power of two
	{
		std::vector<T> bigger(slots.empty() ? 8 : slots.size() * 2);
		for (size_t i = 0; i < count; ++i)
			bigger[i] = std::move((*this)[i]);
		slots = std::move(bigger);
		head = 0;
	}

	std::vector<T> slots;
	size_t head = 0, count = 0;
};

} // namespace fake
