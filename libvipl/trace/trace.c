/* SPDX-License-Identifier: BSD-2-Clause */
/* The writers of the trace: threads, their blocks of the file, the polls that they count. */
#include "trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/deadline.h"
#include "base/log.h"
#include "trace_file.h"

#define LINE_ROOM   (TEXT_ROOM + 192) /* a line's longest */
#define NOTE_ROOM   128		      /* at a block's end, for why there is no further one */
#define POLLED	    4096u	      /* queues that a thread remembers to have polled */
#define POLLS_TOLD  1000000u	      /* a line for this number, even if nothing else happens */

/* A thread's polls of a queue that are in no line yet. Other threads read them when the process ends. */
struct polls {
	_Atomic(VIP_PVOID) handle;
	_Atomic uint32_t queue; /* enum trace_queue */
	_Atomic uint32_t none, empty;
};

/* The state of a thread that writes. It is never freed; a later thread takes it over. */
struct tracer {
	struct tracer *next;
	atomic_bool is_taken;
	struct trace_block block;
	char *at, *end;
	_Atomic uint32_t thread;
	struct polls polls[POLLED];
};

static _Thread_local struct tracer *mine __attribute__((tls_model("initial-exec")));
static struct tracer *_Atomic tracers;
static pthread_key_t key; /* tells when a thread ends */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_open;

static void write_remark(struct tracer *tracer, const char *words);

static void stop(struct tracer *tracer, int error)
{
	const char *reason = error == EBUSY ? "more threads write than VIPL_TRACE_MIB has room for" :
					      strerror(error);
	char words[NOTE_ROOM];

	if (!atomic_exchange(&hot_flags.is_traced, false))
		return;
	log_warning("VIPL_TRACE: the trace ends here: %s", reason);
	snprintf(words, sizeof(words) - 3, "the trace ends here: %s", reason);
	if (tracer->block.memory)
		tracer->end = tracer->block.memory + TRACE_BLOCK;
	write_remark(tracer, words);
}

/* A line ends before `end`. The thread's errno is the program's. */
static void finish_line(struct tracer *tracer, char *end)
{
	int saved = errno, error;

	if (tracer->block.is_mapped) {
		tracer->at = end;
		return;
	}
	error = trace_file_write(&tracer->block, tracer->at, (size_t)(end - tracer->at));
	tracer->at = end;
	if (error)
		stop(tracer, error);
	errno = saved;
}

/* There may be a gap in the trace before this block, and the last lines are behind it. */
static void tell_cut(struct tracer *tracer)
{
	char words[NOTE_ROOM];

	snprintf(words, sizeof(words), "cut=%llu kept=%llu",
		 (unsigned long long)tracer->block.cut, (unsigned long long)trace_file_kept());
	write_remark(tracer, words);
}

/* Room for this number of bytes, or NULL. The thread's errno is the program's. */
static char *room(struct tracer *tracer, size_t bytes)
{
	int saved = errno, error;

	if ((size_t)(tracer->end - tracer->at) >= bytes)
		return tracer->at;
	if (!trace_is_on())
		return NULL;
	error = trace_file_next(&tracer->block);
	if (error) {
		stop(tracer, error);
	} else {
		tracer->at = tracer->block.memory;
		tracer->end = tracer->at + TRACE_BLOCK - NOTE_ROOM;
		if (tracer->block.cut)
			tell_cut(tracer);
	}
	errno = saved;
	return error ? NULL : tracer->at;
}

/* The room may be the last that there is. */
static void write_remark(struct tracer *tracer, const char *words)
{
	size_t length = strlen(words);

	if ((size_t)(tracer->end - tracer->at) < length + 3)
		return;
	memcpy(tracer->at, "# ", 2);
	memcpy(tracer->at + 2, words, length);
	finish_line(tracer, tracer->at + length + 3); /* the newline is there */
}

/* ---- threads ---- */

static uint32_t kernel_thread(void)
{
	return (uint32_t)syscall(SYS_gettid); /* programs have a gettid() of their own */
}

static struct tracer *make(void)
{
	struct tracer *made = calloc(1, sizeof(*made));

	if (!made)
		return NULL;
	atomic_store(&made->is_taken, true);
	made->next = atomic_load(&tracers);
	while (!atomic_compare_exchange_weak(&tracers, &made->next, made))
		;
	return made;
}

static struct tracer *take(void)
{
	struct tracer *each = atomic_load(&tracers);
	bool taken = false;

	for (; each; each = each->next) {
		taken = false;
		if (atomic_compare_exchange_strong(&each->is_taken, &taken, true))
			break;
	}
	if (!each)
		each = make();
	if (each && pthread_setspecific(key, each)) {
		atomic_store(&each->is_taken, false);
		each = NULL;
	}
	if (each)
		each->thread = kernel_thread();
	return each;
}

