/* SPDX-License-Identifier: MIT */
/*
 * scope.c - families of fibers: how they begin, and how they end
 *
 * WHAT IT IS
 *   The root fiber of a family is run by a frame, the front, which is set aside until the family's
 *   last fiber has ended: so a job has no fibers any more when its tasks have ended, and what ends
 *   jobs (job.c) knows nothing of fibers. Families that live stand in lists by their job's row,
 *   their fibers that wait in lists of theirs (parked.c): there cancel.c finds them.
 *
 * INVARIANTS
 *   I1. A family is in the list of its row's bucket from before its first fiber runs until all have
 *       ended. A thread that cancels finds it there with the lock of the bucket held, and sets
 *       `telling` before it lets go of that: a worker that would take it out of the list waits
 *       then. So it lives meanwhile. The family stands on its root's stack, which is given back
 *       after that.
 *   I2. live counts the fibers that have not ended; one that lives counts the next up. The fiber
 *       that counts it down to 0 sees what all of them did (ORDER fiber/family [B5]), and has the
 *       front.
 *
 * LOCKS
 *   A bucket's, then a shard's, then an inbox's.
 */
#include "daemon/fiber/scope.h"

#include "common/list.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/fiber/create.h"

int fiber_family_new(struct worker *w, struct fk_frame *front, const struct fiber_plan *plan,
		     struct fiber_family **ret_family)
{
	struct fiber_bucket *bucket = fiber_bucket(w->pool, front->job);
	struct fiber_family *family;
	struct fiber *root;
	int r = fiber_new(w, NULL, plan, &root);

	if (r < 0)
		return r;
	family = (struct fiber_family *)(void *)root - 1;
	family->front = front;
	family->told = family->telling = false;
	family->depth = family->vain_ns = 0;
	family->root = root;
	root->family = family;
	atomic_init(&family->live, 1);
	atomic_init(&family->held, 0);
	atomic_init(&family->stuck_ns, 0);
	for (uint32_t i = 0; i < FIBER_SHARDS; i++) {
		pthread_mutex_init(&family->shards[i].lock, NULL);
		list_init(&family->shards[i].parked);
		list_init(&family->shards[i].told);
	}
	pthread_mutex_lock(&bucket->lock);
	list_add_first(&bucket->families, &family->link);
	pthread_mutex_unlock(&bucket->lock);
	*ret_family = family;
	return 0;
}

struct fk_frame *fiber_family_leave(struct worker *w, struct fiber_family *family)
{
	struct fk_frame *front = family->front;
	struct fiber_bucket *bucket = fiber_bucket(w->pool, front->job);

	/* ORDER fiber/family [B5]: release, what the fiber did comes before; acquire, the last sees
	 * what all did. Pairs with itself. */
	if (atomic_fetch_sub_explicit(&family->live, 1, memory_order_acq_rel) != 1)
		return NULL;
	pthread_mutex_lock(&bucket->lock);
	while (family->telling) /* and comes to the end soon: nobody waits any more */
		pthread_cond_wait(&bucket->told, &bucket->lock);
	list_remove(&family->link);
	pthread_mutex_unlock(&bucket->lock);
	for (uint32_t i = 0; i < FIBER_SHARDS; i++)
		pthread_mutex_destroy(&family->shards[i].lock);
	fiber_free(w, family->root);
	/* The front was set aside for the family. */
	strand_adopt(w, front);
	return front;
}

bool fibers_has_family(struct pool *pool, uint32_t row)
{
	struct fiber_bucket *bucket = fiber_bucket(pool, row);
	struct fiber_family *family;

	pthread_mutex_lock(&bucket->lock);
	list_for_each (family, &bucket->families, link)
		if (family->front->job == row)
			break;
	pthread_mutex_unlock(&bucket->lock);
	return family;
}
