/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A VI whose calls are taken apart, for measurements of single calls: what a message costs its
 * sender and its receiver, and not the waiting in between.
 */
#ifndef VIP_PERF_LOGP_LINK_H
#define VIP_PERF_LOGP_LINK_H

#include "transport.h"

/*
 * How a message goes. Plain: a data segment, and the library may take the data along when it is
 * posted. Fenced: the same with VIP_CONTROL_QFENCE; there are no reads to wait for, but data that
 * reads could still bring must not be taken early. Immediate: four bytes in the descriptor, no
 * segment.
 */
enum class Form { plain, fenced, immediate };
NLOHMANN_JSON_SERIALIZE_ENUM(Form, {{Form::plain, "plain"},
				    {Form::fenced, "fenced"},
				    {Form::immediate, "immediate"}})

class LogpLink
{
public:
	static constexpr unsigned depth = 64; /* receives posted, and sends under way */
	static constexpr size_t room = 4096;

	explicit LogpLink(const Side &side);

	/* Builds a descriptor and posts it; with `depth` sends under way it takes one first. */
	void post(Form form, size_t bytes);
	/* Looks once for a message; one that is there is checked, its receive posted again. */
	bool take();
	void await();
	/* Takes the sends that are done; all: also those that are not, when they are. */
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

/* The server: answers messages by such, as the client orders. */
void serve_logp(const Side &side);

#endif
