/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections of queue pairs without a library: the least that a connection over an RDMA device takes. */
#ifndef VIP_PERF_CONNECT_BARE_H
#define VIP_PERF_CONNECT_BARE_H

#include "raw_device.h"
#include "sockets.h"
#include "transport.h"

/*
 * One end. Both ends have a queue pair as a VI has one. The client connects by TCP and tells its queue pair; the server
 * tells its own, when that can receive; the client confirms.
 */
class BareEnd
{
public:
	explicit BareEnd(const Nic &nic);

	void create(); /* as VipCreateVi */
	void destroy();
	void request(const std::string &host, uint16_t port); /* as VipConnectRequest */
	void disconnect();
	void accept(const Socket &listener); /* from VipConnectWait to VipConnectAccept */

private:
	struct Told {
		uint32_t qp;
		ibv_gid gid;
	};
	void tell();
	Told hear();

	raw::RawDevice device_;
	raw::Domain domain_;
	raw::Cq sends_, receives_;
	raw::Qp qp_;
	Socket socket_;
};

#endif
