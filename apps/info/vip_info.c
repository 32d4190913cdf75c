/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vip_info - lists the VI NICs of this host and their attributes. When there are none it says what
 * is missing and how to get it.
 */
#include "../common/common.h"
#include "health.h"
#include "offers.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *program_name = "vip_info";

struct settings {
	const char *nic; /* NULL: every NIC that can be opened */
	bool json;
	bool problems; /* print the problems only */
};

#define LOOPBACK "via_lo" /* it always exists, and is nic0 where there is no other NIC */

/* The attributes of type VIP_ULONG: their keys, meanings and units. */
static const struct {
	const char *key;
	const char *words;
	const char *unit;
	size_t offset;
} numbers[] = {
#define NUMBER(member, words, unit)                                        \
	{                                                                  \
#member, words, unit, offsetof(VIP_NIC_ATTRIBUTES, member) \
	}
	NUMBER(HardwareVersion, "hardware version", ""),
	NUMBER(ProviderVersion, "provider version", ""),
	NUMBER(MaxTransferSize, "longest transfer of one descriptor", "bytes"),
	NUMBER(NativeMTU, "size of a packet on the wire", "bytes"),
	NUMBER(MaxVI, "VIs", ""),
	NUMBER(MaxDescriptorsPerQueue, "descriptors posted on one queue", ""),
	NUMBER(MaxSegmentsPerDesc, "segments of one descriptor", ""),
	NUMBER(MaxCQ, "completion queues", ""),
	NUMBER(MaxCQEntries, "entries of one completion queue", ""),
	NUMBER(MaxPtags, "protection tags", ""),
	NUMBER(MaxRegisterRegions, "memory regions", ""),
	NUMBER(MaxRegisterBlockBytes, "longest memory region", "bytes"),
	NUMBER(MaxRegisterBytes, "registered memory in all", "bytes"),
#undef NUMBER
};

static VIP_ULONG number_of(const VIP_NIC_ATTRIBUTES *attributes, size_t i)
{
	VIP_ULONG value;

	memcpy(&value, (const char *)attributes + numbers[i].offset, sizeof(value));
	return value;
}

static const struct {
	VIP_UINT16 bit;
	const char *name;
} levels[] = {
	{VIP_SERVICE_UNRELIABLE, "unreliable"},
	{VIP_SERVICE_RELIABLE_DELIVERY, "reliable delivery"},
	{VIP_SERVICE_RELIABLE_RECEPTION, "reliable reception"},
};

static void json_string(const char *text)
{
	putchar('"');
	for (; *text; ++text)
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < ' ')
			printf("\\u%04x", (unsigned int)*text);
		else
			putchar(*text);
	putchar('"');
}

/* Prints the first member of an object in a list. */
static void json_begin(bool is_first, const char *key, const char *value)
{
	printf("%s\n    {\"%s\": ", is_first ? "" : ",", key);
	json_string(value);
}

/* Prints a further member. */
static void json_text(const char *key, const char *value)
{
	printf(",\n     \"%s\": ", key);
	json_string(value);
}

static void json_number(const char *key, unsigned long value)
{
	printf(",\n     \"%s\": %lu", key, value);
}

static void json_levels(const char *key, VIP_UINT16 bits)
{
	const char *comma = "";

	printf(",\n     \"%s\": [", key);
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); ++i)
		if (bits & levels[i].bit) {
			printf("%s\"%s\"", comma, levels[i].name);
			comma = ", ";
		}
	putchar(']');
}

static void print_levels(const char *words, VIP_UINT16 bits)
{
	const char *comma = "";

	printf("    %-36s", words);
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); ++i)
		if (bits & levels[i].bit) {
			printf("%s%s", comma, levels[i].name);
			comma = ", ";
		}
	puts(*comma ? "" : "none");
}

static void print_nic_json(const char *name, const VIP_NIC_ATTRIBUTES *a, bool is_first)
{
	char hex[ADDRESS_TEXT_MAX], host[ADDRESS_TEXT_MAX];

	json_begin(is_first, "nic", name);
	json_text("Name", a->Name);
	json_text("LocalNicAddress", hex_text(a->LocalNicAddress, a->NicAddressLen, hex));
	json_text("host", host_name_text(a->LocalNicAddress, a->NicAddressLen, host));
	json_number("NicAddressLen", a->NicAddressLen);
	json_number("MaxDiscriminatorLen", a->MaxDiscriminatorLen);
	printf(",\n     \"ThreadSafe\": %s", a->ThreadSafe ? "true" : "false");
	json_levels("ReliabilityLevelSupport", a->ReliabilityLevelSupport);
	json_levels("RDMAReadSupport", a->RDMAReadSupport);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i)
		json_number(numbers[i].key, number_of(a, i));
	print_offers(a->Name, true);
	putchar('}');
}

