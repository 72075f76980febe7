/* SPDX-License-Identifier: MIT */
/*
 * blocking_section.c - sections of fibers in which calls may block
 *Around a call that blocks, the fiber leaves its worker and continues on a blocking thread. The
 *worker's core is free for other work at once. So there is one worker on each core as before, and
 *the protocols of the workers (shm/wake.h, lazy_policy.h) are not involved. At the end of the
 *section the fiber returns through the inbox of a worker, like a fiber that has waited.
 *
 * 	worker			begin --(registers, switch)--> loop: queue --> next
 * 	blocking thread	   take from the queue, switch --> section --> end --(switch)--> loop
 * 	worker			   <-- inbox ------------------------------------------------'
 *
 * A blocking thread is made when a section begins and none is idle, up to the option blocking-max.
 * Then the fiber waits in the queue, parked like any other. The threads stay until the pool ends:
 * an idle one costs its kernel stack and two pages. They may run on all CPUs of the pool, alongside
 * its workers: a section is for calls that sleep.
 *
 * Threads: fk_rt_fiber_block_begin(), fk_rt_fiber_block_end(): fibers. fiber_block(): the loop of a
 * worker. fiber_blocks_cancel(), blocking_fiber(): any thread of the pool. blocking_threads_init(),
 * blocking_threads_fini(): the pool's main thread, without workers.
 *
 * INVARIANTS
 *   I1. As I1 of fiber.c: the loop of the worker puts a fiber into the queue after the fiber has
 *       left its stack. The loop of the blocking thread puts it into an inbox after it has left it
 *       again. The locks of the queue and of the inbox order its earlier actions.
 *   I2. While the fiber is in the section, head.blocking is set, head.worker is its last worker,
 *       and nothing of the worker is accessed: worker_self() and fiber_self() are NULL. The fiber
 *       is live in its scope, so neither the job nor the pool ends.
 *   I3. A fiber is in the queue only if there is a blocking thread, which takes it when the
 *       sections before it have ended. The thread is made first, under the lock, and ends only with
 *       the pool.
 *   I4. No fiber of a job that has an outcome stays in the queue. The worker that adds it checks
 *       the verdict with the lock held; a thread that cancels stores the verdict before it takes
 *       the lock.
 *
 * LOCKS
 *   That of the queue; innermost.
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
#include "daemon/core/hooks.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/context_switch.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/fiber/ready.h"
#include "daemon/fiber/self.h"
#include "daemon/host/topology.h"

#define BLOCKING_THREAD_STACK (256u << 10) /* of the thread itself */

struct blocking_thread {
	pthread_t thread;
	struct pool *pool;
	struct switch_context loop;
	struct fiber_head *fiber; /* whose section it runs, or NULL */
	struct blocking_thread *next;
};

static __thread struct blocking_thread *blocking_self;

SWITCH_LOCAL(struct blocking_thread *, blocking_self)

struct fiber *blocking_fiber(void)
{
	struct blocking_thread *t = *blocking_self_here();

	return t && t->fiber ? fiber_of(&t->fiber->frame) : NULL;
}

/* ------------------------------------------------------------------------ the threads */

/* Functions with locals in memory are not inlined into code below a section: pthread_exit() unwinds
 * it there, and AddressSanitizer would report them. */

/* CPU time of the thread, ns. */
static __attribute__((noinline)) uint64_t blocking_thread_cpu(void)
{
	struct timespec used = { 0 };

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * NSEC_PER_SEC + (uint64_t)used.tv_nsec;
}

/* The thread begins with the CPU and the signal mask of the worker that made it. */
static __attribute__((noinline)) void blocking_thread_begin(struct blocking_thread *t)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT };
	sigset_t set;

	pthread_setname_np(pthread_self(), "forkd-block");
	(void)topology_bind_any(t->pool->topology);
	/* No signal of the process interrupts a call here. */
	sigemptyset(&set);
	sigaddset(&set, SIGCONT);
	if (t->pool->signal)
		sigaddset(&set, t->pool->signal);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		sigaddset(&set, own[i]);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* Takes the first fiber of the queue; NULL: the pool ends. */
static struct fiber *blocking_thread_take(struct blocking_threads *threads)
{
	struct fiber *f;

	pthread_mutex_lock(&threads->lock);
	while (!threads->n_queued && !threads->ends)
		pthread_cond_wait(&threads->some, &threads->lock);
	f = list_first(&threads->queue, struct fiber, link);
	if (f) {
		list_remove(&f->link);
		threads->n_queued--;
		threads->n_idle--;
	}
	pthread_mutex_unlock(&threads->lock);
	return f;
}

/* Runs the section of a fiber until its end. */
static void blocking_thread_run(struct blocking_thread *t, struct fiber *f)
{
	struct pool *pool = t->pool;
	uint64_t began = blocking_thread_cpu();

	f->head.blocking = t;
	t->fiber = &f->head;
	switch_to(&t->loop, &f->context);
	if (unlikely(!fiber_stack_intact(f->head.stack)))
		hooks_overflow(f->head.worker, &f->head);
	t->fiber = NULL;
	f->head.blocking = NULL;
	pool->hooks->charge(pool, f->head.frame.job, blocking_thread_cpu() - began);
	pthread_mutex_lock(&pool->fibers->blocking.lock);
	pool->fibers->blocking.n_idle++;
	pthread_mutex_unlock(&pool->fibers->blocking.lock);
	fiber_ready(NULL, f);
}

