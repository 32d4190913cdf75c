// SPDX-License-Identifier: BSD-2-Clause
// Connects one side: as server, as client, or as one of two equals.
#include "message.h"
#include "side.h"

#include <cstring>

namespace faults
{

constexpr double kAgain = 240000; // ms for tries to connect again after a break
constexpr double kPause = 50;     // ms, between two tries

// Returns a network address with that discriminator, on that host or, for "", on the NIC's own.
std::vector<uint8_t> Side::address(const std::string &host, const std::string &discriminator) const
{
	VIP_NET_ADDRESS head{};
	constexpr size_t kHead = offsetof(VIP_NET_ADDRESS, HostAddress);
	std::vector<uint8_t> bytes(kHead + attributes_.NicAddressLen +
				   attributes_.MaxDiscriminatorLen);
	auto *result = reinterpret_cast<VIP_NET_ADDRESS *>(bytes.data());
	if (discriminator.size() > attributes_.MaxDiscriminatorLen)
		wrong("the discriminator %s is too long", discriminator.c_str());
	head.HostAddressLen = attributes_.NicAddressLen;
	head.DiscriminatorLen = static_cast<VIP_UINT16>(discriminator.size());
	memcpy(result, &head, kHead);
	memcpy(bytes.data() + kHead, attributes_.LocalNicAddress, attributes_.NicAddressLen);
	if (!host.empty()) {
		std::string name = host;
		VIP_RETURN code = VipNSGetHostByName(nic_, name.data(), result, 0);
		if (code != VIP_SUCCESS)
			wrong("VipNSGetHostByName of %s: %s", host.c_str(), text(code));
	}
	memcpy(bytes.data() + kHead + attributes_.NicAddressLen, discriminator.data(),
	       discriminator.size());
	return bytes;
}

static VIP_NET_ADDRESS *net(std::vector<uint8_t> &bytes)
{
	return reinterpret_cast<VIP_NET_ADDRESS *>(bytes.data());
}

bool Side::serve()
{
	std::vector<uint8_t> local = address("", options.name), remote = address("", "");
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE connection;
	{
		Call call("VipConnectWait");
		VIP_RETURN code = VipConnectWait(nic_, net(local), options.timeout, net(remote),
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
	std::vector<uint8_t> local = address("", options.own);
	std::vector<uint8_t> remote = address(options.host, options.name);
	VIP_VI_ATTRIBUTES attributes;
	Call call("VipConnectRequest");
	return call.ended(VipConnectRequest(vi, net(local), net(remote), options.timeout,
					    &attributes)) == VIP_SUCCESS;
}

bool Side::meet()
{
	std::vector<uint8_t> local = address("", options.own);
	std::vector<uint8_t> remote = address(options.host, options.name);
	VIP_VI_ATTRIBUTES attributes;
	{
		Call call("VipConnectPeerRequest");
		VIP_RETURN code =
			VipConnectPeerRequest(vi, net(local), net(remote), options.timeout);
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
