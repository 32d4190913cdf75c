/* SPDX-License-Identifier: BSD-2-Clause */
// One side: its NIC, its memory, its VI, and how it is connected.
#pragma once

#include "events.h"
#include "options.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace faults
{

// Bound, in ms, of what has to happen soon and of which nobody says how fast: the machine may be
// slow.
constexpr double kPatience = 30000;

// Registered memory, and what lies in it.
class Room
{
      public:
	static constexpr unsigned kWindow = 16;              // messages under way, each way
	static constexpr unsigned kReceives = kWindow + 8;   // and notes beside them
	static constexpr unsigned kNotes = 8;                // of our own under way
	static constexpr unsigned kSlots = kWindow + kNotes; // sends and notes

	// A slot has room for a message of that many bytes, the header included.
	Room(VIP_NIC_HANDLE nic, size_t slotBytes, bool isReadable);
	~Room(); // the NIC is closed by then
	Room(const Room &) = delete;
	Room &operator=(const Room &) = delete;
	void deregister();

	VIP_DESCRIPTOR *receive(unsigned slot) const;
	VIP_DESCRIPTOR *send(unsigned slot) const;
	VIP_DESCRIPTOR *pull(unsigned slot) const; // an RDMA read
	uint8_t *receiveBuffer(unsigned slot) const;
	uint8_t *sendBuffer(unsigned slot) const;
	uint8_t *pullBuffer(unsigned slot) const;
	uint8_t *inbox(unsigned slot) const; // what the peer writes to
	size_t slotBytes() const
	{
		return slotBytes_;
	}
	VIP_MEM_HANDLE handle() const
	{
		return handle_;
	}

      private:
	VIP_DESCRIPTOR *descriptor(unsigned number) const;
	uint8_t *buffer(unsigned number) const;
	VIP_NIC_HANDLE nic_;
	size_t slotBytes_, bytes_;
	uint8_t *data_;
	VIP_MEM_HANDLE handle_ = 0;
};

// Makes it a descriptor of one local segment and, if there is a target, an address segment.
struct Remote {
	uint64_t address;
	VIP_MEM_HANDLE handle;
};
void describe(VIP_DESCRIPTOR *descriptor, VIP_UINT16 control, const void *data, uint32_t length,
	      VIP_MEM_HANDLE handle, const Remote *remote = nullptr);

class Side
{
      public:
	Side(const Options &options, Bell &signal);
	Side(const Side &) = delete;
	Side &operator=(const Side &) = delete;

	// Whether it came about; what its calls said has been told. The receives are posted before.
	bool connect();
	// The connection has broken: the handler has to be called, and everything is back then.
	void awaitLoss();
	void checkLost();
	// The VI is idle afterwards, and its queues empty.
	void disconnect();
	void release(); // everything, the NIC too

	void postReceive(unsigned slot);
	void postSend(VIP_DESCRIPTOR *descriptor);
	// The head of the queue if it is done, NULL if not; `promised`: the CQ said that it is.
	VIP_DESCRIPTOR *takeReceive(bool promised = false);
	VIP_DESCRIPTOR *takeSend(bool promised = false);
	VIP_DESCRIPTOR *awaitReceive(); // without a bound: what comes has to be flushed
	// Tells of it, and that all else of that queue comes back flushed, the first time on a
	// connection.
	void tellFlushed(const char *queue, const VIP_DESCRIPTOR *descriptor);
	unsigned receiveSlot(const VIP_DESCRIPTOR *descriptor) const;

	const Options &options;
	Bell &signal; // SIGUSR1
	Bell lost;    // the error handler was told so
	VIP_VI_HANDLE vi = nullptr;
	VIP_CQ_HANDLE cq = nullptr; // of both queues, for traffic only
	std::unique_ptr<Room> room;
	unsigned number = 0;  // 0 or 1: which of the two it is
	uint32_t largest = 0; // bytes of a body
	bool isDeviceGone() const
	{
		return deviceGone_;
	}

      private:
	static void handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error);
	void told(const VIP_ERROR_DESCRIPTOR &error);
	bool tryToConnect();
	bool serve();
	bool call();
	bool meet();
	std::vector<uint8_t> address(const std::string &host,
				     const std::string &discriminator) const;
	VIP_RETURN query(VIP_VI_STATE *state) const;
	VIP_VI_STATE state() const;
	void collect();

	VIP_NIC_HANDLE nic_ = nullptr;
	VIP_NIC_ATTRIBUTES attributes_{};
	unsigned files_ = 0; // that were open before the NIC was
	unsigned receivesOut_ = 0, sendsOut_ = 0;
	bool flushedTold_ = false;
	std::atomic<bool> leaving_{false}, deviceGone_{false};
};

} // namespace faults
