/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface of the two paths that `vip_perf overhead` compares, VIPL and raw verbs. Each path
 * has both of its ends in this process.
 */
#ifndef VIP_PERF_OVERHEAD_PATH_H
#define VIP_PERF_OVERHEAD_PATH_H

#include <cstdint>
#include <memory>

#include "overhead_messages.h"
#include "vipl_objects.h"

/* Two connected ends, or many such links. It throws when it fails. */
class Path
{
public:
	virtual ~Path() = default;

	/*
	 * Sends messages there and back, one at a time, on the links in turn. One thread has both
	 * ends.
	 */
	virtual void ping_pong(uint64_t round_trips) = 0;
	/* Both use the first link: one thread calls ping(), another one echo(). */
	virtual void ping(uint64_t round_trips) = 0;
	virtual void echo(uint64_t round_trips) = 0;
	/*
	 * Sends messages over the first link from its end 0 to its end 1. One thread has both ends.
	 */
	virtual void stream(uint64_t messages) = 0;

	/* For a third thread: makes ping() and echo() fail if they have not returned. */
	virtual void give_up() = 0;

	virtual Messages &messages() = 0;
};

std::unique_ptr<Path> make_vipl_path(const Nic &nic, const Traffic &traffic);
/* The path is on the device of the NIC. */
std::unique_ptr<Path> make_raw_path(const Nic &nic, const Traffic &traffic);

#endif
