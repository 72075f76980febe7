/* SPDX-License-Identifier: MIT */
#include "daemon/core/mapping.h"

#include <errno.h>
#include <sys/mman.h>

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

int layout_discard(void *base, uint64_t size)
{
	return madvise(base, size, is_private ? MADV_DONTNEED : MADV_REMOVE) < 0 ? -errno : 0;
}
