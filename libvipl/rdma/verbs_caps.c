/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an RDMA device offers. Some of it can only be found by trying, on a queue pair and CQs that are destroyed again. This
 * happens once, when the device is opened, because some drivers write a line of the kernel's log for each try that they refuse.
 */
#include "verbs_candidates.h"

/* Larger CQs are not tried: the kernel pins their memory, which may be hundreds of MiB. */
#define TRIED_ENTRIES 65535u

/* Some providers set no errno when they refuse a size or a type. */
static int failed(const char *call)
{
	return cause(call, errno ? errno : EINVAL);
}

/* Other errors are about this moment: memory, a limit of the cgroup, a permission, a device that has gone. */
static bool is_refusal(int error)
{
	return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || error == EPROTONOSUPPORT;
}

static int try_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type, const struct verbs_caps *caps)
{
	struct ibv_qp_init_attr attributes = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = caps->send_segments,
			.max_recv_sge = caps->receive_segments,
			.max_inline_data = caps->inline_bytes},
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp;

	errno = 0;
	qp = ibv_create_qp(pd, &attributes);
	if (!qp)
		return failed("ibv_create_qp()");
	ibv_destroy_qp(qp);
	return 0;
}

/* How much the device need not fetch from memory, and whether it has UC. */
static int try_queue_pairs(struct ibv_pd *pd, struct ibv_cq *cq, struct verbs_caps *caps)
{
	static const unsigned sizes[] = {128, 96, 64, 32, 0};
	int error = EINVAL;

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && is_refusal(error); i++) {
		caps->inline_bytes = sizes[i];
		error = try_qp(pd, cq, IBV_QPT_RC, caps);
	}
	if (error)
		return error;
	error = try_qp(pd, cq, IBV_QPT_UC, caps);
	caps->has_uc = !error;
	return is_refusal(error) ? 0 : error;
}

int verbs_ask_caps(struct ibv_context *context, struct ibv_device_attr *limits, struct verbs_caps *caps)
{
	int error = ibv_query_device(context, limits);
	struct ibv_cq *cq;
	struct ibv_pd *pd;

	if (error)
		return cause("ibv_query_device()", error);
	*caps = (struct verbs_caps){
		.send_segments = verbs_lower(VERBS_SEND_SEGMENTS, limits->max_sge),
		.receive_segments = verbs_lower(VERBS_RECEIVE_SEGMENTS, limits->max_sge),
		.vectors = context->num_comp_vectors > 1 ? (unsigned)context->num_comp_vectors : 1,
		.has_reads = limits->max_qp_rd_atom > 0 && limits->max_qp_init_rd_atom > 0,
	};
	caps->read_segments = verbs_lower(caps->send_segments, limits->max_sge_rd);
	caps->has_atomics = limits->atomic_cap != IBV_ATOMIC_NONE && caps->has_reads;
	errno = 0;
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	if (!cq)
		return failed("ibv_create_cq()");
	pd = ibv_alloc_pd(context);
	error = pd ? try_queue_pairs(pd, cq, caps) : failed("ibv_alloc_pd()");
	if (pd)
		ibv_dealloc_pd(pd);
	ibv_destroy_cq(cq);
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

unsigned verbs_most_entries(struct ibv_context *context, const struct ibv_device_attr *limits)
{
	unsigned entries = limits->max_cqe > 1 ? verbs_lower(TRIED_ENTRIES, limits->max_cqe) : 1;

	/* The next one is 2^n - 1: providers make a power of two of a size, some before the kernel compares it. */
	while (entries > 1 && is_too_large(context, entries))
		entries = (1u << (31 - __builtin_clz(entries))) - 1;
	return entries;
}
