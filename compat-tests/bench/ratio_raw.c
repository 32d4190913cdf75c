/*
 * The raw path: two RC queue pairs of one verbs context, connected to each
 * other by hand. It does what VIA asks of every message and nothing else: one
 * receive and one signalled send posted, both completions collected. Each
 * queue has a completion queue of its own, as the queues of a VI without a
 * VIPL completion queue have.
 */
#include "ratio.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	/* More is not asked for inline: longer messages are no question of latency. */
	MAX_INLINE = 256,
	SPINS_PER_CLOCK = 4096,
	FIRST_PSN = 1,
};

struct queue {
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel; /* NULL when polling */
	unsigned int unacked;
};

struct end {
	struct ibv_qp *qp;
	struct queue send;
	struct queue receive;
	struct ibv_sge send_sge;
	struct ibv_sge receive_sge;
};

struct raw_path {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *memory;
	struct end ends[2];
	uint8_t port;
	struct ibv_port_attr port_attr;
	union ibv_gid gid;
	int gid_index;
	unsigned int send_flags;
};

static int fail(const char *what)
{
	fprintf(stderr, "vip_ratio: raw verbs: cannot %s: %s\n", what, strerror(errno));
	return -1;
}

/* RoCE v2 where there are both: it is what rdma_cm prefers, too. */
static bool find_gid(struct raw_path *path, const struct nic_address *address)
{
	struct ibv_gid_entry entries[256];
	ssize_t count = ibv_query_gid_table(path->context, entries, 256, 0);
	bool found = false;

	for (ssize_t i = 0; i < count; ++i) {
		static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

		if (memcmp(entries[i].gid.raw, mapped, sizeof(mapped)) != 0 ||
		    memcmp(entries[i].gid.raw + 12, address->ipv4, 4) != 0)
			continue;
		if (found && entries[i].gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		path->port = (uint8_t)entries[i].port_num;
		path->gid = entries[i].gid;
		path->gid_index = (int)entries[i].gid_index;
		found = true;
	}
	return found;
}

static int open_device(struct raw_path *path, const struct nic_address *address)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	for (int i = 0; list && i < count && !path->context; ++i) {
		path->context = ibv_open_device(list[i]);
		if (path->context && !find_gid(path, address)) {
			ibv_close_device(path->context);
			path->context = NULL;
		}
	}
	if (list)
		ibv_free_device_list(list);
	if (!path->context) {
		errno = ENODEV;
		return fail("find the RDMA device that has the NIC's address");
	}
	if (ibv_query_port(path->context, path->port, &path->port_attr))
		return fail("query the port");
	return 0;
}

static int make_queue(struct raw_path *path, struct queue *queue, bool wait)
{
	if (wait) {
		queue->channel = ibv_create_comp_channel(path->context);
		if (!queue->channel)
			return fail("create a completion channel");
	}
	queue->cq = ibv_create_cq(path->context, QUEUE_DEPTH, NULL, queue->channel, 0);
	return queue->cq ? 0 : fail("create a completion queue");
}

static int make_end(struct raw_path *path, struct end *end, const struct bench *bench)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap =
			{
				.max_send_wr = QUEUE_DEPTH,
				.max_recv_wr = QUEUE_DEPTH,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data =
					bench->size <= MAX_INLINE ? (uint32_t)bench->size : 0,
			},
		.sq_sig_all = 0,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = path->port,
	};

	if (make_queue(path, &end->send, bench->wait) ||
	    make_queue(path, &end->receive, bench->wait))
		return -1;
	init.send_cq = end->send.cq;
	init.recv_cq = end->receive.cq;
	end->qp = ibv_create_qp(path->pd, &init);
	if (!end->qp && init.cap.max_inline_data) {
		init.cap.max_inline_data = 0;
		end->qp = ibv_create_qp(path->pd, &init);
	}
	if (!end->qp)
		return fail("create a queue pair");
	path->send_flags = IBV_SEND_SIGNALED;
	if (init.cap.max_inline_data >= bench->size)
		path->send_flags |= IBV_SEND_INLINE;
	errno = ibv_modify_qp(end->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return errno ? fail("initialise a queue pair") : 0;
}

