/* SPDX-License-Identifier: BSD-2-Clause */
/* Where threads of the program that are cancelled end. */
#include "cancel.h"

#include "deadline.h"

static _Thread_local int of_program __attribute__((tls_model("initial-exec"))); /* its state, during a call */

void cancel_begin_call(void)
{
	of_program = cancel_hold();
}

void cancel_end_call(void)
{
	cancel_resume(of_program);
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
	int error, type;

	pthread_cleanup_push(leave, argument);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type); /* the C library's wait is not made for the other one */
	cancel_resume(of_program);
	error = condition_wait(condition, lock, deadline);
	cancel_hold();
	pthread_setcanceltype(type, NULL);
	pthread_cleanup_pop(0);
	return error;
}
