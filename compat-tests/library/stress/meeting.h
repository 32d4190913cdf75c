/* SPDX-License-Identifier: BSD-2-Clause */
// A process's connections to its peers. One thread waits for requests and accepts them, and another one makes requests. For
// each pair of ranks it is fixed which one makes the request.
#pragma once

#include "../../address.h"
#include "link.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace stress
{

constexpr unsigned kRequestTimeout = kPatience - 5000; // ms
constexpr Time kKeptAtMost = 1000 * kMs;               // for a request that comes too early
constexpr unsigned kLook = 20;                         // ms between looks for other work

class Meeting
{
      public:
	explicit Meeting(Home &home)
	    : home_(home), acceptorRandom_{home.random.next()}, acceptor_([this] { acceptAll(); }),
	      requester_([this] { requestAll(); })
	{
	}

	Meeting(const Meeting &) = delete;
	Meeting &operator=(const Meeting &) = delete;

	// Takes a bounded time; rejects the pending requests.
	void stop()
	{
		stopping_ = true;
		acceptor_.join();
		requester_.join();
	}

	// Has this idle VI connected to that peer, however long it takes.
	void want(unsigned peer, VIP_VI_HANDLE vi)
	{
		std::lock_guard<std::mutex> lock(mutex_);
		wanting_[peer] = vi;
		changed_.notify_all();
	}

	// The new connections since the last call. Waits up to `ms` for one.
	std::vector<Arrival> arrivals(unsigned ms = 0)
	{
		std::unique_lock<std::mutex> lock(mutex_);
		if (ms)
			changed_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return !arrivals_.empty(); });
		std::vector<Arrival> taken;
		taken.swap(arrivals_);
		return taken;
	}

      private:
	struct Request { // by a peer
		unsigned peer;
		uint32_t life;
		VIP_CONN_HANDLE connection;
		Time since;
		bool patient; // kept, not rejected, when it comes too early
	};

	bool asks(unsigned peer) const
	{
		return (home_.rank < peer) == ((home_.rank + peer) % 2 == 1);
	}

	VIP_VI_HANDLE wanting(unsigned peer)
	{
		std::lock_guard<std::mutex> lock(mutex_);
		return wanting_[peer];
	}

	void acceptAll()
	{
		while (!stopping_) {
			waitForOne(pending_.empty() ? 5 * kLook : kLook);
			auto done = std::remove_if(pending_.begin(), pending_.end(),
						   [this](Request &one) { return answered(one); });
			pending_.erase(done, pending_.end());
		}
		for (const Request &request : pending_)
			must(VipConnectReject(request.connection), "VipConnectReject");
	}

	void waitForOne(VIP_ULONG ms)
	{
		Address local(home_.attributes, discriminator(home_.rank)), remote(home_.attributes);
		VIP_VI_ATTRIBUTES attributes;
		VIP_CONN_HANDLE connection = nullptr;
		VIP_RETURN result = VipConnectWait(home_.nic, local.get(), ms, remote.get(), &attributes, &connection);
		if (result == VIP_TIMEOUT)
			return;
		must(result, "VipConnectWait");
		unsigned parent, peer, life;
		std::string name = remote.discriminator();
		if (sscanf(name.c_str(), "s%u.%u.%u", &parent, &peer, &life) != 3 ||
		    parent != static_cast<unsigned>(getppid()) || peer >= home_.options.processes || life == 0 ||
		    life >= kLives || peer == home_.rank || asks(peer))
			fail("a request of a stranger, \"%s\"", name.c_str());
		if (attributes.MaxTransferSize != home_.largest)
			fail("a request with a MaxTransferSize of %lu", attributes.MaxTransferSize);
		pending_.push_back({peer, life, connection, now(), acceptorRandom_.once(2)});
	}

	bool answered(Request &request)
	{
		VIP_VI_HANDLE vi = wanting(request.peer);
		// The requester may have died meanwhile. To accept its request must have no effect then.
		bool dead = home_.board.killed(request.peer, request.life);
		if (vi && !(dead && acceptorRandom_.once(2))) {
			accept(request, vi);
			return true;
		}
		if (request.patient && !dead && now() - request.since < kKeptAtMost)
			return false;
		must(VipConnectReject(request.connection), "VipConnectReject");
		return true;
	}

	void accept(const Request &request, VIP_VI_HANDLE vi)
	{
		home_.seat.acceptedBy[request.peer] = home_.life;
		VIP_RETURN result = VipConnectAccept(request.connection, vi);
		if (result == VIP_SUCCESS)
			return arrived({request.peer, request.life, now()});
		if (!home_.board.killed(request.peer, request.life))
			fail("VipConnectAccept: %s, and rank %u lives", result_name(result), request.peer);
		if (result != VIP_TIMEOUT)
			fail("VipConnectAccept of a request of the killed rank %u: %s", request.peer,
			     result_name(result));
	}

	void requestAll()
	{
		while (!stopping_) {
			for (unsigned peer = 0; peer < home_.options.processes && !stopping_; peer++)
				if (peer != home_.rank && asks(peer))
					if (VIP_VI_HANDLE vi = wanting(peer))
						request(peer, vi);
			std::unique_lock<std::mutex> lock(mutex_);
			changed_.wait_for(lock, std::chrono::milliseconds(kLook));
		}
	}

	void request(unsigned peer, VIP_VI_HANDLE vi)
	{
		const Seat &seat = home_.board.seat[peer];
		Address remote(home_.attributes, discriminator(peer));
		Address local(home_.attributes, discriminator(home_.rank) + "." + std::to_string(home_.life));
		VIP_VI_ATTRIBUTES attributes;
		uint32_t life = seat.life;
		VIP_RETURN result = VipConnectRequest(vi, local.get(), remote.get(), kRequestTimeout, &attributes);
		if (result == VIP_SUCCESS) {
			home_.board.count[kReconnects] += life > 1 || home_.life > 1;
			return arrived({peer, seat.acceptedBy[home_.rank], now()});
		}
		// A process has taken the request and not answered it. Only a killed process may do that.
		if (result == VIP_TIMEOUT && !home_.board.killed(peer, life))
			fail("VipConnectRequest: VIP_TIMEOUT, and rank %u lives", peer);
		if (result != VIP_NO_MATCH && result != VIP_REJECT && result != VIP_TIMEOUT)
			fail("VipConnectRequest to rank %u: %s", peer, result_name(result));
		home_.board.count[kVain]++;
	}

	void arrived(const Arrival &arrival)
	{
		std::lock_guard<std::mutex> lock(mutex_);
		wanting_[arrival.peer] = nullptr;
		arrivals_.push_back(arrival);
		changed_.notify_all();
	}

	// All lives of a rank have the same one: that of a killed process must be free at once.
	std::string discriminator(unsigned rank) const
	{
		return "s" + std::to_string(getppid()) + "." + std::to_string(rank);
	}

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