static int connect_end(struct raw_path *path, struct end *end, const struct end *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = path->port_attr.active_mtu,
		.dest_qp_num = peer->qp->qp_num,
		.rq_psn = FIRST_PSN,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr =
			{
				.is_global = 1,
				.port_num = path->port,
				.grh =
					{
						.dgid = path->gid,
						.sgid_index = (uint8_t)path->gid_index,
						.hop_limit = 64,
					},
			},
	};

	errno = ibv_modify_qp(end->qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
	if (errno)
		return fail("connect a queue pair (RTR)");

	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = FIRST_PSN;
	attr.timeout = 16;
	attr.retry_cnt = 6;
	attr.rnr_retry = 0;
	attr.max_rd_atomic = 1;
	errno = ibv_modify_qp(end->qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return errno ? fail("connect a queue pair (RTS)") : 0;
}

static int make_memory(struct raw_path *path, size_t size)
{
	size_t slot = size ? (size + 63) / 64 * 64 : 64;
	size_t bytes = (4 * slot + 4095) / 4096 * 4096;

	path->pd = ibv_alloc_pd(path->context);
	if (!path->pd)
		return fail("allocate a protection domain");
	path->memory = aligned_alloc(4096, bytes);
	if (!path->memory)
		return fail("allocate memory");
	memset(path->memory, 0, bytes);
	path->mr = ibv_reg_mr(path->pd, path->memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!path->mr)
		return fail("register memory");
	for (int i = 0; i < 2; ++i) {
		uint64_t at = (uintptr_t)path->memory + (size_t)i * 2 * slot;
		uint32_t key = path->mr->lkey;

		path->ends[i].send_sge = (struct ibv_sge){at, (uint32_t)size, key};
		path->ends[i].receive_sge = (struct ibv_sge){at + slot, (uint32_t)size, key};
	}
	return 0;
}

static int post_receive(struct end *end)
{
	struct ibv_recv_wr wr = {.sg_list = &end->receive_sge, .num_sge = 1}, *bad;

	errno = ibv_post_recv(end->qp, &wr, &bad);
	return errno ? fail("post a receive") : 0;
}

static int post_send(const struct raw_path *path, struct end *end)
{
	struct ibv_send_wr wr =
				   {
					   .sg_list = &end->send_sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_SEND,
					   .send_flags = path->send_flags,
				   },
			   *bad;

	errno = ibv_post_send(end->qp, &wr, &bad);
	return errno ? fail("post a send") : 0;
}

struct raw_path *raw_path_open(const struct bench *bench, const struct nic_address *address)
{
	struct raw_path *path = calloc(1, sizeof(*path));

	if (!path) {
		fail("allocate memory");
		return NULL;
	}
	if (open_device(path, address) || make_memory(path, bench->size) ||
	    make_end(path, &path->ends[0], bench) || make_end(path, &path->ends[1], bench) ||
	    connect_end(path, &path->ends[0], &path->ends[1]) ||
	    connect_end(path, &path->ends[1], &path->ends[0]) || post_receive(&path->ends[0]) ||
	    post_receive(&path->ends[1])) {
		raw_path_close(path);
		return NULL;
	}
	return path;
}

/* 1: one completion taken, 0: none there, -1: failed. */
static int take_one(struct queue *queue)
{
	struct ibv_wc wc;
	int count = ibv_poll_cq(queue->cq, 1, &wc);

	if (count < 0)
		return fail("poll");
	if (count && wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "vip_ratio: raw verbs: a message failed: %s\n",
			ibv_wc_status_str(wc.status));
		return -1;
	}
	return count;
}

