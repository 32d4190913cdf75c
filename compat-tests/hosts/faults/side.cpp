// SPDX-License-Identifier: BSD-2-Clause
// The life of one side, except what it does when it is connected.
#include "traffic.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/mman.h>

namespace faults
{

constexpr size_t kDescriptorBytes = 128;
constexpr size_t kBuffersAt = 8192;
// A peer of 32 bits sets the lower half of an address.
#ifdef MAP_32BIT
constexpr int kReachable = MAP_32BIT;
#else
constexpr int kReachable = 0;
#endif
static_assert(Room::kInbox * kDescriptorBytes <= kBuffersAt);

void Room::open(VIP_NIC_HANDLE nic, size_t bytes, bool isReadable)
{
	slotBytes = (bytes + 63) / 64 * 64;
	size_t all = kBuffersAt + kBuffers * slotBytes;
	void *memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | kReachable, -1, 0);
	if (memory == MAP_FAILED)
		wrong("no memory for %zu bytes: %s", all, strerror(errno));
	data = static_cast<uint8_t *>(memory);
	VIP_MEM_ATTRIBUTES attributes{nullptr, VIP_TRUE, isReadable};
	must(VipRegisterMem(nic, data, all, &attributes, &handle), "VipRegisterMem");
}

void Room::close(VIP_NIC_HANDLE nic)
{
	must(VipDeregisterMem(nic, data, handle), "VipDeregisterMem");
	munmap(data, kBuffersAt + kBuffers * slotBytes);
}

VIP_DESCRIPTOR *Room::descriptor(unsigned number) const
{
	return reinterpret_cast<VIP_DESCRIPTOR *>(data + number * kDescriptorBytes);
}

uint8_t *Room::buffer(unsigned number) const
{
	return data + kBuffersAt + number * slotBytes;
}

void describe(VIP_DESCRIPTOR *descriptor, VIP_UINT16 control, const void *data, uint32_t length, VIP_MEM_HANDLE handle,
	      const Remote *remote)
{
	unsigned local = remote ? 1 : 0;
	memset(descriptor, 0, sizeof *descriptor);
	descriptor->CS.Control = control;
	descriptor->CS.SegCount = static_cast<VIP_UINT16>(local + 1);
	if (remote) {
		descriptor->DS[0].Remote.Data.AddressBits = remote->address;
		descriptor->DS[0].Remote.Handle = remote->handle;
	}
	descriptor->DS[local].Local.Data.AddressBits = reinterpret_cast<uintptr_t>(data);
	descriptor->DS[local].Local.Handle = handle;
	descriptor->DS[local].Local.Length = length;
}

