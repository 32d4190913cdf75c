// SPDX-License-Identifier: BSD-2-Clause
// The rounds of the traffic on one connection: what is sent, and when; and what is received and compared with what was sent.
#include "traffic.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <iterator>
#include <vector>

namespace faults
{

static uint64_t mixed(uint64_t z) // as splitmix64 does
{
	z += 0x9E3779B97F4A7C15U;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
	return z ^ (z >> 31);
}

static uint64_t start(const Way &way, uint64_t number)
{
	return mixed(mixed(way.side) + way.connection) + number * 0x100000000U;
}

static uint64_t sumOf(const Header &header, const Way &way)
{
	uint64_t words[sizeof(Header) / 8];
	memcpy(words, &header, sizeof words);
	uint64_t sum = mixed(way.side);
	for (size_t i = 1; i < std::size(words); i++)
		sum = mixed(sum ^ words[i]);
	return sum;
}

static void paint(uint8_t *body, size_t length, const Way &way, uint64_t number)
{
	uint64_t from = start(way, number);
	for (size_t at = 0; at < length; at += 8) {
		uint64_t word = mixed(from + at);
		memcpy(body + at, &word, std::min<size_t>(8, length - at));
	}
}

// Returns the place of the first wrong byte, or `length` if all are right.
static size_t mismatch(const uint8_t *body, size_t length, const Way &way, uint64_t number)
{
	std::vector<uint8_t> wanted(length);
	paint(wanted.data(), length, way, number);
	return static_cast<size_t>(std::mismatch(wanted.begin(), wanted.end(), body).first - wanted.begin());
}

// Returns sizes of all kinds, also some near the limits where devices and networks cut messages.
static uint32_t lengthOf(uint64_t number, const Way &way, uint32_t largest)
{
	static constexpr uint32_t kEdges[] = {1, 8, 448, 449, 959, 960, 961, 1024, 4031, 4032, 4033, 8128, 8129};
	uint64_t random = mixed(start(way, number) ^ 0x5A5A5A5A);
	uint64_t choice = random >> 32;
	uint32_t length;
	if (random % 4 == 0)
		length = kEdges[choice % std::size(kEdges)];
	else
		length = static_cast<uint32_t>(1 + choice % (random % 4 == 1 ? largest : 256));
	return std::min(length, largest);
}

constexpr VIP_ULONG kNap = 50;  // ms, the longest sleep of the loop
constexpr double kAgain = 200;  // ms, until a note that may be lost is sent again
constexpr uint64_t kSpoilt = 5; // the message with the intended fault

Traffic::Traffic(Side &side, uint32_t connection, double endsAt)
    : side_(side), room_(side.room), out_{side.number, connection}, in_{1 - side.number, 0}, endsAt_(endsAt)
{
}

bool Traffic::run()
{
	beginRound();
	while (!broken_ && !isOver()) {
		if (isRoundOver() && mayBegin())
			beginRound();
		else if (answerDue_ && posted_.empty())
			sendNote(0);
		else if (isUnreliable() && !isRoundOver() && posted_.empty() && now() - noteAt_ > kAgain)
			sendNote(kAnswer);
		step();
	}
	if (broken_) { // messages that came before are checked, too
		side_.awaitLoss();
		step();
	}
	// A peer that has said that it has ended leaves only when it knows that this side has, too.
	bool isWell = flags_ & peerFlags_ & kEnded && received_ + missing_ == announced_;
	tell(isWell ? "ended" : "broken");
	return isWell;
}

// Returns how many messages may be sent now.
uint64_t Traffic::due() const
{
	double wanted = std::min((now() - began_) / 1e3 * side_.options.rate, static_cast<double>(side_.options.messages));
	double next = static_cast<double>(sent_);
	return wanted <= next ? 0 : std::min<uint64_t>(Room::kWindow, static_cast<uint64_t>(wanted - next + 0.999));
}

bool Traffic::mayBegin()
{
	if (sent_ >= side_.options.messages || now() >= endsAt_ || side_.signal.rung())
		ended_ = true;
	bool isNews = ended_ && (!(flags_ & kEnded) || (peerFlags_ & kEnded && !(flags_ & kBye)));
	return isNews || peerRounds_ > rounds_ || (!ended_ && due() > 0);
}

void Traffic::beginRound()
{
	flags_ = ended_ ? kEnded | (peerFlags_ & kEnded ? kBye : 0U) : 0U;
	for (uint64_t left = ended_ || !rounds_ ? 0 : due(); left; left--)
		sendData();
	rounds_++;
	sendNote(0);
}

// Puts a header and, if it is data, the body there.
void Traffic::put(uint8_t *message, uint32_t flags, uint64_t number, uint32_t length) const
{
	Header header{};
	header.flags = flags_ | flags;
	header.connection = out_.connection;
	header.yours = in_.connection;
	header.length = length;
	header.number = number;
	header.rounds = rounds_;
	header.window = reinterpret_cast<uintptr_t>(room_.buffer(isRead() ? Room::kSend : Room::kInbox));
	header.windowHandle = room_.handle;
	header.sum = sumOf(header, out_);
	memcpy(message, &header, sizeof header);
	paint(message + sizeof header, length, out_, number);
}

void Traffic::post(const Posted &posted)
{
	posted_.push_back(posted);
	side_.postSend(posted.descriptor);
}

void Traffic::sendData()
{
	unsigned slot = sent_++ % Room::kTwoRounds;
	Spoil spoil = sent_ == kSpoilt ? side_.options.spoil : Spoil::Nothing;
	uint64_t number = sent_ + (spoil == Spoil::Missing) - (spoil == Spoil::Twice);
	uint8_t *message = room_.buffer(Room::kSend + slot);
	VIP_DESCRIPTOR *descriptor = room_.descriptor(Room::kSend + slot);
	uint32_t length = lengthOf(number, out_, side_.largest);
	put(message, kData, number, length);
	message[sizeof(Header)] ^= spoil == Spoil::Byte;
	uint32_t bytes = static_cast<uint32_t>(sizeof(Header)) + (isRead() ? 0 : length);
	if (side_.options.operation == VIP_CONTROL_OP_RDMAWRITE) {
		Remote target = {peerWindow_.address + slot * room_.slotBytes, peerWindow_.handle};
		describe(descriptor, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, message, bytes, room_.handle, &target);
		descriptor->CS.ImmediateData = slot;
	} else {
		describe(descriptor, VIP_CONTROL_OP_SENDRECV, message, bytes, room_.handle);
	}
	post({descriptor, sent_, 0, 0});
}

void Traffic::sendNote(uint32_t flags)
{
	uint8_t *message = room_.buffer(Room::kNote);
	put(message, flags, sent_, 0);
	describe(room_.descriptor(Room::kNote), VIP_CONTROL_OP_SENDRECV, message, sizeof(Header), room_.handle);
	noteAt_ = now();
	answerDue_ = false;
	post({room_.descriptor(Room::kNote), 0, 0, 0});
}

void Traffic::sendTaken(const VIP_DESCRIPTOR *descriptor)
{
	constexpr VIP_UINT32 kBroken = VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_TRANSPORT_ERROR;
	if (posted_.empty() || posted_.front().descriptor != descriptor)
		wrong("a send is done before one that was posted earlier");
	Posted posted = posted_.front();
	posted_.pop_front();
	VIP_UINT32 error = descriptor->CS.Status & VIP_STATUS_ERROR_MASK;
	if (error & ~kBroken)
		wrong("a send ends with status %s", status_names(descriptor->CS.Status).c_str());
	if (error) {
		side_.tellFlushed("send", descriptor);
		broken_ = sendsFail_ = true;
		return;
	}
	if (sendsFail_)
		wrong("a send succeeds after one that failed");
	if (posted.data)
		done_ = posted.data;
	if (posted.pulled)
		takeBody(room_.buffer(Room::kPull + posted.pulled % Room::kTwoRounds), posted.pulled, posted.length);
}

void Traffic::receiveTaken(VIP_DESCRIPTOR *descriptor)
{
	VIP_UINT32 error = descriptor->CS.Status & VIP_STATUS_ERROR_MASK;
	unsigned slot = side_.receiveSlot(descriptor);
	if (error == VIP_STATUS_DESC_FLUSHED_ERROR) {
		side_.tellFlushed("receive", descriptor);
		broken_ = receivesFail_ = true;
		return;
	}
	if (receivesFail_)
		wrong("a message comes after a receive that was flushed");
	// A part of an unreliable message may be lost.
	if (error && (!isUnreliable() || error & ~(VIP_STATUS_PARTIAL_ERROR | VIP_STATUS_LENGTH_ERROR)))
		wrong("a receive ends with status %s", status_names(descriptor->CS.Status).c_str());
	if (!error)
		takeMessage(descriptor->CS.Status & VIP_STATUS_IMMEDIATE ? writtenTo(descriptor) : room_.buffer(slot),
			    descriptor->CS.Length);
	side_.postReceive(slot);
}

const uint8_t *Traffic::writtenTo(const VIP_DESCRIPTOR *descriptor) const
{
	VIP_UINT32 operation = descriptor->CS.Status & VIP_STATUS_OP_MASK;
	VIP_UINT32 slot = descriptor->CS.ImmediateData;
	if (operation != VIP_STATUS_OP_REMOTE_RDMA_WRITE || slot >= Room::kTwoRounds)
		wrong("immediate data %u with operation %x", slot, operation);
	return room_.buffer(Room::kInbox + slot);
}

void Traffic::takeMessage(const uint8_t *message, size_t length)
{
	Header header;
	memcpy(&header, message, sizeof header);
	bool isData = header.flags & kData;
	if (length < sizeof header || header.sum != sumOf(header, in_))
		wrong("a header is wrong after number %" PRIu64 ", in %zu bytes", announced_, length);
	if (length != sizeof header + (isData && !isRead() ? header.length : 0) || header.length > side_.options.largest)
		wrong("number %" PRIu64 " has %zu bytes for %u", header.number, length, header.length);
	bool hadEnded = peerFlags_ & kEnded;
	takeHeader(header);
	bool isNew = isNext(header);
	if (!isData)
		return;
	if (!isNew)
		checkBody(message + sizeof header, header.number, header.length);
	else if (hadEnded)
		wrong("number %" PRIu64 " comes after the end", header.number);
	else if (isRead())
		pull(header);
	else
		takeBody(message + sizeof header, header.number, header.length);
}

// Reads what does not depend on the order of messages.
void Traffic::takeHeader(const Header &header)
{
	if (!in_.connection) {
		in_.connection = header.connection;
		peerWindow_ = {header.window, static_cast<VIP_MEM_HANDLE>(header.windowHandle)};
	}
	if (header.connection != in_.connection || (header.yours && header.yours != out_.connection))
		wrong("a message of another connection: %u to %u in that of %u and %u", header.connection, header.yours,
		      in_.connection, out_.connection);
	if (header.rounds > rounds_ + 1)
		wrong("the peer has ended %" PRIu64 " rounds, and this side %" PRIu64, header.rounds, rounds_);
	peerRounds_ = std::max(peerRounds_, header.rounds);
	peerFlags_ |= header.flags & (kEnded | kBye);
	answerDue_ |= (header.flags & kAnswer) != 0;
}

// Messages come in the order of their numbers, and a note has the number of the data before it. Returns false if this
// one came before or was counted as lost.
bool Traffic::isNext(const Header &header)
{
	uint64_t next = announced_ + (header.flags & kData ? 1 : 0);
	if (header.number < next) {
		if (!side_.options.unordered)
			wrong("number %" PRIu64 " comes after number %" PRIu64, header.number, announced_);
		return false;
	}
	if (header.number > next && !isUnreliable())
		wrong("number %" PRIu64 " comes next to number %" PRIu64, header.number, announced_);
	missing_ += header.number - next;
	announced_ = header.number;
	return true;
}

void Traffic::pull(const Header &header)
{
	unsigned slot = Room::kPull + header.number % Room::kTwoRounds;
	Remote source = {peerWindow_.address + (header.number - 1) % Room::kTwoRounds * room_.slotBytes + sizeof header,
			 peerWindow_.handle};
	memset(room_.buffer(slot), 0, header.length);
	describe(room_.descriptor(slot), VIP_CONTROL_OP_RDMAREAD, room_.buffer(slot), header.length, room_.handle, &source);
	post({room_.descriptor(slot), 0, header.number, header.length});
}

void Traffic::checkBody(const uint8_t *body, uint64_t number, uint32_t length) const
{
	size_t at = mismatch(body, length, in_, number);
	if (at != length)
		wrong("byte %zu of %u of number %" PRIu64 " is wrong", at, length, number);
}

void Traffic::takeBody(const uint8_t *body, uint64_t number, uint32_t length)
{
	checkBody(body, number, length);
	received_++;
}

uint64_t Traffic::stored() const
{
	uint64_t last = 0;
	for (unsigned slot = 0; slot < Room::kTwoRounds; slot++) {
		Header header;
		memcpy(&header, room_.buffer(Room::kInbox + slot), sizeof header);
		const uint8_t *body = room_.buffer(Room::kInbox + slot) + sizeof header;
		if (header.connection == in_.connection && in_.connection && header.sum == sumOf(header, in_) &&
		    mismatch(body, header.length, in_, header.number) == header.length)
			last = std::max(last, header.number);
	}
	return last;
}

// Sleeps at most once, then takes all completions.
void Traffic::step()
{
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN isReceive;
	VIP_RETURN code = VipCQWait(side_.cq, kNap, &vi, &isReceive);
	for (; code == VIP_SUCCESS; code = VipCQDone(side_.cq, &vi, &isReceive))
		isReceive ? receiveTaken(side_.take(true, true)) : sendTaken(side_.take(false, true));
	// Of a device that is gone, when all that was posted has come back. The handler may be called later than that.
	bool isGone = broken_ && code == VIP_ERROR_RESOURCE && side_.deviceGone.wait(kPatience);
	if (code != VIP_TIMEOUT && code != VIP_NOT_DONE && !isGone)
		wrong("VipCQWait: %s", text(code));
}

// `stored`: the last number whose data an RDMA write has put completely into our memory.
void Traffic::tell(const char *what) const
{
	event(what, "sent=%" PRIu64 " done=%" PRIu64 " received=%" PRIu64 " stored=%" PRIu64 " missing=%" PRIu64, sent_, done_,
	      received_, stored(), missing_);
}

} // namespace faults
