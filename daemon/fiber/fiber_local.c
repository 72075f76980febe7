/* SPDX-License-Identifier: MIT */
/*
 * fiber_local.c - fiber-local data
 *
 * A key gets its index at its first use, for the life of the pool, because modules stay loaded. The
 * functions called at a fiber's end are in one table.
 */
#include "daemon/fiber/fiber_local.h"

#include <pthread.h>
#include <string.h>

#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/slab.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/fiber/self.h"

static pthread_mutex_t fiber_keys_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t fiber_n_keys;
static void (*_Atomic fiber_ends[FK_LOCALS])(void *value);

/* Returns the key's index + 1; 0: there are too many keys. */
static uint32_t fiber_key_new(_Atomic uint32_t *key, void (*end)(void *value))
{
	uint32_t index;

	pthread_mutex_lock(&fiber_keys_lock);
	index = load_relaxed(key);
	if (!index && fiber_n_keys < FK_LOCALS) {
		/* Relaxed: a fiber that has a value of the key has seen the key, or has the
		 * lock. */
		store_relaxed(&fiber_ends[fiber_n_keys], end);
		index = ++fiber_n_keys;
		/* ORDER fiber/key [B6]: release, the key comes with its end function. Pairs with
		 * fk_rt_fiber_local(). */
		atomic_store_explicit(key, index, memory_order_release);
	}
	pthread_mutex_unlock(&fiber_keys_lock);
	return index;
}

void **fk_rt_fiber_local(_Atomic uint32_t *key, void (*end)(void *value))
{
	struct fiber *f = fiber_self();
	/* ORDER fiber/key [B6]: acquire, pairs with fiber_key_new(). */
	uint32_t index = atomic_load_explicit(key, memory_order_acquire);

	if (f && !index)
		index = fiber_key_new(key, end);
	if (!f || !index)
		return NULL;
	if (!f->locals) {
		f->locals = fiber_memory_get(&f->head.worker->pool->fibers->blocks,
					     f->head.worker->index, FK_LOCALS * sizeof(*f->locals));
		if (!f->locals)
			return NULL;
		memset(f->locals, 0, FK_LOCALS * sizeof(*f->locals));
	}
	return &f->locals[index - 1];
}

/* One pass over all values. Returns true if it has called an end function. */
static bool fiber_locals_pass(struct fiber *f)
{
	bool any = false;

	for (uint32_t i = 0; f->locals && i < FK_LOCALS; i++) {
		void *value = f->locals[i];
		void (*end)(void *value);

		if (!value)
			continue;
		f->locals[i] = NULL;
		end = load_relaxed(&fiber_ends[i]);
		if (end) {
			end(value);
			any = true;
		}
	}
	return any;
}

void fiber_locals_end(struct fiber *f)
{
	for (uint32_t i = 0; i < FK_LOCAL_PASSES && fiber_locals_pass(f); i++)
		;
	fiber_memory_put(&f->head.worker->pool->fibers->blocks, f->locals);
}
