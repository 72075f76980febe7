/* SPDX-License-Identifier: MIT */
/*
 * daemon/fiber_family.c - families of fibers: how they begin, how they end, how cancels reach them
 *
 * WHAT IT IS
 *   The root fiber of a family is run by a frame, the front, which is set aside until the family's
 *   last fiber has ended: so a job has no fibers any more when its tasks have ended, and what ends
 *   jobs (root.c) knows nothing of fibers. Families that live stand in lists by their job's row,
 *   their fibers that wait in lists of theirs: that is where who ends a job early finds them.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Workers; fibers_cancel() any thread of the pool, and code of tasks; fibers_look() the
 *   dispatcher.
 *
 * INVARIANTS
 *   I1. A family is in the list of its row's bucket from before its first fiber runs until all have
 *       ended. Who cancels finds it there with the lock of the bucket held, and says `telling`
 *       before it lets go of that: who would take it out of the list waits then. So it lives
 *       meanwhile. The family stands on its root's stack, which is given back after that. A
 *       family is told once, for its job is over for good.
 *   I2. A fiber is in the list of a shard before it looks at its job's verdict and then parks; who
 *       cancels has put the verdict there before it looks at the list. Both take the shard's lock
 *       in between: one sees the other. Who cancels takes FIBER_TELL of them at a time off the
 *       list, into another one, so that fibers which go on come in between; if those were fewer
 *       the list was empty, and who comes later sees the verdict.
 *   I3. live counts the fibers that have not ended; one that lives counts the next up. Whoever
 *       counts it down to 0 sees what all of them did (ORDER fiber/family [B5]), and has the front.
 *   I4. A wait that is cut short goes on until the others have ended, so fibers that wait for each
 *       other's end never do. Who begins such a wait has the dispatcher look, again and again until
 *       there is none: a family is stuck if all of its fibers were in such waits at each look for
 *       hang-limit, and none began or ended one. One that was woken and does not come to run for
 *       so long is told of in vain: nothing comes of it but a line in the log.
 *
 * LOCKS
 *   A bucket's, then a shard's, then an inbox's.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A worker dies with the whole pool.
 */
#include <errno.h>
#include <inttypes.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/fiber.h"
#include "daemon/pool.h"
#include "daemon/strand_internal.h"
#include "daemon/verdict.h"

#define FIBER_TELL  64u			/* that are cancelled with the lock held */
#define FIBER_STUCK (10 * NSEC_PER_SEC) /* as hang-limit, if there is none */
#define FIBER_TOLD  UINT64_MAX

static struct fiber_bucket *fiber_bucket(struct pool *pool, uint32_t row)
{
	return &pool->fibers.buckets[row % FIBER_BUCKETS];
}

int fiber_family_new(struct worker *w, struct fk_frame *front, void (*fn)(void *), size_t stack,
		     const char *name, struct fiber_family **ret_family)
{
	struct fiber_bucket *bucket = fiber_bucket(w->pool, front->job);
	struct fiber_family *family;
	struct fiber *root;
	struct fiber_plan plan = {
		.fn = fn,
		.arg = front,
		.name = name,
		.kind = FK_STACK_GUARDED,
		.stack = stack,
		.room = sizeof(*family),
	};
	int r = fiber_new(w, NULL, &plan, &root);

	if (r < 0)
		return r;
	family = (struct fiber_family *)(void *)root - 1;
	family->front = front;
	family->told = family->telling = false;
	family->root = root;
	root->family = family;
	atomic_init(&family->live, 1);
	atomic_init(&family->held, 0);
	atomic_init(&family->stuck_ns, 0);
	for (uint32_t i = 0; i < FIBER_SHARDS; i++) {
		pthread_mutex_init(&family->shards[i].lock, NULL);
		fiber_list_init(&family->shards[i].parked);
		fiber_list_init(&family->shards[i].told);
	}
	pthread_mutex_lock(&bucket->lock);
	family->next = bucket->first;
	family->prev = &bucket->first;
	if (family->next)
		family->next->prev = &family->next;
	bucket->first = family;
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
	*family->prev = family->next;
	if (family->next)
		family->next->prev = family->prev;
	pthread_mutex_unlock(&bucket->lock);
	for (uint32_t i = 0; i < FIBER_SHARDS; i++)
		pthread_mutex_destroy(&family->shards[i].lock);
	fiber_free(w, family->root);
	/* The front was set aside for the family. */
	strand_adopt(w, front);
	return front;
}

void fiber_wait_begin(struct fiber *f)
{
	struct fiber_shard *shard;

	f->shard = f->worker->index % FIBER_SHARDS;
	shard = &f->family->shards[f->shard];
	pthread_mutex_lock(&shard->lock);
	fiber_list_add(&shard->parked, &f->link);
	pthread_mutex_unlock(&shard->lock);
}

void fiber_wait_end(struct fiber *f)
{
	struct fiber_shard *shard = &f->family->shards[f->shard];

	pthread_mutex_lock(&shard->lock);
	fiber_list_remove(&f->link);
	pthread_mutex_unlock(&shard->lock);
}

