/* SPDX-License-Identifier: BSD-2-Clause */
// Messages both ways over one connection, numbered and checked.
//
// Each side has at most Room::kWindow messages under way that the other has not told of having
// seen, so that a receive is always posted. What it has seen goes with its own messages; where it
// has none to send, and for hello and goodbye, there are notes. At the unreliable level a message
// may be lost, and a note asks the other side for one: since nothing overtakes anything, all that
// was sent before a note that has come is either here or lost.
#pragma once

#include "message.h"
#include "side.h"

#include <deque>

namespace faults
{

class Traffic
{
      public:
	// `connection` names it: another one each time.
	Traffic(Side &side, uint32_t connection, double endsAt);
	// Until both sides have ended in good order; false: the connection broke before.
	bool run();

      private:
	struct Posted {
		VIP_DESCRIPTOR *descriptor;
		enum What { Data, Note, Pull } what;
		uint64_t number;
	};
	struct Pulled { // what an RDMA read is to bring
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
	bool hasAll() const; // and the peer has all of ours

	Side &side_;
	const Room &room_;
	Way out_, in_; // in_.connection: 0 until the peer was heard
	const double began_ = now(), endsAt_;
	bool broken_ = false, sendsFail_ = false, receivesFail_ = false;

	uint64_t sent_ = 0, done_ = 0, acked_ = 0; // numbers of our last data that are so
	uint64_t skew_ = 0;                        // added to them by a spoilt one
	std::deque<Posted> posted_;
	unsigned notesOut_ = 0, nextNote_ = 0;
	bool ended_ = false, endTold_ = false, heardBack_ = false, byeSent_ = false;
	uint64_t seenTold_ = 0;
	double noteAt_ = 0, byeAt_ = 0; // when the last one was sent

	uint64_t announced_ = 0, seen_ = 0; // the peer's last: told of, checked or lost
	uint64_t received_ = 0, missing_ = 0, damaged_ = 0, late_ = 0, bytes_ = 0;
	uint64_t peerLast_ = 0; // its last one, once it has ended
	bool peerEnded_ = false, peerBye_ = false, answerDue_ = false;
	Remote peerWindow_{};
	std::deque<Pulled> pulls_;
};

} // namespace faults
