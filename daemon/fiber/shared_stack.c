/* SPDX-License-Identifier: MIT */
/*
 * shared_stack.c - stacks that many fibers share
 *
 * SANITIZERS
 *   They see each fiber as a context, though many are at one address. For ThreadSanitizer each is a
 *   thread that synchronizes with the loop, which copies, and then synchronizes with the next one.
 *   AddressSanitizer's redzones of the previous fiber are removed when the next one's bytes are
 *   copied in, but that one's redzones are not restored. So an overflow within a frame is not found
 *   after its fiber has waited. For valgrind the bytes below a stack pointer are marked as
 *   undefined.
 */
#include "daemon/fiber/shared_stack.h"

#include <assert.h>
#include <string.h>

#include "common/clock.h"
#include "common/sanitizer.h"
#include "common/valgrind.h"
#include "daemon/core/fiber_stack.h"
#include "daemon/core/mailbox.h"
#include "daemon/core/steal_policy.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/slab.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/fiber/ready.h"
#include "daemon/fiber/self.h"
#include "daemon/core/hooks.h"

/* Bytes in use below the sp of a context. */
#ifdef SWITCH_UCONTEXT
#define SHARED_STACK_BELOW 1024u /* frames of switch_swap() and its callees */
#else
#define SHARED_STACK_BELOW 0u
#endif

_Static_assert(FIBER_SHARED_STACK <= FIBER_MEMORY_MAX,
	       "there are blocks for all that may be there");

int shared_stacks_ready(struct worker *w)
{
	struct shared_stacks *all = &w->pool->fibers->shared_stacks;
	int r = 0;

	/* ORDER shared_stack/ready [B8]: acquire, the stacks. Pairs with the release below. */
	if (atomic_load_explicit(&all->ready, memory_order_acquire))
		return 0;
	pthread_mutex_lock(&all->lock);
	for (uint32_t i = 0; r == 0 && i < w->pool->n_workers; i++)
		if (!all->shared_stacks[i].stack)
			r = fiber_stack_get(&w->pool->fibers->stacks, w->pool->workers[i].group,
					    FIBER_SHARED_STACK, FIBER_STACK_GUARDED,
					    &all->shared_stacks[i].stack);
	/* ORDER shared_stack/ready [B8]: release, pairs with the acquire above. */
	atomic_store_explicit(&all->ready, r == 0, memory_order_release);
	pthread_mutex_unlock(&all->lock);
	return r;
}

/* ------------------------------------------------------------------------ the holder */

/* Returns the worker that should hold a shared stack of w's. */
static struct worker *shared_stack_host(struct worker *w, const struct shared_stack *shared)
{
	struct pool *pool = w->pool;
	struct worker *home = &pool->workers[shared->home];

	if (!worker_is_parked(home))
		return home;
	for (uint32_t i = 0; i < pool->n_workers && worker_is_parked(w); i++)
		w = &pool->workers[(shared->home + i) % pool->n_workers];
	return w;
}

bool shared_stack_take(struct worker *w, struct fiber *f)
{
	struct shared_stack *shared = f->copy.shared;
	struct worker *holder, *to;

	if (!shared)
		shared = &w->pool->fibers->shared_stacks.shared_stacks[w->index];
	holder = shared_stack_holder(w, shared);
	to = holder == w ? shared_stack_host(w, shared) : holder;
	if (to == w)
		return true;
	/* If the fiber has begun, its holder may copy it out at the same time. */
	if (!f->copy.shared)
		f->copy.shared = shared;
	if (holder == w)
		/* ORDER shared_stack/holder [B7]: release, the shared stack and the state of its
		 * fibers. Pairs with shared_stack_holder(). */
		atomic_store_explicit(&shared->holder, to->index, memory_order_release);
	fiber_send(to, f);
	fiber_rouse(to);
	return false;
}

void shared_stacks_wait(struct worker *w)
{
	uint64_t now;

	if (!inbox_any(&w->inbox))
		return;
	now = clock_ns();
	w->pool->hooks->preempt_by(w, now + POLICY_TURN, now);
}

/* ------------------------------------------------------------------------ the resident */

/* Returns the start of the used part of the stack of a fiber that has left it, up to its end. */
static char *shared_stack_used(const struct fiber *f, uint32_t *ret_used)
{
	const struct fiber_stack *stack = f->copy.shared->stack;
	char *low = (char *)((uintptr_t)f->context.sp & ~(uintptr_t)15);

	low = max(low - SHARED_STACK_BELOW, stack->low);
	*ret_used = (uint32_t)(stack->low + stack->size - low);
	return low;
}

static void shared_stack_out(struct worker *w, struct fiber *f)
{
	uint32_t used;
	char *low = shared_stack_used(f, &used);

	assert(used <= f->copy.room); /* I3 */
	memcpy(f->copy.bytes, low, used);
	COUNT(w, fiber_copies);
	COUNT_ADD(w, fiber_copied_bytes, used);
}

static void shared_stack_in(struct fiber *f)
{
	uint32_t used;
	char *low = shared_stack_used(f, &used);

	(void)valgrind_request(VALGRIND_MEM_UNDEFINED, (uintptr_t)low, used);
	memcpy(low, f->copy.bytes, used);
}

bool shared_stack_enter(struct worker *w, struct fiber *f)
{
	bool begins = !f->copy.shared || !f->head.stack;
	struct shared_stack *shared;

	if (!f->copy.shared)
		f->copy.shared = &w->pool->fibers->shared_stacks.shared_stacks[w->index];
	shared = f->copy.shared;
	if (shared->resident == f)
		return false;
	sanitizer_clean(shared->stack->low, shared->stack->size);
	if (shared->resident)
		shared_stack_out(w, shared->resident);
	shared->resident = f;
	if (!begins)
		shared_stack_in(f);
	return begins;
}

static void shared_stack_drop(struct worker *w, struct fiber *f)
{
	if (!f->copy.room)
		return;
	fiber_release(w, f->head.frame.job, f->copy.room);
	fiber_memory_put(&w->pool->fibers->blocks, f->copy.bytes);
	f->copy.room = 0;
}

bool shared_stack_keep(struct worker *w, struct fiber *f)
{
	struct fiber_copy *copy = &f->copy;
	uint32_t used;
	size_t room;
	char *bytes;

	(void)shared_stack_used(f, &used);
	room = fiber_memory_size(used);
	if (room == copy->room)
		return true;
	/* A fiber whose stack has shrunk needs no memory. */
	if (!fiber_reserve(w, room))
		return used <= copy->room;
	bytes = fiber_memory_get(&w->pool->fibers->blocks, w->index, room);
	if (!bytes) {
		fiber_release(w, f->head.frame.job, room);
		return used <= copy->room;
	}
	shared_stack_drop(w, f);
	copy->bytes = bytes;
	copy->room = (uint32_t)room;
	return true;
}

void shared_stack_leave(struct worker *w, struct fiber *f)
{
	struct shared_stack *shared = f->copy.shared;

	shared_stack_drop(w, f);
	if (!shared || shared->resident != f)
		return;
	shared->resident = NULL;
}