static int spin(struct queue *queue)
{
	struct timespec start = {0}, now;

	for (unsigned long spins = 1;; ++spins) {
		int taken = take_one(queue);

		if (taken)
			return taken < 0 ? -1 : 0;
		if (spins % SPINS_PER_CLOCK)
			continue;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (!start.tv_sec)
			start = now;
		if (now.tv_sec - start.tv_sec > MESSAGE_LIMIT_MS / 1000) {
			errno = ETIMEDOUT;
			return fail("get a message");
		}
	}
}

/*
 * Poll, arm, poll again, sleep: the way that loses no wake-up. The sleep is in
 * poll() since ibv_get_cq_event has no time limit of its own.
 */
static int sleep_for(struct queue *queue)
{
	struct pollfd fd = {.fd = queue->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;
	int taken;

	while (!(taken = take_one(queue))) {
		errno = ibv_req_notify_cq(queue->cq, 0);
		if (errno)
			return fail("arm a completion queue");
		taken = take_one(queue);
		if (taken)
			break;
		if (poll(&fd, 1, MESSAGE_LIMIT_MS) != 1) {
			errno = errno ? errno : ETIMEDOUT;
			return fail("get an event");
		}
		if (ibv_get_cq_event(queue->channel, &cq, &context))
			return fail("get an event");
		++queue->unacked;
	}
	/* Acknowledging takes a lock: not for every event. */
	if (queue->unacked >= 64) {
		ibv_ack_cq_events(queue->cq, queue->unacked);
		queue->unacked = 0;
	}
	return taken < 0 ? -1 : 0;
}

static int collect(struct queue *queue)
{
	return queue->channel ? sleep_for(queue) : spin(queue);
}

/* Takes a message and posts the next receive at once. */
static int take(struct end *end)
{
	return collect(&end->receive) || post_receive(end) ? -1 : 0;
}

static int raw_both(void *opaque, unsigned long iterations)
{
	struct raw_path *path = opaque;
	struct end *a = &path->ends[0], *b = &path->ends[1];

	for (unsigned long i = 0; i < iterations; ++i)
		if (post_send(path, a) || take(b) || post_send(path, b) || take(a) ||
		    collect(&a->send) || collect(&b->send))
			return -1;
	return 0;
}

static int raw_ping(void *opaque, unsigned long iterations)
{
	struct raw_path *path = opaque;
	struct end *a = &path->ends[0];

	for (unsigned long i = 0; i < iterations; ++i)
		if (post_send(path, a) || take(a) || collect(&a->send))
			return -1;
	return 0;
}

static int raw_echo(void *opaque, unsigned long iterations)
{
	struct raw_path *path = opaque;
	struct end *b = &path->ends[1];

	for (unsigned long i = 0; i < iterations; ++i)
		if (take(b) || post_send(path, b) || collect(&b->send))
			return -1;
	return 0;
}

const struct path_runs raw_runs = {raw_both, raw_ping, raw_echo};

const char *raw_path_device(const struct raw_path *path)
{
	return ibv_get_device_name(path->context->device);
}

static void close_queue(struct queue *queue)
{
	/* Destroying a completion queue waits until its events are acknowledged. */
	if (queue->cq && queue->unacked)
		ibv_ack_cq_events(queue->cq, queue->unacked);
	if (queue->cq)
		ibv_destroy_cq(queue->cq);
	if (queue->channel)
		ibv_destroy_comp_channel(queue->channel);
}

void raw_path_close(struct raw_path *path)
{
	if (!path)
		return;
	for (int i = 0; i < 2; ++i) {
		if (path->ends[i].qp)
			ibv_destroy_qp(path->ends[i].qp);
		close_queue(&path->ends[i].send);
		close_queue(&path->ends[i].receive);
	}
	if (path->mr)
		ibv_dereg_mr(path->mr);
	if (path->pd)
		ibv_dealloc_pd(path->pd);
	if (path->context)
		ibv_close_device(path->context);
	free(path->memory);
	free(path);
}
