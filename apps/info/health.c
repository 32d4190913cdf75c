/* SPDX-License-Identifier: BSD-2-Clause */
#include "health.h"

#include "base/address.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define DEV_DIR "/dev/infiniband"

enum {
	/* Even small programs need more memory to lock than this. */
	SMALL_MEMLOCK_MIB = 64,
	CAP_IPC_LOCK_BIT = 14,
};

static const char no_device_remedy[] =
	"An RDMA card needs its kernel module, as root: modprobe mlx5_ib (NVIDIA; ConnectX-3\n"
	"and older: mlx4_ib), bnxt_re (Broadcom), irdma (Intel), qedr (Marvell); \"lspci -nnk\"\n"
	"shows the card and its driver, dmesg why there is no device.\n"
	"Without a card any Ethernet interface (here eth0) can carry a soft-RoCE device, as root:\n"
	"  modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0\n"
	"It must be up and have an IPv4 address, UDP port 4791 and TCP ports 16384 to 32767 open.\n"
	"If there is no such module, install a kernel that has it (Debian: linux-image-amd64, not\n"
	"the cloud kernel).";

/* Of what cannot be used. The problem names the device and the interface. */
static const char *const remedies[] = {
	[CANDIDATE_FAILED] = "The call that has failed is named. VIPL_LOG=info and the kernel's log may say more.",
	[CANDIDATE_NO_UVERBS] = "Load the kernel module, as root: modprobe ib_uverbs",
	[CANDIDATE_NO_NODE] = "In a container the file has to be handed in (docker run --device=" DEV_DIR ").\n"
			      "Elsewhere udev makes it, from the module ib_uverbs.",
	[CANDIDATE_NO_PERMISSION] =
		"The udev rules of the package rdma-core let everybody use this file. Where they do\n"
		"not, see which group owns it (ls -l " DEV_DIR ") and add the user to that group\n"
		"(adduser USER GROUP, then log in again). In a container the file has to be handed\n"
		"in (docker run --device=" DEV_DIR ").",
	[CANDIDATE_NO_PROVIDER] = "Install the package ibverbs-providers (RPM systems: libibverbs).",
	[CANDIDATE_NO_MANAGER] = "Load the kernel module, as root: modprobe rdma_ucm\n"
				 "With the package rdma-core installed this happens at each start of the system.\n"
				 "In a container " DEV_DIR "/rdma_cm has to be handed in.",
	[CANDIDATE_IWARP] = "See the driver's documentation for RoCE.",
	[CANDIDATE_ELSEWHERE] = "Run the program in that network namespace, or move it here, as root:\n"
				"ip link set dev eth0 netns NAME; if \"rdma system show\" says exclusive, the\n"
				"device, too: rdma dev set DEVICE netns NAME",
	[CANDIDATE_PORT_DOWN] = "The command \"rdma link\" tells the state. InfiniBand needs a subnet manager (opensm).",
	[CANDIDATE_INTERFACE_DOWN] = "Switch it on, as root: ip link set dev INTERFACE up",
	[CANDIDATE_NO_ADDRESS] = "Give its interface one, as root: ip address add ADDRESS/BITS dev INTERFACE",
	[CANDIDATE_TENTATIVE] = "Wait for some seconds. If that does not help, see \"ip -6 address\".",
	[CANDIDATE_LONG_ADDRESS] = "Give the interface an IPv4 address, or set VIPL_ADDRESS_BYTES=16 for programs that\n"
				   "ask the NIC for the length of addresses.",
	[CANDIDATE_NOT_TAKEN] = "See \"rdma link\", and \"ip route get ADDRESS\".",
};

static const char memlock_remedy[] =
	"Raise it: for this shell with ulimit -l KIBIBYTES, up to the hard limit; for good in\n"
	"/etc/security/limits.conf (USER - memlock unlimited, then log in again); for a\n"
	"service with LimitMEMLOCK=infinity in its unit.";

static const char subnet_remedy[] =
	"Linux lets each answer for the addresses of both (ARP), so packets may go to the wrong\n"
	"one: connections time out, or get no messages. As root, on each host with two such ports:\n"
	"sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2";

struct report {
	tell_problem *tell;
	void *context;
};

