/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A VI for measurements of single calls: the time that a message costs its sender and its receiver,
 * without the waiting in between.
 */
#ifndef VIP_PERF_LOGP_LINK_H
#define VIP_PERF_LOGP_LINK_H

#include "small_vi.h"

class LogpLink
{
public:
	/* Receives that are posted, and most sends under way. */
	static constexpr unsigned depth = 64;
	static constexpr size_t room = 4096;

	explicit LogpLink(const Side &side);

	/*
	 * Builds a descriptor and posts it. With `depth` sends under way it takes one of them
	 * first.
	 */
	void post(Form form, size_t bytes);
	/*
	 * Looks once for a message. If there is one it checks the message and posts its receive
	 * again.
	 */
	bool take();
	void await();
	/* Takes the sends that are done; `all`: waits for the others, too. */
	void collect();
	void collect_all();

private:
	SmallVi vi_;
	uint32_t sent_ = 0, taken_ = 0;
};

/* The server's part: answers messages as the client orders. */
void serve_logp(const Side &side);

#endif
