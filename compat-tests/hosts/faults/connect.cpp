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
	{
		Call call("VipConnectWait");
		VIP_RETURN code = VipConnectWait(nic_, local.get(), options.timeout, remote.get(),
						 &attributes, &connection);
		if (call.ended(code) != VIP_SUCCESS)
			return false;
	}
	if (options.act == Act::Hold) {
		event("holding");
		signal.wait(1e9);
		signal.reset();
	}
	Call call("VipConnectAccept");
	return call.ended(VipConnectAccept(connection, vi)) == VIP_SUCCESS;
}

bool Side::call()
{
	Address local = address("", options.own), remote = address(options.host, options.name);
	VIP_VI_ATTRIBUTES attributes;
	Call call("VipConnectRequest");
	return call.ended(VipConnectRequest(vi, local.get(), remote.get(), options.timeout,
					    &attributes)) == VIP_SUCCESS;
}

bool Side::meet()
{
	Address local = address("", options.own), remote = address(options.host, options.name);
	VIP_VI_ATTRIBUTES attributes;
	{
		Call call("VipConnectPeerRequest");
		VIP_RETURN code =
			VipConnectPeerRequest(vi, local.get(), remote.get(), options.timeout);
		if (call.ended(code) != VIP_SUCCESS)
			return false;
	}
	Call call("VipConnectPeerWait");
	return call.ended(VipConnectPeerWait(vi, &attributes)) == VIP_SUCCESS;
}

bool Side::tryToConnect()
{
	switch (options.role) {
	case Role::Serve:
		return serve();
	case Role::Call:
		return call();
	default:
		return meet();
	}
}

bool Side::connect()
{
	double began = now();
	if (receivesOut_ == 0)
		for (unsigned slot = 0; slot < Room::kReceives; slot++)
			postReceive(slot);
	lost.reset();
	leaving_ = false;
	while (!tryToConnect()) {
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
