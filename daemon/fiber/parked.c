/* SPDX-License-Identifier: MIT */
/* parked.c - lists of waiting fibers */
#include "daemon/fiber/parked.h"

#include "common/list.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/fiber_types.h"

void fiber_enlist(struct fiber *f, bool cancelled)
{
	struct fiber_shard *shard;

	f->shard = f->head.worker->index % FIBER_SHARDS;
	shard = &f->scope->shards[f->shard];
	pthread_mutex_lock(&shard->lock);
	list_add(cancelled ? &shard->cancelled : &shard->parked, &f->link);
	pthread_mutex_unlock(&shard->lock);
}

void fiber_wait_begin(struct fiber *f)
{
	fiber_enlist(f, false);
}

void fiber_wait_end(struct fiber *f)
{
	struct fiber_shard *shard = &f->scope->shards[f->shard];

	pthread_mutex_lock(&shard->lock);
	list_remove(&f->link);
	pthread_mutex_unlock(&shard->lock);
}