static void *blocking_thread_main(void *arg)
{
	struct blocking_thread *t = arg;
	const struct crash_hooks *crash = t->pool->crash;
	struct fault_thread *fault = NULL;
	struct fiber *f;

	blocking_thread_begin(t);
	if (crash)
		fault = crash->begin_thread(NULL, &t->fiber);
	*blocking_self_here() = t;
	switch_adopt(&t->loop);
	while ((f = blocking_thread_take(&t->pool->fibers->blocking)))
		blocking_thread_run(t, f);
	switch_destroy(&t->loop);
	*blocking_self_here() = NULL;
	if (crash)
		crash->end_thread(fault);
	return NULL;
}

/* Lock held. Returns 0, or -EAGAIN: no memory or thread. */
static int blocking_thread_new(struct pool *pool)
{
	struct blocking_threads *threads = &pool->fibers->blocking;
	struct blocking_thread *t = calloc(1, sizeof(*t));
	pthread_attr_t attr;
	int r;

	if (!t)
		return -EAGAIN;
	t->pool = pool;
	pthread_attr_init(&attr);
	r = pthread_attr_setstacksize(&attr, BLOCKING_THREAD_STACK);
	if (r == 0)
		r = pthread_create(&t->thread, &attr, blocking_thread_main, t);
	pthread_attr_destroy(&attr);
	if (r != 0) {
		free(t);
		return -EAGAIN;
	}
	t->next = threads->first;
	threads->first = t;
	threads->n++;
	threads->n_idle++;
	return 0;
}

void blocking_threads_init(struct pool *pool)
{
	struct blocking_threads *threads = &pool->fibers->blocking;

	pthread_mutex_init(&threads->lock, NULL);
	pthread_cond_init(&threads->some, NULL);
	threads->max = pool->options->blocking_max;
}

void blocking_threads_fini(struct pool *pool)
{
	struct blocking_threads *threads = &pool->fibers->blocking;
	struct blocking_thread *t;

	pthread_mutex_lock(&threads->lock);
	threads->ends = true;
	pthread_cond_broadcast(&threads->some);
	pthread_mutex_unlock(&threads->lock);
	while ((t = threads->first)) {
		threads->first = t->next;
		pthread_join(t->thread, NULL);
		free(t);
	}
	pthread_cond_destroy(&threads->some);
	pthread_mutex_destroy(&threads->lock);
}

/* ------------------------------------------------------------------------ on the worker */

/* Lock held: ensures that there is a thread for one more fiber (I3). */
static int blocking_threads_need(struct worker *w)
{
	struct blocking_threads *threads = &w->pool->fibers->blocking;
	int r = 0;

	if (threads->n_idle <= threads->n_queued && threads->n < threads->max) {
		r = blocking_thread_new(w->pool);
		if (r == 0)
			COUNT(w, fiber_block_threads);
	}
	return threads->n ? 0 : r;
}

struct fk_frame *fiber_block(struct worker *w, struct fiber *f)
{
	struct blocking_threads *threads = &w->pool->fibers->blocking;
	int r;

	pthread_mutex_lock(&threads->lock);
	/* I4. */
	r = fiber_is_over(f) ? -ECANCELED : blocking_threads_need(w);
	if (r < 0) {
		pthread_mutex_unlock(&threads->lock);
		f->no_section = r;
		return &f->head.frame;
	}
	list_add(&threads->queue, &f->link);
	threads->n_queued++;
	COUNT(w, fiber_blocks);
	if (threads->n_queued > threads->n_idle)
		COUNT(w, fiber_block_waits);
	pthread_cond_signal(&threads->some);
	/* From here on the fiber may run, and end. */
	pthread_mutex_unlock(&threads->lock);
	return NULL;
}

void fiber_blocks_cancel(struct pool *pool, uint32_t row)
{
	struct blocking_threads *threads = &pool->fibers->blocking;
	struct list_link over = { 0 };
	struct fiber *f;

	pthread_mutex_lock(&threads->lock);
	list_for_each (f, &threads->queue, link) {
		if (f->head.frame.job != row || !fiber_is_over(f))
			continue;
		list_remove(&f->link);
		list_add(&over, &f->link);
		threads->n_queued--;
	}
	pthread_mutex_unlock(&threads->lock);
	list_for_each (f, &over, link) {
		f->no_section = -ECANCELED;
		fiber_ready(NULL, f);
	}
}

/* ------------------------------------------------------------------------ called by fibers */

int fk_rt_fiber_block_begin(void)
{
	struct fiber *f = fiber_self();

	if (!f)
		return -EPERM;
	if (f->shared)
		return -ENOTSUP;
	fk_enter(&f->head.worker->engine.fk, 0);
	f->after = FIBER_BLOCKS;
	switch_to(&f->context, &f->head.worker->engine.loop->context);
	/* On a blocking thread; or on the worker, if there is no section. */
	if (f->head.blocking)
		return 0;
	fk_enter(&f->head.worker->engine.fk, (uintptr_t)&f->head.frame);
	return f->no_section;
}

int fk_rt_fiber_block_end(void)
{
	struct blocking_thread *t = *blocking_self_here();
	struct fiber *f;

	if (!t)
		return -EPERM;
	f = fiber_of(&t->fiber->frame);
	switch_to(&f->context, &t->loop);
	/* On a worker again: f->head.worker. */
	fk_enter(&f->head.worker->engine.fk, (uintptr_t)&f->head.frame);
	return fiber_is_over(f) ? -ECANCELED : 0;
}
