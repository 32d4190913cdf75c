// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf scale --question memory - measures VipRegisterMem and VipDeregisterMem by size. The
 * memory is the same each time and was written before. The server has no part in it.
 */
#include <cstdlib>
#include <cstring>

#include "scale.h"
#include "arithmetic.h"
#include "stop.h"

namespace
{
constexpr size_t smallest = 4096, largest = size_t{64} << 20;
constexpr double enough_us = 100000;
constexpr size_t fewest = 5, most = 1000;

struct Times {
	Samples to_register, to_deregister;
};

Times times_of(const Nic &nic, void *memory, size_t bytes)
{
	VIP_MEM_ATTRIBUTES attributes = {nic.ptag(), VIP_FALSE, VIP_FALSE};
	const double begin = now_us();
	Times times;

	while (times.to_register.size() < fewest ||
	       (times.to_register.size() < most && now_us() - begin < enough_us)) {
		VIP_MEM_HANDLE handle;
		const double start = now_us();

		check(VipRegisterMem(nic.handle(), memory, bytes, &attributes, &handle),
		      "register memory");
		const double middle = now_us();
		check(VipDeregisterMem(nic.handle(), memory, handle), "deregister memory");
		times.to_register.push_back(middle - start);
		times.to_deregister.push_back(now_us() - middle);
	}
	return times;
}
} // namespace

Report scale_memory(const Side &side, const ScaleOptions &)
{
	const std::string series = "memory";
	Report report("scale-memory", {{"bytes", "memory", "B"},
				       {"register_us", "register", "us"},
				       {"register_us_stderr", "std. error", "us"},
				       {"deregister_us", "deregister", "us"},
				       {"deregister_us_stderr", "std. error", "us"}});
	const std::unique_ptr<void, decltype(&std::free)> memory(
		std::aligned_alloc(smallest, largest), &std::free);

	if (!memory)
		throw Failure("no memory for 64 MiB");
	std::memset(memory.get(), 1, largest);
	for (size_t bytes = smallest; bytes <= largest && !is_stopped(); bytes *= 4)
		try {
			progress("registering " + std::to_string(bytes) + " bytes");
			const Times times = times_of(side.nic, memory.get(), bytes);
			report.add(series,
				   {{"bytes", bytes},
				    {"register_us", median(times.to_register)},
				    {"register_us_stderr", standard_error(times.to_register)},
				    {"deregister_us", median(times.to_deregister)},
				    {"deregister_us_stderr", standard_error(times.to_deregister)}});
		} catch (const Failure &e) {
			if (bytes == smallest)
				throw;
			report.remark("no room for " + std::to_string(bytes) +
				      " bytes: " + e.what());
			break;
		}
	return report;
}
