/* SPDX-License-Identifier: MIT */
/*
 * create.c - the record of a fiber, and its stack
 *
 * The record is at the high end of the fiber's own stack. A fiber on a shared stack has its record
 * in a block, and gets the stack when it begins.
 *
 * INVARIANTS
 *   R1. Memory for stacks and records is reserved at most once, with the lock of shared_stacks. A
 *       thread that has read FIBERS_READY uses it without the lock.
 */
#include "daemon/fiber/create.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/relaxed.h"
#include "common/valgrind.h"
#include "daemon/core/fiber_stack.h"
#include "daemon/core/mapping.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/context_switch.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/blocking_section.h"
#include "daemon/fiber/shared_stack.h"
#include "daemon/fiber/fiber_local.h"
#include "daemon/fiber/slab.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/fiber/self.h"
#include "daemon/host/topology.h"
#include "shm/board.h"

/* Bytes of address space for stacks, if available: 1,671,168 of the smallest with guards. */
#define FIBER_SPACE	   (UINT64_C(32) << 30)
#define FIBER_SPACE_LEAST  (UINT64_C(64) << 20)
#define FIBER_MEMORY_SPACE (UINT64_C(32) << 30) /* the same, for records and copies */
#define FIBER_KEEP	   (UINT64_C(16) << 20) /* bytes of free stacks, on each node */

#define FIBER_MEASURE 64u /* one of this many ended fibers has its stack measured */

_Static_assert(FK_STACK_GUARDED == FIBER_STACK_GUARDED && FK_STACK_SLAB == FIBER_STACK_SLAB,
	       "kinds");

/* Reserves memory for stacks, records and copies, and the workers' shared stacks. */
static int fibers_map(struct pool *pool)
{
	struct fiber_stacks_options options = { .space = mapping_space(FIBER_SPACE),
						.keep = FIBER_KEEP };
	int r;

	blocking_threads_init(pool);
	r = fiber_memory_init(&pool->fibers->blocks, mapping_space(FIBER_MEMORY_SPACE));
	if (r < 0)
		return r;
	pool->fibers->shared_stacks.shared_stacks =
		aligned_alloc(CACHE_LINE, pool->n_workers * sizeof(struct shared_stack));
	if (!pool->fibers->shared_stacks.shared_stacks)
		return -ENOMEM;
	for (uint32_t i = 0; i < pool->n_workers; i++)
		pool->fibers->shared_stacks.shared_stacks[i] =
			(struct shared_stack){ .holder = i, .home = i };
	do {
		r = fiber_stacks_init(&pool->fibers->stacks, pool->n_groups, &options);
		options.space /= 2;
	} while (r == -ENOMEM && options.space >= FIBER_SPACE_LEAST);
	/* arena_layout.c has logged a failure: then pages are on the node that first uses them. */
	for (uint32_t g = 0; r == 0 && g < pool->n_groups; g++) {
		size_t size;
		void *part = fiber_stacks_part(&pool->fibers->stacks, g, &size);

		(void)topology_bind_group_memory(pool->topology, g, part, size);
	}
	return r;
}

int fibers_reserve(struct pool *pool)
{
	struct fibers *all = pool->fibers;
	/* ORDER fibers/reserved [R1]: acquire, the memory. Pairs with the release below. */
	int r = atomic_load_explicit(&all->error, memory_order_acquire);

	if (likely(r == FIBERS_READY))
		return 0;
	pthread_mutex_lock(&all->shared_stacks.lock);
	r = load_relaxed(&all->error);
	if (r == FIBERS_LATER) {
		r = fibers_map(pool);
		if (r == 0)
			r = FIBERS_READY;
		/* ORDER fibers/reserved [R1]: release, pairs with the acquire above. */
		atomic_store_explicit(&all->error, r, memory_order_release);
	}
	pthread_mutex_unlock(&all->shared_stacks.lock);
	return min(r, 0);
}

/* Ends a section that the fiber has left open. */
static void fiber_close(struct fiber *f)
{
	if (f->head.blocking)
		(void)fk_rt_fiber_block_end();
}

/* The fiber's own code, on its stack, from its first instruction to its last. */
static void fiber_main(void *arg)
{
	struct fiber *f = arg;

	if (!fiber_is_over(f))
		f->fn(f->arg);
	fiber_close(f);
	fiber_locals_end(f);
	fiber_close(f);
	fk_enter(&f->head.worker->engine.fk, 0);
	f->after = FIBER_ENDS;
	switch_leave(&f->context, &f->head.worker->engine.loop->context);
}

