/* SPDX-License-Identifier: MIT */
/*
 * blocking_section.c - sections of fibers in which calls may block
 *
 * Not all calls can be made so that a fiber waits for them and its worker does not. Around one that
 * cannot, the fiber leaves its worker, and goes on on a thread that may sleep as long as it likes,
 * a side thread. The worker has its core at once for what else there is, so there is one worker on
 * each core as before, and nothing that workers agree upon (shm/wake.h, lazy_policy.h) knows of
 * this. At the end of the section the fiber goes back, through the inbox of a worker, as one that
 * has waited.
 *
 * 	worker		begin --(registers, switch)--> loop: queue --> next
 * 	side thread	   take from the queue, switch --> section --> end --(switch)--> loop
 * 	worker		   <-- inbox ----------------------------------------------------'
 *
 * Side threads are made when a section begins and none is free, up to the option blocking-max; then
 * a fiber waits in the queue for its turn, parked as any other. They stay until the pool ends: one
 * that has nothing to do costs its kernel stack and two pages. They may run on all CPUs of the
 * pool, beside its workers: a section is for calls that sleep.
 *
 * Threads: fk_rt_fiber_block_begin(), fk_rt_fiber_block_end(): fibers. fiber_block(): the loop of a
 * worker. fiber_blocks_cancel(): any thread of the pool. fiber_on_side(): any. fiber_sides_init(),
 * fiber_sides_fini(): the pool's main thread, before there are workers and when they have ended.
 *
 * INVARIANTS
 *   I1. As I1 of fiber.c: the loop of the worker puts a fiber into the queue when the fiber has
 *       left its stack, and the loop of the side thread puts it into an inbox when it has left it
 *       again. The lock of the queue, and that of the inbox, order what it did before.
 *   I2. While the fiber is in the section, side is set, worker is the one that it came from, and
 *       nothing of the worker's is touched: worker_self() is NULL, so fiber_self() is. What is the
 *       fiber's stays with it: it is live in its scope, so neither the job nor the pool ends.
 *   I3. A fiber stands in the queue only if there is a side thread, which comes to it when the
 *       sections before it have ended: one is made before, under the lock, and none ends before
 *       the pool does.
 *   I4. No fiber of a job that is over stays in the queue: who puts it there looks at the verdict
 *       with the lock held, who cancels has put the verdict there before it takes the lock.
 *
 * LOCKS
 *   That of the queue; none other is taken with it held.
 */
#include "daemon/fiber/blocking_section.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "common/list.h"
#include "common/options.h"
#include "daemon/core/crash_handler.h"
#include "daemon/core/hooks.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/context_switch.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/fiber/ready.h"
#include "daemon/fiber/self.h"
#include "daemon/host/topology.h"

#define FIBER_SIDE_STACK (256u << 10) /* of a side thread itself; its fibers have theirs */

struct fiber_side {
	pthread_t thread;
	struct pool *pool;
	struct switch_context loop;
	struct fiber_head *fiber; /* whose section it runs, or NULL */
	struct fiber_side *next;
};

static __thread struct fiber_side *fiber_side;

/* A fiber comes to an address on one thread and goes on on another. */
SWITCH_LOCAL(struct fiber_side *, fiber_side)

struct fiber *fiber_on_side(void)
{
	struct fiber_side *side = *fiber_side_here();

	return side && side->fiber ? fiber_of(&side->fiber->face) : NULL;
}

/* ------------------------------------------------------------------------ side threads */

/* Those that have locals in memory are not inlined into what runs below a section: pthread_exit()
 * there goes over it, and AddressSanitizer would find them in the way of what follows. */

/* ns of CPU time that the thread has had. */
static __attribute__((noinline)) uint64_t fiber_side_cpu(void)
{
	struct timespec used = { 0 };

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * NSEC_PER_SEC + (uint64_t)used.tv_nsec;
}

/* A worker has made the thread: it has that one's CPU, and its mask of signals. */
static __attribute__((noinline)) void fiber_side_begin(struct fiber_side *side)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT };
	sigset_t set;

	pthread_setname_np(pthread_self(), "forkd-block");
	(void)topology_bind_any(side->pool->topology);
	/* Nothing that is sent to the process is to end a call here. */
	sigemptyset(&set);
	sigaddset(&set, SIGCONT);
	sigaddset(&set, WORKER_SIGNAL);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		sigaddset(&set, own[i]);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* The fiber whose turn it is; NULL: the pool ends. */
static struct fiber *fiber_side_take(struct fiber_sides *sides)
{
	struct fiber *f;

	pthread_mutex_lock(&sides->lock);
	while (!sides->n_queued && !sides->ends)
		pthread_cond_wait(&sides->some, &sides->lock);
	f = list_first(&sides->queue, struct fiber, link);
	if (f) {
		list_remove(&f->link);
		sides->n_queued--;
		sides->n_idle--;
	}
	pthread_mutex_unlock(&sides->lock);
	return f;
}

/* Runs the section of a fiber, up to its end. */
static void fiber_side_run(struct fiber_side *side, struct fiber *f)
{
	struct pool *pool = side->pool;
	uint64_t began = fiber_side_cpu();

	f->head.side = side;
	side->fiber = &f->head;
	switch_to(&side->loop, &f->context);
	if (unlikely(!fiber_stack_intact(f->head.stack)))
		fault_overflow(f->head.worker, &f->head);
	side->fiber = NULL;
	f->head.side = NULL;
	pool->hooks->charge(pool, f->head.face.job, fiber_side_cpu() - began);
	pthread_mutex_lock(&pool->fibers->sides.lock);
	pool->fibers->sides.n_idle++;
	pthread_mutex_unlock(&pool->fibers->sides.lock);
	fiber_ready(NULL, f);
}

