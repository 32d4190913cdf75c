/* SPDX-License-Identifier: BSD-2-Clause */
// The memory that the processes of a run share. It outlives each of them.
//
// A process has a rank and a life. Its replacements take over the rank. Lives are counted from 1:
// "rank 3, life 2" is the first replacement of the first process of rank 3.
#pragma once

#include "stress.h"

#include <atomic>

namespace stress
{

constexpr unsigned kRanks = 64;
constexpr unsigned kLives = 256;

// The coordinator begins the next phase when all processes have done the work of the present one.
enum class Phase : int {
	Run,   // messages and kills
	Quiet, // no new messages; posted sends complete
	Drain, // messages whose sends are completed are received
	Close, // each process closes its connections and ends
};

// The work that a thread is doing, and when it must be done. 0: the thread is not watched.
struct Watch {
	std::atomic<Time> until{0};
	std::atomic<const char *> what{""};
	std::atomic<unsigned> peer{0};
};

// The thread is watched for as long as this object lives. Objects may be nested.
class Watched
{
      public:
	Watched(Watch &watch, const char *what, unsigned ms, unsigned peer = kRanks)
	    : watch_(watch), what_(watch.what), until_(watch.until), peer_(watch.peer)
	{
		set(what, now() + ms * kMs, peer);
	}
	~Watched()
	{
		set(what_, until_, peer_);
	}
	Watched(const Watched &) = delete;
	Watched &operator=(const Watched &) = delete;

      private:
	void set(const char *what, Time until, unsigned peer)
	{
		watch_.until = 0;
		watch_.what = what;
		watch_.peer = peer;
		watch_.until = until;
	}
	Watch &watch_;
	const char *what_;
	Time until_;
	unsigned peer_;
};

// The number of completed messages from a sender to a receiver, in one connection.
struct Sent {
	uint32_t receiverLife; // 0: the sender was the requester, whose life the receiver knows
	uint32_t count;
	bool write; // the RDMA write before message number `count` is completed, too
	uint64_t packed() const
	{
		return static_cast<uint64_t>(receiverLife) << 32 | (write ? 1U << 31 : 0U) | count;
	}
	static Sent unpacked(uint64_t bits)
	{
		return {static_cast<uint32_t>(bits >> 32),
			static_cast<uint32_t>(bits) & ~(1U << 31), (bits & 1U << 31) != 0};
	}
};

// The counts of a rank, over all its lives.
struct Tally {
	std::atomic<uint64_t> messages{0}, bytes{0}, writes{0}; // received, and found right
	std::atomic<uint64_t> losses{0}, reconnects{0};
	std::atomic<uint64_t> noMatch{0}, rejected{0}, timedOut{0}; // results of requests
	std::atomic<Time> slowest{0};                               // longest: kill to CONN_LOST
	std::atomic<uint32_t> slowestPeer{0}, slowestLife{0};       // the killed process
};

enum Thread : unsigned { kMain, kAcceptor, kRequester, kThreads };

// The state of one rank.
struct Seat {
	std::atomic<uint32_t> life{0};
	std::atomic<Time> killedAt[kLives]; // by life; set just before the kill
	std::atomic<Time> goneAt[kLives];   // by life; when the coordinator saw its end
	Watch watch[kThreads];
	std::atomic<unsigned> connected{0};     // number of connected peers
	std::atomic<uint8_t> up[kRanks];        // 1: connected to this peer
	std::atomic<Phase> reached{Phase::Run}; // the last phase whose work is done
	Tally tally;
	std::atomic<uint64_t> sent[kLives][kRanks]; // Sent, by own life and receiver
	std::atomic<Time> sentAt[kRanks];           // when `sent` was changed, by receiver
};

struct Board {
	std::atomic<Phase> phase{Phase::Run};
	std::atomic<bool> failed{false};
	Seat seat[kRanks];
	static Board *make(); // zeroed; children inherit it
	bool killed(unsigned rank, uint32_t life) const
	{
		return seat[rank].killedAt[life] != 0;
	}
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share it");

} // namespace stress
