// SPDX-License-Identifier: BSD-2-Clause
// The two threads that connect: one accepts, one requests.
#include "meeting.h"

#include "../../address.h"

#include <algorithm>
#include <unistd.h>

namespace stress
{

constexpr unsigned kRequestTimeout = kPatience - 5000; // ms; it ends before the call's watchdog
constexpr Time kKeptAtMost = 1000 * kMs;    // for a request that comes too early
constexpr unsigned kLook = 20;              // ms between looks for other work

Meeting::Meeting(Home &home) : home_(home), acceptorRandom_{home.random.next()}
{
}

void Meeting::start()
{
	acceptor_ = std::thread([this] { acceptAll(); });
	requester_ = std::thread([this] { requestAll(); });
}

void Meeting::stop()
{
	{
		std::lock_guard<std::mutex> lock(mutex_);
		stopping_ = true;
		changed_.notify_all();
	}
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
	if (asks(peer))
		wishes_.push_back({peer, vi});
	else
		toAccept_[peer] = vi;
	changed_.notify_all();
}

std::vector<Arrival> Meeting::arrivals(unsigned ms)
{
	std::unique_lock<std::mutex> lock(mutex_);
	if (ms)
		changed_.wait_for(lock, std::chrono::milliseconds(ms),
				  [this] { return !arrivals_.empty(); });
	std::vector<Arrival> taken;
	taken.swap(arrivals_);
	return taken;
}

void Meeting::arrived(const Arrival &arrival)
{
	std::lock_guard<std::mutex> lock(mutex_);
	arrivals_.push_back(arrival);
	changed_.notify_all();
}

void Meeting::acceptAll()
{
	Watch &watch = home_.seat.watch[kAcceptor];
	for (;;) {
		{
			std::lock_guard<std::mutex> lock(mutex_);
			if (stopping_)
				break;
		}
		{
			Watched watched(watch, "VipConnectWait", kPatience);
			waitForOne(pending_.empty() ? 5 * kLook : kLook);
		}
		auto done = std::remove_if(pending_.begin(), pending_.end(),
					   [this](Request &one) { return answered(one); });
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
	VIP_RETURN result =
		VipConnectWait(home_.nic, local.get(), ms, remote.get(), &attributes, &connection);
	if (result == VIP_TIMEOUT)
		return;
	must(result, "VipConnectWait");
	unsigned parent, peer, life;
	std::string name = remote.discriminator();
	if (sscanf(name.c_str(), "s%u.%u.%u", &parent, &peer, &life) != 3 ||
	    parent != static_cast<unsigned>(getppid()) || peer >= home_.options.processes ||
	    life == 0 || life >= kLives || peer == home_.rank || asks(peer))
		fail("a request of a stranger, \"%s\"", name.c_str());
	if (attributes.MaxTransferSize != home_.largest)
		fail("a request with a MaxTransferSize of %lu", attributes.MaxTransferSize);
	pending_.push_back({peer, life, connection, now(), acceptorRandom_.once(2)});
}

bool Meeting::answered(Request &request)
{
	VIP_VI_HANDLE vi = nullptr;
	{
		std::lock_guard<std::mutex> lock(mutex_);
		auto found = toAccept_.find(request.peer);
		if (found != toAccept_.end())
			vi = found->second;
	}
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
	{
		std::lock_guard<std::mutex> lock(mutex_);
		toAccept_.erase(request.peer);
	}
	home_.seat.sent[home_.life][request.peer] = Sent{request.life, 0, false}.packed();
	VIP_RETURN result;
	{
		Watched watched(home_.seat.watch[kAcceptor], "VipConnectAccept", kPatience,
				request.peer);
		result = VipConnectAccept(request.connection, vi);
	}
	if (result == VIP_SUCCESS) {
		arrived({request.peer, request.life, request.life, now()});
		return;
	}
	if (!home_.board.killed(request.peer, request.life))
		fail("VipConnectAccept: %s, and rank %u lives", text(result), request.peer);
	if (result != VIP_TIMEOUT)
		fail("VipConnectAccept of a request of the killed rank %u: %s", request.peer,
		     text(result));
	std::lock_guard<std::mutex> lock(mutex_);
	toAccept_[request.peer] = vi;
}

void Meeting::requestAll()
{
	size_t failures = 0; // in a row
	for (;;) {
		Wish wish;
		{
			std::unique_lock<std::mutex> lock(mutex_);
			// Waits if there is no request to make, or if all have failed in a row.
			if (wishes_.empty() || failures >= wishes_.size())
				changed_.wait_for(lock, std::chrono::milliseconds(kLook));
			if (stopping_)
				return;
			if (wishes_.empty())
				continue;
			wish = wishes_.front();
			wishes_.pop_front();
		}
		if (request(wish)) {
			failures = 0;
			continue;
		}
		failures++;
		std::lock_guard<std::mutex> lock(mutex_);
		wishes_.push_back(wish);
	}
}

bool Meeting::request(const Wish &wish)
{
	const Seat &seat = home_.board.seat[wish.peer];
	Tally &tally = home_.seat.tally;
	Address remote(home_.attributes, discriminator(wish.peer)),
		local(home_.attributes,
		      discriminator(home_.rank) + "." + std::to_string(home_.life));
	VIP_VI_ATTRIBUTES attributes;
	home_.seat.sent[home_.life][wish.peer] = 0;
	uint32_t life = seat.life;
	VIP_RETURN result;
	{
		Watched watched(home_.seat.watch[kRequester], "VipConnectRequest", kPatience,
				wish.peer);
		result = VipConnectRequest(wish.vi, local.get(), remote.get(), kRequestTimeout,
					   &attributes);
	}
	if (result == VIP_SUCCESS) {
		if (life > 1 || home_.life > 1)
			tally.reconnects++;
		arrived({wish.peer, life, seat.life, now()});
		return true;
	}
	// A process has taken the request and not answered it. Only a killed process may do that.
	if (result == VIP_TIMEOUT && !home_.board.killed(wish.peer, life))
		fail("VipConnectRequest: VIP_TIMEOUT, and rank %u lives", wish.peer);
	tally.noMatch += result == VIP_NO_MATCH;
	tally.rejected += result == VIP_REJECT;
	tally.timedOut += result == VIP_TIMEOUT;
	if (result != VIP_NO_MATCH && result != VIP_REJECT && result != VIP_TIMEOUT)
		fail("VipConnectRequest to rank %u: %s", wish.peer, text(result));
	return false;
}

} // namespace stress
