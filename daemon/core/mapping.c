/* SPDX-License-Identifier: MIT */
#include "daemon/core/mapping.h"

#include <errno.h>
#include <sys/mman.h>

int layout_withhold(void *base, uint64_t size, bool secret)
{
	if (madvise(base, size, MADV_DONTFORK) < 0 ||
	    (secret && madvise(base, size, MADV_DONTDUMP) < 0))
		return -errno;
	return 0;
}
