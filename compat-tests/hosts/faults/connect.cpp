// SPDX-License-Identifier: BSD-2-Clause
// Connects one side: as server, as client, or as one of two equals.
#include "side.h"

namespace faults
{

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
		if (!options.reconnect || now() - began > kAgain || isDeviceGone())
			return false;
		if (state() != VIP_STATE_IDLE)
			wrong("the VI is %s after connecting failed", text(state()));
		lost.wait(kPause);
	}
	event("connected", "took=%.1f", now() - began);
	return true;
}

} // namespace faults
