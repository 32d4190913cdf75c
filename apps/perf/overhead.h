/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two paths that `vip_perf overhead` compares, VIPL and raw verbs, with their messages and timed loops. Each
 * path has both of its ends in this process.
 */
#ifndef VIP_PERF_OVERHEAD_H
#define VIP_PERF_OVERHEAD_H

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "vipl_objects.h"

/* A description of the messages on a path. */
struct Traffic {
	uint32_t bytes = 8; /* of a message */
	bool unreliable = false;
	/* RDMA writes with immediate data, so that the target's receive completes, too. */
	bool writes = false;
	bool waits = false;
	unsigned window = 1; /* messages under way on a link, each with buffers of its own */
	unsigned links = 1;
	bool has_limit = false; /* the raw side, too, waits with a time limit, as VIPL does */
	/*
	 * For many raw links: queues as long as those of a VI, and one CQ for both queues, on which no
	 * thread waits.
	 */
	bool is_deep = false, has_one_cq = false;
};

constexpr uint32_t immediate_data = 0x56495041;

/* The buffers of a path. An end is 2 * link or 2 * link + 1. */
class Messages
{
public:
	static size_t size(const Traffic &traffic)
	{
		return size_t{4} * traffic.links * traffic.window * stride_of(traffic);
	}
	/* `memory` has size() bytes and belongs to the caller. */
	Messages(const Traffic &traffic, uint8_t *memory)
	    : traffic_(traffic), memory_(memory)
	{
	}

	uint8_t *to_send(unsigned end, unsigned slot) const
	{
		return memory_ + 2 * (size_t(end) * traffic_.window + slot) * stride_of(traffic_);
	}
	uint8_t *to_receive(unsigned end, unsigned slot) const
	{
		return to_send(end, slot) + stride_of(traffic_);
	}

	/* Writes messages that differ from all former ones, and overwrites the received ones. */
	void prepare();
	/* Fails unless all messages have come, at both ends or at the odd ends only. */
	void check(bool at_both);

private:
	/* No two messages share a cache line. */
	static size_t stride_of(const Traffic &traffic)
	{
		return (traffic.bytes + size_t{63}) / 64 * 64;
	}

	const Traffic traffic_;
	uint8_t *const memory_;
	unsigned round_ = 0;
};

/* Two connected ends, or many such links. It throws when it fails. */
class Path
{
public:
	virtual ~Path() = default;

	/* One thread has both ends, and uses the links in turn. */
	virtual void ping_pong(uint64_t round_trips) = 0;
	/* Each is the work of a thread, on the first link. */
	virtual void ping(uint64_t round_trips) = 0;
	virtual void echo(uint64_t round_trips) = 0;
	/* One thread has both ends, and sends from end 0 to end 1. */
	virtual void stream(uint64_t messages) = 0;
	/* For one of two threads: makes the other one's ping() or echo() fail. */
	virtual void give_up() = 0;

	virtual Messages &messages() = 0;
};

std::unique_ptr<Path> make_vipl_path(const Nic &nic, const Traffic &traffic);
/* The path is on the device of the NIC. */
std::unique_ptr<Path> make_raw_path(const Nic &nic, const Traffic &traffic);

/*
 * The timed loops: a template, so that the calls of each path are inlined. Each implementation `Way` derives from
 * Loops<Way, End> and has
 *
 *   End &end(unsigned number)              the links' ends: 2 * link, 2 * link + 1
 *   void post(End &, unsigned slot)        a send or an RDMA write, signalled
 *   bool take<what, sleeps>(End &)         takes a completion if there is one, or sleeps for it; of a message
 *                                          it posts the receive again
 */
enum class What { message, send };

template <class Way, class End> class Loops : public Path
{
public:
	explicit Loops(const Traffic &traffic) : traffic_(traffic)
	{
	}

	void ping_pong(uint64_t round_trips) final
	{
		unsigned link = 0;

		for (uint64_t i = 0; i < round_trips; i++) {
			End &a = way().end(2 * link), &b = way().end(2 * link + 1);

			way().post(a, 0);
			spin([&] { return way().template take<What::message, false>(b); });
			way().post(b, 0);
			spin([&] { return way().template take<What::message, false>(a); });
			spin([&] { return way().template take<What::send, false>(a); });
			spin([&] { return way().template take<What::send, false>(b); });
			if (++link == traffic_.links)
				link = 0;
		}
	}

	void ping(uint64_t round_trips) final
	{
		End &a = way().end(0);

		for (uint64_t i = 0; i < round_trips; i++) {
			way().post(a, 0);
			way().template take<What::message, true>(a);
			way().template take<What::send, true>(a);
		}
	}

	void echo(uint64_t round_trips) final
	{
		End &b = way().end(1);

		for (uint64_t i = 0; i < round_trips; i++) {
			way().template take<What::message, true>(b);
			way().post(b, 0);
			way().template take<What::send, true>(b);
		}
	}

	/* As many messages are under way as there are receives, so that each finds one. */
	void stream(uint64_t messages) final
	{
		End &from = way().end(0), &to = way().end(1);
		uint64_t posted = 0, sent = 0, arrived = 0;
		Patience patience;

		while (sent < messages || arrived < messages) {
			bool came, went;

			for (; posted < messages && posted - arrived < traffic_.window &&
			       posted - sent < traffic_.window;
			     posted++)
				way().post(from, static_cast<unsigned>(posted % traffic_.window));
			came = way().template take<What::message, false>(to);
			went = sent < posted && way().template take<What::send, false>(from);
			arrived += came;
			sent += went;
			if (came || went)
				patience = Patience();
			else
				patience.in_vain("a message");
		}
	}

protected:
	const Traffic traffic_;

private:
	Way &way()
	{
		return static_cast<Way &>(*this);
	}

	template <class Try> static void spin(Try has_come)
	{
		Patience patience;

		while (!has_come())
			patience.in_vain("a message");
	}
};

#endif
