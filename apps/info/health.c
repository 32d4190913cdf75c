/* SPDX-License-Identifier: BSD-2-Clause */
#include "health.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CLASS_VERBS  "/sys/class/infiniband"
#define CLASS_UVERBS "/sys/class/infiniband_verbs"
#define DEV_DIR      "/dev/infiniband"

enum {
	/* Even small programs need more memory to lock than this. */
	SMALL_MEMLOCK_MIB = 64,
	CAP_IPC_LOCK_BIT = 14,
};

static const char no_device_remedy[] =
	"Any Ethernet device can carry a soft-RoCE one. As root, with your device for eth0:\n"
	"  modprobe rdma_rxe\n"
	"  rdma link add rxe0 type rxe netdev eth0\n"
	"eth0 must be up and have an IPv4 address, with UDP port 4791 and TCP ports 16384\n"
	"to 32767 open. The command rdma is in the package\n"
	"iproute2. If there is no module rdma_rxe, install a kernel that has it (Debian:\n"
	"linux-image-amd64; the cloud kernel has not).";

static const char no_permission_remedy[] =
	"The udev rules of the package rdma-core let everybody use this file. Where they do\n"
	"not, see which group owns it (ls -l " DEV_DIR ") and add the user to that group\n"
	"(adduser USER GROUP, then log in again). In a container the file has to be handed\n"
	"in (docker run --device=" DEV_DIR "/NAME).";

static const char no_uverbs_remedy[] =
	"Load the kernel module, as root: modprobe ib_uverbs\n"
	"In a container the file has to be handed in (docker run --device=" DEV_DIR "/NAME).";

static const char no_cm_remedy[] =
	"Load the kernel module, as root: modprobe rdma_ucm\n"
	"With the package rdma-core installed this happens at each start of the system.\n"
	"In a container the file has to be handed in (docker run --device=" DEV_DIR "/NAME).";

static const char port_remedy[] = "Switch its network device on, as root: ip link set dev eth0 up\n"
				  "The command \"rdma link\" tells which one it is.";

static const char memlock_remedy[] =
	"Raise it: for this shell with ulimit -l KIBIBYTES, up to the hard limit; for good in\n"
	"/etc/security/limits.conf (USER - memlock unlimited, then log in again); for a\n"
	"service with LimitMEMLOCK=infinity in its unit.";

static const char provider_remedy[] = "Install the package ibverbs-providers.";

struct report {
	struct finding *findings;
	int count;
};

static void add(struct report *report, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void add(struct report *report, const char *remedy, const char *format, ...)
{
	struct finding *finding;
	va_list args;

	if (report->count == MAX_FINDINGS)
		return;
	finding = &report->findings[report->count++];
	finding->remedy = remedy;
	va_start(args, format);
	vsnprintf(finding->problem, sizeof(finding->problem), format, args);
	va_end(args);
}

/* Opens the file, because access() does not see every way in which a container refuses a device. */
static void check_file(struct report *report, const char *path, const char *absent_remedy)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	else if (errno == EACCES || errno == EPERM)
		add(report, no_permission_remedy, "no permission to open %s", path);
	else
		add(report, absent_remedy, "cannot open %s: %s", path, strerror(errno));
}

static void check_port(struct report *report, const char *path)
{
	FILE *file = fopen(path, "re");
	char device[64], port[8], state[32];

	if (!file)
		return;
	/* The file says, for example, "4: ACTIVE". */
	if (fscanf(file, "%*d: %31s", state) == 1 && strcmp(state, "ACTIVE") != 0 &&
	    sscanf(path, CLASS_VERBS "/%63[^/]/ports/%7[^/]", device, port) == 2)
		add(report, port_remedy, "port %s of the RDMA device %s is not active but %s", port,
		    device, state);
	fclose(file);
}

/* Returns false when there is no device: nothing else matters then. */
static bool check_devices(struct report *report)
{
	glob_t ports;
	bool found = !glob(CLASS_VERBS "/*/ports/*/state", 0, NULL, &ports);

	for (size_t i = 0; found && i < ports.gl_pathc; ++i)
		check_port(report, ports.gl_pathv[i]);
	globfree(&ports);
	if (!found)
		add(report, no_device_remedy, "there is no RDMA device in " CLASS_VERBS
				       ", so only programs of this machine can be reached");
	return found;
}

static void check_uverbs(struct report *report)
{
	glob_t devices;
	bool found = !glob(CLASS_UVERBS "/uverbs*", 0, NULL, &devices);

	for (size_t i = 0; found && i < devices.gl_pathc; ++i) {
		const char *name = strrchr(devices.gl_pathv[i], '/') + 1;
		char path[64];

		snprintf(path, sizeof(path), DEV_DIR "/%s", name);
		check_file(report, path, no_uverbs_remedy);
	}
	globfree(&devices);
	if (!found)
		add(report, no_uverbs_remedy, "the kernel does not let programs use RDMA devices");
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

static void check_memlock(struct report *report)
{
	struct rlimit limit;
	char hard[32] = "none";

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	    limit.rlim_cur >= (rlim_t)SMALL_MEMLOCK_MIB << 20 || may_lock_all())
		return;
	if (limit.rlim_max != RLIM_INFINITY)
		snprintf(hard, sizeof(hard), "%llu KiB", (unsigned long long)limit.rlim_max >> 10);
	add(report, memlock_remedy,
	    "the limit on locked memory is low: this user's programs can register %llu KiB "
	    "(RLIMIT_MEMLOCK; hard limit: %s)",
	    (unsigned long long)limit.rlim_cur >> 10, hard);
}

/* libibverbs loads a driver for each kind of device. The drivers are in a package of their own. */
static void check_provider(struct report *report)
{
	glob_t drivers;
	bool found;

	glob("/usr/lib*/libibverbs/*.so", 0, NULL, &drivers);
	glob("/usr/lib*/*/libibverbs/*.so", GLOB_APPEND, NULL, &drivers);
	found = drivers.gl_pathc > 0;
	globfree(&drivers);
	if (!found)
		add(report, provider_remedy, "the verbs drivers of user space are not installed");
}

int find_problems(struct finding findings[MAX_FINDINGS], bool no_nic)
{
	struct report report = {.findings = findings};

	if (check_devices(&report)) {
		check_uverbs(&report);
		check_file(&report, DEV_DIR "/rdma_cm", no_cm_remedy);
	}
	if (no_nic)
		check_provider(&report);
	check_memlock(&report);
	return report.count;
}
