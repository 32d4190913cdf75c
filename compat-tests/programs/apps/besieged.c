/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that is attacked: besieged NIC. It waits for the discriminator "besieged", rejects whoever comes, and requests
 * "impostor" again and again. All the time it makes VIs, for which it needs the NIC's lock. For each line of its input it
 * prints the longest time in milliseconds that this has taken since the line before.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <vipl.h>

#define ROOM 256

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attributes;
static _Atomic long longest, rounds;
static atomic_bool is_over;

static VIP_NET_ADDRESS *address(char room[ROOM], const char *discriminator)
{
	VIP_NET_ADDRESS *at = (VIP_NET_ADDRESS *)(void *)room;

	at->HostAddressLen = nic_attributes.NicAddressLen;
	at->DiscriminatorLen = (VIP_UINT16)strlen(discriminator);
	memcpy(at->HostAddress, nic_attributes.LocalNicAddress, nic_attributes.NicAddressLen);
	memcpy(at->HostAddress + nic_attributes.NicAddressLen, discriminator, strlen(discriminator));
	return at;
}

static VIP_VI_HANDLE make_vi(void)
{
	VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY, .MaxTransferSize = 1024};
	VIP_VI_HANDLE vi;

	if (VipCreateVi(nic, &attributes, NULL, NULL, &vi) == VIP_SUCCESS)
		return vi;
	puts("there is no VI");
	exit(1);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void *measure(void *unused)
{
	while (!atomic_load(&is_over)) {
		double before = now();
		VIP_VI_HANDLE vi = make_vi();
		long took = (long)(now() - before);

		VipDestroyVi(vi);
		if (took > atomic_load(&longest))
			atomic_store(&longest, took);
		atomic_fetch_add(&rounds, 1);
	}
	return unused;
}

static void *serve(void *unused)
{
	_Alignas(VIP_NET_ADDRESS) char own[ROOM], other[ROOM];
	VIP_VI_ATTRIBUTES attributes;
	VIP_CONN_HANDLE connection;

	while (!atomic_load(&is_over))
		if (VipConnectWait(nic, address(own, "besieged"), 1000, address(other, ""), &attributes, &connection) ==
		    VIP_SUCCESS)
			VipConnectReject(connection);
	return unused;
}

static void *request(void *unused)
{
	_Alignas(VIP_NET_ADDRESS) char own[ROOM], other[ROOM];
	VIP_VI_ATTRIBUTES attributes;
	VIP_VI_HANDLE vi = make_vi();

	while (!atomic_load(&is_over))
		VipConnectRequest(vi, address(own, "requester"), address(other, "impostor"), 100, &attributes);
	VipDestroyVi(vi);
	return unused;
}

int main(int count, char *arguments[])
{
	void *(*const runs[])(void *) = {measure, serve, request};
	pthread_t threads[3];
	char line[8];

	if (count != 2 || VipOpenNic(arguments[1], &nic) != VIP_SUCCESS)
		return 1;
	VipQueryNic(nic, &nic_attributes);
	for (unsigned i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, runs[i], NULL))
			return 1;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		long before = atomic_load(&rounds);

		while (atomic_load(&rounds) < before + 2) /* so that one has begun meanwhile, and is over */
			usleep(1000);
		printf("%ld\n", atomic_exchange(&longest, 0));
		fflush(stdout);
	}
	atomic_store(&is_over, true);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	if (VipCloseNic(nic) != VIP_SUCCESS)
		return 1;
	puts("closed"); /* the process may not end yet, at the kernel's will */
	fflush(stdout);
	return 0;
}
