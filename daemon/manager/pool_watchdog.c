/* SPDX-License-Identifier: MIT */
#include "daemon/manager/pool_watchdog.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"
#include "daemon/manager/thread_states.h"
#include "shm/ledger.h"
#include "shm/proto.h"

#define PULSE_LEAST   NSEC_PER_SEC /* the limit of the pool itself, if hang-limit is less */
#define PULSE_LOOKS   32u	   /* in that */
#define PULSE_SELDOM  (300 * NSEC_PER_MSEC)
#define PULSE_SOON_NS (100 * NSEC_PER_MSEC) /* from what was said to the question */

uint64_t pulse_judge(struct pulse_watch *watch, const struct pulse_look *look, uint64_t interval)
{
	bool first = !watch->last.now;
	bool late = look->now > look->due + interval / 2;

	if (!look->stopped || first)
		watch->stopped = 0;
	else if (!late && watch->last.stopped)
		watch->stopped += min(look->now - watch->last.now, interval);
	if (look->traced)
		watch->stopped = 0;
	if (look->dying || look->traced)
		watch->held = 0;
	else if (!first && !late &&
		 (look->cpu != watch->last.cpu || (look->asleep && watch->last.asleep)))
		watch->held += min(look->now - watch->last.now, interval);
	watch->last = *look;
	return watch->held;
}

static uint64_t pulse_interval(const struct pulse *p)
{
	return min(p->limit / PULSE_LOOKS, PULSE_SELDOM);
}

static void pulse_timer(struct pulse *p, enum pulse_state state, uint64_t ns)
{
	loop_forget(p->loop, &p->timer);
	p->due = clock_ns() + ns;
	p->state = loop_timer(p->loop, &p->timer, ns) == 0 ? state : PULSE_QUIET;
}

/* Does a worker run a job? What stands there may be garbage of a task. */
static bool pulse_works(const struct pulse *p)
{
	/* Relaxed: it changes all the time. */
	for (uint32_t i = 0; p->arena && i < p->n_workers; i++)
		if (atomic_load_explicit(&p->arena->workers[i].job, memory_order_relaxed) !=
		    UINT32_MAX)
			return true;
	return false;
}

/* The pool is READY: no PING goes to another one, and no PONG would come. */
static void pulse_ask(struct pulse *p)
{
	assert(p->pid);
	p->watch = (struct pulse_watch){ .held = 0 };
	pulse_timer(p, PULSE_ASKED, pulse_interval(p));
	p->number = p->calls->ask(p);
	p->said = false;
}

static uint64_t pulse_cpu(const struct pulse *p)
{
	struct timespec used = { 0 };
	clockid_t clock;

	if (clock_getcpuclockid(p->pid, &clock) == 0)
		(void)clock_gettime(clock, &used);
	return (uint64_t)used.tv_sec * NSEC_PER_SEC + (uint64_t)used.tv_nsec;
}

static void pulse_kill(struct pulse *p, const char *why, uint64_t ns)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "%s for %.3g s", why, (double)ns / (double)NSEC_PER_SEC);
	p->calls->kill(p, text);
}

/* I4. True if it was ended. */
static bool pulse_revive(struct pulse *p)
{
	if (p->continued) {
		pulse_kill(p, "it was stopped by a signal again, after it had been continued",
			   p->watch.stopped);
		return true;
	}
	log_warning("pool (pid %d) was stopped by a signal for %.3g s: it is continued",
		    (int)p->pid, (double)p->watch.stopped / (double)NSEC_PER_SEC);
	p->continued = true;
	p->reviving = true;
	p->watch.stopped = 0;
	(void)kill(p->pid, SIGCONT);
	return false;
}

