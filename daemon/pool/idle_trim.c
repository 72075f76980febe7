/* SPDX-License-Identifier: MIT */
#include "daemon/pool/idle_trim.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "common/relaxed.h"
#include "daemon/core/mapping.h"
#include "daemon/core/worker.h"

#define TRIM_PAGE    ((uintptr_t)4096)
#define TRIM_KEPT    (TRIM_PAGE / sizeof(struct fk_entry)) /* entries that are kept */
#define TRIM_ENTRIES 32768				   /* at a time */
#define TRIM_CSTACK  65536				   /* bytes that are kept, below the loop */
#define TRIM_PROBE   (2 * TRIM_PAGE) /* bytes below those: larger than most locals */

/* Returns the lowest address of this thread's C stack; NULL: unknown. glibc allocates memory for
 * that, so call it only if there is something to give back. */
static char *trim_lowest(void)
{
	pthread_attr_t attr;
	void *lowest = NULL;
	size_t size;

	if (pthread_getattr_np(pthread_self(), &attr))
		return NULL;
	(void)pthread_attr_getstack(&attr, &lowest, &size);
	pthread_attr_destroy(&attr);
	return lowest;
}

/* True if an activation has used this part of the C stack. Reading it allocates no memory. */
static __attribute__((no_sanitize("address", "thread"))) bool trim_is_used(const char *from,
									   size_t size)
{
	const volatile uint64_t *words = (const volatile uint64_t *)(const volatile void *)from;
	uint64_t any = 0;

	for (size_t i = 0; i < size / sizeof(*words) && !any; i++)
		any = words[i];
	return any;
}

/* Activations are contiguous: if the part just below the kept one is unused, so is the rest. A C
 * stack has at least 2 MiB (option worker-stack). */
static void trim_cstack(struct worker *w)
{
	char *here = __builtin_frame_address(0);
	char *end = here - TRIM_CSTACK - (uintptr_t)here % TRIM_PAGE;

	char *lowest;

	if (w->engine.loop != &w->engine.first_loop || !trim_is_used(end - TRIM_PROBE, TRIM_PROBE))
		return;
	lowest = trim_lowest();
	if (lowest)
		(void)madvise(lowest, (size_t)(end - lowest), MADV_DONTNEED);
}

/* Gives back pages of the deque, from *next on. */
static bool trim_deque(struct worker *w, struct fk_entry **next)
{
	struct fk_entry *kept = w->engine.frames.entries + TRIM_KEPT, *from = *next;

	/* Relaxed, here and below: the owner's. */
	if (from >= w->engine.fk.end || !load_relaxed(&kept[-1].word))
		return false;
	*next = w->engine.fk.end - from > TRIM_ENTRIES ? from + TRIM_ENTRIES : w->engine.fk.end;
	/* If it fails, the pages stay. A thief that reads there fails its CAS (deque.h, I3). */
	(void)layout_discard(from, (uint64_t)((char *)*next - (char *)from));
	if (*next == w->engine.fk.end)
		store_relaxed(&kept[-1].word, 0);
	return true;
}

bool trim_some(struct worker *w, struct fk_entry **next)
{
	if (!*next) {
		*next = w->engine.frames.entries + TRIM_KEPT;
		trim_cstack(w);
	}
	if (!trim_deque(w, next) && !stack_arena_clean(w->engine.cache.arena))
		return false;
	sched_yield();
	return true;
}
