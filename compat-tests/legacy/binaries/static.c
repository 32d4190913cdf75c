/* SPDX-License-Identifier: BSD-2-Clause */
/* A static program has no dynamic linker, so vip_run cannot run it with libvipl. */
int main(void)
{
	return 0;
}
