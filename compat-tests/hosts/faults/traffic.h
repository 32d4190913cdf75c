/* SPDX-License-Identifier: BSD-2-Clause */
// Messages both ways over one connection, numbered and checked, in rounds.
//
// In a round each side sends some data, at most Room::kWindow, and then a note. It ends the round when its sends are
// done and the peer's note has come. Nothing overtakes anything, so the peer's data is then either here or lost; and
// a side is at most a round ahead of the other one, so a receive is always posted. At the unreliable level a note may
// be lost, and is sent again. The first round has no data: the sides learn of each other.
#pragma once

#include "side.h"

#include <deque>

namespace faults
{

// A message has a header that describes it, and a body. Every byte of the body follows from the direction, the connection and
// the message's number.
enum Flag : uint32_t {
	kData = 1,   // it has a number of its own; with RDMA reads the receiver reads the body. Without: a note
	kEnded = 2,  // the sender sends no more data
	kBye = 4,    // and knows that the receiver sends none, and has all of it
	kAnswer = 8, // the receiver is to send a note, too
};

// It is in the machine's byte order, because both sides are the same program.
struct Header {
	uint64_t sum; // checksum of the rest
	uint32_t flags;
	// The sender's number of it; a message of another connection must not come here.
	uint32_t connection;
	uint32_t yours;  // the receiver's number of it, 0 if the sender does not know it yet
	uint32_t length; // of the body
	uint64_t number; // of this data, or of the last data before this note
	uint64_t rounds; // that the sender has ended
	uint64_t window; // RDMA: the memory that the receiver may write to, or read from
	uint64_t windowHandle;
};
static_assert(sizeof(Header) == 56);

// One direction of one connection.
struct Way {
	unsigned side;
	uint32_t connection;
};

class Traffic
{
      public:
	// `connection` is the number of this connection; each connection has another one.
	Traffic(Side &side, uint32_t connection, double endsAt);
	// Runs until both sides have ended in good order. Returns false if the connection broke before.
	bool run();

      private:
	struct Posted {
		VIP_DESCRIPTOR *descriptor;
		uint64_t data;   // its number, or 0
		uint64_t pulled; // the number of the peer's data that this RDMA read brings, or 0
		uint32_t length;
	};

	void beginRound();
	bool mayBegin();
	uint64_t due() const;
	void sendData();
	void sendNote(uint32_t flags);
	void put(uint8_t *message, uint32_t flags, uint64_t number, uint32_t length) const;
	void post(const Posted &posted);
	void sendTaken(const VIP_DESCRIPTOR *descriptor);
	void step();
	void tell(const char *what) const;
	void receiveTaken(VIP_DESCRIPTOR *descriptor);
	const uint8_t *writtenTo(const VIP_DESCRIPTOR *descriptor) const;
	void takeMessage(const uint8_t *message, size_t length);
	void takeHeader(const Header &header);
	bool isNext(const Header &header);
	void pull(const Header &header);
	void checkBody(const uint8_t *body, uint64_t number, uint32_t length) const;
	void takeBody(const uint8_t *body, uint64_t number, uint32_t length);
	uint64_t stored() const;

	bool isUnreliable() const
	{
		return side_.options.level == VIP_SERVICE_UNRELIABLE;
	}
	bool isRead() const
	{
		return side_.options.operation == VIP_CONTROL_OP_RDMAREAD;
	}
	bool isRoundOver() const
	{
		return peerRounds_ >= rounds_ && posted_.empty();
	}
	// Both sides know that neither sends any more.
	bool isOver() const
	{
		return isRoundOver() && peerRounds_ == rounds_ && flags_ & peerFlags_ & kBye;
	}

	Side &side_;
	const Room &room_;
	Way out_, in_; // in_.connection is 0 until a message of the peer has come
	const double began_ = now(), endsAt_;
	bool broken_ = false, sendsFail_ = false, receivesFail_ = false;
	std::deque<Posted> posted_;

	uint64_t rounds_ = 0, peerRounds_ = 0;    // how many notes were sent, and have come, without repetitions
	uint32_t flags_ = 0, peerFlags_ = 0;      // kEnded and kBye of this round; of all of the peer's messages
	bool ended_ = false, answerDue_ = false;
	double noteAt_ = 0;                       // the time of the last note
	uint64_t sent_ = 0, done_ = 0;            // the last numbers of our data
	uint64_t announced_ = 0;                  // the last number of the peer
	uint64_t received_ = 0, missing_ = 0;     // how many of the peer's data
	Remote peerWindow_{};
};

} // namespace faults
