/*
 * vip_run - runs a program that was linked with another VIPL library, or loads one, with libvipl in its
 * place: finds out what it needs, sets the environment accordingly, raises the limit on locked
 * memory, and says what is missing.
 */
#include "vip_run.h"

#include <elf.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common.h"
#include "health.h"

const char *program_name = "vip_run";

/* Only our directories have it, so that not even a library beside the program is taken for it. */
#define PRELOAD "vipl-preload.so"

static void die_of_memory(void)
{
	complain("no memory");
	exit(EXIT_OURS);
}

/* Puts a value in front of what a variable has. */
static void prepend(const char *variable, const char *value, char separator)
{
	const char *present = getenv(variable);
	char *text;

	if (!present || !*present)
		text = strdup(value);
	else if (asprintf(&text, "%s%c%s", value, separator, present) < 0)
		text = NULL;
	if (!text || setenv(variable, text, 1))
		die_of_memory();
	free(text);
}

/* Both directories, the program's first: the dynamic linker passes over libraries of the other size. */
static void set_library_path(const struct libraries *libraries, const char *first)
{
	char both[2 * PATH_MAX + 2] = "";

	if (first)
		strcpy(both, first);
	for (int i = 0; i < libraries->count; i++) {
		const char *directory = libraries->found[i].directory;

		if (first && !strcmp(first, directory))
			continue;
		snprintf(both + strlen(both), sizeof(both) - strlen(both), "%s%s",
			 *both ? ":" : "", directory);
	}
	prepend("LD_LIBRARY_PATH", both, ':');
}

/*
 * A program that is linked with VIPL under a name of ours gets it by that name, and one that is not
 * linked with it will load it by such a name. In front of all libraries ours has to be only if the
 * program is linked with another name, or looks elsewhere first.
 */
static bool needs_preload(const struct elf_file *elf, const char *directory)
{
	if (!elf->imports_vipl)
		return false;
	for (unsigned i = 0; i < elf->num_needed; i++)
		if (libraries_has_name(directory, elf->needed[i]))
			return elf->has_rpath;
	return true;
}

static int complain_library(const struct libraries *libraries, const struct program *program)
{
	unsigned bits = program->elf.bits;

	for (int i = 0; i < libraries->count; i++)
		if (libraries->found[i].elf.bits == bits) {
			complain("%s is for another kind of machine (number %u of ELF)",
				 program->path, program->elf.machine);
			return EXIT_CANNOT_RUN;
		}
	complain("%s is a program of %u bits, and no libvipl of %u bits is installed here%s",
		 program->path, bits, bits,
		 bits == 32 ? ". In libvipl's sources: tools/setup i386; cmake --preset release32; "
			      "cmake --build --preset release32; cmake --install build/release32"
			    : "");
	return EXIT_OURS;
}

/* As far as this user may. */
static void raise_memlock(void)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	if (!setrlimit(RLIMIT_MEMLOCK, &limit) || getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &limit);
}

/* Does each NIC that is mapped lead to the loopback device? */
static bool only_loopback(const char *map)
{
	const char *device;

	for (device = strchr(map, '='); device; device = strchr(device, '='))
		if (strncmp(++device, "via_lo", 6) != 0)
			return false;
	return *map;
}

/* libibverbs of 32 bits has drivers of its own. Without them its programs see no device at all. */
static bool lacks_drivers(const struct elf_file *elf)
{
	glob_t drivers;
	bool found;

	if (elf->bits != 32 || elf->machine != EM_386)
		return false;
	glob("/usr/lib/i386-linux-gnu/libibverbs/*.so", 0, NULL, &drivers);
	glob("/usr/lib32/libibverbs/*.so", GLOB_APPEND, NULL, &drivers);
	found = drivers.gl_pathc > 0;
	globfree(&drivers);
	return !found;
}

static void print_notes(const struct settings *s, const struct program *program)
{
	struct finding findings[MAX_FINDINGS];
	bool is_local = only_loopback(s->nic_map);
	int count = is_local ? 0 : find_problems(findings, false);

	if (program->is_setuid)
		complain("note: %s runs with another user's rights (setuid or the like), so the system "
			 "ignores where we want its libraries from. Use a copy without them",
			 program->path);
	if (!is_local && lacks_drivers(&program->elf))
		complain("note: there are no verbs drivers for programs of 32 bits, which will find no "
			 "RDMA device (Debian: apt-get install ibverbs-providers:i386)");
	for (int i = 0; i < count; i++)
		complain("note: %s%s%s", findings[i].problem, s->check ? "\n" : "",
			 s->check ? findings[i].remedy : "");
	if (count && !s->check)
		complain("note: vip_run --check says more about that");
}

static void print_check(const struct program *program)
{
	static const char *const variables[] = {"LD_LIBRARY_PATH", "LD_PRELOAD", "VIPL_NIC_MAP"};
	const struct elf_file *elf = &program->elf;

	if (program->is_script)
		printf("program: %s, a script\n", program->path);
	else
		printf("program: %s, %u bits, %s\n", program->path, elf->bits,
		       elf->imports_vipl ? "linked with VIPL" : "not linked with VIPL");
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		if (getenv(variables[i]))
			printf("%s=%s\n", variables[i], getenv(variables[i]));
}

/* Returns 0, or the status to exit with. */
/* The library would ignore a map that is too long as a whole. */
static int add_to_map(const struct settings *s)
{
	const char *map;

	prepend("VIPL_NIC_MAP", s->nic_map, ',');
	map = getenv("VIPL_NIC_MAP");
	if (map && strlen(map) < sizeof(s->nic_map))
		return 0;
	complain("with what VIPL_NIC_MAP says already, this is more than it can hold (%zu bytes)",
		 sizeof(s->nic_map) - 1);
	return EXIT_OURS;
}

static int set_environment(const struct settings *s, const struct program *program)
{
	static struct libraries libraries;
	const char *directory = NULL;

	libraries_find(&libraries);
	if (!program->is_script)
		directory = libraries_for(&libraries, &program->elf);
	if (!libraries.count) {
		complain("there is no libvipl beside this program");
		return EXIT_OURS;
	}
	if (!program->is_script && !directory)
		return complain_library(&libraries, program);
	set_library_path(&libraries, directory);
	if (s->preload || (directory && needs_preload(&program->elf, directory)))
		prepend("LD_PRELOAD", PRELOAD, ':');
	if (*s->nic_map)
		return add_to_map(s);
	return 0;
}

int main(int argc, char **argv)
{
	static struct settings settings;
	static struct program program;
	int result = parse_arguments(argc, argv, &settings);

	if (result >= 0)
		return result;
	result = program_find(settings.arguments[0], &program);
	if (!result)
		result = set_environment(&settings, &program);
	if (result)
		return result;
	raise_memlock();
	if (settings.check)
		print_check(&program);
	fflush(stdout);
	print_notes(&settings, &program);
	if (settings.check)
		return EXIT_OK;
	if (program.is_script) /* the shell takes those that do not say who runs them */
		execvp(program.path, settings.arguments);
	else
		execv(program.path, settings.arguments);
	complain("cannot run %s: %s", program.path, strerror(errno));
	return EXIT_CANNOT_RUN;
}
