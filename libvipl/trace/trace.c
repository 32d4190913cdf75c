/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of the trace, and polls, which are counted instead of having lines. */
#include "trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/config.h"
#include "base/deadline.h"
#include "base/log.h"
#include "vipl_names.h"

#define POLLED	   4096u    /* queues whose polls are counted at a time */
#define POLLS_TOLD 1000000u /* so many polls get a line, even if nothing else happens */

#define SECONDS		  "%lld.%09lld"
#define SECONDS_OF(nsec) (long long)((nsec) / NSEC_PER_SEC), (long long)((nsec) % NSEC_PER_SEC)

/* The polls of a queue by all threads that no line counts yet. */
static struct polls {
	_Atomic uint64_t queue; /* its handle, and in the last three bits its trace_queue */
	_Atomic uint32_t none, empty;
} polled[POLLED];

atomic_bool trace_may_be_on = true;
static pthread_once_t opening = PTHREAD_ONCE_INIT; /* of the file, by the first line */
static _Thread_local uint32_t own_thread __attribute__((tls_model("initial-exec")));

/* ---- words ---- */

void trace_begin(struct trace_line *line, const char *function)
{
	memset(line, 0, offsetof(struct trace_line, words));
	line->function = function;
}

void trace_say(struct trace_line *line, const char *format, ...)
{
	size_t room = sizeof(line->words) - line->length;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(line->words + line->length, room, format, args);
	va_end(args);
	line->length += (size_t)length < room ? (size_t)length : room - 1;
}

void trace_say_bytes(struct trace_line *line, const char *key, const void *bytes, size_t length)
{
	trace_say(line, "%s", key);
	for (const unsigned char *byte = bytes; length--; byte++)
		trace_say(line, *byte > ' ' && *byte < 0x7f && *byte != '\\' ? "%c" : "\\x%02x", *byte);
}

void trace_done(struct trace_line *line, const VIP_DESCRIPTOR *descriptor)
{
	const VIP_CONTROL_SEGMENT *control = &descriptor->CS;

	trace_say(line, " desc=0x%lx status=0x%x bytes=%u", TRACE_HEX(descriptor), control->Status, control->Length);
	if (control->Status & VIP_STATUS_IMMEDIATE)
		trace_say(line, " imm=0x%x", control->ImmediateData);
}

/* ---- lines ---- */

/* The beginning of each file. */
static void make_header(struct trace_line *line)
{
	struct timespec real;
	struct utsname host = {.nodename = "?"};
	char date[32], program[160];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program));
	int64_t now = clock_nsec();
	struct tm utc;

	uname(&host);
	clock_gettime(CLOCK_REALTIME, &real);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", gmtime_r(&real.tv_sec, &utc));
	trace_begin(line, NULL);
	trace_say(line, "# vipl-trace 1 library=%s pid=%d parent=%d bits=%u host=%.64s date=%s.%09ldZ", VIPL_VERSION,
		  getpid(), getppid(), (unsigned)sizeof(void *) * 8, host.nodename, date, real.tv_nsec);
	trace_say(line, " monotonic=" SECONDS, SECONDS_OF(now));
	trace_say_bytes(line, " program=", program, length < 0 ? 0 : (size_t)length);
}

/* In a child of fork(): the polls are the parent's, and so is the file. The first line opens another one. */
static void begin_child(void)
{
	memset(polled, 0, sizeof(polled));
	own_thread = 0;
	opening = PTHREAD_ONCE_INIT;
	trace_file_forget();
}

/* The handler comes first: from then on a child can be born at any time. */
static void open_trace(void)
{
	static bool has_handler; /* and so does a child */
	struct trace_line header;
	int error = has_handler || !*config()->trace ? 0 : pthread_atfork(NULL, NULL, begin_child);

	has_handler = true;
	if (error)
		log_warning("VIPL_TRACE: no trace is written: %s", failure_of("pthread_atfork()", error));
	make_header(&header);
	if (error || !*config()->trace || !trace_file_open(header.words))
		atomic_store(&trace_may_be_on, false);
}

/* False: there is no trace. */
static bool is_there(void)
{
	int saved = errno, cancel;

	if (trace_file_is_open())
		return true;
	cancel = cancel_hold();
	if (trace_is_on())
		pthread_once(&opening, open_trace);
	cancel_resume(cancel);
	errno = saved;
	return trace_is_on();
}

static void put_line(const struct trace_line *line, char event, const char *result)
{
	long long duration = line->now - line->begun;
	char whole[TRACE_ROOM + 160];
	int length;

	if (!own_thread)
		own_thread = (uint32_t)syscall(SYS_gettid); /* programs have a gettid() of their own */
	length = sprintf(whole, line->begun ? SECONDS " %u %c %s %s %lld" : SECONDS " %u %c %s %s -",
			 SECONDS_OF(line->now), own_thread, event, line->function, result, duration);
	if (line->queue != TRACE_NONE)
		length += sprintf(whole + length, line->queue == TRACE_CQ ? " cq=0x%lx" : " vi=0x%lx",
				  TRACE_HEX(line->handle));
	memcpy(whole + length, line->words, line->length);
	length += (int)line->length;
	whole[length++] = '\n';
	trace_file_write(whole, (size_t)length);
}

void trace_remark(const char *format, ...)
{
	char whole[TRACE_ROOM] = "# ";
	va_list args;

	if (!is_there())
		return;
	va_start(args, format);
	vsnprintf(whole + 2, sizeof(whole) - 3, format, args);
	va_end(args);
	strcat(whole, "\n");
	trace_file_write(whole, strlen(whole));
}

