/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an RDMA device offers. Some of it can only be found by trying, on a queue pair and CQs that are destroyed again. This
 * happens once, when the device is opened, because some drivers write a line of the kernel's log for each try that they refuse.
 */
#include "verbs_caps.h"

#include <errno.h>

/* Larger CQs are not tried: the kernel pins their memory, which may be hundreds of MiB. */
#define TRIED_ENTRIES 65535u

static int error_of(struct verbs_caps *caps, const char *call)
{
	caps->failed = call;
	return errno ? errno : EINVAL; /* some providers set none when they refuse a size or a type */
}

/* Other errors are about this moment: memory, a limit of the cgroup, a permission, a device that has gone. */
static bool is_refusal(int error)
{
	return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || error == EPROTONOSUPPORT;
}

/* 0 or errno. */
static int try_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type, unsigned inline_bytes, struct verbs_caps *caps)
{
	struct ibv_qp_init_attr attributes = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = caps->send_segments,
			.max_recv_sge = caps->receive_segments,
			.max_inline_data = inline_bytes},
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp;

	errno = 0;
	qp = ibv_create_qp(pd, &attributes);
	if (!qp)
		return error_of(caps, "ibv_create_qp()");
	ibv_destroy_qp(qp);
	return 0;
}

/* The device need not fetch inline data from memory. 0 or errno. */
static int find_inline(struct ibv_pd *pd, struct ibv_cq *cq, struct verbs_caps *caps)
{
	static const unsigned sizes[] = {128, 96, 64, 32, 0};
	int error = EINVAL;

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && is_refusal(error); i++) {
		caps->inline_bytes = sizes[i];
		error = try_qp(pd, cq, IBV_QPT_RC, sizes[i], caps);
	}
	return error;
}

/* 0 or errno. */
static int find_uc(struct ibv_pd *pd, struct ibv_cq *cq, struct verbs_caps *caps)
{
	int error = try_qp(pd, cq, IBV_QPT_UC, caps->inline_bytes, caps);

	caps->has_uc = !error;
	return is_refusal(error) ? 0 : error;
}

static int try_queue_pairs(struct ibv_context *context, struct ibv_cq *cq, struct verbs_caps *caps)
{
	struct ibv_pd *pd;
	int error;

	errno = 0;
	pd = ibv_alloc_pd(context);
	if (!pd)
		return error_of(caps, "ibv_alloc_pd()");
	error = find_inline(pd, cq, caps);
	if (!error)
		error = find_uc(pd, cq, caps);
	ibv_dealloc_pd(pd);
	return error;
}

/* Other errors are about this moment, such as a limit on locked memory. */
static bool is_too_large(struct ibv_context *context, unsigned entries)
{
	struct ibv_cq *cq;

	errno = 0;
	cq = ibv_create_cq(context, (int)entries, NULL, NULL, 0);
	if (cq)
		ibv_destroy_cq(cq);
	return !cq && (!errno || errno == EFAULT || is_refusal(errno));
}

/* The largest 2^n - 1 up to this: providers make a power of two of a size, some before the kernel compares it. */
static unsigned whole_power(unsigned most)
{
	unsigned power = 1;

	while (power <= most / 2)
		power *= 2;
	return most == 2 * power - 1 || power == 1 ? most : power - 1;
}

/* max_cqe is more than can be had where the kernel compares a size that was rounded up. Only what was tried is promised. */
static unsigned find_entries(struct ibv_context *context, unsigned most)
{
	unsigned entries = most < TRIED_ENTRIES ? most : TRIED_ENTRIES;

	while (entries > 1 && is_too_large(context, entries))
		entries = whole_power(entries - 1);
	return entries;
}

/* 0 or errno. */
static int try_all(struct ibv_context *context, struct verbs_caps *caps)
{
	struct ibv_cq *cq;
	int error;

	errno = 0;
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	if (!cq)
		return error_of(caps, "ibv_create_cq()");
	error = try_queue_pairs(context, cq, caps);
	ibv_destroy_cq(cq);
	return error;
}

int verbs_ask_caps_but_entries(struct ibv_context *context, const struct ibv_device_attr *limits, struct verbs_caps *caps)
{
	unsigned sends = verbs_lower(VERBS_SEND_SEGMENTS, limits->max_sge);

	*caps = (struct verbs_caps){
		.send_segments = sends,
		.read_segments = verbs_lower(sends, limits->max_sge_rd),
		.receive_segments = verbs_lower(VERBS_RECEIVE_SEGMENTS, limits->max_sge),
		.vectors = context->num_comp_vectors > 1 ? (unsigned)context->num_comp_vectors : 1,
		.has_reads = limits->max_qp_rd_atom > 0 && limits->max_qp_init_rd_atom > 0,
	};
	caps->has_atomics = limits->atomic_cap != IBV_ATOMIC_NONE && caps->has_reads;
	return try_all(context, caps);
}

int verbs_ask_caps(struct ibv_context *context, const struct ibv_device_attr *limits, struct verbs_caps *caps)
{
	int error = verbs_ask_caps_but_entries(context, limits, caps);

	if (!error)
		caps->cq_entries = find_entries(context, limits->max_cqe > 1 ? (unsigned)limits->max_cqe : 1);
	return error;
}
