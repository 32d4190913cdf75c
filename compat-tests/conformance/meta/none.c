/* SPDX-License-Identifier: BSD-2-Clause */
/* A library without any function of VIPL. */
int vip_conformance_found_nothing(void);
int vip_conformance_found_nothing(void)
{
	return 0;
}
