/* SPDX-License-Identifier: BSD-2-Clause */
// How a process meets its peers: one thread waits for requests and accepts them, one makes
// requests. Of two ranks it is fixed which one asks the other.
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
	void stop(); // within a bounded time; what is pending is refused
	// This idle VI is to be connected to that peer, however long it takes.
	void want(unsigned peer, VIP_VI_HANDLE vi);
	// Those that have come about since the last call; waits so long for one.
	std::vector<Arrival> arrivals(unsigned ms = 0);

      private:
	struct Request { // that somebody made
		unsigned peer;
		uint32_t life;
		VIP_CONN_HANDLE connection;
		Time since;
		bool patient; // kept when it comes too early, and not rejected
	};
	struct Wish { // a request to be made
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
	void explainTimeout(unsigned peer, uint32_t life, Time asked) const;
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
	std::vector<Request> pending_; // the acceptor's
	std::thread acceptor_, requester_;
};

} // namespace stress