/* Cancels some of those that wait. False: these were all. */
static bool fiber_shard_cancel(struct pool *pool, struct fiber_shard *shard)
{
	uint32_t n = 0;

	pthread_mutex_lock(&shard->lock);
	for (; n < FIBER_TELL && shard->parked.next != &shard->parked; n++) {
		struct fiber_link *link = shard->parked.next;
		struct fiber *f = container_of(link, struct fiber, link);

		fiber_list_remove(link);
		fiber_list_add(&shard->told, link);
		if (f->does_io)
			fiber_io_end(pool, f, -ECANCELED);
		if (fiber_park_cancel(&f->park) == FIBER_RUN)
			fiber_ready(NULL, f);
	}
	pthread_mutex_unlock(&shard->lock);
	return n == FIBER_TELL;
}

/* A family of this job that has not been told, or NULL. Lock held. */
static struct fiber_family *fiber_family_to_tell(struct fiber_bucket *bucket, uint32_t row)
{
	struct fiber_family *family = bucket->first;

	while (family && (family->front->job != row || family->told))
		family = family->next;
	return family;
}

void fibers_cancel(struct pool *pool, uint32_t row)
{
	struct fiber_bucket *bucket = fiber_bucket(pool, row);
	struct fiber_family *family;

	pthread_mutex_lock(&bucket->lock);
	/* The job may have ended since, and the row be another's: that has no verdict. */
	while ((family = fiber_family_to_tell(bucket, row)) && verdict_get(pool, row).outcome) {
		family->told = family->telling = true;
		pthread_mutex_unlock(&bucket->lock);
		for (uint32_t i = 0; i < FIBER_SHARDS; i++)
			while (fiber_shard_cancel(pool, &family->shards[i]))
				;
		pthread_mutex_lock(&bucket->lock);
		family->telling = false;
		pthread_cond_broadcast(&bucket->told);
	}
	pthread_mutex_unlock(&bucket->lock);
	fiber_blocks_cancel(pool, row);
}

/* ------------------------------------------------------------------------ that never end */

/* Relaxed throughout: the dispatcher looks more than once. */
static void fiber_held_count(struct fiber_family *family, uint64_t n)
{
	atomic_fetch_add_explicit(&family->held, n, memory_order_relaxed);
	atomic_store_explicit(&family->stuck_ns, 0, memory_order_relaxed);
}

/* ns. */
static uint64_t fiber_stuck_limit(struct pool *pool)
{
	uint64_t limit = pool_hang_limit(pool);

	return limit ? limit : FIBER_STUCK;
}

void fiber_held_begin(struct fiber *f)
{
	struct pool *pool = f->worker->pool;

	fiber_held_count(f->family, 1);
	if (atomic_load_explicit(&pool->fibers.look_ns, memory_order_relaxed))
		return;
	atomic_store_explicit(&pool->fibers.look_ns, clock_ns() + fiber_stuck_limit(pool),
			      memory_order_relaxed);
	pool_wake_dispatcher(pool);
}

void fiber_held_end(struct fiber *f)
{
	fiber_held_count(f->family, -UINT64_C(1));
}

/* Bucket locked. Returns whether it is to be looked at again. */
static bool fiber_family_look(struct pool *pool, struct fiber_family *family, uint64_t now)
{
	uint64_t held = atomic_load_explicit(&family->held, memory_order_relaxed);
	uint64_t since = atomic_load_explicit(&family->stuck_ns, memory_order_relaxed);
	uint32_t row = family->front->job;

	if (held < atomic_load_explicit(&family->live, memory_order_relaxed) || !held) {
		atomic_store_explicit(&family->stuck_ns, 0, memory_order_relaxed);
		return held;
	}
	if (!since) {
		atomic_store_explicit(&family->stuck_ns, now, memory_order_relaxed);
		return true;
	}
	if (since == FIBER_TOLD)
		return false;
	if (now - since < fiber_stuck_limit(pool))
		return true;
	atomic_store_explicit(&family->stuck_ns, FIBER_TOLD, memory_order_relaxed);
	log_warning("job %u of client %u is over and does not end: %" PRIu64 " fibers wait for "
		    "each other's end, until forkd is restarted",
		    row % pool->max_jobs, row / pool->max_jobs, held);
	return false;
}

uint64_t fibers_look(struct pool *pool)
{
	_Atomic uint64_t *look_ns = &pool->fibers.look_ns;
	uint64_t at = atomic_load_explicit(look_ns, memory_order_relaxed), now;
	bool again = false;

	if (!at || (now = clock_ns()) < at)
		return at;
	/* Before the look: who begins a wait behind it finds 0. */
	atomic_store_explicit(look_ns, 0, memory_order_relaxed);
	for (uint32_t i = 0; i < FIBER_BUCKETS; i++) {
		struct fiber_bucket *bucket = &pool->fibers.buckets[i];

		pthread_mutex_lock(&bucket->lock);
		for (struct fiber_family *family = bucket->first; family; family = family->next)
			again |= fiber_family_look(pool, family, now);
		pthread_mutex_unlock(&bucket->lock);
	}
	if (!again)
		return atomic_load_explicit(look_ns, memory_order_relaxed);
	at = now + fiber_stuck_limit(pool);
	atomic_store_explicit(look_ns, at, memory_order_relaxed);
	return at;
}
