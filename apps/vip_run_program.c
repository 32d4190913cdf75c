/* The program that vip_run is to run: where it is, and what it is. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common.h"
#include "vip_run.h"

/* A file that may be executed; else errno says why not. */
static bool can_execute(const char *path)
{
	struct stat status;

	if (stat(path, &status))
		return false;
	if (!S_ISREG(status.st_mode)) {
		errno = S_ISDIR(status.st_mode) ? EISDIR : EACCES;
		return false;
	}
	return !access(path, X_OK);
}

/* Returns 0 or an error number. */
static int search(const char *name, char path[PATH_MAX])
{
	const char *directories = getenv("PATH");
	int error = ENOENT;

	if (strchr(name, '/')) {
		if ((size_t)snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
			return ENAMETOOLONG;
		return can_execute(path) ? 0 : errno;
	}
	if (!directories)
		directories = "/bin:/usr/bin";
	for (const char *at = directories;; at++) {
		size_t length = strcspn(at, ":");

		/* An empty entry means the current directory. */
		if (snprintf(path, PATH_MAX, "%.*s/%s", length ? (int)length : 1,
			     length ? at : ".", name) < PATH_MAX) {
			if (can_execute(path))
				return 0;
			if (errno == EACCES)
				error = EACCES;
		}
		at += length;
		if (!*at)
			return error;
	}
}

/* Will the kernel give it more rights than we have? Then the dynamic linker does not trust us. */
static bool gains_rights(const char *path)
{
	struct stat status;

	if (stat(path, &status))
		return false;
	return (status.st_mode & S_ISUID && status.st_uid != getuid()) ||
	       ((status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
		status.st_gid != getgid()) ||
	       (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

static int complain_search(const char *name, int error)
{
	switch (error) {
	case ENOENT:
	case ENOTDIR:
		complain("there is no program %s%s", name, strchr(name, '/') ? "" : " in PATH");
		return EXIT_NOT_FOUND;
	case EACCES:
		complain("%s is not executable, or not for this user (chmod +x %s)", name, name);
		break;
	case EISDIR:
		complain("%s is a directory", name);
		break;
	default:
		complain("cannot run %s: %s", name, strerror(error));
	}
	return EXIT_CANNOT_RUN;
}

static int check_elf(const struct program *program)
{
	const struct elf_file *elf = &program->elf;

	if (!elf->is_dynamic || !*elf->interpreter) {
		complain("%s is statically linked: whatever VIPL it uses is built in, and nothing can "
			 "be put in its place. It has to be linked again, with libvipl",
			 program->path);
		return EXIT_CANNOT_RUN;
	}
	if (access(elf->interpreter, X_OK)) {
		complain("%s, a program of %u bits, needs the dynamic linker %s, which is not on this "
			 "machine%s", program->path, elf->bits, elf->interpreter,
			 strcmp(elf->interpreter, "/lib/ld-linux.so.2") ? "" :
			 " (Debian: dpkg --add-architecture i386; apt-get install libc6:i386)");
		return EXIT_CANNOT_RUN;
	}
	return 0;
}

int program_find(const char *name, struct program *program)
{
	int error = search(name, program->path);

	if (error)
		return complain_search(name, error);
	program->is_setuid = gains_rights(program->path);
	switch (elf_read(program->path, &program->elf)) {
	case ELF_NO:
		program->is_script = true;
		return 0;
	case ELF_DAMAGED:
		complain("%s is damaged, or for another kind of machine", program->path);
		return EXIT_CANNOT_RUN;
	default:
		return check_elf(program);
	}
}
