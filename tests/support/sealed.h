/* SPDX-License-Identifier: MIT */
/* sealed.h - memfds for fk_import() */
#pragma once

#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEALED_SIZE  (F_SEAL_SHRINK | F_SEAL_GROW)
#define SEALED_FULLY (SEALED_SIZE | F_SEAL_WRITE)

/* Returns a memfd of size bytes of one value, with these seals. ret_bytes: a mapping made before it
 * was sealed, which is writable; NULL: none. */
static inline int sealed_file(size_t size, int value, int seals, unsigned char **ret_bytes)
{
	int fd = memfd_create("import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *bytes;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(bytes, MAP_FAILED);
	memset(bytes, value, size);
	if (!ret_bytes)
		ck_assert_int_eq(munmap(bytes, size), 0);
	else
		*ret_bytes = bytes;
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}
