/* SPDX-License-Identifier: BSD-2-Clause */
/* The two ways that `vip_perf overhead` compares, each with both of its ends in this process. */
#ifndef VIP_PERF_OVERHEAD_PATH_H
#define VIP_PERF_OVERHEAD_PATH_H

#include <cstdint>
#include <memory>

#include "overhead_messages.h"
#include "vipl_objects.h"

/* Two connected ends, or many such links. Failures are thrown. */
class Path
{
public:
	virtual ~Path() = default;

	/* Both ends in this thread: messages there and back, one at a time, the links in turn. */
	virtual void ping_pong(uint64_t round_trips) = 0;
	/* The same, over the first link, with a thread for each end. */
	virtual void ping(uint64_t round_trips) = 0;
	virtual void echo(uint64_t round_trips) = 0;
	/* Over the first link from its end 0 to its end 1, both in this thread. */
	virtual void stream(uint64_t messages) = 0;

	/* Called by a third thread: those in ping() and echo() fail, if they do not return. */
	virtual void give_up() = 0;

	virtual Messages &messages() = 0;
};

std::unique_ptr<Path> make_vipl_path(const Nic &nic, const Traffic &traffic);
/* On the device that the NIC is. */
std::unique_ptr<Path> make_raw_path(const Nic &nic, const Traffic &traffic);

#endif
