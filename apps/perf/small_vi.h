/* SPDX-License-Identifier: BSD-2-Clause */
/* A VI with short sends and receives, used in turn. Each message begins with a number. */
#ifndef VIP_PERF_SMALL_VI_H
#define VIP_PERF_SMALL_VI_H

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

class SmallVi
{
public:
	static constexpr size_t usual_room = 8;

	/*
	 * Posts `depth` receives; as many sends may be under way. `cq` is for both queues, or NULL.
	 * `room` is the length of the longest message.
	 */
	SmallVi(const Nic &nic, VIP_RELIABILITY_LEVEL level, unsigned depth, VIP_CQ_HANDLE cq,
		size_t room = usual_room);

	Vi &vi()
	{
		return vi_;
	}
	void send(uint32_t number, Form form = Form::plain, size_t bytes = usual_room);
	uint64_t sends_under_way() const
	{
		return sent_ - collected_;
	}
	/* Posts the oldest taken receive again. */
	void post_receive();

	/* Returns false if none is done. Fails when it is done with an error. */
	bool take_sent();
	bool take_message(uint32_t &number);

	/* Waits as long as Patience allows, by polling or by the calls that block. */
	void await_sent(Waiting waiting = Waiting::poll);
	uint32_t await_message(Waiting waiting = Waiting::poll);
	/* Waits as a program does that reads only the descriptor's status in memory. */
	void watch_sent();
	uint32_t watch_message();

private:
	/* A descriptor, followed by its buffer. */
	struct Slot {
		VIP_DESCRIPTOR *descriptor;
		uint32_t *number;
	};
	Slot slot(bool is_receive, uint64_t count) const;
	void fill(const Slot &slot, size_t bytes);
	uint32_t taken_number();
	void watch(const Slot &slot, const char *what);

	const unsigned depth_;
	const size_t room_, slot_bytes_;
	Memory memory_;
	Vi vi_;
	uint64_t sent_ = 0, collected_ = 0, posted_ = 0, taken_ = 0;
};

#endif
