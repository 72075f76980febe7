/* SPDX-License-Identifier: MIT */
#include "daemon/core/worker.h"

#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/deque.h"
#include "daemon/core/mark.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker_state.h"

/* In libforkpool too at a fixed place: a signal handler must not allocate it. */
static __thread struct worker *self __attribute__((tls_model("initial-exec")));

void worker_set_self(struct worker *w)
{
	self = w;
}

/* Not inlined: after a jump, or on another thread, the address must be found again. */
__attribute__((noinline)) struct worker *worker_self(void)
{
	return self;
}

uint64_t worker_random(struct worker *w)
{
	return xorshift64(&w->thief.random);
}

uintptr_t worker_limit(struct worker *w)
{
	uint64_t random;

	if (w->pool->mode.force_steals)
		return 0;
	if (!w->pool->mode.fuzz_seed)
		return w->engine.stack_limit;
	/* The next frame that reaches this address leaves the fast path; with 0 the next fork
	 * does. */
	random = worker_random(w) >> 32;
	return random % 4 ? min(w->engine.stack_limit,
				(uintptr_t)w->engine.fk.sp + random / 4 % WORKER_FUZZ)
			  : 0;
}

void worker_mark_roots(struct worker *w)
{
	mark_set(w->pool->idle.root_words, w->index);
}

/* A root deque looked empty: clears the bit, then checks again, as in tenant.h. */
void worker_clear_roots(struct worker *from)
{
	mark_clear(from->pool->idle.root_words, from->index);
	if (deque_size(&from->roots.deque))
		worker_mark_roots(from);
}

bool worker_roots_pending(struct pool *pool)
{
	uint64_t any = 0;

	/* Relaxed: the caller's fence. */
	for (uint32_t i = 0; i * 64 < pool->n_workers; i++)
		any |= load_relaxed(&pool->idle.root_words[i]);
	return any;
}
