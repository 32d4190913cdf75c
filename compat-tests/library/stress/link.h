/* SPDX-License-Identifier: BSD-2-Clause */
// One process: what its parts share, and its end of the connection to one peer.
#pragma once

#include "stress.h"

#include <deque>

namespace stress
{

// Registered memory on pages of its own.
class Region
{
      public:
	Region(VIP_NIC_HANDLE nic, size_t bytes, VIP_BOOLEAN rdmaWrite = VIP_FALSE);
	Region(const Region &) = delete;
	Region &operator=(const Region &) = delete;
	~Region(); // frees the memory; the NIC is closed by then
	void deregister();
	void registerAnew();
	uint8_t *data = nullptr;
	VIP_MEM_HANDLE handle = 0;

      private:
	VIP_NIC_HANDLE nic_;
	size_t bytes_;
	VIP_BOOLEAN rdmaWrite_;
};

// Opens the NIC.
struct Home {
	Home(const Options &someOptions, Board &someBoard, unsigned aRank, VIP_ERROR_HANDLER handler, void *context);
	bool closing() const
	{
		return board.phase == Phase::Close;
	}
	// The CQ, or NULL: some processes have all of their queues on it, some have a part of them there, some have no CQ.
	VIP_CQ_HANDLE maybeOnCq()
	{
		return allOnCq || random.once(2) ? cq : nullptr;
	}
	// Of this process's connection to a peer.
	End &end(unsigned peer)
	{
		return seat.end[life][peer];
	}

	const Options &options;
	Board &board;
	const unsigned rank;
	Seat &seat;
	const uint32_t life;
	Random random;
	const VIP_NIC_HANDLE nic;
	VIP_NIC_ATTRIBUTES attributes{};
	Region pattern; // the contents of messages are cut from it
	VIP_CQ_HANDLE cq = nullptr;
	const bool allOnCq = random.once(2);
	size_t largest = 0; // bytes of the longest message
};

// A new connection.
struct Arrival {
	unsigned peer;
	uint32_t peerLife;
	Time when;
};

// An asynchronous error.
struct Loss {
	VIP_VI_HANDLE vi;
	VIP_ERROR_CODE code;
	VIP_VI_STATE state; // of the VI, when the handler was called
	Time when;
};

enum class State { Down, Ready, Up, Broken };

// It has a VI, receives, a window that the peer may write into, and counts of messages.
class Link
{
      public:
	Link(Home &home, unsigned aPeer);
	Link(const Link &) = delete;
	Link &operator=(const Link &) = delete;

	// Down -> Ready: the VI is idle, and all receives are posted.
	void prepare();
	// Ready -> Up.
	void connected(const Arrival &arrival);
	// Up or Broken -> Broken: CONN_LOST was reported.
	void lost(const Loss &loss);
	// Broken -> Down, once all descriptors are completed. Fails if that takes too long.
	bool finish();
	// Ends a link that is Up or Broken: disconnects, takes the completions, destroys the VI.
	void close();

	// Sends one message, unless the link has to wait.
	bool step();
	// Take one completion, if there is one. They fail if the CQ has promised one in vain.
	bool takeSend(bool promised = false);
	bool takeReceive(bool promised = false);
	// Takes the next receive, or waits for it until the time is over.
	void waitReceive(unsigned ms);
	void checkSleep(Time began) const;
	// Fails when the peer has ended and CONN_LOST or a send's completion takes too long.
	void checkOverdue() const;
	// True when all messages have arrived whose completion the peer has seen.
	bool drained() const;
	void explain() const; // to standard error

	bool sending() const
	{
		return !posted_.empty();
	}
	const unsigned peer;
	State state = State::Down;
	VIP_VI_HANDLE vi = nullptr;
	const VIP_CQ_HANDLE sendCq, receiveCq; // NULL: not on the CQ

      private:
	// A posted send.
	struct Posted {
		VIP_DESCRIPTOR *descriptor;
		bool isWrite;
		bool last;       // the last send of its message
		uint8_t *buffer; // overwritten when the send is done
		uint32_t length;
	};

	// link.cpp
	VIP_DESCRIPTOR *descriptor(uint32_t number, unsigned which) const;
	VIP_DESCRIPTOR *receiveDescriptor(uint32_t number) const;
	uint8_t *receiveBuffer(uint32_t number) const;
	uint8_t *sendBuffer(uint32_t number) const;
	void cut(VIP_DESCRIPTOR *descriptor, unsigned first, uint8_t *data, size_t bytes, VIP_MEM_HANDLE handle);
	void checkState(VIP_VI_STATE expected, const char *when) const;
	void checkReceived() const;
	void broken(VIP_UINT32 status, const char *queue);
	const Seat &peerSeat() const;
	const End &peerEnd() const;
	bool peerIsKilled() const;
	bool peerIsEnding() const;
	Time lateness(Time when) const;

	// messages.cpp
	Way outward() const;
	void sendCredit();
	void sendPlanned();
	void sendMessage(const Element &element);
	void sendWrite(const Element &element);
	void post(const Posted &posted);
	void sendTaken(VIP_RETURN result, VIP_DESCRIPTOR *descriptor);
	void waitSends();
	Way inward() const;
	void postReceive();
	void receiveTaken(VIP_RETURN result, VIP_DESCRIPTOR *descriptor);
	void takeCredit(const VIP_DESCRIPTOR *descriptor);
	void takePlanned(uint32_t number, const VIP_DESCRIPTOR *descriptor);
	void checkArrived(uint32_t number, const Element &element, const VIP_DESCRIPTOR *descriptor) const;
	void checkContent(const char *where, uint32_t number, const uint8_t *data, size_t room, size_t at, uint32_t length,
			  size_t content) const;
	void checkWindow(uint32_t number, const Element &element) const;

	Home &home_;
	Region room_; // descriptors and buffers
	Region window_;

	// The next members are about the present connection.
	uint32_t peerLife_ = 0;
	Time upSince_ = 0, lostSince_ = 0;
	bool told_ = false; // CONN_LOST was reported
	bool sendsFail_ = false, receivesFail_ = false;
	std::deque<Posted> posted_;
	Time oldestPosted_ = 0;                           // when the oldest send became the oldest
	uint32_t sent_ = 0, sendsDone_ = 0;               // messages
	uint32_t granted_ = 0;                            // receives that the peer has announced, in all
	uint32_t announced_ = 0;                          // receives that the peer knows of
	uint32_t receivesPosted_ = 0, receivesTaken_ = 0; // in all
	uint32_t received_ = 0;                           // messages
};

constexpr uint8_t kUntouched = 0; // value of bytes into which nothing has been written

} // namespace stress
