// SPDX-License-Identifier: BSD-2-Clause
#include "vipl_objects.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "../common/common.h"

namespace
{
using Clock = std::chrono::steady_clock;

constexpr size_t page = 4096;
constexpr auto connect_limit = std::chrono::seconds(10);
constexpr VIP_ULONG connect_limit_ms = 10000;
constexpr int greeting_limit_ms = 20000;
constexpr VIP_ULONG wait_ms = 500; /* after it the caller looks whether the peer is there */

/* The results of the calls show errors. A peer that hangs up is not an error here. */
void ignore_error(VIP_PVOID, VIP_ERROR_DESCRIPTOR *)
{
}
} // namespace

void fail_code(VIP_RETURN code, const char *what)
{
	throw Failure(std::string("cannot ") + what + ": " + return_name(code));
}

Nic::Nic(const std::string &name)
{
	std::string writable = name;
	const VIP_RETURN code = VipOpenNic(writable.data(), &handle_);

	if (code != VIP_SUCCESS)
		throw Failure("cannot open NIC " + name + ": " + return_name(code) +
			      " (vip_info tells which NICs there are, and what is missing)");
	check(VipQueryNic(handle_, &attributes_), "query the NIC");
	check(VipErrorCallback(handle_, nullptr, ignore_error), "set a handler of errors");
	check(VipCreatePtag(handle_, &ptag_), "create a protection tag");
}

Nic::~Nic()
{
	VipDestroyPtag(handle_, ptag_);
	VipCloseNic(handle_);
}

Address::Address(const std::vector<uint8_t> &host, const std::vector<uint8_t> &discriminator)
{
	uint8_t *to = room_ + offsetof(VIP_NET_ADDRESS, HostAddress);

	if (host.size() + discriminator.size() >
	    sizeof(room_) - offsetof(VIP_NET_ADDRESS, HostAddress))
		throw Failure("a network address is too long");
	net()->HostAddressLen = static_cast<VIP_UINT16>(host.size());
	net()->DiscriminatorLen = static_cast<VIP_UINT16>(discriminator.size());
	std::memcpy(to, host.data(), host.size());
	std::memcpy(to + host.size(), discriminator.data(), discriminator.size());
}

Pages pages_of(size_t bytes)
{
	bytes = (bytes + page - 1) / page * page;
	Pages pages(static_cast<uint8_t *>(std::aligned_alloc(page, bytes)), std::free);

	if (!pages)
		throw Failure("no memory for " + std::to_string(bytes) + " bytes of buffers");
	std::memset(pages.get(), 0, bytes);
	return pages;
}

Memory::Memory(const Nic &nic, size_t bytes, bool is_target) : nic_(nic), pages_(pages_of(bytes))
{
	VIP_MEM_ATTRIBUTES attributes = {nic.ptag(), is_target, is_target};

	check(VipRegisterMem(nic.handle(), pages_.get(), bytes, &attributes, &handle_), "register memory");
}

Memory::~Memory()
{
	VipDeregisterMem(nic_.handle(), pages_.get(), handle_);
}

Vi::Vi(const Nic &nic, VIP_RELIABILITY_LEVEL level, size_t max_transfer, bool is_target,
       VIP_CQ_HANDLE cq)
{
	VIP_VI_ATTRIBUTES attributes = {};

	attributes.ReliabilityLevel = level;
	attributes.MaxTransferSize = max_transfer;
	attributes.Ptag = nic.ptag();
	attributes.EnableRdmaWrite = is_target;
	attributes.EnableRdmaRead = is_target && nic.attributes().RDMAReadSupport & level;
	check(VipCreateVi(nic.handle(), &attributes, cq, cq, &handle_), "create a VI");
}

Vi::~Vi()
{
	VipDisconnect(handle_);
	VipDestroyVi(handle_);
}

VIP_RETURN await_request(const Nic &nic, const Address &local, VIP_ULONG limit_ms, VIP_CONN_HANDLE &request)
{
	Address remote(nic.host_address(), std::vector<uint8_t>(nic.attributes().MaxDiscriminatorLen));
	VIP_VI_ATTRIBUTES attributes;

	return VipConnectWait(nic.handle(), local.net(), limit_ms, remote.net(), &attributes, &request);
}

VIP_RETURN Vi::request_once(const Address &local, const Address &remote, VIP_ULONG limit_ms)
{
	VIP_VI_ATTRIBUTES attributes;

	return VipConnectRequest(handle_, local.net(), remote.net(), limit_ms, &attributes);
}

VIP_RETURN Vi::accept_once(const Nic &nic, const Address &local, VIP_ULONG limit_ms)
{
	VIP_CONN_HANDLE request;
	VIP_RETURN code = await_request(nic, local, limit_ms, request);

	if (code != VIP_SUCCESS)
		return code;
	code = VipConnectAccept(request, handle_);
	if (code != VIP_SUCCESS)
		VipConnectReject(request);
	return code;
}

void Vi::request(const Nic &nic, const Address &remote, const Gone &is_gone)
{
	const auto deadline = Clock::now() + connect_limit;
	const Address local = own_address(nic, getpid());
	VIP_RETURN code;

	do
		code = request_once(local, remote, connect_limit_ms);
	while (code == VIP_NO_MATCH && Clock::now() < deadline && !is_gone());
	check(code, "connect");
}

void Vi::accept(const Nic &nic, const Address &local, const Gone &is_gone)
{
	const auto deadline = Clock::now() + connect_limit;
	VIP_RETURN code;

	do
		code = accept_once(nic, local, wait_ms);
	while (code == VIP_TIMEOUT && Clock::now() < deadline && !is_gone());
	check(code, "accept a connection");
}

namespace
{
Address server_of_run(Control &control, const Nic &nic, bool is_server)
{
	const std::string mark = "perf" + std::to_string(getpid());
	Json place = {{"host", nic.host_address()}, {"mark", std::vector<uint8_t>(mark.begin(), mark.end())}};

	control.meet(greeting_limit_ms);
	if (is_server)
		control.write(place);
	else
		place = control.read();
	return {place.at("host").get<std::vector<uint8_t>>(), place.at("mark").get<std::vector<uint8_t>>()};
}
} // namespace

Side::Side(Control &with, const Nic &on, bool serves)
    : control(with), nic(on), is_server(serves), server(server_of_run(with, on, serves))
{
}

void connect_vi(const Side &side, Vi &vi)
{
	const Gone is_gone = [&] { return side.control.has_given_up(); };

	if (side.is_server)
		vi.accept(side.nic, side.server, is_gone);
	else
		vi.request(side.nic, side.server, is_gone);
}
