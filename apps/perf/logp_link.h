/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A VI for measurements of single calls: the time that a message costs its sender and its receiver,
 * without the waiting in between.
 */
#ifndef VIP_PERF_LOGP_LINK_H
#define VIP_PERF_LOGP_LINK_H

#include "transport.h"

/*
 * The form of a message. Plain: a data segment, whose data the library may copy when it is posted.
 * Fenced: a data segment and VIP_CONTROL_QFENCE. There are no reads to wait for, but the library
 * must not copy the data early, since a read could still change it. Immediate: four bytes in the
 * descriptor, without a segment.
 */
enum class Form { plain, fenced, immediate };
NLOHMANN_JSON_SERIALIZE_ENUM(Form, {{Form::plain, "plain"},
				    {Form::fenced, "fenced"},
				    {Form::immediate, "immediate"}})

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
	VIP_DESCRIPTOR *descriptor(bool is_receive, uint64_t number) const;
	uint8_t *buffer(bool is_receive, uint64_t number) const;
	void post_receive();
	bool take_send();

	const Memory memory_;
	Vi vi_;
	uint64_t sent_ = 0, collected_ = 0, receives_ = 0, taken_ = 0;
};

/* The server's part: answers messages as the client orders. */
void serve_logp(const Side &side);

#endif
