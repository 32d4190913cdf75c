/* SPDX-License-Identifier: BSD-2-Clause */
/* Where threads of the program that are cancelled end. */
#include "cancel.h"

#include "deadline.h"

/* Its state and type, during a call. */
static _Thread_local int of_program __attribute__((tls_model("initial-exec")));
static _Thread_local int type_of_program __attribute__((tls_model("initial-exec")));

/*
 * The type changes, too: an asynchronous cancellation that was sent before would else end the thread after the state has changed
 * (seen with GNU libc 2.36).
 */
void cancel_begin_call(void)
{
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type_of_program);
	of_program = cancel_hold();
}

void cancel_end_call(void)
{
	cancel_resume(of_program);
	pthread_setcanceltype(type_of_program, NULL);
}

void cancel_here(cancel_leave *leave, void *argument)
{
	pthread_cleanup_push(leave, argument);
	cancel_resume(of_program);
	pthread_testcancel();
	cancel_hold();
	pthread_cleanup_pop(0);
}

int cancel_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t deadline, cancel_leave *leave, void *argument)
{
	int error;

	pthread_cleanup_push(leave, argument);
	cancel_resume(of_program);
	error = condition_wait(condition, lock, deadline);
	cancel_hold();
	pthread_cleanup_pop(0);
	return error;
}
