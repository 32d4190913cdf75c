/* SPDX-License-Identifier: BSD-2-Clause */
/* A program without a dynamic linker, for which vip_run can do nothing. */
int main(void)
{
	return 0;
}
