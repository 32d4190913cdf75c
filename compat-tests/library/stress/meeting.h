/* SPDX-License-Identifier: BSD-2-Clause */
// A process's connections to its peers. One thread waits for requests and accepts them, and another
// one makes requests. For each pair of ranks it is fixed which one makes the request.
#pragma once

#include "link.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace stress
{

class Meeting
{
      public:
	explicit Meeting(Home &home);
	~Meeting() = default;
	Meeting(const Meeting &) = delete;
	Meeting &operator=(const Meeting &) = delete;
	void start();
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
	struct Wish { // a request that this process has to make
		unsigned peer;
		VIP_VI_HANDLE vi;
	};
	bool asks(unsigned peer) const;
	void acceptAll();
	void waitForOne(VIP_ULONG ms);
	bool answered(Request &request);
	void accept(const Request &request, VIP_VI_HANDLE vi);
	void requestAll();
	bool request(const Wish &wish);
	void arrived(const Arrival &arrival);
	std::string discriminator(unsigned rank) const;

	Home &home_;
	Random acceptorRandom_;
	std::mutex mutex_;
	std::condition_variable changed_;
	bool stopping_ = false;
	std::map<unsigned, VIP_VI_HANDLE> toAccept_;
	std::deque<Wish> wishes_;
	std::vector<Arrival> arrivals_;
	std::vector<Request> pending_; // requests without an answer; the acceptor's
	std::thread acceptor_, requester_;
};

} // namespace stress
