/*
 * The VIPL contender. A window of receives is posted before the connection,
 * and each is posted again when its message has been answered, while the answer
 * is under way: as ucx_perftest does it. Who waits for a message polls for
 * completed sends as well. All calls that a message needs are made for each:
 * VipPostSend, VipSendDone, VipRecvDone, VipPostRecv, and those in vain.
 *
 * In a stream the server gives credit, by messages of its own, for receives
 * that it has posted again.
 */
#include "loopback_end.h"

#include <stdlib.h>
#include <string.h>

enum {
	PING_DEPTH = 32,
	PAUSE_USEC = 500, /* until a server sleeps in VipConnectWait */
};

struct vipl {
	struct pair *pair;
	struct nic nic;
	struct end ping;
	struct end streams[2]; /* of BANDWIDTH, of RING */
	struct end trial;      /* connected again and again */
	uint64_t exchanges;
	unsigned long streamed[2];
	unsigned long trials;
};

static void *vipl_open(struct pair *pair)
{
	struct vipl *vipl = calloc(1, sizeof(*vipl));

	if (!vipl)
		fail(pair, "no memory");
	else
		vipl->pair = pair;
	return vipl;
}

static void vipl_close(void *state)
{
	struct vipl *vipl = state;

	/* Closing the NIC would do; but a leak or a hang shows better one by one. */
	end_close(&vipl->ping);
	end_close(&vipl->streams[0]);
	end_close(&vipl->streams[1]);
	end_close(&vipl->trial);
	nic_close(&vipl->nic);
	free(vipl);
}

const char *vipl_device(const void *state)
{
	return ((const struct vipl *)state)->nic.attributes.Name;
}

/* Posts all receives, then connects. */
static int bring_up(struct pair *pair, struct end *end)
{
	while (end->receive.posted < end->depth)
		if (end_post_receive(end))
			return -1;
	return pair_meet(pair) || (pair->is_server ? end_accept(end) : end_request(end)) ? -1 : 0;
}

/* The client sends the stream's messages, the server credits. */
static int open_stream(struct vipl *vipl, struct end *end, size_t buffers)
{
	const struct settings *settings = vipl->pair->settings;
	struct ring_shape data = {settings->bytes, buffers};
	struct ring_shape credit = {sizeof(uint64_t), settings->window};
	bool is_server = vipl->pair->is_server;
	const struct ring_shape *send = is_server ? &credit : &data;
	const struct ring_shape *receive = is_server ? &data : &credit;

	if (end_open(end, &vipl->nic, settings->window, send, receive))
		return -1;
	return bring_up(vipl->pair, end);
}

static int vipl_start(void *state)
{
	static const struct ring_shape word = {sizeof(uint64_t), PING_DEPTH};
	struct vipl *vipl = state;
	const struct settings *settings = vipl->pair->settings;

	if (nic_open(&vipl->nic, vipl->pair))
		return -1;
	if (settings->measures & 1u << LATENCY &&
	    (end_open(&vipl->ping, &vipl->nic, PING_DEPTH, &word, &word) ||
	     bring_up(vipl->pair, &vipl->ping)))
		return -1;
	if (settings->measures & 1u << BANDWIDTH && open_stream(vipl, &vipl->streams[0], 1))
		return -1;
	if (settings->measures & 1u << RING &&
	    open_stream(vipl, &vipl->streams[1], settings->window))
		return -1;
	if (settings->measures & 1u << CONNECT &&
	    end_open(&vipl->trial, &vipl->nic, PING_DEPTH, &word, &word))
		return -1;
	return 0;
}

/* Takes a completed send off the queue, if there is one. */
static int look_for_send(struct end *end)
{
	VIP_DESCRIPTOR *descriptor;
	VIP_RETURN code;

	if (end->send.done == end->send.posted)
		return 0;
	code = VipSendDone(end->vi, &descriptor);
	if (code == VIP_NOT_DONE)
		return 0;
	ring_done(&end->send, end->depth);
	return code == VIP_SUCCESS ? 0 : fail_vipl(end->nic->pair, "get a message sent", code);
}

/* A message if there is one, of the right length; data stays until the receive is posted again. */
static int look_for_message(struct end *end, const uint8_t **data)
{
	VIP_DESCRIPTOR *descriptor;
	VIP_RETURN code = VipRecvDone(end->vi, &descriptor);

	*data = NULL;
	if (code == VIP_NOT_DONE)
		return 0;
	if (code != VIP_SUCCESS)
		return fail_vipl(end->nic->pair, "receive", code);
	if (descriptor->CS.Length != end->receive.shape.bytes)
		return fail(end->nic->pair, "VIPL: a message has %u bytes instead of %zu",
			    descriptor->CS.Length, end->receive.shape.bytes);
	*data = ring_buffer(&end->receive, end->receive.at_done);
	ring_done(&end->receive, end->depth);
	return 0;
}

static int await_message(struct end *end, const uint8_t **data)
{
	struct patience patience = {0};

	for (;;) {
		if (look_for_send(end) || look_for_message(end, data))
			return -1;
		if (*data)
			return 0;
		if (keep_waiting(end->nic->pair, &patience, "a VIPL message"))
			return -1;
	}
}

/* Waits until at most "left" sends are not done. */
static int await_sends(struct end *end, unsigned long left)
{
	struct patience patience = {0};

	while (end->send.posted - end->send.done > left)
		if (look_for_send(end) ||
		    keep_waiting(end->nic->pair, &patience, "a VIPL send to be done"))
			return -1;
	return 0;
}

