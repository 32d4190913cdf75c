// SPDX-License-Identifier: BSD-2-Clause
// The table from memory handle to region.
#include "shim.h"

#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace
{

class Regions : public testing::Test
{
      protected:
	~Regions() override
	{
		shim_table_destroy(table);
	}
	int find(uint32_t handle)
	{
		uintptr_t tag = 0;
		int found = shim_find(table, handle, &tag);
		last = tag;
		return found;
	}
	// Inserts a random handle up to `most`, or removes it if it is in the table.
	void churn(uint32_t most)
	{
		uint32_t handle = random() % most + 1;

		if (model.count(handle)) {
			ASSERT_EQ(shim_remove(table, handle, model[handle]), 1);
			model.erase(handle);
		} else {
			model[handle] = random() | 1u;
			ASSERT_EQ(shim_insert(table, handle, model[handle]), 0);
		}
	}
	region_table *table = shim_table_create();
	uintptr_t last = 0;
	std::mt19937 random{1};
	std::map<uint32_t, uintptr_t> model; // what is in the table
};

TEST_F(Regions, LookUpsDuringUpdatesSeeOneOrTheOther)
{
	std::atomic<bool> stop{false};
	std::atomic<long> looks{0};

	ASSERT_EQ(shim_insert(table, 7, 4096), 0);
	std::thread reader([&] {
		for (; !stop; looks++) {
			uintptr_t tag = 0;

			ASSERT_EQ(shim_find(table, 7, &tag), 1) << "a mixture of two";
			ASSERT_TRUE(tag == 4096 || tag == 8000) << tag;
		}
	});
	for (int i = 0; i < 3000000 || (looks < 100000 && !HasFailure()); i++)
		ASSERT_EQ(shim_update(table, 7, 4096, i % 2 ? 4096 : 8000), 1);
	stop = true;
	reader.join();
}

// All these handles want the same slot or a neighbouring one, at the end of the table, too.
TEST_F(Regions, CollidingHandlesStayFoundWhateverIsRemoved)
{
	std::vector<uint32_t> handles;
	const unsigned slots = 64;

	for (uint32_t handle = 1; handles.size() < 24; handle++) {
		unsigned home = (handle * UINT32_C(2654435769) >> 7) & (slots - 1);
		if (home >= slots - 3)
			handles.push_back(handle);
	}
	for (unsigned first = 0; first < handles.size(); first++) {
		for (uint32_t handle : handles)
			ASSERT_EQ(shim_insert(table, handle, handle * 16), 0);
		for (unsigned i = 0; i < handles.size(); i++) {
			uint32_t gone = handles[(first + i * 7) % handles.size()];
			ASSERT_EQ(shim_remove(table, gone, gone * 16), 1);
			EXPECT_EQ(find(gone), 0);
			for (unsigned j = i + 1; j < handles.size(); j++) {
				uint32_t left = handles[(first + j * 7) % handles.size()];
				ASSERT_EQ(find(left), 1) << left << " after " << gone;
				EXPECT_EQ(last, left * 16u);
			}
		}
		EXPECT_EQ(shim_used(table), 0u);
	}
}

TEST_F(Regions, TheTableGrowsWithAllThatIsInIt)
{
	for (int i = 0; i < 60000; i++)
		churn(30000);
	for (uint32_t handle = 1; handle <= 30000; handle++) {
		ASSERT_EQ(find(handle), model.count(handle) ? 1 : 0);
		ASSERT_TRUE(!model.count(handle) || last == model[handle]);
	}
	EXPECT_EQ(shim_used(table), model.size());
}

TEST_F(Regions, LookUpsWhileOthersRegisterSeeAllOrNothing)
{
	std::atomic<bool> stop{false};
	std::atomic<long> found{0};
	std::vector<std::thread> readers;

	const uint32_t kept = 5000;

	ASSERT_EQ(shim_insert(table, kept, 770), 0); // it is there all the time
	for (int i = 0; i < 2; i++) {
		readers.emplace_back([&, i] {
			for (uint32_t n = static_cast<uint32_t>(i); !stop; n++) {
				uintptr_t tag = 0;
				int there = shim_find(table, 1 + n % 512, &tag);

				ASSERT_NE(there, -1) << "a mixture of two regions";
				found += there;
				ASSERT_EQ(shim_find(table, kept, &tag), 1);
				ASSERT_EQ(tag, 770u);
			}
		});
	}
	for (int i = 0; i < 20000 || found < 1000; i++)
		churn(i < 10000 ? 512 : 4096);
	stop = true;
	for (std::thread &reader : readers)
		reader.join();
}

} // namespace
