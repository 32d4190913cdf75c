/* What vip_run has to know of a program or a library: read from the file, without running it. */
#ifndef VIP_APPS_ELF_FILE_H
#define VIP_APPS_ELF_FILE_H

#include <stdbool.h>
#include <stdint.h>

enum { MAX_NEEDED = 64 };

struct elf_file {
	unsigned bits; /* 32 or 64 */
	unsigned machine;
	bool is_dynamic;
	bool has_rpath;	   /* DT_RPATH, which is searched before LD_LIBRARY_PATH */
	bool imports_vipl; /* wants functions of VIPL from the libraries it is linked with */
	char interpreter[256];
	char needed[MAX_NEEDED][64];
	unsigned num_needed;
};

enum elf_kind {
	ELF_NO,	     /* cannot be read, or is no ELF file */
	ELF_DAMAGED, /* or of the other byte order */
	ELF_YES,
};

/* Of a file that is damaged nothing is known. */
enum elf_kind elf_read(const char *path, struct elf_file *elf);

#endif
