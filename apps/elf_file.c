/*
 * Reads ELF files of either word size in this machine's byte order, as the dynamic linker sees them:
 * by segments and the dynamic section, for old programs may be stripped of their section headers.
 * Nothing in the file is trusted.
 */
#include "elf_file.h"

#include <elf.h>
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NO_ADDRESS UINT64_MAX

/* A file in memory, and its dynamic section's entries that matter. */
struct image {
	const uint8_t *bytes;
	uint64_t size;
	bool is_64;
	uint64_t segments;
	unsigned num_segments, segment_size;
	uint64_t dynamic, dynamic_size;
	uint64_t strings, symbols, hash, gnu_hash; /* addresses */
};

/* Copies, since nothing says that the file keeps to alignments. */
static bool get(const struct image *image, uint64_t offset, void *to, size_t size)
{
	if (offset > image->size || size > image->size - offset)
		return false;
	memcpy(to, image->bytes + offset, size);
	return true;
}

/* The text at an offset, cut to the room; empty when it is not there. */
static void get_text(const struct image *image, uint64_t offset, char *text, size_t room)
{
	size_t length = 0;

	while (offset < image->size && length + 1 < room && image->bytes[offset])
		text[length++] = (char)image->bytes[offset++];
	text[length] = '\0';
}

/* Each of these reads a record of 32 bits as one of 64. */
static bool get_header(const struct image *image, Elf64_Ehdr *header)
{
	Elf32_Ehdr narrow;

	if (image->is_64)
		return get(image, 0, header, sizeof(*header));
	if (!get(image, 0, &narrow, sizeof(narrow)))
		return false;
	header->e_machine = narrow.e_machine;
	header->e_phoff = narrow.e_phoff;
	header->e_phnum = narrow.e_phnum;
	header->e_phentsize = narrow.e_phentsize;
	return true;
}

static bool get_segment(const struct image *image, unsigned index, Elf64_Phdr *segment)
{
	uint64_t offset = image->segments + (uint64_t)index * image->segment_size;
	Elf32_Phdr narrow;

	if (image->is_64)
		return get(image, offset, segment, sizeof(*segment));
	if (!get(image, offset, &narrow, sizeof(narrow)))
		return false;
	segment->p_type = narrow.p_type;
	segment->p_offset = narrow.p_offset;
	segment->p_vaddr = narrow.p_vaddr;
	segment->p_filesz = narrow.p_filesz;
	return true;
}

static bool get_dynamic(const struct image *image, uint64_t index, Elf64_Dyn *entry)
{
	size_t size = image->is_64 ? sizeof(Elf64_Dyn) : sizeof(Elf32_Dyn);
	Elf32_Dyn narrow;

	if (index >= image->dynamic_size / size)
		return false;
	if (image->is_64)
		return get(image, image->dynamic + index * size, entry, size);
	if (!get(image, image->dynamic + index * size, &narrow, size))
		return false;
	entry->d_tag = narrow.d_tag;
	entry->d_un.d_val = narrow.d_un.d_val;
	return true;
}

/* Where in the file an address is. */
static uint64_t offset_of(const struct image *image, uint64_t address)
{
	Elf64_Phdr segment;

	for (unsigned i = 0; i < image->num_segments && get_segment(image, i, &segment); i++)
		if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
		    address - segment.p_vaddr < segment.p_filesz)
			return address - segment.p_vaddr + segment.p_offset;
	return NO_ADDRESS;
}

/* How many symbols there are, or at least how many that are imported. */
static uint32_t num_symbols(const struct image *image)
{
	uint32_t words[2] = {0}; /* of DT_HASH: buckets, symbols; of DT_GNU_HASH: buckets, first own */
	uint64_t table = image->hash ? image->hash : image->gnu_hash;

	if (!table || !get(image, offset_of(image, table), words, sizeof(words)))
		return 0;
	return words[1];
}

