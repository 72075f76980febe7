/* SPDX-License-Identifier: MIT */
#include "daemon/core/wakeup.h"

#include "daemon/core/bell.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker_state.h"
#include "shm/board.h"
#include "shm/ledger.h"
#include "shm/wake.h"

bool pool_wake_word(_Atomic uint32_t *word, _Atomic uint32_t *bell, uint32_t value)
{
	uint32_t looking = (value & ~WAKE_STATE) | WAKE_LOOKING;

	/* Makes the sleeper's own transition for it (W5): if it is about to enter the futex it does
	 * not, and it is not woken twice while it waits for a CPU. */
	if (!atomic_compare_exchange_strong_explicit(word, &value, looking, memory_order_relaxed,
						     memory_order_relaxed))
		return false;
	bell_ring(word, bell);
	return true;
}

void pool_wake_dispatcher(struct pool *pool)
{
	uint32_t value;

	wake_published();
	value = wake_load(&pool->board->dispatcher);
	if (wake_rests(value))
		pool_wake_word(&pool->board->dispatcher, &pool->arena->bell, value);
}

void pool_wake_all(struct pool *pool)
{
	/* ORDER pool/settings [P1]: full, the change comes before the reads of the words. Pairs
	 * with worker_rest(). */
	wake_published();
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];
		uint32_t value = wake_load(&w->board->wake);

		if (wake_rests(value))
			pool_wake_word(&w->board->wake, &w->requests.bell, value);
	}
}