static void add(const struct report *report, const char *about, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static void add(const struct report *report, const char *about, const char *remedy, const char *format, ...)
{
	char problem[600];
	va_list args;

	va_start(args, format);
	vsnprintf(problem, sizeof(problem), format, args);
	va_end(args);
	report->tell(report->context, about, problem, remedy);
}

/* Of each port that cannot be used, the first reason. */
static void check_ports(const struct report *report, const struct candidates *list)
{
	bool lacks_manager = false;

	if (!list->count)
		add(report, "device", no_device_remedy,
		    "there is no RDMA device in /sys/class/infiniband, so only programs of this machine can be reached");
	for (size_t i = 0; i < list->count; ++i) {
		const struct candidate *each = &list->all[i];
		char place[PLACE_TEXT];

		if ((i && candidates_share_port(each, each - 1)) || candidates_use_port(list, each) ||
		    (each->reason == CANDIDATE_NO_MANAGER && lacks_manager))
			continue;
		lacks_manager |= each->reason == CANDIDATE_NO_MANAGER;
		candidate_place(each, place);
		add(report, "port", remedies[each->reason], "%s%s%s", place, *place ? ": " : "", each->why);
	}
}

/* Processes with CAP_IPC_LOCK have no limit on locked memory. */
static bool may_lock_all(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	unsigned long long capabilities = 0;
	char line[256];

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "CapEff: %llx", &capabilities) == 1)
			break;
	if (status)
		fclose(status);
	return capabilities >> CAP_IPC_LOCK_BIT & 1;
}

static void check_memlock(const struct report *report)
{
	struct rlimit limit;
	char hard[32] = "none";

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	    limit.rlim_cur >= (rlim_t)SMALL_MEMLOCK_MIB << 20 || may_lock_all())
		return;
	if (limit.rlim_max != RLIM_INFINITY)
		snprintf(hard, sizeof(hard), "%llu KiB", (unsigned long long)limit.rlim_max >> 10);
	add(report, "memory", memlock_remedy,
	    "the limit on locked memory is low: this user's programs can register %llu KiB "
	    "(RLIMIT_MEMLOCK; hard limit: %s)",
	    (unsigned long long)limit.rlim_cur >> 10, hard);
}

/* 0: it is not known. */
static uint32_t subnet_of(const struct candidate *candidate)
{
	struct ifaddrs *all = NULL;
	uint32_t address, subnet = 0;

	memcpy(&address, &candidate->host.s6_addr[12], sizeof(address));
	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *each = all; each; each = each->ifa_next) {
		const struct sockaddr_in *own = (const struct sockaddr_in *)each->ifa_addr,
					 *mask = (const struct sockaddr_in *)each->ifa_netmask;

		if (own && mask && own->sin_family == AF_INET && own->sin_addr.s_addr == address)
			subnet = address & mask->sin_addr.s_addr;
	}
	freeifaddrs(all);
	return subnet;
}

static bool answers_for_others(const char *interface)
{
	char path[64 + IF_NAMESIZE];
	int strictness = 1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/arp_ignore", interface);
	file = fopen(path, "re");
	if (file && fscanf(file, "%d", &strictness) != 1)
		strictness = 1;
	if (file)
		fclose(file);
	return !strictness;
}

/* An address of a port, and what of its interface matters to others in the subnet. */
struct neighbour {
	const struct candidate *candidate;
	uint32_t subnet;
	bool answers;
};

/* Either one's answers may take the packets for the other. */
static bool disturb_each_other(const struct neighbour *one, const struct neighbour *other)
{
	return one->candidate->index != other->candidate->index && one->subnet == other->subnet && (one->answers || other->answers);
}

static void check_subnets(const struct report *report, const struct candidates *list)
{
	struct neighbour seen[64];
	size_t count = 0, i;

	if (!answers_for_others("all"))
		return;
	for (const struct candidate *each = list->all; each < list->all + list->count && count < 64; each++) {
		if (each->reason != CANDIDATE_USABLE || !host_is_ipv4(&each->host))
			continue;
		seen[count] = (struct neighbour){each, subnet_of(each), answers_for_others(each->interface)};
		if (!seen[count].subnet)
			continue;
		for (i = 0; i < count && !disturb_each_other(&seen[i], &seen[count]); i++)
			;
		if (i < count)
			add(report, "network", subnet_remedy, "%s (%s) and %s (%s) are interfaces in one subnet",
			    seen[i].candidate->interface, seen[i].candidate->address, each->interface, each->address);
		count++;
	}
}

void find_problems(const struct candidates *list, tell_problem *tell, void *context)
{
	const struct report report = {.tell = tell, .context = context};

	check_ports(&report, list);
	check_subnets(&report, list);
	check_memlock(&report);
}
