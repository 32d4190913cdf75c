/* SPDX-License-Identifier: BSD-2-Clause */
/* A library that is no VIPL at all. */
int vip_conformance_found_nothing(void);
int vip_conformance_found_nothing(void)
{
	return 0;
}