static void *fiber_side_main(void *arg)
{
	struct fiber_side *side = arg;
	struct fault_thread *fault;
	struct fiber *f;

	fiber_side_begin(side);
	fault = fault_begin_thread(NULL, &side->fiber);
	*fiber_side_here() = side;
	switch_adopt(&side->loop);
	while ((f = fiber_side_take(&side->pool->fibers->sides)))
		fiber_side_run(side, f);
	switch_destroy(&side->loop);
	*fiber_side_here() = NULL;
	fault_end_thread(fault);
	return NULL;
}

/* Lock held: one more. Returns 0, or -EAGAIN: there are no means for it. */
static int fiber_side_new(struct pool *pool)
{
	struct fiber_sides *sides = &pool->fibers->sides;
	struct fiber_side *side = calloc(1, sizeof(*side));
	pthread_attr_t attr;
	int r;

	if (!side)
		return -EAGAIN;
	side->pool = pool;
	pthread_attr_init(&attr);
	r = pthread_attr_setstacksize(&attr, FIBER_SIDE_STACK);
	if (r == 0)
		r = pthread_create(&side->thread, &attr, fiber_side_main, side);
	pthread_attr_destroy(&attr);
	if (r != 0) {
		free(side);
		return -EAGAIN;
	}
	side->next = sides->first;
	sides->first = side;
	sides->n++;
	sides->n_idle++;
	return 0;
}

void fiber_sides_init(struct pool *pool)
{
	struct fiber_sides *sides = &pool->fibers->sides;

	pthread_mutex_init(&sides->lock, NULL);
	pthread_cond_init(&sides->some, NULL);
	sides->max = pool->options->blocking_max;
}

void fiber_sides_fini(struct pool *pool)
{
	struct fiber_sides *sides = &pool->fibers->sides;
	struct fiber_side *side;

	pthread_mutex_lock(&sides->lock);
	sides->ends = true;
	pthread_cond_broadcast(&sides->some);
	pthread_mutex_unlock(&sides->lock);
	/* No worker is left who could make one. */
	while ((side = sides->first)) {
		sides->first = side->next;
		pthread_join(side->thread, NULL);
		free(side);
	}
	pthread_cond_destroy(&sides->some);
	pthread_mutex_destroy(&sides->lock);
}

/* ------------------------------------------------------------------------ on the worker */

/* Lock held: sees to it that a thread comes to one fiber more (I3). */
static int fiber_sides_need(struct worker *w)
{
	struct fiber_sides *sides = &w->pool->fibers->sides;
	int r = 0;

	if (sides->n_idle <= sides->n_queued && sides->n < sides->max) {
		r = fiber_side_new(w->pool);
		if (r == 0)
			COUNT(w, fiber_block_threads);
	}
	return sides->n ? 0 : r;
}

struct fk_frame *fiber_block(struct worker *w, struct fiber *f)
{
	struct fiber_sides *sides = &w->pool->fibers->sides;
	int r;

	pthread_mutex_lock(&sides->lock);
	/* I4. */
	r = fiber_is_over(f) ? -ECANCELED : fiber_sides_need(w);
	if (r < 0) {
		pthread_mutex_unlock(&sides->lock);
		f->no_section = r;
		return &f->head.face;
	}
	list_add(&sides->queue, &f->link);
	sides->n_queued++;
	COUNT(w, fiber_blocks);
	if (sides->n_queued > sides->n_idle)
		COUNT(w, fiber_block_waits);
	pthread_cond_signal(&sides->some);
	/* It may run, and end, from here on. */
	pthread_mutex_unlock(&sides->lock);
	return NULL;
}

void fiber_blocks_cancel(struct pool *pool, uint32_t row)
{
	struct fiber_sides *sides = &pool->fibers->sides;
	struct list_link over = { 0 };
	struct fiber *f;

	pthread_mutex_lock(&sides->lock);
	list_for_each (f, &sides->queue, link) {
		if (f->head.face.job != row || !fiber_is_over(f))
			continue;
		list_remove(&f->link);
		list_add(&over, &f->link);
		sides->n_queued--;
	}
	pthread_mutex_unlock(&sides->lock);
	list_for_each (f, &over, link) {
		f->no_section = -ECANCELED;
		fiber_ready(NULL, f);
	}
}

/* ------------------------------------------------------------------------ what fibers call */

int fk_rt_fiber_block_begin(void)
{
	struct fiber *f = fiber_self();

	if (!f)
		return -EPERM;
	/* Its stack is its worker's. */
	if (f->shared)
		return -ENOTSUP;
	fk_enter(&f->head.worker->engine.fk, 0);
	f->after = FIBER_BLOCKS;
	switch_to(&f->context, &f->head.worker->engine.loop);
	/* Here it is on a side thread, and the worker runs something else; or it was refused. */
	if (f->head.side)
		return 0;
	fk_enter(&f->head.worker->engine.fk, (uintptr_t)&f->head.face);
	return f->no_section;
}

int fk_rt_fiber_block_end(void)
{
	struct fiber_side *side = *fiber_side_here();
	struct fiber *f;

	if (!side)
		return -EPERM;
	f = fiber_of(&side->fiber->face);
	switch_to(&f->context, &side->loop);
	/* On a worker again: f->head.worker. */
	fk_enter(&f->head.worker->engine.fk, (uintptr_t)&f->head.face);
	return fiber_is_over(f) ? -ECANCELED : 0;
}
