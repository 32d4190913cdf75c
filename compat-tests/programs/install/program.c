/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small VIA program with functions and variables of its own that have names which the library uses
 * inside. Neither may affect the other, no matter how the two are linked. It opens via_lo, and says
 * so.
 */
#include <stdio.h>
#include <stdlib.h>

#include <vipl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No function calls these. If the library calls one, it has taken ours for its own. */
#define OWN(name)        \
	void name(void); \
	void name(void)  \
	{                \
		abort(); \
	}
OWN(config)
OWN(log_error)
OWN(log_write)
OWN(nic_get)
OWN(nic_put)
OWN(cq_wait)
OWN(cq_enter)
OWN(cq_unlock_and_submit)
OWN(lock_wait)
OWN(thread_start)
OWN(object_create)
OWN(workqueue_post)
OWN(vi_get)
OWN(sem_wait)
OWN(sem_post)
OWN(post)
OWN(err_sys)
int loopback_device_ops = 1, verbs_device_ops = 2, trace_may_be_on = 3;

#ifdef __cplusplus
}
#endif

int main(void)
{
	VIP_NIC_HANDLE nic;
	VIP_VI_HANDLE vi;
	VIP_CQ_HANDLE cq;
	VIP_NIC_ATTRIBUTES attributes;
	VIP_VI_ATTRIBUTES vi_attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, 0, 0, 0, 0};
	VIP_BOOLEAN is_receive;

	if (VipOpenNic("via_lo", &nic) != VIP_SUCCESS ||
	    VipQueryNic(nic, &attributes) != VIP_SUCCESS ||
	    VipCreateCQ(nic, 1, &cq) != VIP_SUCCESS ||
	    VipCreateVi(nic, &vi_attributes, cq, cq, &vi) != VIP_SUCCESS ||
	    VipCQWait(cq, 10, &vi, &is_receive) != VIP_TIMEOUT ||
	    VipDestroyVi(vi) != VIP_SUCCESS || VipDestroyCQ(cq) != VIP_SUCCESS ||
	    VipCloseNic(nic) != VIP_SUCCESS)
		return 1;
	if (loopback_device_ops != 1 || verbs_device_ops != 2 || trace_may_be_on != 3)
		return 2;
	printf("%s works\n", attributes.Name);
	return 0;
}
