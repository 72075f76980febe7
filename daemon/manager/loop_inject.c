/* SPDX-License-Identifier: MIT */
/* loop_inject.c - injects failures into the loop; empty in a build without crash sites */
#include "daemon/manager/loop_inject.h"

#ifdef FK_CRASH_SITES

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "common/relaxed.h"

static struct loop_inject none;
static struct loop_inject *fault = &none;

void loop_inject_init(void)
{
	const char *path = getenv("FORKD_LOOP_INJECT");
	_cleanup_close_ int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map = MAP_FAILED;

	if (fd >= 0)
		map = mmap(NULL, sizeof(*fault), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED)
		fault = map;
}

int loop_inject(enum loop_inject_kind kind)
{
	uint32_t nth, seen;

	/* ORDER loop/inject [Q3]: acquire, the parameters were written before. Pairs with
	 * loop_inject_arm(). */
	nth = atomic_load_explicit(&fault->kinds[kind].nth, memory_order_acquire);
	if (!nth)
		return 0;
	/* Relaxed: a counter; the parameters are complete by now. */
	seen = add_relaxed(&fault->kinds[kind].seen, 1) + 1;
	/* Wraps to a large number if seen is below nth. */
	if (seen - nth >= load_relaxed(&fault->kinds[kind].times))
		return 0;
	return load_relaxed(&fault->kinds[kind].error);
}

#endif
