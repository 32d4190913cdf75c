/* SPDX-License-Identifier: BSD-2-Clause */
// Messages both ways over one connection, numbered and checked.
//
// Each side has at most Room::kWindow messages under way that the other side has not acknowledged,
// so that a receive is always posted. An acknowledgement goes with a message, or with a note if
// there is no message. The first and the last message of each side are notes, too. At the
// unreliable level a message may be lost, and a note asks the other side for one. Nothing overtakes
// anything, so each message that was sent before a received note is either here or lost.
#pragma once

#include "message.h"
#include "side.h"

#include <deque>

namespace faults
{

class Traffic
{
      public:
	// `connection` is the number of this connection; each connection has another one.
	Traffic(Side &side, uint32_t connection, double endsAt);
	// Runs until both sides have ended in good order. Returns false if the connection broke
	// before.
	bool run();

      private:
	struct Posted {
		VIP_DESCRIPTOR *descriptor;
		enum What { Data, Note, Pull } what;
		uint64_t number;
	};
	struct Pulled { // the data that an RDMA read brings
		uint64_t number;
		uint32_t length;
	};

	// sending.cpp
	void sendWhatMay();
	bool mayEnd();
	void sendData();
	void sendNote(uint32_t flags = 0);
	bool noteIsDue();
	Header header(Kind kind, uint64_t number, uint32_t length) const;
	void post(VIP_DESCRIPTOR *descriptor, Posted::What what, uint64_t number);
	void sendTaken(const VIP_DESCRIPTOR *descriptor);
	bool spoils(Spoil how) const;

	// receiving.cpp
	void receiveTaken(VIP_DESCRIPTOR *descriptor);
	void takeMessage(const VIP_DESCRIPTOR *descriptor, const uint8_t *message);
	const uint8_t *writtenTo(const VIP_DESCRIPTOR *descriptor) const;
	void takeHeader(const Header &header);
	void takeData(const Header &header, const uint8_t *body);
	void takeNote(const Header &header);
	bool isNext(const Header &header);
	void pull(const Header &header);
	void checkBody(const uint8_t *body, uint64_t number, uint32_t length) const;
	void takeBody(const uint8_t *body, uint64_t number, uint32_t length);
	uint64_t stored() const;

	// traffic.cpp
	void step();
	bool isOver();
	void tell(const char *what);

	bool isUnreliable() const
	{
		return side_.options.level == VIP_SERVICE_UNRELIABLE;
	}
	bool isRead() const
	{
		return side_.options.operation == VIP_CONTROL_OP_RDMAREAD;
	}
	bool isWrite() const
	{
		return side_.options.operation == VIP_CONTROL_OP_RDMAWRITE;
	}
	bool hasAllOfPeer() const
	{
		return peerEnded_ && seen_ == peerLast_;
	}
	bool hasAll() const; // and the peer has all of our data

	Side &side_;
	const Room &room_;
	Way out_, in_; // in_.connection is 0 until a message of the peer has come
	const double began_ = now(), endsAt_;
	bool broken_ = false, sendsFail_ = false, receivesFail_ = false;

	// The last numbers of our data that were sent, done, acknowledged.
	uint64_t sent_ = 0, done_ = 0, acked_ = 0;
	uint64_t skew_ = 0;                        // added to them by an intended fault
	std::deque<Posted> posted_;
	unsigned notesOut_ = 0, nextNote_ = 0;
	bool ended_ = false, endTold_ = false, heardBack_ = false, byeSent_ = false;
	uint64_t seenTold_ = 0;
	double noteAt_ = 0, byeAt_ = 0; // the times of the last note and the last goodbye

	// The peer's last numbers: announced, and checked or lost.
	uint64_t announced_ = 0, seen_ = 0;
	uint64_t received_ = 0, missing_ = 0, damaged_ = 0, late_ = 0, bytes_ = 0;
	uint64_t peerLast_ = 0; // the peer's last number, once it has ended
	bool peerEnded_ = false, peerBye_ = false, answerDue_ = false;
	Remote peerWindow_{};
	std::deque<Pulled> pulls_;
};

} // namespace faults