static bool imports_vipl(const struct image *image)
{
	uint64_t symbols = offset_of(image, image->symbols);
	uint64_t strings = offset_of(image, image->strings);
	uint32_t count = num_symbols(image);

	for (uint32_t i = 1; i < count; i++) {
		char name[5];
		Elf64_Sym wide;
		Elf32_Sym narrow;

		if (image->is_64 ? !get(image, symbols + i * sizeof(wide), &wide, sizeof(wide))
				 : !get(image, symbols + i * sizeof(narrow), &narrow,
					sizeof(narrow)))
			return false;
		if ((image->is_64 ? wide.st_shndx : narrow.st_shndx) != SHN_UNDEF)
			continue;
		get_text(image, strings + (image->is_64 ? wide.st_name : narrow.st_name), name,
			 sizeof(name));
		if (!strncmp(name, "Vip", 3) && name[3] >= 'A' && name[3] <= 'Z')
			return true;
	}
	return false;
}

static void read_dynamic(struct image *image, struct elf_file *elf)
{
	Elf64_Dyn entry;

	for (uint64_t i = 0; get_dynamic(image, i, &entry) && entry.d_tag != DT_NULL; i++) {
		switch (entry.d_tag) {
		case DT_STRTAB:
			image->strings = entry.d_un.d_ptr;
			break;
		case DT_SYMTAB:
			image->symbols = entry.d_un.d_ptr;
			break;
		case DT_HASH:
			image->hash = entry.d_un.d_ptr;
			break;
		case DT_GNU_HASH:
			image->gnu_hash = entry.d_un.d_ptr;
			break;
		case DT_RPATH:
			elf->has_rpath = true;
			break;
		default:
			break;
		}
	}
	for (uint64_t i = 0; get_dynamic(image, i, &entry) && entry.d_tag != DT_NULL; i++)
		if (entry.d_tag == DT_NEEDED && elf->num_needed < MAX_NEEDED)
			get_text(image, offset_of(image, image->strings) + entry.d_un.d_val,
				 elf->needed[elf->num_needed++], sizeof(elf->needed[0]));
	elf->imports_vipl = imports_vipl(image);
}

static enum elf_kind read_image(struct image *image, struct elf_file *elf)
{
	uint8_t ident[EI_NIDENT];
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (!get(image, 0, ident, sizeof(ident)) || memcmp(ident, ELFMAG, SELFMAG) != 0)
		return ELF_NO;
	image->is_64 = ident[EI_CLASS] == ELFCLASS64;
	if (ident[EI_DATA] != (BYTE_ORDER == LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB) ||
	    !get_header(image, &header))
		return ELF_DAMAGED;
	elf->bits = image->is_64 ? 64 : 32;
	elf->machine = header.e_machine;
	image->segments = header.e_phoff;
	image->num_segments = header.e_phnum;
	image->segment_size = header.e_phentsize;
	for (unsigned i = 0; i < image->num_segments; i++) {
		if (!get_segment(image, i, &segment))
			return ELF_DAMAGED;
		if (segment.p_type == PT_INTERP)
			get_text(image, segment.p_offset, elf->interpreter,
				 sizeof(elf->interpreter));
		if (segment.p_type == PT_DYNAMIC) {
			elf->is_dynamic = true;
			image->dynamic = segment.p_offset;
			image->dynamic_size = segment.p_filesz;
		}
	}
	read_dynamic(image, elf);
	return ELF_YES;
}

enum elf_kind elf_read(const char *path, struct elf_file *elf)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum elf_kind kind = ELF_NO;
	struct image image = {0};
	struct stat status;
	void *memory;

	memset(elf, 0, sizeof(*elf));
	if (fd < 0)
		return ELF_NO;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_size > 0 &&
	    (uint64_t)status.st_size <= SIZE_MAX) {
		image.size = (uint64_t)status.st_size;
		memory = mmap(NULL, (size_t)image.size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (memory != MAP_FAILED) {
			image.bytes = memory;
			kind = read_image(&image, elf);
			munmap(memory, (size_t)image.size);
		}
	}
	close(fd);
	return kind;
}