/* ---- polls ---- */

static uint64_t polled_queue(const struct trace_line *line)
{
	return (uint64_t)(uintptr_t)line->handle << 3 | line->queue;
}

static struct polls *polls_of(uint64_t queue)
{
	return &polled[queue / 2 % POLLED]; /* handles are an index below a generation */
}

/* Moves the counts into the line. False: there are none. */
static bool note_polls(struct trace_line *line, struct polls *polls)
{
	uint32_t none = atomic_exchange(&polls->none, 0), empty = atomic_exchange(&polls->empty, 0);

	if (none)
		trace_say(line, " polls=%u", none);
	if (empty)
		trace_say(line, " empty=%u", empty);
	return none || empty;
}

/* Writes a line for the polls, if there are any. */
static void tell_polls(struct polls *polls, uint64_t queue)
{
	static const char *const functions[] = {"-", "VipSendDone", "VipRecvDone", "VipCQDone", "VipConnectPeerDone"};
	struct trace_line line;

	trace_begin(&line, functions[queue & 7]);
	line.queue = (enum trace_queue)(queue & 7);
	line.handle = (VIP_PVOID)(uintptr_t)(queue >> 3);
	line.now = clock_nsec();
	if (note_polls(&line, polls))
		put_line(&line, '~', "VIP_NOT_DONE");
}

static void count_poll(const struct trace_line *line)
{
	uint64_t queue = polled_queue(line);
	struct polls *polls = polls_of(queue);

	if (!is_there())
		return;
	if (atomic_load_explicit(&polls->queue, memory_order_relaxed) != queue)
		tell_polls(polls, atomic_exchange(&polls->queue, queue));
	if (atomic_fetch_add(line->found_empty ? &polls->empty : &polls->none, 1) + 1 >= POLLS_TOLD)
		tell_polls(polls, queue);
}

/* When the process ends: writes lines for the polls that no line counts yet. */
static __attribute__((destructor)) void end_trace(void)
{
	if (!trace_file_is_open())
		return;
	for (size_t i = 0; i < POLLED; i++)
		tell_polls(&polled[i], atomic_load(&polled[i].queue));
	trace_file_end();
}

/* ---- events: the third word of a line ---- */

void trace_event(struct trace_line *line, char event, const char *result)
{
	struct polls *polls = polls_of(polled_queue(line));
	size_t length = line->length;

	if (!is_there())
		return;
	if (line->queue != TRACE_NONE && atomic_load(&polls->queue) == polled_queue(line))
		note_polls(line, polls);
	put_line(line, event, result);
	line->length = length; /* without the counts, which are written once; the rest may be written again */
}

void trace_enter(struct trace_line *line, bool may_wait)
{
	line->now = clock_nsec();
	if (may_wait)
		trace_event(line, '>', "-");
	line->begun = line->now;
}

VIP_RETURN trace_result(struct trace_line *line, VIP_RETURN rc)
{
#define NAME(name, sense) [name] = #name,
	static const char *const names[] = {VIPL_RESULTS(NAME)};
#undef NAME

	if (line->queue != TRACE_NONE && (rc == VIP_NOT_DONE || line->found_empty))
		count_poll(line);
	else
		trace_event(line, '=', names[rc]);
	return rc;
}

static void handler_is_called(struct trace_line *line, VIP_PVOID context, uintptr_t handler)
{
	trace_say(line, " context=0x%lx handler=0x%lx", TRACE_HEX(context), TRACE_HEX(handler));
	line->now = clock_nsec();
	trace_event(line, '{', "-");
	line->begun = line->now;
}

void trace_error_handler(struct trace_line *line, const VIP_ERROR_DESCRIPTOR *error, VIP_PVOID context, uintptr_t handler)
{
#define NAME(name, sense) [VIP_ERROR_##name] = #name,
	static const char *const names[] = {VIPL_ERRORS(NAME)};
#undef NAME

	trace_begin(line, "VipErrorCallback");
	trace_say(line, " nic=0x%lx vi=0x%lx desc=0x%lx", TRACE_HEX(error->NicHandle), TRACE_HEX(error->ViHandle),
		  TRACE_HEX(error->DescriptorPtr));
	trace_say(line, " op=0x%x error=VIP_ERROR_%s", (unsigned)error->OpCode, names[error->ErrorCode]);
	handler_is_called(line, context, handler);
}

void trace_done_handler(struct trace_line *line, VIP_CQ_HANDLE cq, VIP_VI_HANDLE vi, bool is_receive,
			const VIP_DESCRIPTOR *descriptor, VIP_PVOID context, uintptr_t handler)
{
	trace_begin(line, cq ? "VipCQNotify" : is_receive ? "VipRecvNotify" : "VipSendNotify");
	line->queue = cq ? TRACE_CQ : is_receive ? TRACE_RECV : TRACE_SEND;
	line->handle = cq ? cq : vi;
	if (cq)
		trace_say(line, " vi=0x%lx queue=%s", TRACE_HEX(vi), is_receive ? "recv" : "send");
	else
		trace_done(line, descriptor);
	handler_is_called(line, context, handler);
}

void trace_handler_returned(struct trace_line *line)
{
	line->queue = TRACE_NONE;
	line->length = 0;
	line->now = clock_nsec();
	trace_event(line, '}', "-");
}