static void print_nic(const char *name, const VIP_NIC_ATTRIBUTES *a)
{
	char hex[ADDRESS_TEXT_MAX], host[ADDRESS_TEXT_MAX];

	hex_text(a->LocalNicAddress, a->NicAddressLen, hex);
	host_name_text(a->LocalNicAddress, a->NicAddressLen, host);
	printf("%s: %s\n", name, a->Name);
	printf("    %-36s%s (%s)\n", "address of this host", host, hex);
	printf("    %-36s%u bytes\n", "length of host addresses", a->NicAddressLen);
	printf("    %-36s%u bytes\n", "longest discriminator", a->MaxDiscriminatorLen);
	printf("    %-36s%s\n", "safe for threads", a->ThreadSafe ? "yes" : "no");
	print_levels("reliability levels", a->ReliabilityLevelSupport);
	print_levels("RDMA read at", a->RDMAReadSupport);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i)
		printf("    %-36s%lu%s%s\n", numbers[i].words, number_of(a, i),
		       *numbers[i].unit ? " " : "", numbers[i].unit);
	print_offers(a->Name, false);
}

/* Opens one NIC and prints its attributes. */
static VIP_RETURN show_nic(const char *name, bool json, bool is_first, bool *is_loopback)
{
	VIP_NIC_ATTRIBUTES attributes;
	VIP_NIC_HANDLE nic;
	VIP_RETURN code = VipOpenNic(name, &nic);

	if (code != VIP_SUCCESS)
		return code;
	code = VipQueryNic(nic, &attributes);
	if (code == VIP_SUCCESS && json)
		print_nic_json(name, &attributes, is_first);
	else if (code == VIP_SUCCESS)
		print_nic(name, &attributes);
	if (code == VIP_SUCCESS && !strcmp(attributes.Name, LOOPBACK))
		*is_loopback = true;
	VipCloseNic(nic);
	return code;
}

/* Shows it, or says why it cannot be used. */
static bool show_or_complain(const char *name, bool json, bool is_first, bool *is_loopback)
{
	VIP_RETURN code = show_nic(name, json, is_first, is_loopback);

	if (code != VIP_SUCCESS)
		complain_code(code, "cannot use NIC %s", name);
	return code == VIP_SUCCESS;
}

/* Returns how many NICs can be opened. One that cannot be does not hide those behind it. */
static int show_nics(const struct settings *s, const struct candidates *list)
{
	bool loopback_shown = false;
	char name[16];
	int count = 0;

	if (s->nic)
		return show_or_complain(s->nic, s->json, true, &loopback_shown);
	for (unsigned i = 0; !i || candidate_numbered(list, i); ++i) {
		snprintf(name, sizeof(name), "nic%u", i);
		count += show_or_complain(name, s->json, !count, &loopback_shown);
	}
	if (!loopback_shown)
		count += show_or_complain(LOOPBACK, s->json, !count, &loopback_shown);
	return count;
}

/* "nic0"; else what can be used is so by its name only. */
static const char *nic_of(const struct candidate *candidate, char name[16])
{
	snprintf(name, 16, "nic%d", candidate->number);
	if (candidate->reason == CANDIDATE_USABLE)
		return candidate->number < 0 ? "by name" : name;
	return "no";
}

static void print_candidates(const struct candidates *list)
{
	char name[16], place[PLACE_TEXT];

	if (list->count)
		puts("\nRDMA devices, their ports, interfaces and addresses. A NIC may be called DEVICE,\n"
		     "DEVICE:PORT, DEVICE@ADDRESS or INTERFACE:");
	for (size_t i = 0; i < list->count; ++i) {
		candidate_place(&list->all[i], place);
		printf("    %-8s%s%s%s\n", nic_of(&list->all[i], name), place, *list->all[i].why ? ": " : "", list->all[i].why);
	}
}

static void print_candidates_json(const struct candidates *list)
{
	for (size_t i = 0; i < list->count; ++i) {
		const struct candidate *each = &list->all[i];
		char name[16];

		json_begin(!i, "device", each->device);
		json_number("port", each->port);
		json_text("interface", each->interface);
		json_text("address", each->address);
		printf(",\n     \"usable\": %s", each->reason == CANDIDATE_USABLE ? "true" : "false");
		json_text("nic", each->number < 0 || each->reason != CANDIDATE_USABLE ? "" : nic_of(each, name));
		json_text("why", each->why);
		putchar('}');
	}
}

