/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timed loops, for libvipl and for raw verbs: a template, so that the calls of each are
 * inlined. Each implementation `W` derives from Loops<W, End> and has
 *
 *   End &end(unsigned number)              the links' ends: 2 * link, 2 * link + 1
 *   void post(End &, unsigned slot)        a send or an RDMA write, signalled
 *   bool try_message(End &)                takes a message if there is one, posts its receive again
 *   bool try_sent(End &)                   takes a send's completion if there is one
 *   void wait_message(End &), wait_sent(End &)     sleep for it
 */
#ifndef VIP_PERF_OVERHEAD_LOOPS_H
#define VIP_PERF_OVERHEAD_LOOPS_H

#include "overhead_path.h"
#include "patience.h"

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
			spin([&] { return way().try_message(b); });
			way().post(b, 0);
			spin([&] { return way().try_message(a); });
			spin([&] { return way().try_sent(a); });
			spin([&] { return way().try_sent(b); });
			if (++link == traffic_.links)
				link = 0;
		}
	}

	void ping(uint64_t round_trips) final
	{
		End &a = way().end(0);

		for (uint64_t i = 0; i < round_trips; i++) {
			way().post(a, 0);
			way().wait_message(a);
			way().wait_sent(a);
		}
	}

	void echo(uint64_t round_trips) final
	{
		End &b = way().end(1);

		for (uint64_t i = 0; i < round_trips; i++) {
			way().wait_message(b);
			way().post(b, 0);
			way().wait_sent(b);
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
			came = way().try_message(to);
			went = sent < posted && way().try_sent(from);
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
