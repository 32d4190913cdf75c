/* SPDX-License-Identifier: BSD-2-Clause */
// What all parts of the stress test share: options, time, random numbers, failures; the traffic; and the board.
#pragma once

#include "../../result_names.h"

#include <vipl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace stress
{

struct Options {
	unsigned processes = 16;
	unsigned seconds = 10;
	double killsPerSecond = 2;
	unsigned bound = 1000; // ms, from the end of a killed process until CONN_LOST
	uint64_t seed = 0;
	std::string nic;
};

using Time = int64_t; // ns, the same clock in all processes
constexpr Time kMs = 1000000;
constexpr Time kSecond = 1000 * kMs;
Time now();
double inMs(Time time);

// The bound, in ms, of events whose time is specified nowhere. The machine may be slow.
constexpr unsigned kPatience = 30000;

class Random
{
      public:
	// The numbers together are the seed: equal numbers give equal sequences.
	Random(std::initializer_list<uint64_t> from)
	{
		for (uint64_t number : from)
			state_ = (state_ ^ number) * 0xD1342543DE82EF95U, state_ = next();
	}
	uint64_t next() // splitmix64
	{
		uint64_t z = state_ += 0x9E3779B97F4A7C15U;
		z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
		z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
		return z ^ (z >> 31);
	}
	uint64_t below(uint64_t limit)
	{
		return next() % limit;
	}
	bool once(unsigned in) // true once in `in` times, on average
	{
		return below(in) == 0;
	}

      private:
	uint64_t state_ = 0;
};

// Sets the name of this process in its messages. Of the processes that share `failed`, only the first one that fails
// prints the reason: its end makes others fail.
void callMe(const std::string &name, std::atomic<bool> *failed);
// Prints one line to standard error, by one write(), so that lines of several processes do not mix.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Prints the reason and ends this process. That ends the test.
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void must(VIP_RETURN result, const char *call); // fails unless VIP_SUCCESS

// ---- the traffic ----
//
// It follows from the seed. The messages of a connection are numbered, in each direction from 0. Sender and receiver both
// compute a message from sender, receiver and number. So a message need not describe itself, and messages of no bytes can be
// checked, too.
//
// Instead of any message the sender may send a credit message, which tells the number of receives that it has posted for
// the receiver up to now.

// The number of receives that are posted for each peer, at all times. Message n goes from and into buffers n mod kDepth.
// The last buffer is large, the others are small.
constexpr uint32_t kDepth = 8;
constexpr size_t kSmall = 16 << 10;
constexpr size_t kLarge = 512 << 10;
constexpr size_t kWindow = 64 << 10; // the memory that a peer may write into

inline bool isLarge(uint32_t number)
{
	return number % kDepth == kDepth - 1;
}

// Immediate data of a credit message: this bit, and the number of receives modulo 2^31.
constexpr VIP_UINT32 kCredit = 1U << 31;

// A sender and a receiver.
struct Way {
	uint64_t seed;
	unsigned from;
	uint32_t fromLife;
	unsigned to;
	uint32_t toLife;
};

struct Element {
	enum class Kind {
		Message,
		WriteAndMessage, // an RDMA write, and a message after it
		WriteImmediate,  // an RDMA write with immediate data, which is the message
	};
	Kind kind = Kind::Message;
	uint32_t length = 0; // of the message
	size_t content = 0;  // where in the pattern
	bool hasImmediate = false;
	VIP_UINT32 immediate = 0;
	uint32_t writeLength = 0;
	size_t writeTo = 0; // where in the window
	size_t writeContent = 0;
};

// Message `number` of this way, of at most `most` bytes. RDMA writes are at least kDepth messages apart. So the credit for
// the second one says that the receiver has checked the first one.
Element planned(const Way &way, uint32_t number, size_t most);

// Random bytes. The contents of all messages are cut from them.
constexpr size_t kPatternBytes = 2 * kLarge;
void fillPattern(uint64_t seed, uint8_t *pattern);

// ---- the board: the memory that the processes of a run share, which outlives each of them ----
//
// A process has a rank and a life. Its replacements take over the rank. Lives are counted from 1: "rank 3, life 2" is the
// first replacement of the first process of rank 3.

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
