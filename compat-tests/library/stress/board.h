/* SPDX-License-Identifier: BSD-2-Clause */
// The memory that the processes of a run share. It outlives each of them.
//
// A process has a rank and a life. Its replacements take over the rank. Lives are counted from 1: "rank 3, life 2" is the
// first replacement of the first process of rank 3.
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

// What a process tells the peer of a connection.
struct End {
	std::atomic<uint64_t> window; // the memory that this peer may write into
	std::atomic<VIP_MEM_HANDLE> handle;
	// How many messages to this peer are completed, and whether the RDMA write before the next one is, too.
	std::atomic<uint64_t> sent;
	std::atomic<Time> sentAt; // the time of the last completion

	void publish(uint32_t count, bool write)
	{
		sentAt = now(); // before the count itself
		sent = uint64_t{count} << 1 | write;
	}
	uint32_t count() const
	{
		return static_cast<uint32_t>(sent >> 1);
	}
	bool write() const
	{
		return sent & 1;
	}
};

// What is counted in a run: first what was received, and found right.
enum Count : unsigned { kMessages, kBytes, kWrites, kKills, kLosses, kReconnects, kVain, kCounts };

// The state of one rank.
struct Seat {
	std::atomic<uint32_t> life{0};
	std::atomic<Time> killedAt[kLives];       // by life; set just before the kill
	std::atomic<Time> goneAt[kLives];         // by life; when the coordinator saw its end
	std::atomic<uint32_t> acceptedBy[kRanks]; // this rank's life that accepts the request of a peer
	std::atomic<uint8_t> up[kRanks];          // 1: connected to this peer
	std::atomic<Phase> reached{Phase::Run};   // the last phase whose work is done
	End end[kLives][kRanks]; // by own life and peer
};

struct Board {
	std::atomic<Phase> phase{Phase::Run};
	std::atomic<bool> failed{false};
	std::atomic<uint64_t> count[kCounts];
	Seat seat[kRanks];
	bool killed(unsigned rank, uint32_t life) const
	{
		return seat[rank].killedAt[life] != 0;
	}
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share it");

// Runs the whole life of a process. Returns in the phase Close, or ends the process.
void work(const Options &options, Board &board, unsigned rank);

} // namespace stress
