/* SPDX-License-Identifier: MIT */
#include "daemon/core/preempt_request.h"

#include "common/relaxed.h"
#include "daemon/core/worker.h"

void preempt_request(struct worker *w)
{
	/* ORDER preempt/request [M1]: release, pairs with preempt_take_request(). */
	atomic_store_explicit(&w->requests.preempt, 1, memory_order_release);
	worker_ask(w);
}

bool preempt_is_requested(struct worker *w)
{
	/* Relaxed: no data written before it is read. */
	return load_relaxed(&w->requests.preempt);
}

bool preempt_take_request(struct worker *w)
{
	/* ORDER preempt/request [M1]: acquire, pairs with preempt_request(). */
	return atomic_exchange_explicit(&w->requests.preempt, 0, memory_order_acquire);
}
