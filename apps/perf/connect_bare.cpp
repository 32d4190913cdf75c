// SPDX-License-Identifier: BSD-2-Clause
#include "connect_bare.h"

#include <sys/socket.h>

using raw::made;

namespace
{
constexpr unsigned sends = 126, receives = 1024, send_segments = 16, receive_segments = 5, inline_bytes = 128;

void write_all(const Socket &socket, const void *data, size_t bytes)
{
	if (send(socket.fd(), data, bytes, MSG_NOSIGNAL) != ssize_t(bytes))
		fail_errno("tell the peer's queue pair");
}

void read_all(const Socket &socket, void *data, size_t bytes)
{
	if (recv(socket.fd(), data, bytes, MSG_WAITALL) != ssize_t(bytes))
		fail_errno("hear of the peer's queue pair");
}
} // namespace

BareEnd::BareEnd(const Nic &nic) : device_(nic)
{
	domain_.reset(made(ibv_alloc_pd(device_.get()), "make a protection domain"));
}

void BareEnd::create()
{
	ibv_qp_init_attr init = {};

	sends_.reset(made(ibv_create_cq(device_.get(), sends, nullptr, nullptr, 0), "create a completion queue"));
	receives_.reset(made(ibv_create_cq(device_.get(), receives, nullptr, nullptr, 0), "create a completion queue"));
	init.qp_type = IBV_QPT_RC;
	init.send_cq = sends_.get();
	init.recv_cq = receives_.get();
	init.cap = {sends, receives, send_segments, receive_segments, inline_bytes};
	qp_.reset(made(ibv_create_qp(domain_.get(), &init), "create a queue pair"));
}

void BareEnd::destroy()
{
	qp_.reset();
	sends_.reset();
	receives_.reset();
}

void BareEnd::tell()
{
	const Told own = {qp_->qp_num, device_.gid()};

	write_all(socket_, &own, sizeof(own));
}

BareEnd::Told BareEnd::hear()
{
	Told peer;

	read_all(socket_, &peer, sizeof(peer));
	return peer;
}

void BareEnd::request(const std::string &host, uint16_t port)
{
	const char confirmed = 1;

	device_.initialise(qp_.get(), 0);
	socket_ = dial(host, port, "the server");
	send_at_once(socket_);
	tell();
	const Told peer = hear();
	device_.connect(qp_.get(), peer.qp, peer.gid);
	write_all(socket_, &confirmed, sizeof(confirmed));
}

void BareEnd::disconnect()
{
	socket_ = Socket();
}

void BareEnd::accept(const Socket &listener)
{
	char confirmed;

	socket_ = accept_from(listener);
	send_at_once(socket_);
	const Told peer = hear();
	device_.initialise(qp_.get(), 0);
	device_.connect(qp_.get(), peer.qp, peer.gid);
	tell();
	read_all(socket_, &confirmed, sizeof(confirmed));
}
