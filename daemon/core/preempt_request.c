/* SPDX-License-Identifier: MIT */
#include "daemon/core/preempt_request.h"

#include "common/relaxed.h"
#include "daemon/core/worker.h"

void dispatcher_preempt(struct worker *w)
{
	/* ORDER summons [M1]: release, pairs with dispatcher_take_summons(). */
	atomic_store_explicit(&w->requests.summoned, 1, memory_order_release);
	worker_ask(w);
}

bool dispatcher_has_summoned(struct worker *w)
{
	/* Relaxed: nothing is read that was written before it. */
	return load_relaxed(&w->requests.summoned);
}

bool dispatcher_take_summons(struct worker *w)
{
	/* ORDER summons [M1]: acquire, pairs with dispatcher_preempt(). */
	return atomic_exchange_explicit(&w->requests.summoned, 0, memory_order_acquire);
}
