// SPDX-License-Identifier: BSD-2-Clause
// The two threads that connect: one accepts, one requests.
#include "link.h"

#include "../../address.h"

#include <algorithm>
#include <unistd.h>

namespace stress
{

constexpr unsigned kRequestTimeout = kPatience - 5000; // ms
constexpr Time kKeptAtMost = 1000 * kMs;               // for a request that comes too early
constexpr unsigned kLook = 20;                         // ms between looks for other work

Meeting::Meeting(Home &home)
    : home_(home), acceptorRandom_{home.random.next()}, acceptor_([this] { acceptAll(); }),
      requester_([this] { requestAll(); })
{
}

void Meeting::stop()
{
	stopping_ = true;
	acceptor_.join();
	requester_.join();
}

bool Meeting::asks(unsigned peer) const
{
	return (home_.rank < peer) == ((home_.rank + peer) % 2 == 1);
}

// All lives of a rank have the same one: that of a killed process must be free at once.
std::string Meeting::discriminator(unsigned rank) const
{
	return "s" + std::to_string(getppid()) + "." + std::to_string(rank);
}

void Meeting::want(unsigned peer, VIP_VI_HANDLE vi)
{
	std::lock_guard<std::mutex> lock(mutex_);
	wanting_[peer] = vi;
	changed_.notify_all();
}

VIP_VI_HANDLE Meeting::wanting(unsigned peer)
{
	std::lock_guard<std::mutex> lock(mutex_);
	return wanting_[peer];
}

std::vector<Arrival> Meeting::arrivals(unsigned ms)
{
	std::unique_lock<std::mutex> lock(mutex_);
	if (ms)
		changed_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return !arrivals_.empty(); });
	std::vector<Arrival> taken;
	taken.swap(arrivals_);
	return taken;
}

void Meeting::arrived(const Arrival &arrival)
{
	std::lock_guard<std::mutex> lock(mutex_);
	wanting_[arrival.peer] = nullptr;
	arrivals_.push_back(arrival);
	changed_.notify_all();
}

void Meeting::acceptAll()
{
	while (!stopping_) {
		waitForOne(pending_.empty() ? 5 * kLook : kLook);
		auto done = std::remove_if(pending_.begin(), pending_.end(), [this](Request &one) { return answered(one); });
		pending_.erase(done, pending_.end());
	}
	for (const Request &request : pending_)
		must(VipConnectReject(request.connection), "VipConnectReject");
}

void Meeting::waitForOne(VIP_ULONG ms)
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
	if (sscanf(name.c_str(), "s%u.%u.%u", &parent, &peer, &life) != 3 || parent != static_cast<unsigned>(getppid()) ||
	    peer >= home_.options.processes || life == 0 || life >= kLives || peer == home_.rank || asks(peer))
		fail("a request of a stranger, \"%s\"", name.c_str());
	if (attributes.MaxTransferSize != home_.largest)
		fail("a request with a MaxTransferSize of %lu", attributes.MaxTransferSize);
	pending_.push_back({peer, life, connection, now(), acceptorRandom_.once(2)});
}

bool Meeting::answered(Request &request)
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

void Meeting::accept(const Request &request, VIP_VI_HANDLE vi)
{
	home_.seat.acceptedBy[request.peer] = home_.life;
	VIP_RETURN result = VipConnectAccept(request.connection, vi);
	if (result == VIP_SUCCESS)
		return arrived({request.peer, request.life, now()});
	if (!home_.board.killed(request.peer, request.life))
		fail("VipConnectAccept: %s, and rank %u lives", result_name(result), request.peer);
	if (result != VIP_TIMEOUT)
		fail("VipConnectAccept of a request of the killed rank %u: %s", request.peer, result_name(result));
}

void Meeting::requestAll()
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

void Meeting::request(unsigned peer, VIP_VI_HANDLE vi)
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

} // namespace stress