static void tell_polls(struct tracer *tracer, const struct tracer *whose, struct polls *polls);

static void give_back(void *ending)
{
	struct tracer *tracer = ending;

	if (trace_is_on())
		for (size_t i = 0; i < POLLED; i++)
			tell_polls(tracer, tracer, &tracer->polls[i]);
	mine = NULL;
	atomic_store(&tracer->is_taken, false);
}

/* In a child of fork(): it has this thread only, and a file of its own once it calls anything. */
static void begin_child(void)
{
	for (struct tracer *each = atomic_load(&tracers); each; each = each->next) {
		trace_file_drop(&each->block);
		each->at = each->end = NULL;
		memset(each->polls, 0, sizeof(each->polls));
		atomic_store(&each->is_taken, each == mine);
	}
	if (mine)
		mine->thread = kernel_thread();
	opening = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	atomic_store(&is_open, false);
	trace_file_forget();
}

/* ---- the beginning ---- */

static void decide(void)
{
	bool wanted = *config()->trace;

	if (wanted) {
		int error = pthread_key_create(&key, give_back);

		if (!error)
			error = pthread_atfork(NULL, NULL, begin_child);
		if (error)
			log_warning("VIPL_TRACE: no trace is written: %s", strerror(error));
		wanted = !error;
	}
	if (!wanted)
		atomic_store(&hot_flags.is_traced, false);
}

static void write_header(struct tracer *tracer)
{
	char program[256], date[32], words[TEXT_ROOM];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program));
	struct timespec real;
	struct text name;
	struct utsname host;
	struct tm utc;
	int64_t now;

	text_clear(&name);
	text_bytes(&name, "program", program, length < 0 ? 0 : (size_t)length);
	if (uname(&host))
		strcpy(host.nodename, "?");
	now = clock_nsec();
	clock_gettime(CLOCK_REALTIME, &real);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", gmtime_r(&real.tv_sec, &utc));
	snprintf(words, sizeof(words),
		 "vipl-trace 1 library=%s pid=%d parent=%d bits=%u host=%.64s date=%s.%09ldZ "
		 "monotonic=%lld.%09lld%.*s",
		 VIPL_VERSION, getpid(), getppid(), (unsigned)sizeof(void *) * 8, host.nodename,
		 date, real.tv_nsec, (long long)now / 1000000000, (long long)now % 1000000000,
		 (int)(name.at - name.bytes), name.bytes);
	if (room(tracer, LINE_ROOM))
		write_remark(tracer, words);
}

/* The first one to have something to tell opens the file; the others wait for that. */
static bool open_file(struct tracer *tracer)
{
	pthread_mutex_lock(&opening);
	if (!atomic_load(&is_open) && trace_is_on()) {
		if (trace_file_open())
			atomic_store(&hot_flags.is_traced, false);
		else
			write_header(tracer);
		atomic_store(&is_open, true);
	}
	pthread_mutex_unlock(&opening);
	return trace_is_on();
}

/* This thread's; NULL when nothing is traced. */
static struct tracer *tracer_of_thread(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int saved;

	if (mine && atomic_load_explicit(&is_open, memory_order_acquire))
		return mine;
	saved = errno;
	pthread_once(&once, decide);
	if (trace_is_on()) {
		if (!mine)
			mine = take();
		if (mine && !open_file(mine)) { /* for good */
			atomic_store(&mine->is_taken, false);
			mine = NULL;
		}
	}
	errno = saved;
	return trace_is_on() ? mine : NULL;
}

/* ---- lines ---- */

static char *copy(char *at, const char *word)
{
	size_t length = strlen(word);

	memcpy(at, word, length);
	at[length] = ' ';
	return at + length + 1;
}

static void write_line(struct tracer *tracer, uint32_t thread, char event, const char *result,
		       const struct trace_line *line)
{
	char *at = room(tracer, LINE_ROOM);
	size_t length = (size_t)(line->text.at - line->text.bytes);

	if (!at)
		return;
	at = digits_of_nsec(at, (uint64_t)line->now);
	*at++ = ' ';
	at = digits(at, thread);
	*at++ = ' ';
	*at++ = event;
	*at++ = ' ';
	at = copy(at, line->function);
	at = copy(at, result);
	if (line->begun)
		at = digits(at, (uint64_t)(line->now - line->begun));
	else
		*at++ = '-';
	memcpy(at, line->text.bytes, length);
	finish_line(tracer, at + length + 1); /* the newline is there */
}

/* ---- polls ---- */

static struct polls *polls_of(struct tracer *tracer, VIP_PVOID handle, enum trace_queue queue)
{
	uintptr_t value = (uintptr_t)handle;

	/* Handles are an index below a generation. */
	return &tracer->polls[(value * 4 + (unsigned)queue) % POLLED];
}

