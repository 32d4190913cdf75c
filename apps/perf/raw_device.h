/* SPDX-License-Identifier: BSD-2-Clause */
/* An RDMA device by raw verbs: the one that a NIC is. */
#ifndef VIP_PERF_RAW_DEVICE_H
#define VIP_PERF_RAW_DEVICE_H

#include <memory>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "failure.h"
#include "vipl_objects.h"

namespace raw
{
template <auto destroy> struct Destroyer {
	template <class T> void operator()(T *object) const
	{
		destroy(object);
	}
};
template <class T, auto destroy> using Owner = std::unique_ptr<T, Destroyer<destroy>>;

using Device = Owner<ibv_context, ibv_close_device>;
using Domain = Owner<ibv_pd, ibv_dealloc_pd>;
using Region = Owner<ibv_mr, ibv_dereg_mr>;
using Channel = Owner<ibv_comp_channel, ibv_destroy_comp_channel>;
using Cq = Owner<ibv_cq, ibv_destroy_cq>;
using Qp = Owner<ibv_qp, ibv_destroy_qp>;

/* `error` is an errno value, or 0 for success. */
inline void must(int error, const char *what)
{
	if (error)
		fail_errno(std::string(what) + " (raw verbs)", error);
}

template <class Object> Object made(Object object, const char *what)
{
	if (!object)
		must(errno ? errno : ENOMEM, what);
	return object;
}

/*
 * A queue pair's sizes. The usual ones are as VIA requires them and libvipl chooses them: the place of a
 * device's queues in memory influences its speed.
 */
struct Size {
	unsigned sends, receives, send_segments, receive_segments;
};
constexpr Size usual = {126, 1024, 16, 5};

/* What a queue pair's peer has to know of it. */
struct End {
	uint32_t qp;
	uint16_t lid; /* of InfiniBand */
	ibv_gid gid;
};

/* A device with a protection domain. Fails when the NIC is no RDMA device. */
class RawDevice
{
public:
	explicit RawDevice(const Nic &nic);

	ibv_context *get() const
	{
		return device_.get();
	}
	ibv_pd *domain() const
	{
		return domain_.get();
	}
	Cq make_cq(unsigned depth, ibv_comp_channel *channel = nullptr) const
	{
		return Cq(made(ibv_create_cq(device_.get(), int(depth), nullptr, channel, 0), "create a completion queue"));
	}
	/* `inline_bytes` becomes 0 where the device does not support so many. */
	Qp make_qp(const Size &size, ibv_cq *sends, ibv_cq *receives, unsigned &inline_bytes,
		   bool is_unreliable = false) const;
	/* Moves a queue pair from INIT to RTS. */
	void connect(ibv_qp *qp, const End &peer, bool is_unreliable = false) const;
	/* Moves a queue pair from RESET to INIT. */
	void initialise(ibv_qp *qp, unsigned access) const;
	End end_of(const ibv_qp *qp) const
	{
		return {qp->qp_num, port_attributes_.lid, gid_};
	}

private:
	void find_device(const char *name);
	void find_gid(const std::vector<uint8_t> &host);

	Device device_;
	Domain domain_;
	uint8_t port_ = 1;
	ibv_port_attr port_attributes_ = {};
	ibv_gid gid_ = {};
	uint8_t gid_index_ = 0;
};
} // namespace raw

#endif
