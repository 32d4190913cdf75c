/* What the parts of vip_run share. */
#ifndef VIP_APPS_VIP_RUN_H
#define VIP_APPS_VIP_RUN_H

#include <limits.h>
#include <stdbool.h>

#include "elf_file.h"

/* As env(1), nice(1) and timeout(1) have it; else the status is the program's. */
enum {
	EXIT_OURS = 125,      /* wrong usage, or this program failed */
	EXIT_CANNOT_RUN = 126,
	EXIT_NOT_FOUND = 127,
};

struct settings {
	char nic_map[256]; /* VIPL_NIC_MAP has that much room */
	bool preload;
	bool check;
	char **arguments; /* the program's, with its name first */
};

/* Returns -1 to go on, else the status to exit with. */
int parse_arguments(int argc, char **argv, struct settings *s);

struct program {
	char path[PATH_MAX];
	bool is_script; /* or whatever is no ELF file */
	bool is_setuid; /* the system will ignore where libraries are to be looked for */
	struct elf_file elf;
};

/* Finds it as a shell does, and looks at it. Returns 0, or the status to exit with: all is said then. */
int program_find(const char *name, struct program *program);

enum { MAX_LIBRARIES = 2 }; /* of each word size one */

/* A directory with libvipl under all its names. */
struct libraries {
	struct {
		char directory[PATH_MAX];
		struct elf_file elf;
	} found[MAX_LIBRARIES];
	int count;
};

/* Looks for them beside this program: where it is installed, or in the build tree. */
void libraries_find(struct libraries *libraries);

/* The directory with the library this program can use, or NULL. */
const char *libraries_for(const struct libraries *libraries, const struct elf_file *program);

/* Is this a name under which programs ask for VIPL? */
bool libraries_has_name(const char *directory, const char *name);

#endif
