/* SPDX-License-Identifier: BSD-2-Clause */
// Addresses to connect with, for test programs.
#pragma once

#include <vipl.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

// A network address with its bytes.
class Address
{
      public:
	// Of this host.
	Address(const VIP_NIC_ATTRIBUTES &nic, const std::string &discriminator)
	    : bytes_(sizeof(VIP_NET_ADDRESS) + nic.NicAddressLen + nic.MaxDiscriminatorLen + 1)
	{
		get()->HostAddressLen = nic.NicAddressLen;
		get()->DiscriminatorLen = static_cast<VIP_UINT16>(discriminator.size());
		memcpy(host(), nic.LocalNicAddress, nic.NicAddressLen);
		memcpy(host() + nic.NicAddressLen, discriminator.data(), discriminator.size());
	}
	// Has room for any discriminator.
	explicit Address(const VIP_NIC_ATTRIBUTES &nic) : Address(nic, std::string(nic.MaxDiscriminatorLen, 0))
	{
	}
	VIP_NET_ADDRESS *get()
	{
		return reinterpret_cast<VIP_NET_ADDRESS *>(bytes_.data());
	}
	std::string discriminator()
	{
		return {host() + get()->HostAddressLen, get()->DiscriminatorLen};
	}

      private:
	char *host()
	{
		return bytes_.data() + offsetof(VIP_NET_ADDRESS, HostAddress);
	}
	std::vector<char> bytes_;
};
