/* SPDX-License-Identifier: BSD-2-Clause */
/* Classes for VIPL's objects. Constructors throw, and destructors release the objects. */
#ifndef VIP_PERF_VIPL_OBJECTS_H
#define VIP_PERF_VIPL_OBJECTS_H

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <vipl.h>

#include "control.h"

/* Throws "cannot WHAT: VIP_...". */
[[noreturn]] void fail_code(VIP_RETURN code, const char *what);
/* Throws unless the code is VIP_SUCCESS. */
inline void check(VIP_RETURN code, const char *what)
{
	if (code != VIP_SUCCESS)
		fail_code(code, what);
}

/* An object that is not copied. */
struct Single {
	Single() = default;
	Single(const Single &) = delete;
	Single &operator=(const Single &) = delete;
};

/* An open NIC with a protection tag, which all of this program's memory and VIs use. */
class Nic : Single
{
public:
	explicit Nic(const std::string &name);
	~Nic();

	VIP_NIC_HANDLE handle() const
	{
		return handle_;
	}
	VIP_PROTECTION_HANDLE ptag() const
	{
		return ptag_;
	}
	const VIP_NIC_ATTRIBUTES &attributes() const
	{
		return attributes_;
	}
	std::vector<uint8_t> host_address() const
	{
		return {attributes_.LocalNicAddress, attributes_.LocalNicAddress + attributes_.NicAddressLen};
	}
	/* Whether it is via_lo, which has no device. */
	bool is_loopback() const
	{
		return attributes_.Name == std::string("via_lo");
	}

private:
	VIP_NIC_HANDLE handle_ = nullptr;
	VIP_PROTECTION_HANDLE ptag_ = nullptr;
	VIP_NIC_ATTRIBUTES attributes_ = {};
};

/* A network address in memory of the necessary size. VIPL takes addresses that it does not change without const. */
class Address
{
public:
	Address(const std::vector<uint8_t> &host, const std::vector<uint8_t> &discriminator);
	VIP_NET_ADDRESS *net() const
	{
		return reinterpret_cast<VIP_NET_ADDRESS *>(room_);
	}

private:
	alignas(VIP_NET_ADDRESS) mutable uint8_t room_[512] = {};
};

/* Returns an address of the NIC's. Its discriminator is `mark`, a number or an array of numbers. */
template <typename Mark> Address own_address(const Nic &nic, const Mark &mark)
{
	const auto *bytes = reinterpret_cast<const uint8_t *>(&mark);

	return {nic.host_address(), {bytes, bytes + sizeof(mark)}};
}

/* Whole pages of zeros. They are written to, so that no message has to wait for one. */
using Pages = std::unique_ptr<uint8_t, decltype(&std::free)>;
Pages pages_of(size_t bytes);

/* Registered memory. */
class Memory : Single
{
public:
	/* is_target: the peer may write into the memory and read from it. */
	Memory(const Nic &nic, size_t bytes, bool is_target);
	~Memory();

	uint8_t *at(size_t offset) const
	{
		return pages_.get() + offset;
	}
	VIP_MEM_HANDLE handle() const
	{
		return handle_;
	}

private:
	const Nic &nic_;
	const Pages pages_;
	VIP_MEM_HANDLE handle_ = 0;
};

/* Whether the peer's process is gone. */
using Gone = std::function<bool()>;

/* Calls VipConnectWait. */
VIP_RETURN await_request(const Nic &nic, const Address &local, VIP_ULONG limit_ms, VIP_CONN_HANDLE &request);

class Vi : Single
{
public:
	/* cq: the CQ of both queues, or NULL. */
	Vi(const Nic &nic, VIP_RELIABILITY_LEVEL level, size_t max_transfer, bool is_target,
	   VIP_CQ_HANDLE cq);
	~Vi(); /* disconnects first */

	VIP_VI_HANDLE handle() const
	{
		return handle_;
	}
	/* Each calls VIPL once: VipConnectRequest; VipConnectWait and what answers the request. */
	VIP_RETURN request_once(const Address &local, const Address &remote, VIP_ULONG limit_ms);
	VIP_RETURN accept_once(const Nic &nic, const Address &local, VIP_ULONG limit_ms);
	/*
	 * Both give up after ten seconds, or when the peer is gone. request() tries again until
	 * then if no server waits.
	 */
	void request(const Nic &nic, const Address &remote, const Gone &is_gone);
	void accept(const Nic &nic, const Address &local, const Gone &is_gone);

private:
	VIP_VI_HANDLE handle_ = nullptr;
};

/* One side of a run. */
struct Side {
	/* Meets the other side. The server chooses the address for all VIs of the run. */
	Side(Control &control, const Nic &nic, bool is_server);

	Control &control;
	const Nic &nic;
	const bool is_server;
	const Address server;
};

/* The server accepts, and the client requests. Each gives up when the other has given up. */
void connect_vi(const Side &side, Vi &vi);

#endif
