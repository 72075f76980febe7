/* SPDX-License-Identifier: MIT */
#include "daemon/core/mapping.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "common/util.h"
#include "common/valgrind.h"

/* valgrind warns of a mapping of more than 256 MiB, and its search for leaks reads all of it. */
#define MAPPING_VALGRIND (UINT64_C(128) << 20)
#define MAPPING_LOCKED	 (UINT64_C(16) << 20)

static bool is_private;

void mapping_be_private(void)
{
	is_private = true;
}

bool mapping_is_private(void)
{
	return is_private;
}

int layout_withhold(void *base, uint64_t size, bool secret)
{
	if (is_private)
		return 0;
	if (madvise(base, size, MADV_DONTFORK) < 0 ||
	    (secret && madvise(base, size, MADV_DONTDUMP) < 0))
		return -errno;
	return 0;
}

/* True after mlockall(MCL_FUTURE): the kernel then makes all pages of a new mapping at once. */
static bool mapping_is_locked(void)
{
	unsigned char resident = 0;
	void *page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return false;
	(void)mincore(page, 1, &resident);
	(void)munmap(page, 1);
	return resident & 1;
}

uint64_t mapping_space(uint64_t most)
{
	/* Linux counts private writable memory that is not used as data, too. */
	static const int limits[] = { RLIMIT_AS, RLIMIT_DATA };
	struct rlimit limit;

	if (on_valgrind())
		most = min(most, MAPPING_VALGRIND);
	if (is_private && mapping_is_locked())
		most = min(most, MAPPING_LOCKED);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (getrlimit(limits[i], &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
			most = min(most, (uint64_t)limit.rlim_cur / 16 & ~UINT64_C(0x1fffff));
	return most;
}

int layout_discard(void *base, uint64_t size)
{
	return madvise(base, size, is_private ? MADV_DONTNEED : MADV_REMOVE) < 0 ? -errno : 0;
}
