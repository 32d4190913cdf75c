/* SPDX-License-Identifier: BSD-2-Clause */
// One side: its options, its NIC, its memory, its VI, and connecting it.
#pragma once

#include "../../address.h"
#include "events.h"

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>

namespace faults
{

// Role: how this side connects. Act: what it does when the fault comes.
enum class Role {
	Serve, // VipConnectWait and VipConnectAccept
	Call,  // VipConnectRequest
	Equal  // VipConnectPeerRequest and VipConnectPeerWait
};
enum class Act {
	Traffic, // messages both ways
	Idle,    // connected, and in no call
	Sleep,   // in VipRecvWait(VIP_INFINITE)
	Hold     // a server that has the request, and does not accept it until SIGUSR1 comes
};
// The fault that a sender makes in one message, to show that the receiver notices it.
enum class Spoil { Nothing, Byte, Missing, Twice };

struct Options {
	Role role = Role::Serve;
	Act act = Act::Traffic;
	std::string nic;             // its name
	std::string host;            // where the peer is; "" is this host
	std::string name = "faults"; // the discriminator that the server waits for
	std::string own = "caller";  // the caller's
	VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY;
	VIP_UINT16 operation = VIP_CONTROL_OP_SENDRECV;
	double seconds = 5; // after the first connection; then this side ends in good order
	// The most messages of its own on one connection; then it ends.
	uint64_t messages = UINT64_MAX;
	double rate = 1e9;              // messages a second, at most
	uint32_t largest = 20000;       // bytes of a message
	VIP_ULONG timeout = 20000;      // ms, for the calls that connect
	bool unordered = false;         // data may come twice and late, and is counted
	bool reconnect = false;         // connects anew after a break and goes on
	unsigned times = 1;             // connects so often, and ends each connection in good order
	unsigned limit = 600;           // seconds after which the process ends itself
	Spoil spoil = Spoil::Nothing;
};

// The limit, in ms, for events that have to come soon without a stated time: the machine may be slow.
constexpr double kPatience = 30000;

// Registered memory with descriptors and buffers. They have numbers: each kind's from this one on.
struct Room {
	static constexpr unsigned kWindow = 8; // messages of a round, without the note
	static constexpr unsigned kTwoRounds = 2 * kWindow;
	static constexpr unsigned kReceives = kTwoRounds + 8; // also for notes
	static constexpr unsigned kSend = kReceives, kNote = kSend + kTwoRounds, kPull = kNote + 1,
				  kInbox = kPull + kTwoRounds, kBuffers = kInbox + kTwoRounds; // the peer writes to the inbox

	// A slot has room for a message of that many bytes, the header included.
	void open(VIP_NIC_HANDLE nic, size_t bytes, bool isReadable);
	void close(VIP_NIC_HANDLE nic);
	VIP_DESCRIPTOR *descriptor(unsigned number) const;
	uint8_t *buffer(unsigned number) const;

	size_t slotBytes = 0;
	uint8_t *data = nullptr;
	VIP_MEM_HANDLE handle = 0;
};

// Makes it a descriptor with a local segment and, if there is a target, an address segment.
struct Remote {
	uint64_t address;
	VIP_MEM_HANDLE handle;
};
void describe(VIP_DESCRIPTOR *descriptor, VIP_UINT16 control, const void *data, uint32_t length, VIP_MEM_HANDLE handle,
	      const Remote *remote = nullptr);

class Side
{
      public:
	Side(const Options &options, Bell &signal);
	// Returns whether the connection was made. The calls print their results. The receives are posted before.
	bool connect();
	// The connection has broken. Waits for the handler's call. All descriptors are back then.
	void awaitLoss();
	// Afterwards the VI is idle, and its queues are empty.
	void disconnect();
	void release(); // also closes the NIC

	void postReceive(unsigned slot);
	void postSend(VIP_DESCRIPTOR *descriptor);
	// Returns the head of the queue if it is done, otherwise NULL. `promised`: the CQ has named it.
	VIP_DESCRIPTOR *take(bool isReceive, bool promised = false);
	VIP_DESCRIPTOR *awaitReceive(); // without a time limit: the receive will be flushed
	// Prints this descriptor's status at the first flush of a connection. All further descriptors of the queue
	// come back flushed, too.
	void tellFlushed(const char *queue, const VIP_DESCRIPTOR *descriptor);
	unsigned receiveSlot(const VIP_DESCRIPTOR *descriptor) const;

	const Options &options;
	Bell &signal; // rung by SIGUSR1
	Bell lost, deviceGone; // rung by the error handler
	VIP_VI_HANDLE vi = nullptr;
	VIP_CQ_HANDLE cq = nullptr; // of both queues; only for traffic
	Room room;
	unsigned number = 0;  // 0 or 1: this side's number
	uint32_t largest = 0; // bytes of a body

      private:
	struct Caller {
		Side &side;
		unsigned connection;
	};
	void setHandler();
	void told(unsigned connection, const VIP_ERROR_DESCRIPTOR &error);
	bool serve();
	bool request(); // as a client or as one of two equals
	Address address(const std::string &host, const std::string &discriminator) const;
	VIP_RETURN query(VIP_VI_STATE *state) const;
	VIP_VI_STATE state() const;
	VIP_DESCRIPTOR *taken(VIP_RETURN code, VIP_DESCRIPTOR *descriptor, bool isReceive, bool promised, const char *call);
	void collect();
	void expect(const char *event, VIP_VI_STATE expected);

	VIP_NIC_HANDLE nic_ = nullptr;
	VIP_NIC_ATTRIBUTES attributes_{};
	long files_ = 0; // files open before the NIC was opened
	unsigned receivesOut_ = 0, sendsOut_ = 0;
	bool flushedTold_ = false;
	std::atomic<bool> leaving_{false};
	std::atomic<unsigned> connections_{0}; // begun, and one before
	std::deque<Caller> callers_;
	std::mutex tellingLock_; // held while a connection begins and while the program is told of an end
};

} // namespace faults