static uint32_t read_count(_Atomic uint32_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

/* Moves the counts into the line. */
static void note_polls(struct trace_line *line, struct polls *polls)
{
	uint32_t none = read_count(&polls->none), empty = read_count(&polls->empty);

	if (none)
		text_number(&line->text, "polls", none);
	if (empty)
		text_number(&line->text, "empty", empty);
	atomic_store_explicit(&polls->none, 0, memory_order_relaxed);
	atomic_store_explicit(&polls->empty, 0, memory_order_relaxed);
}

/* A line of their own, if there are any; another thread's, when the process ends. */
static void tell_polls(struct tracer *tracer, const struct tracer *whose, struct polls *polls)
{
	static const char *const functions[] = {"-", "VipSendDone", "VipRecvDone", "VipCQDone",
						"VipConnectPeerDone"};
	uint32_t queue = read_count(&polls->queue);
	VIP_PVOID handle = atomic_load_explicit(&polls->handle, memory_order_relaxed);
	struct trace_line line;

	if (!read_count(&polls->none) && !read_count(&polls->empty))
		return;
	line.function = functions[queue];
	line.begun = 0;
	line.now = clock_nsec();
	text_clear(&line.text);
	text_hex(&line.text, queue == TRACE_CQ ? "cq" : "vi", (uintptr_t)handle);
	note_polls(&line, polls);
	write_line(tracer, whose->thread, TRACE_POLLS, "VIP_NOT_DONE", &line);
}

static bool is_about(struct polls *polls, const struct trace_line *line)
{
	return atomic_load_explicit(&polls->handle, memory_order_relaxed) == line->handle &&
	       read_count(&polls->queue) == line->queue;
}

void trace_poll(const struct trace_line *line, bool empty)
{
	struct tracer *tracer = tracer_of_thread();
	struct polls *polls;
	_Atomic uint32_t *count;

	if (!tracer)
		return;
	polls = polls_of(tracer, line->handle, line->queue);
	if (!is_about(polls, line)) {
		tell_polls(tracer, tracer, polls);
		atomic_store_explicit(&polls->handle, line->handle, memory_order_relaxed);
		atomic_store_explicit(&polls->queue, line->queue, memory_order_relaxed);
	}
	count = empty ? &polls->empty : &polls->none;
	atomic_store_explicit(count, read_count(count) + 1, memory_order_relaxed);
	if (read_count(count) >= POLLS_TOLD)
		tell_polls(tracer, tracer, polls);
}

/* Reports the remaining polls when the process ends. Waits for no thread. */
static __attribute__((destructor)) void tell_all_polls(void)
{
	struct tracer *tracer;

	if (!atomic_load(&is_open) || !trace_is_on() || !(tracer = tracer_of_thread()))
		return;
	for (struct tracer *each = atomic_load(&tracers); each; each = each->next)
		for (size_t i = 0; i < POLLED; i++)
			tell_polls(tracer, each, &each->polls[i]);
}

/* ---- what the API's functions and handlers use ---- */

void trace_begin(struct trace_line *line, const char *function)
{
	line->function = function;
	line->queue = TRACE_NONE;
	line->begun = 0;
	text_clear(&line->text);
}

static void write_event(struct trace_line *line, char event, const char *result)
{
	struct tracer *tracer = tracer_of_thread();
	char *end = line->text.at;
	struct polls *polls;

	if (!tracer)
		return;
	if (line->queue != TRACE_NONE) {
		polls = polls_of(tracer, line->handle, line->queue);
		if (is_about(polls, line))
			note_polls(line, polls);
	}
	write_line(tracer, tracer->thread, event, result, line);
	line->text.at = end; /* the counts are written once, the rest may be written again */
}

void trace_enter(struct trace_line *line, bool may_wait)
{
	int64_t now = clock_nsec();

	if (may_wait) {
		line->now = now;
		write_event(line, TRACE_ENTERS, "-");
	}
	line->begun = now;
}

void trace_returned(struct trace_line *line)
{
	line->now = clock_nsec();
}

void trace_return(struct trace_line *line, const char *result)
{
	write_event(line, TRACE_RETURNS, result);
}

void trace_handler(struct trace_line *line)
{
	line->now = clock_nsec();
	write_event(line, TRACE_CALLS, "-");
}

void trace_handler_returned(const char *function, int64_t begun)
{
	struct trace_line line;

	if (!begun)
		return;
	trace_begin(&line, function);
	line.begun = begun;
	line.now = clock_nsec();
	write_event(&line, TRACE_CALLED, "-");
}

void trace_prepare(void)
{
	struct tracer *tracer = tracer_of_thread();

	if (tracer)
		room(tracer, LINE_ROOM);
}

void trace_remark(const char *format, ...)
{
	struct tracer *tracer = tracer_of_thread();
	char words[TEXT_ROOM];
	va_list args;

	if (!tracer || !room(tracer, LINE_ROOM))
		return;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	write_remark(tracer, words);
}
