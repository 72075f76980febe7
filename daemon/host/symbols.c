/* SPDX-License-Identifier: MIT */
#include "daemon/host/symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/util.h"

#define SYMBOLS_OBJECTS 256u

struct symbols_range {
	uintptr_t from;
	uint64_t size; /* bytes */
};

struct symbols_object {
	struct symbols_range all;  /* from its first to its last segment */
	struct symbols_range code; /* the same for executable segments */
	uintptr_t bias;		   /* difference between its addresses and those of its file */
	char name[40];
	const ElfW(Sym) * table; /* in the mapped file; NULL: none */
	uint64_t n_symbols;
	const char *strings;
	uint64_t strings_size;
};

static struct symbols_object symbols_objects[SYMBOLS_OBJECTS];
static _Atomic uint32_t symbols_n;

static uint32_t symbols_count(void)
{
	/* ORDER symbols/objects [Y1]: acquire, the entries are complete. Pairs with the release in
	 * symbols_add(). */
	return atomic_load_explicit(&symbols_n, memory_order_acquire);
}

static bool symbols_has(const struct symbols_range *range, uintptr_t address, uint64_t size)
{
	return address - range->from < range->size && size <= range->size - (address - range->from);
}

static void symbols_widen(struct symbols_range *range, uintptr_t from, uint64_t size)
{
	uintptr_t end = max(range->from + range->size, from + size);

	range->from = range->size ? min(range->from, from) : from;
	range->size = end - range->from;
}

static int symbols_measure(struct dl_phdr_info *info, size_t size, void *context)
{
	struct symbols_object *object = context;
	uintptr_t address = object->all.from;
	struct symbols_object found = { .bias = info->dlpi_addr };

	(void)size;
	for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type != PT_LOAD)
			continue;
		symbols_widen(&found.all, found.bias + part->p_vaddr, part->p_memsz);
		if (part->p_flags & PF_X)
			symbols_widen(&found.code, found.bias + part->p_vaddr, part->p_memsz);
	}
	if (!symbols_has(&found.all, address, 1))
		return 0;
	*object = found;
	return 1;
}

/* True if n entries of this size fit at offset into a file of size bytes. */
static bool symbols_fit(uint64_t offset, uint64_t n, uint64_t entry, uint64_t size)
{
	return offset <= size && offset % 8 == 0 && n <= (size - offset) / entry;
}

/* Finds the symbol table: the complete one, otherwise the dynamic one. */
static void symbols_read(struct symbols_object *object, const char *file, uint64_t size)
{
	const ElfW(Ehdr) *head = (const void *)file;
	const ElfW(Shdr) * sections;

	if (size < sizeof(*head) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
	    head->e_shentsize != sizeof(*sections) ||
	    !symbols_fit(head->e_shoff, head->e_shnum, sizeof(*sections), size))
		return;
	sections = (const void *)(file + head->e_shoff);
	for (uint32_t i = 0; i < head->e_shnum; i++) {
		const ElfW(Shdr) *table = &sections[i], *strings;

		if (table->sh_type != SHT_SYMTAB && (table->sh_type != SHT_DYNSYM || object->table))
			continue;
		if (table->sh_link >= head->e_shnum)
			continue;
		strings = &sections[table->sh_link];
		if (!symbols_fit(table->sh_offset, table->sh_size / sizeof(ElfW(Sym)),
				 sizeof(ElfW(Sym)), size) ||
		    strings->sh_offset > size || strings->sh_size > size - strings->sh_offset)
			continue;
		object->table = (const void *)(file + table->sh_offset);
		object->n_symbols = table->sh_size / sizeof(ElfW(Sym));
		object->strings = file + strings->sh_offset;
		object->strings_size = strings->sh_size;
	}
}

void symbols_add(const void *address, const char *name, int fd)
{
	struct symbols_object object = { .all.from = (uintptr_t)address };
	struct stat st;
	void *file;
	uint32_t n = symbols_count();

	if (n == SYMBOLS_OBJECTS || symbols_contain(address, 1) ||
	    !dl_iterate_phdr(symbols_measure, &object))
		return;
	strncpy(object.name, name, sizeof(object.name) - 1);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
		file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (file != MAP_FAILED)
			symbols_read(&object, file, (uint64_t)st.st_size);
	}
	symbols_objects[n] = object;
	/* ORDER symbols/objects [Y1]: release, the entry is complete before it is counted. Pairs
	 * with the acquire in symbols_count(). */
	atomic_store_explicit(&symbols_n, n + 1, memory_order_release);
}

/* Finds the name of the function at an offset. */
static void symbols_name(const struct symbols_object *object, uint64_t offset, char *ret_name,
			 size_t size)
{
	for (uint64_t i = 0; i < object->n_symbols; i++) {
		const ElfW(Sym) *symbol = &object->table[i];

		/* ElfW() has no such macro; it is the same for both classes. */
		if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF ||
		    offset - symbol->st_value >= symbol->st_size ||
		    symbol->st_name >= object->strings_size)
			continue;
		size = min(size, object->strings_size - symbol->st_name + 1);
		strncpy(ret_name, object->strings + symbol->st_name, size - 1);
		ret_name[size - 1] = '\0';
		return;
	}
}

bool symbols_find(uintptr_t address, struct backtrace_place *ret_place)
{
	uint32_t n = symbols_count();

	*ret_place = (struct backtrace_place){ .offset = address };
	for (uint32_t i = 0; i < n; i++) {
		const struct symbols_object *object = &symbols_objects[i];

		if (!symbols_has(&object->code, address, 1))
			continue;
		ret_place->offset = address - object->bias;
		memcpy(ret_place->object, object->name, sizeof(ret_place->object));
		symbols_name(object, ret_place->offset, ret_place->function,
			     sizeof(ret_place->function));
		return true;
	}
	return false;
}

bool symbols_contain(const void *address, uint64_t size)
{
	uint32_t n = symbols_count();

	for (uint32_t i = 0; i < n; i++)
		if (symbols_has(&symbols_objects[i].all, (uintptr_t)address, size))
			return true;
	return false;
}