static void pulse_look(struct pulse *p)
{
	struct pulse_look look = {
		.now = clock_ns(),
		.due = p->due,
		.cpu = pulse_cpu(p),
		.stopped = thread_states_stopped(p->pid),
	};
	uint64_t interval = pulse_interval(p);
	bool killed = p->watch.last.killed;
	uint64_t held;

	/* After now was taken: with many threads it takes longer than a look may be late. */
	if (look.cpu == p->watch.last.cpu || p->watch.held + interval >= p->limit) {
		struct thread_states threads = thread_states_look(p->pid);

		look.dying = threads.dumps;
		look.killed = threads.killed;
		look.asleep = threads.asleep;
		look.traced = threads.traced;
	}
	held = pulse_judge(&p->watch, &look, interval);
	/* At two looks: a core file may have been begun while the first one was taken. */
	if (killed && look.killed)
		p->calls->kill(p, NULL);
	if (p->leaves) {
		p->state = PULSE_QUIET; /* it only has to go */
		return;
	}
	if (held >= p->limit) {
		pulse_kill(p, "although it had CPU time or slept, it did not answer", held);
		return;
	}
	if (look.stopped && !look.traced && (p->reviving || p->watch.stopped >= p->limit) &&
	    pulse_revive(p))
		return;
	(void)kill(p->pid, PROTO_POOL_SIGNAL);
	pulse_timer(p, PULSE_ASKED, interval);
}

static void pulse_on_timer(struct loop_source *source, int result)
{
	struct pulse *p = container_of(source, struct pulse, timer);

	(void)result;
	if (!p->limit)
		p->state = PULSE_QUIET;
	else if (p->state == PULSE_ASKED)
		pulse_look(p);
	else if (p->said || pulse_works(p))
		pulse_ask(p);
	else
		p->state = PULSE_QUIET;
}

void pulse_glance(struct pulse *p)
{
	if (p->limit && p->pid && p->state != PULSE_ASKED && pulse_works(p))
		pulse_ask(p);
}

void pulse_stopped(struct pulse *p, bool begins)
{
	if (begins) {
		p->watch.stopped = 0;
		p->watch.last.stopped = false;
	}
	if (p->limit && p->pid && p->state != PULSE_ASKED)
		pulse_ask(p);
}

void pulse_init(struct pulse *p, struct loop *loop, const struct pulse_calls *calls, uint64_t limit)
{
	*p = (struct pulse){
		.loop = loop,
		.calls = calls,
		.limit = limit ? max(limit, PULSE_LEAST) : 0,
		.timer = { .call = pulse_on_timer },
	};
}

/* Nothing is asked until something is said. */
static void pulse_rest(struct pulse *p)
{
	loop_forget(p->loop, &p->timer);
	p->state = PULSE_QUIET;
	p->said = p->reviving = false;
}

void pulse_set_limit(struct pulse *p, uint64_t limit)
{
	limit = limit ? max(limit, PULSE_LEAST) : 0;
	if (limit == p->limit)
		return;
	pulse_rest(p);
	p->limit = limit;
}

void pulse_watch(struct pulse *p, const struct arena *arena, uint32_t n_workers)
{
	p->arena = arena;
	p->n_workers = n_workers;
}

void pulse_said(struct pulse *p)
{
	if (!p->pid)
		return;
	p->said = true;
	if (p->limit && p->state == PULSE_QUIET)
		pulse_timer(p, PULSE_SOON, PULSE_SOON_NS);
}

void pulse_moved(struct pulse *p)
{
	p->watch.held = 0;
}

void pulse_answered(struct pulse *p, uint64_t number)
{
	if (p->state != PULSE_ASKED || number < p->number)
		return;
	p->state = PULSE_QUIET;
	p->reviving = false;
	if (p->said)
		pulse_timer(p, PULSE_SOON, PULSE_SOON_NS);
	else if (pulse_works(p))
		pulse_timer(p, PULSE_SOON, p->limit);
	else
		loop_forget(p->loop, &p->timer);
}

void pulse_begin(struct pulse *p, pid_t pid)
{
	p->pid = pid;
	p->continued = p->leaves = false;
}

void pulse_leaves(struct pulse *p)
{
	p->leaves = true;
}

void pulse_end(struct pulse *p)
{
	pulse_rest(p);
	p->pid = 0;
}
