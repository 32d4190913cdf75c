/* SPDX-License-Identifier: BSD-2-Clause */
// A process's connections to its peers. One thread waits for requests and accepts them, and another one makes requests. For
// each pair of ranks it is fixed which one makes the request.
#pragma once

#include "link.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace stress
{

class Meeting
{
      public:
	explicit Meeting(Home &home);
	Meeting(const Meeting &) = delete;
	Meeting &operator=(const Meeting &) = delete;
	void stop(); // takes a bounded time; rejects the pending requests
	// Has this idle VI connected to that peer, however long it takes.
	void want(unsigned peer, VIP_VI_HANDLE vi);
	// The new connections since the last call. Waits up to `ms` for one.
	std::vector<Arrival> arrivals(unsigned ms = 0);

      private:
	struct Request { // by a peer
		unsigned peer;
		uint32_t life;
		VIP_CONN_HANDLE connection;
		Time since;
		bool patient; // kept, not rejected, when it comes too early
	};
	bool asks(unsigned peer) const;
	VIP_VI_HANDLE wanting(unsigned peer);
	void acceptAll();
	void waitForOne(VIP_ULONG ms);
	bool answered(Request &request);
	void accept(const Request &request, VIP_VI_HANDLE vi);
	void requestAll();
	void request(unsigned peer, VIP_VI_HANDLE vi);
	void arrived(const Arrival &arrival);
	std::string discriminator(unsigned rank) const;

	Home &home_;
	Random acceptorRandom_;
	std::atomic<bool> stopping_{false};
	std::mutex mutex_;
	std::condition_variable changed_;
	VIP_VI_HANDLE wanting_[kRanks] = {}; // the VIs that are to be connected, by peer
	std::vector<Arrival> arrivals_;
	std::vector<Request> pending_; // requests without an answer; the acceptor's
	std::thread acceptor_, requester_;
};

} // namespace stress
