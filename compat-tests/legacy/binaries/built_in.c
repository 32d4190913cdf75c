/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls VIPL, which is linked into it. vip_run cannot put libvipl in its place. */
int VipOpenNic(void);

int main(void)
{
	return VipOpenNic();
}
