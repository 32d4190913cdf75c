/*
 * Where libvipl is for programs of either word size: in a directory of its own, which holds nothing
 * but it, under each of the names that programs ask for. So no other library of a program's is
 * replaced by accident.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "vip_run.h"

/* From this program's directory. The first is where the build installs libraries, as CMake knows it. */
static const char *const places[] = {
	VIP_RUN_LIBDIR,
	"../lib/x86_64-linux-gnu",
	"../lib/i386-linux-gnu",
	"../lib64",
	"../lib32",
	"../lib",
	/* A build tree, and the one beside it with the other word size. */
	"../libvipl",
	"../../release32/libvipl",
	"../../release/libvipl",
};

static bool is_known(const struct libraries *libraries, const struct elf_file *elf)
{
	for (int i = 0; i < libraries->count; i++)
		if (libraries->found[i].elf.bits == elf->bits)
			return true;
	return false;
}

static void look(struct libraries *libraries, const char *home, const char *place)
{
	char directory[PATH_MAX], library[PATH_MAX + sizeof("/libvipl.so.1")], near[2 * PATH_MAX];
	struct elf_file elf;

	snprintf(near, sizeof(near), "%s/%s/libvipl", home, place);
	if (!realpath(near, directory))
		return;
	snprintf(library, sizeof(library), "%s/libvipl.so.1", directory);
	if (elf_read(library, &elf) != ELF_YES || is_known(libraries, &elf))
		return;
	strcpy(libraries->found[libraries->count].directory, directory);
	libraries->found[libraries->count++].elf = elf;
}

void libraries_find(struct libraries *libraries)
{
	char home[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", home, sizeof(home) - 1);

	libraries->count = 0;
	if (length <= 0)
		return;
	home[length] = '\0';
	*strrchr(home, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (libraries->count < MAX_LIBRARIES)
			look(libraries, home, places[i]);
}

const char *libraries_for(const struct libraries *libraries, const struct elf_file *program)
{
	for (int i = 0; i < libraries->count; i++)
		if (libraries->found[i].elf.bits == program->bits &&
		    libraries->found[i].elf.machine == program->machine)
			return libraries->found[i].directory;
	return NULL;
}

bool libraries_has_name(const char *directory, const char *name)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return !strchr(name, '/') && !access(path, F_OK);
}