// Returns the number of files that this process has open.
static long openFiles()
{
	return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

// Returns the process's resident memory in KiB.
static long residentKiB()
{
	long pages = 0;
	std::ifstream("/proc/self/statm") >> pages >> pages;
	return pages * 4;
}

Side::Side(const Options &someOptions, Bell &aSignal) : options(someOptions), signal(aSignal)
{
	bool isUnreliable = options.level == VIP_SERVICE_UNRELIABLE;
	files_ = openFiles();
	must(VipOpenNic(options.nic.c_str(), &nic_), "VipOpenNic");
	setHandler();
	must(VipQueryNic(nic_, &attributes_), "VipQueryNic");
	must(VipNSInit(nic_, nullptr), "VipNSInit");
	largest = options.largest;
	// If some packets of a long write are lost its data has holes, and no status reports them.
	if (isUnreliable && options.operation == VIP_CONTROL_OP_RDMAWRITE)
		largest = std::min<uint32_t>(largest, static_cast<uint32_t>(attributes_.NativeMTU - sizeof(Header)));
	room.open(nic_, sizeof(Header) + options.largest, !isUnreliable);
	if (options.act == Act::Traffic)
		must(VipCreateCQ(nic_, 4 * Room::kReceives, &cq), "VipCreateCQ");
	VIP_VI_ATTRIBUTES attributes{};
	attributes.ReliabilityLevel = options.level;
	attributes.MaxTransferSize = room.slotBytes;
	attributes.EnableRdmaWrite = VIP_TRUE;
	attributes.EnableRdmaRead = isUnreliable ? VIP_FALSE : VIP_TRUE;
	must(VipCreateVi(nic_, &attributes, cq, cq, &vi), "VipCreateVi");
	number = options.role == Role::Serve || (options.role == Role::Equal && options.own < options.name);
}

// Each connection has a context of its own: a call of the handler that is late is not one of the next connection.
void Side::setHandler()
{
	auto handler = [](VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error) {
		auto *caller = static_cast<Caller *>(context);
		caller->side.told(caller->connection, *error);
	};
	callers_.push_back({*this, ++connections_});
	must(VipErrorCallback(nic_, &callers_.back(), handler), "VipErrorCallback");
}

void Side::told(unsigned connection, const VIP_ERROR_DESCRIPTOR &error)
{
	auto hasLeft = [&] { return leaving_ || connections_ != connection; };
	bool isNic = error.ResourceCode == VIP_RESOURCE_NIC;
	VIP_VI_STATE now = VIP_STATE_ERROR;
	VIP_RETURN rc = isNic ? VIP_SUCCESS : query(&now);
	if (rc != VIP_SUCCESS && hasLeft()) // the VI has been destroyed meanwhile
		return;
	must(rc, "VipQueryVi");
	event("told", "code=%s state=%s", text(error.ErrorCode), isNic ? "-" : text(now));
	if (error.ErrorCode == VIP_ERROR_CATASTROPHIC) {
		deviceGone.ring();
		return;
	}
	if (error.ErrorCode != VIP_ERROR_CONN_LOST && error.ErrorCode != VIP_ERROR_RDMA_TRANSPORT)
		wrong("the handler was told %s", text(error.ErrorCode));
	std::lock_guard guard(tellingLock_);
	if (hasLeft()) // the call began just before VipDisconnect
		return;
	if (now != VIP_STATE_ERROR)
		wrong("the VI is %s when the handler is told", text(now));
	if (lost.rung())
		wrong("the handler was told twice of one connection");
	lost.ring();
}

VIP_RETURN Side::query(VIP_VI_STATE *state) const
{
	VIP_VI_ATTRIBUTES attributes;
	VIP_BOOLEAN sendsEmpty, receivesEmpty;
	return VipQueryVi(vi, state, &attributes, &sendsEmpty, &receivesEmpty);
}

VIP_VI_STATE Side::state() const
{
	VIP_VI_STATE state = VIP_STATE_IDLE;
	must(query(&state), "VipQueryVi");
	return state;
}

constexpr double kAgain = 240000; // ms for tries to connect again after a break
constexpr double kPause = 50;     // ms, between two tries

// Returns a network address with that discriminator, on that host or, for "", on the NIC's own.
Address Side::address(const std::string &host, const std::string &discriminator) const
{
	if (discriminator.size() > attributes_.MaxDiscriminatorLen)
		wrong("the discriminator %s is too long", discriminator.c_str());
	Address result(attributes_, discriminator);
	std::string name = host;
	VIP_RETURN code = host.empty() ? VIP_SUCCESS : VipNSGetHostByName(nic_, name.data(), result.get(), 0);
	if (code != VIP_SUCCESS)
		wrong("VipNSGetHostByName of %s: %s", host.c_str(), text(code));
	return result;
}

bool Side::serve()
{
	Address local = address("", options.name), remote(attributes_);
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE connection;
	if (called("VipConnectWait", [&] {
		    return VipConnectWait(nic_, local.get(), options.timeout, remote.get(), &attributes, &connection);
	    }) != VIP_SUCCESS)
		return false;
	if (options.act == Act::Hold) {
		event("holding");
		signal.wait(1e9);
		signal.reset();
	}
	return called("VipConnectAccept", [&] { return VipConnectAccept(connection, vi); }) == VIP_SUCCESS;
}

bool Side::request()
{
	Address local = address("", options.own), remote = address(options.host, options.name);
	VIP_VI_ATTRIBUTES attributes;
	if (options.role == Role::Call)
		return called("VipConnectRequest", [&] {
			return VipConnectRequest(vi, local.get(), remote.get(), options.timeout, &attributes);
		}) == VIP_SUCCESS;
	return called("VipConnectPeerRequest", [&] {
		       return VipConnectPeerRequest(vi, local.get(), remote.get(), options.timeout);
	       }) == VIP_SUCCESS &&
	       called("VipConnectPeerWait", [&] { return VipConnectPeerWait(vi, &attributes); }) == VIP_SUCCESS;
}

bool Side::connect()
{
	double began = now();
	if (receivesOut_ == 0)
		for (unsigned slot = 0; slot < Room::kReceives; slot++)
			postReceive(slot);
	{
		std::lock_guard guard(tellingLock_);
		lost.reset();
		leaving_ = false;
		setHandler();
	}
	while (!(options.role == Role::Serve ? serve() : request())) {
		if (!options.reconnect || now() - began > kAgain || deviceGone.rung())
			return false;
		if (state() != VIP_STATE_IDLE)
			wrong("the VI is %s after connecting failed", text(state()));
		lost.wait(kPause);
	}
	event("connected", "took=%.1f", now() - began);
	return true;
}

void Side::postReceive(unsigned slot)
{
	VIP_DESCRIPTOR *descriptor = room.descriptor(slot);
	describe(descriptor, VIP_CONTROL_OP_SENDRECV, room.buffer(slot), static_cast<uint32_t>(room.slotBytes),
		 room.handle);
	receivesOut_++;
	must(VipPostRecv(vi, descriptor, room.handle), "VipPostRecv");
}

void Side::postSend(VIP_DESCRIPTOR *descriptor)
{
	sendsOut_++;
	must(VipPostSend(vi, descriptor, room.handle), "VipPostSend");
}

VIP_DESCRIPTOR *Side::taken(VIP_RETURN code, VIP_DESCRIPTOR *descriptor, bool isReceive, bool promised, const char *call)
{
	if (code == VIP_NOT_DONE || (code == VIP_DESCRIPTOR_ERROR && !descriptor)) {
		if (promised)
			wrong("%s: %s, though the CQ had told of a descriptor", call, text(code));
		return nullptr;
	}
	if ((code != VIP_SUCCESS && code != VIP_DESCRIPTOR_ERROR) || !descriptor)
		wrong("%s: %s", call, text(code));
	bool isError = descriptor->CS.Status & VIP_STATUS_ERROR_MASK;
	if (!(descriptor->CS.Status & VIP_STATUS_DONE) || isError == (code == VIP_SUCCESS))
		wrong("%s: %s with status %s", call, text(code), status_names(descriptor->CS.Status).c_str());
	unsigned &out = isReceive ? receivesOut_ : sendsOut_;
	if (out == 0)
		wrong("%s gave more descriptors than were posted", call);
	out--;
	return descriptor;
}

VIP_DESCRIPTOR *Side::take(bool isReceive, bool promised)
{
	VIP_DESCRIPTOR *descriptor = nullptr;
	VIP_RETURN code = isReceive ? VipRecvDone(vi, &descriptor) : VipSendDone(vi, &descriptor);
	return taken(code, descriptor, isReceive, promised, isReceive ? "VipRecvDone" : "VipSendDone");
}

VIP_DESCRIPTOR *Side::awaitReceive()
{
	VIP_DESCRIPTOR *descriptor = nullptr;
	VIP_RETURN code = called("VipRecvWait", [&] { return VipRecvWait(vi, VIP_INFINITE, &descriptor); });
	taken(code, descriptor, true, true, "VipRecvWait");
	if (!(descriptor->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR))
		wrong("VipRecvWait: %s without a message", text(code));
	return descriptor;
}

unsigned Side::receiveSlot(const VIP_DESCRIPTOR *descriptor) const
{
	unsigned slot = 0;
	while (room.descriptor(slot) != descriptor)
		slot++;
	return slot;
}

void Side::tellFlushed(const char *queue, const VIP_DESCRIPTOR *descriptor)
{
	if (!flushedTold_)
		event("flushed", "queue=%s status=%s", queue, status_names(descriptor->CS.Status).c_str());
	flushedTold_ = true;
}

// Takes descriptors that have come back and are not needed.
void Side::collect()
{
	VIP_VI_HANDLE which;
	VIP_BOOLEAN isReceive;
	while (cq && VipCQDone(cq, &which, &isReceive) == VIP_SUCCESS)
		take(isReceive, true);
	while (!cq && (take(true) || take(false)))
		;
}

// After this event all is back, and the VI has this state.
void Side::expect(const char *event, VIP_VI_STATE expected)
{
	collect();
	if (receivesOut_ || sendsOut_)
		wrong("%u receives and %u sends are not back after %s", receivesOut_, sendsOut_, event);
	if (state() != expected)
		wrong("the VI is %s after %s", text(state()), event);
}

void Side::awaitLoss()
{
	if (!lost.wait(kPatience))
		wrong("everything is flushed, and the handler has not been told");
}

void Side::disconnect()
{
	if (lost.rung()) // everything was flushed before, so there is no wait here
		expect("the call of the handler", VIP_STATE_ERROR);
	leaving_ = true;
	must(called("VipDisconnect", [&] { return VipDisconnect(vi); }), "VipDisconnect");
	expect("VipDisconnect", VIP_STATE_IDLE);
	event("disconnected", "files=%ld kib=%ld", openFiles(), residentKiB());
	flushedTold_ = false;
}

void Side::release()
{
	collect(); // receives of a failed attempt to connect are still posted
	must(VipDestroyVi(vi), "VipDestroyVi");
	if (cq)
		must(VipDestroyCQ(cq), "VipDestroyCQ");
	room.close(nic_);
	must(VipNSShutdown(nic_), "VipNSShutdown");
	must(called("VipCloseNic", [&] { return VipCloseNic(nic_); }), "VipCloseNic");
	event("released", "files=%ld before=%ld kib=%ld", openFiles(), files_, residentKiB());
}

} // namespace faults
