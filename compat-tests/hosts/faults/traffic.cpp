// SPDX-License-Identifier: BSD-2-Clause
// The loop of the traffic on one connection, and its counts.
#include "traffic.h"

#include <cinttypes>

namespace faults
{

constexpr VIP_ULONG kNap = 50;   // ms, the longest sleep of the loop
constexpr double kLinger = 5000; // ms, the wait for an unreliable peer's last note

Traffic::Traffic(Side &side, uint32_t connection, double endsAt)
    : side_(side),
      room_(*side.room), out_{side.options.seed, side.number, connection}, in_{side.options.seed,
									       1 - side.number, 0},
      endsAt_(endsAt)
{
}

// Sleeps at most once, then takes all completions.
void Traffic::step()
{
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN isReceive;
	VIP_RETURN code = VipCQWait(side_.cq, kNap, &vi, &isReceive);
	for (; code == VIP_SUCCESS; code = VipCQDone(side_.cq, &vi, &isReceive))
		if (isReceive)
			receiveTaken(side_.takeReceive(true));
		else
			sendTaken(side_.takeSend(true));
	if (code != VIP_TIMEOUT && code != VIP_NOT_DONE)
		wrong("VipCQWait: %s", text(code));
}

bool Traffic::hasAll() const
{
	return ended_ && acked_ == sent_ && hasAllOfPeer() && posted_.empty();
}

// Both sides know that the other side has everything, or the peer has said so and is gone.
bool Traffic::isOver()
{
	if (!byeSent_ || !posted_.empty())
		return false;
	return peerBye_ || (isUnreliable() && now() - byeAt_ > kLinger);
}

bool Traffic::run()
{
	sendNote(kAnswer);
	while (!broken_ && !isOver()) {
		sendWhatMay();
		step();
		if (byeSent_ && now() - byeAt_ > kPatience)
			wrong("the peer says no goodbye");
	}
	if (broken_) { // messages that came before are checked, too
		side_.awaitLoss();
		step();
	}
	bool isWell = byeSent_ || (isUnreliable() && peerBye_);
	tell(isWell ? "ended" : "broken");
	if (!isWell)
		return false;
	if (!isUnreliable() && missing_)
		wrong("%" PRIu64 " messages are missing", missing_);
	return true;
}

// `stored`: the last number whose data an RDMA write has put completely into our memory.
void Traffic::tell(const char *what)
{
	event(what,
	      "sent=%" PRIu64 " done=%" PRIu64 " acked=%" PRIu64 " received=%" PRIu64
	      " stored=%" PRIu64 " missing=%" PRIu64 " damaged=%" PRIu64 " late=%" PRIu64
	      " bytes=%" PRIu64,
	      sent_, done_, acked_, received_, stored(), missing_, damaged_, late_, bytes_);
}

} // namespace faults
