/* SPDX-License-Identifier: MIT */
/*
 * hidden.c - a long leaf above continuations
 *
 * nest(depth) has as many nested forks, and then runs a leaf until thieves have taken every
 * continuation, or for GIVE_UP_NS. Each continuation stores the time at which it ran. Results: the
 * times from the start of the leaf to the first and to the last continuation taken after it. The
 * last is -1 if the leaf gave up.
 *
 * INVARIANTS
 *   I1. struct probe is in the root's frame, which ends after all others.
 */
#include <errno.h>
#include <stdatomic.h>

#include <forkd/task.h>

#include "common/clock.h"

#define DEPTH_MAX  64
#define GIVE_UP_NS INT64_C(10000000000)

/* Words of the leaf's worker and of the thieves. Relaxed: only times are passed; the root reads
 * them after its join. */
struct probe {
	_Atomic int64_t began;
	_Atomic int64_t taken[DEPTH_MAX];
	_Atomic int32_t left; /* continuations not taken yet */
};

static int64_t wait_in_leaf(struct probe *p)
{
	int64_t began = (int64_t)clock_ns();

	atomic_store_explicit(&p->began, began, memory_order_relaxed);
	while (atomic_load_explicit(&p->left, memory_order_relaxed) > 0)
		if ((int64_t)clock_ns() - began > GIVE_UP_NS)
			return 1;
	return 0;
}

FK_TASK(int64_t, nested, (struct probe *, p, int64_t, n), int64_t below;)
{
	if (n == 0)
		FK_LEAF(wait_in_leaf(p));
}
FK_BODY(nested)
{
	FK_FORK(below, nested, self->p, self->n - 1);
	atomic_store_explicit(&self->p->taken[self->n - 1], (int64_t)clock_ns(),
			      memory_order_relaxed);
	atomic_fetch_sub_explicit(&self->p->left, 1, memory_order_relaxed);
	FK_JOIN();
	FK_RETURN(self->below);
}
FK_END(nested)

struct nest_result {
	int64_t first_ns;
	int64_t last_ns;
};

FK_TASK(struct nest_result, nest, (int64_t, depth), struct probe probe; int64_t gave_up;)
{
	if (depth < 1 || depth > DEPTH_MAX)
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(nest)
{
	atomic_store_explicit(&self->probe.left, (int32_t)self->depth, memory_order_relaxed);
	FK_CALL(gave_up, nested, &self->probe, self->depth);
	struct nest_result result = { INT64_MAX, 0 };
	int64_t began = atomic_load_explicit(&self->probe.began, memory_order_relaxed);

	for (int64_t i = 0; i < self->depth; i++) {
		int64_t at = atomic_load_explicit(&self->probe.taken[i], memory_order_relaxed);

		if (at >= began && at - began < result.first_ns)
			result.first_ns = at - began;
		if (at - began > result.last_ns)
			result.last_ns = at - began;
	}
	if (result.first_ns == INT64_MAX)
		result.first_ns = 0; /* all of it before the leaf had begun */
	if (self->gave_up)
		result.last_ns = -1;
	FK_RETURN_VALUE(result);
}
FK_END(nest)

FK_EXPORT_RESULTS(nest, (int64_t, first_ns, int64_t, last_ns), 0,
		  "When the work behind a long leaf was taken, after its start")
FK_MODULE(hidden, "Work behind a long leaf")