static void print_problem(void *unused, const char *about, const char *problem, const char *remedy)
{
	(void)unused, (void)about;
	printf("\nProblem: %s.\n", problem);
	while (*remedy) {
		int length = (int)strcspn(remedy, "\n");

		printf("    %.*s\n", length, remedy);
		remedy += length + (remedy[length] == '\n');
	}
}

static void print_problem_json(void *is_first, const char *about, const char *problem, const char *remedy)
{
	json_begin(*(bool *)is_first, "problem", problem);
	json_text("about", about);
	json_text("remedy", remedy);
	putchar('}');
	*(bool *)is_first = false;
}

static void usage(void)
{
	puts("Usage: vip_info [OPTION]...\n"
	     "Lists the VI NICs of this host with their attributes: sizes in bytes, all other\n"
	     "numbers are how many there can be. Then lists RDMA devices, ports, interfaces and\n"
	     "addresses, which NIC each one is, or why it cannot be used, and how to mend that.\n"
	     "\n"
	     "  -n, --nic=NAME  only this NIC (default: nic0, nic1 and so on, and the loopback\n"
	     "                  device via_lo)\n"
	     "  -p, --problems  only that list, and what is missing; opens no NIC\n"
	     "  -j, --json      print JSON; attributes have the names of VIP_NIC_ATTRIBUTES\n"
	     "  -s, --status=NUMBER  say in words what this Status of a descriptor means, and end\n"
	     "  -h, --help      print this and end\n"
	     "      --version   print the version and end\n"
	     "\n"
	     "Exit status: 0 ok, 1 no NIC can be used or the output is lost, 2 wrong usage.");
}

/* Decimal, or hexadecimal with 0x. Returns the exit status. */
static int explain_status(const char *number)
{
	bool is_hex = !strncmp(number, "0x", 2) || !strncmp(number, "0X", 2);
	const char *digits = is_hex ? number + 2 : number;
	char text[STATUS_TEXT_MAX];
	unsigned long status;

	errno = 0;
	status = strtoul(digits, NULL, is_hex ? 16 : 10);
	if (!*digits || strspn(digits, is_hex ? "0123456789abcdefABCDEF" : "0123456789") != strlen(digits) || errno ||
	    status > UINT32_MAX) {
		complain("\"%s\" is no status: a number of 32 bits, decimal or with 0x", number);
		return EXIT_USAGE;
	}
	puts(status_words((VIP_UINT32)status, text));
	for (VIP_UINT32 bit = 1; bit & (VIP_STATUS_DONE | VIP_STATUS_ERROR_MASK); bit <<= 1)
		if (status & bit & VIP_STATUS_ERROR_MASK)
			printf("    %s\n", status_error(bit));
	return EXIT_OK;
}

/* Returns -1 to go on, or else the exit status. */
static int parse_arguments(int argc, char **argv, struct settings *s)
{
	static const struct option options[] = {
		{"nic", required_argument, NULL, 'n'},
		{"problems", no_argument, NULL, 'p'},
		{"json", no_argument, NULL, 'j'},
		{"status", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "n:pjs:h", options, NULL)) != -1) {
		switch (option) {
		case 'n':
			s->nic = optarg;
			break;
		case 'p':
			s->problems = true;
			break;
		case 'j':
			s->json = true;
			break;
		case 's':
			return explain_status(optarg);
		case 'h':
			usage();
			return EXIT_OK;
		case 'v':
			puts(VIPL_VERSION);
			return EXIT_OK;
		default:
			fputs("Try --help.\n", stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		complain("what is \"%s\"? There are no arguments but options", argv[optind]);
		return EXIT_USAGE;
	}
	return -1;
}

static int show(const struct settings *settings)
{
	struct candidates list;
	int nics = 0, error = candidates_find(&list, NULL, INT_MAX);
	bool is_first = true, is_about_all;

	if (error)
		complain("cannot list the RDMA devices: %s", failure(error));
	if (settings->json)
		printf("{\n  \"nics\": [");
	if (settings->problems)
		VipCloseNic(NULL); /* which does nothing but tell of wrong settings */
	else
		nics = show_nics(settings, &list);
	is_about_all = !settings->nic || !nics;
	if (settings->json) {
		printf("],\n  \"candidates\": [");
		print_candidates_json(&list);
		printf("],\n  \"problems\": [");
		if (is_about_all)
			find_problems(&list, print_problem_json, &is_first);
		puts("]\n}");
	} else if (is_about_all) {
		print_candidates(&list);
		find_problems(&list, print_problem, NULL);
	}
	candidates_free(&list);
	return nics || settings->problems ? EXIT_OK : EXIT_FAILED;
}

int main(int argc, char **argv)
{
	struct settings settings = {0};
	int result = parse_arguments(argc, argv, &settings);

	hold_standard_files();
	return status_with_output(result >= 0 ? result : show(&settings));
}
