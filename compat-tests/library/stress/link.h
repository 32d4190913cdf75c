/* SPDX-License-Identifier: BSD-2-Clause */
// One process's end of the connection to one peer: its VI, its receives, the window that the peer
// may write into, and what is known about what has been sent and received.
#pragma once

#include "home.h"

#include <deque>

namespace stress
{

// A connection that has come about.
struct Arrival {
	unsigned peer;
	uint32_t peerLife, peerLifeAtMost; // the same, where that is known
	Time when;
};

// An asynchronous error.
struct Loss {
	VIP_VI_HANDLE vi;
	VIP_ERROR_CODE code;
	VIP_VI_STATE state; // of the VI when it was told
	Time when;
};

class Link
{
      public:
	Link(Home &home, Stock &stock, unsigned peer);
	Link(const Link &) = delete;
	Link &operator=(const Link &) = delete;

	// Down -> Ready: an idle VI with all receives posted, to be connected.
	void prepare();
	// Ready -> Up
	void connected(const Arrival &arrival);
	// Up or Broken -> Broken, and told so.
	void lost(const Loss &loss);
	// Broken -> Down, if everything has come back by now. Fails if the library is too slow.
	bool finish();
	// The end, from Up or Broken: disconnects, takes what is left, destroys.
	void close();

	// Sends one message if it may.
	bool step();
	// Takes one completion, if there is one; fails if the CQ has promised it.
	bool takeSend(bool promised = false);
	bool takeReceive(bool promised = false);
	// The CQ has told of a receive, and the connection is not known to be up yet.
	void takeReceiveLater()
	{
		early_++;
	}
	// Takes the next receive, or lets that much time pass.
	void waitReceive(unsigned ms);
	void checkSleep(Time began) const;
	// Until all sends are completed.
	void waitSends();
	// Fails when the peer has been dead for too long and CONN_LOST has not been told.
	void checkOverdue() const;
	// Whether all that the peer has seen completed is here.
	bool drained() const;
	void explain() const; // to standard error

	unsigned peer() const
	{
		return peer_;
	}
	VIP_VI_HANDLE vi() const
	{
		return vi_;
	}
	bool isReady() const
	{
		return state_ == State::Ready;
	}
	bool isUp() const
	{
		return state_ == State::Up;
	}
	bool isBroken() const
	{
		return state_ == State::Broken;
	}
	bool sendsOnCq() const
	{
		return sendCq_ != nullptr;
	}
	bool receivesOnCq() const
	{
		return receiveCq_ != nullptr;
	}
	bool sending() const
	{
		return !posted_.empty();
	}

      private:
	enum class State { Down, Ready, Up, Broken };
	// A posted send.
	struct Posted {
		VIP_DESCRIPTOR *descriptor;
		VIP_UINT32 operation; // as in Status
		bool last;            // of its message
		uint8_t *buffer;      // to be overwritten when it is done
		uint32_t length;
		bool large; // from the stock
	};

	// link.cpp
	void createVi();
	void checkState(VIP_VI_STATE expected, const char *when) const;
	void checkReceived() const;
	void broken(VIP_UINT32 status, const char *queue);
	uint32_t deadLife() const; // of the peer; 0: it lives
	bool peerIsEnding() const;
	Time blameSince() const;
	Time lateness(Time when) const;

	// sending.cpp
	void sendNext();
	Way outward() const;
	VIP_DESCRIPTOR *sendDescriptor(uint32_t number, unsigned which) const;
	uint8_t *sendBuffer(uint32_t number) const;
	void sendHello();
	void sendCredit();
	void sendPlanned();
	void sendMessage(const Element &element);
	void sendWrite(const Element &element);
	void post(const Posted &posted);
	void sendTaken(VIP_RETURN result, VIP_DESCRIPTOR *descriptor);
	void publish(bool write);

	// receiving.cpp
	Way inward() const;
	VIP_DESCRIPTOR *receiveDescriptor(uint32_t number) const;
	uint8_t *receiveBuffer(uint32_t number) const;
	void postReceive();
	void receiveTaken(VIP_RETURN result, VIP_DESCRIPTOR *descriptor);
	void takeHello(const VIP_DESCRIPTOR *descriptor);
	void takeCredit(const VIP_DESCRIPTOR *descriptor);
	void takePlanned(const VIP_DESCRIPTOR *descriptor);
	void checkArrived(uint32_t number, const Element &element,
			  const VIP_DESCRIPTOR *descriptor);
	void checkContent(const char *where, uint32_t number, const uint8_t *data, size_t room,
			  size_t at, size_t length, size_t content) const;
	void checkWindow(uint32_t number, const Element &element);
	void checkLastWrite() const;

	Home &home_;
	Stock &stock_;
	const unsigned peer_;
	Region room_; // descriptors and buffers
	Region window_;
	VIP_VI_HANDLE vi_ = nullptr;
	VIP_CQ_HANDLE sendCq_ = nullptr, receiveCq_ = nullptr;
	State state_ = State::Down;
	uint32_t lostLife_ = 0; // of the peer, the last one that was met

	// Of the present connection:
	uint32_t peerLife_ = 0, peerLifeAtMost_ = 0; // between them
	Time upSince_ = 0, lostSince_ = 0;
	bool told_ = false;  // CONN_LOST
	bool heard_ = false; // the peer's hello
	bool sendsFail_ = false, receivesFail_ = false;
	uint64_t peerWindow_ = 0;
	VIP_MEM_HANDLE peerWindowHandle_ = 0;
	std::deque<Posted> posted_;
	Time oldestPosted_ = 0;             // when what is the oldest now became that
	uint32_t sent_ = 0, sendsDone_ = 0; // messages
	uint32_t granted_ = 0;              // receives of the peer, in all
	uint32_t receivesPosted_ = 0;       // in all
	uint32_t receivesTaken_ = 0, early_ = 0;
	uint32_t received_ = 0;  // messages
	uint32_t announced_ = 0; // receives that the peer knows of
};

// Makes the descriptor's data segments, from number `first`, those bytes cut into random pieces.
void cut(VIP_DESCRIPTOR *descriptor, unsigned first, unsigned most, uint8_t *data, size_t bytes,
	 VIP_MEM_HANDLE handle, Random &random);

constexpr uint8_t kUntouched = 0; // in buffers where nothing has arrived, also fresh ones

} // namespace stress