void fiber_begin_on(struct fiber *f, struct fiber_stack *stack, size_t size)
{
	f->head.stack = stack;
	switch_make(&f->context, stack->low, size, fiber_main, f);
}

static int fiber_new_own(struct worker *w, const struct fiber_plan *plan, struct fiber **ret_fiber)
{
	struct fiber_stack *stack;
	struct fiber *f;
	int r = fiber_stack_get(&w->pool->fibers->stacks, w->group, plan->stack,
				(enum fiber_stack_kind)plan->kind, &stack);

	if (r < 0)
		return r;
	if (!fiber_reserve(w, stack->size)) {
		fiber_stack_put(&w->pool->fibers->stacks, stack);
		return -ENOMEM;
	}
	f = (struct fiber *)(((uintptr_t)stack->low + stack->size - sizeof(*f)) & ~(uintptr_t)63);
	memset(f, 0, sizeof(*f));
	fiber_begin_on(f, stack, (size_t)((char *)f - plan->room - stack->low));
	*ret_fiber = f;
	return 0;
}

static int fiber_new_shared(struct worker *w, const struct fiber_plan *plan,
			    struct fiber **ret_fiber)
{
	size_t size = fiber_memory_size(sizeof(struct fiber));
	struct fiber *f;
	int r;

	if (plan->stack > FIBER_SHARED_STACK)
		return -EINVAL;
	r = shared_stacks_ready(w);
	if (r < 0)
		return r;
	if (!fiber_reserve(w, size))
		return -ENOMEM;
	f = fiber_memory_get(&w->pool->fibers->blocks, w->index, size);
	if (!f) {
		fiber_release(w, w->job.row, size);
		return -ENOMEM;
	}
	memset(f, 0, sizeof(*f));
	f->shared = true;
	*ret_fiber = f;
	return 0;
}

int fiber_new(struct worker *w, struct scope *scope, const struct fiber_plan *plan,
	      struct fiber **ret_fiber)
{
	struct fiber *f = NULL;
	int r = fibers_reserve(w->pool);

	if (r == 0)
		r = plan->kind == FK_STACK_SHARED ? fiber_new_shared(w, plan, &f)
						  : fiber_new_own(w, plan, &f);
	if (r < 0) {
		COUNT_ADD(w, fibers_refused, r != -EINVAL);
		return r;
	}
	f->head.frame.task = plan->task;
	f->head.frame.job = w->job.row;
	f->head.frame.top = (char *)&f->head.frame; /* never a worker's sp */
	f->scope = scope;
	f->head.worker = w;
	f->fn = plan->fn;
	f->arg = plan->arg;
	f->head.name = plan->name;
	fk_set_site(&f->head.frame, FK_PARTED);
	fiber_park_init(&f->park);
	COUNT(w, fibers);
	*ret_fiber = f;
	return 0;
}

/* Records how much of a stack was used: one stack in FIBER_MEASURE, because it takes a system
 * call. */
static void fiber_measure(struct worker *w, const struct fiber_stack *stack)
{
	_Atomic uint64_t *high = &w->pool->board->counters[BOARD_POOL].fiber_stack_high_bytes;
	/* Relaxed: a statistic. */
	uint64_t before = load_relaxed(high), used;

	/* memcheck reports a read of a stack that has been left. */
	if (w->fiber.ended++ % FIBER_MEASURE || on_valgrind())
		return;
	used = fiber_stack_high_water(stack);
	while (used > before &&
	       !atomic_compare_exchange_weak_explicit(high, &before, used, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

void fiber_free(struct worker *w, struct fiber *f)
{
	struct fiber_stack *stack = f->head.stack;

	if (stack)
		switch_destroy(&f->context);
	if (f->shared) {
		shared_stack_leave(w, f);
		fiber_release(w, f->head.frame.job, fiber_memory_size(sizeof(*f)));
		fiber_memory_put(&w->pool->fibers->blocks, f);
		return;
	}
	fiber_release(w, f->head.frame.job, stack->size);
	fiber_measure(w, stack);
	fiber_stack_put(&w->pool->fibers->stacks, stack);
}