static int put_word(struct end *end, uint64_t value)
{
	if (await_sends(end, end->depth - 1))
		return -1;
	memcpy(ring_buffer(&end->send, end->send.at_posted), &value, sizeof(value));
	return end_post_send(end);
}

static int take_word(struct end *end, uint64_t right)
{
	const uint8_t *data;
	uint64_t value;

	if (await_message(end, &data))
		return -1;
	memcpy(&value, data, sizeof(value));
	if (value != right)
		return fail(end->nic->pair, "VIPL: %#llx came instead of %#llx",
			    (unsigned long long)value, (unsigned long long)right);
	return 0;
}

static int vipl_ping(void *state, unsigned long round_trips)
{
	struct vipl *vipl = state;
	struct end *end = &vipl->ping;

	for (unsigned long i = 0; i < round_trips; ++i) {
		++vipl->exchanges;
		if (put_word(end, ping_value(vipl->exchanges)) || (i && end_post_receive(end)) ||
		    take_word(end, pong_value(vipl->exchanges)))
			return -1;
	}
	return (round_trips && end_post_receive(end)) || await_sends(end, 0) ? -1 : 0;
}

static int vipl_echo(void *state, unsigned long round_trips)
{
	struct vipl *vipl = state;
	struct end *end = &vipl->ping;

	for (unsigned long i = 0; i < round_trips; ++i) {
		++vipl->exchanges;
		if (take_word(end, ping_value(vipl->exchanges)) ||
		    put_word(end, pong_value(vipl->exchanges)) || end_post_receive(end))
			return -1;
	}
	return await_sends(end, 0);
}

/* A credit is how many messages the server has taken since the end was opened. */
static int look_for_credit(struct end *end, unsigned long *credit)
{
	const uint8_t *data;
	uint64_t value;

	if (look_for_message(end, &data))
		return -1;
	if (!data)
		return 0;
	memcpy(&value, data, sizeof(value));
	*credit = value;
	return end_post_receive(end);
}

static int vipl_stream(void *state, const struct stream *stream)
{
	struct vipl *vipl = state;
	struct end *end = &vipl->streams[stream->measure == RING];
	unsigned long *sent = &vipl->streamed[stream->measure == RING];
	unsigned long credit = *sent, last = *sent + stream->messages;
	struct patience patience = {0};

	while (credit < last || end->send.done < end->send.posted) {
		if (*sent < last && *sent - credit < stream->window &&
		    end->send.posted - end->send.done < end->depth) {
			if (stream->check)
				pattern_fill(ring_buffer(&end->send, end->send.at_posted),
					     end->send.shape.bytes, *sent);
			if (end_post_send(end))
				return -1;
			++*sent;
			patience = (struct patience){0};
		}
		if (look_for_send(end) || look_for_credit(end, &credit) ||
		    keep_waiting(vipl->pair, &patience, "credit in a VIPL stream"))
			return -1;
	}
	return 0;
}

static int vipl_sink(void *state, const struct stream *stream)
{
	struct vipl *vipl = state;
	struct end *end = &vipl->streams[stream->measure == RING];
	unsigned long *taken = &vipl->streamed[stream->measure == RING];

	for (unsigned long i = 1; i <= stream->messages; ++i, ++*taken) {
		const uint8_t *data;

		if (await_message(end, &data))
			return -1;
		if (stream->check &&
		    pattern_check(vipl->pair, data, end->receive.shape.bytes, *taken))
			return -1;
		if (end_post_receive(end))
			return -1;
		if ((i % stream->batch == 0 || i == stream->messages) && put_word(end, *taken + 1))
			return -1;
	}
	return await_sends(end, 0);
}

/*
 * A connection: the request and the disconnecting are timed, the message in
 * between proves it. Until the server sleeps in VipConnectWait the client
 * spins instead of sleeping, so as not to measure its own waking up.
 */
static int vipl_request(void *state, double *request_usec, double *disconnect_usec)
{
	struct vipl *vipl = state;
	struct pair *pair = vipl->pair;
	double start;

	++vipl->trials;
	if (pair_meet(pair))
		return -1;
	for (start = now_usec(); now_usec() - start < PAUSE_USEC;)
		;
	start = now_usec();
	if (end_request(&vipl->trial))
		return -1;
	*request_usec = now_usec() - start;
	if (put_word(&vipl->trial, ping_value(vipl->trials)) || await_sends(&vipl->trial, 0) ||
	    pair_meet(pair))
		return -1;

	start = now_usec();
	if (VipDisconnect(vipl->trial.vi) != VIP_SUCCESS)
		return fail(pair, "VIPL: cannot disconnect");
	*disconnect_usec = now_usec() - start;
	return pair_meet(pair);
}

static int vipl_accept(void *state)
{
	struct vipl *vipl = state;
	struct pair *pair = vipl->pair;
	struct end *end = &vipl->trial;
	const uint8_t *data;
	uint64_t value;

	if (end_post_receive(end) || pair_meet(pair) || end_accept(end) ||
	    await_message(end, &data))
		return -1;
	memcpy(&value, data, sizeof(value));
	if (value != ping_value(++vipl->trials))
		return fail(pair, "VIPL: the first message of connection %lu is wrong",
			    vipl->trials);
	if (pair_meet(pair) || pair_meet(pair))
		return -1;
	if (VipDisconnect(end->vi) != VIP_SUCCESS)
		return fail(pair, "VIPL: cannot disconnect");
	return 0;
}

const struct contender vipl_contender = {
	.open = vipl_open,
	.start = vipl_start,
	.ping = vipl_ping,
	.echo = vipl_echo,
	.stream = vipl_stream,
	.sink = vipl_sink,
	.request = vipl_request,
	.accept = vipl_accept,
	.close = vipl_close,
};
