/* SPDX-License-Identifier: BSD-2-Clause */
// What the processes of a run share: memory that outlives each of them.
//
// A process has a rank, which its replacements take over, and a life, counted from 1: "rank 3, life
// 2" is the first replacement of the first process of rank 3.
#pragma once

#include "stress.h"

#include <atomic>

namespace stress
{

constexpr unsigned kRanks = 64;
constexpr unsigned kLives = 256;

// The coordinator leads from one to the next when all processes have done what belongs to it.
enum class Phase : int {
	Run,   // messages and kills
	Quiet, // no new messages; what was sent is completed
	Drain, // what was completed is received
	Close, // each ends by itself; the connections go
};

// What a thread is doing, and when at the latest it will have done it; 0: it is not being watched.
struct Watch {
	std::atomic<Time> until{0};
	std::atomic<const char *> what{""};
	std::atomic<unsigned> peer{0};
};

// Watched for as long as it lives; may be nested.
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

// How many of its numbered messages to a receiver a sender has seen completed, in one connection.
struct Sent {
	uint32_t receiverLife; // 0: there can be no doubt
	uint32_t count;
	bool write; // and the RDMA write that goes before message number `count` as well
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

// Over all lives of a rank.
struct Tally {
	std::atomic<uint64_t> messages{0}, bytes{0}, writes{0}; // received, and found right
	std::atomic<uint64_t> losses{0}, reconnects{0};
	std::atomic<uint64_t> noMatch{0}, rejected{0}, timedOut{0}; // what requests came to
	std::atomic<Time> slowest{0};                               // from a kill to CONN_LOST,
	std::atomic<uint32_t> slowestPeer{0}, slowestLife{0};       // of this one
};

enum Thread : unsigned { kMain, kAcceptor, kRequester, kThreads };

// One rank.
struct Seat {
	std::atomic<uint32_t> life{0};
	std::atomic<Time> killedAt[kLives]; // by life; set just before
	std::atomic<Time> goneAt[kLives];   // when the coordinator knew that it had ended
	Watch watch[kThreads];
	std::atomic<unsigned> connected{0};     // to so many peers
	std::atomic<uint8_t> up[kRanks];        // to this one
	std::atomic<Phase> reached{Phase::Run}; // all that belongs to the one before is done
	Tally tally;
	std::atomic<uint64_t> sent[kLives][kRanks]; // Sent, by own life and receiver
	std::atomic<Time> sentAt[kRanks];           // when `sent` was changed, by receiver
};

struct Board {
	std::atomic<Phase> phase{Phase::Run};
	std::atomic<bool> failed{false};
	Seat seat[kRanks];
	static Board *make(); // zeroed, and inherited by children
	bool killed(unsigned rank, uint32_t life) const
	{
		return seat[rank].killedAt[life] != 0;
	}
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share it");

} // namespace stress
