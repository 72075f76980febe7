/* SPDX-License-Identifier: MIT */
#include "daemon/manager/pool_watchdog.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/manager/thread_states.h"
#include "shm/ledger.h"
#include "shm/proto.h"

#define WATCHDOG_LEAST	 NSEC_PER_SEC /* the least limit, if hang-timeout is less */
#define WATCHDOG_LOOKS	 32u	      /* looks within the limit */
#define WATCHDOG_SELDOM	 (300 * NSEC_PER_MSEC)
#define WATCHDOG_SOON_NS (100 * NSEC_PER_MSEC) /* from a message to the question */

uint64_t watchdog_judge(struct watchdog_watch *watch, const struct watchdog_look *look,
			uint64_t interval)
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

static uint64_t watchdog_interval(const struct watchdog *p)
{
	return min(p->limit / WATCHDOG_LOOKS, WATCHDOG_SELDOM);
}

static void watchdog_timer(struct watchdog *p, enum watchdog_state state, uint64_t ns)
{
	loop_forget(p->loop, &p->timer);
	p->due = clock_ns() + ns;
	p->state = loop_timer(p->loop, &p->timer, ns) == 0 ? state : WATCHDOG_QUIET;
}

/* Returns true if a worker runs a job. A task may have overwritten the word. */
static bool watchdog_works(const struct watchdog *p)
{
	/* Relaxed: it changes all the time. */
	for (uint32_t i = 0; p->arena && i < p->n_workers; i++)
		if (load_relaxed(&p->arena->workers[i].job) != UINT32_MAX)
			return true;
	return false;
}

/* The pool is READY: a PING goes to no other pool, and no PONG would come. */
static void watchdog_ask(struct watchdog *p)
{
	assert(p->pid);
	p->watch = (struct watchdog_watch){ .held = 0 };
	watchdog_timer(p, WATCHDOG_ASKED, watchdog_interval(p));
	p->number = p->calls->ask(p);
	p->said = false;
}

static uint64_t watchdog_cpu(const struct watchdog *p)
{
	struct timespec used = { 0 };
	clockid_t clock;

	if (clock_getcpuclockid(p->pid, &clock) == 0)
		(void)clock_gettime(clock, &used);
	return (uint64_t)used.tv_sec * NSEC_PER_SEC + (uint64_t)used.tv_nsec;
}

static void watchdog_kill(struct watchdog *p, const char *why, uint64_t ns)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "%s for %.3g s", why, (double)ns / (double)NSEC_PER_SEC);
	p->calls->kill(p, text);
}

/* I4. True if the pool was killed. */
static bool watchdog_revive(struct watchdog *p)
{
	if (p->continued) {
		watchdog_kill(p, "it was stopped by a signal again, after it had been continued",
			      p->watch.stopped);
		return true;
	}
	log_warning("pool (pid %d) was stopped by a signal for %.3g s: sending SIGCONT",
		    (int)p->pid, (double)p->watch.stopped / (double)NSEC_PER_SEC);
	p->continued = true;
	p->reviving = true;
	p->watch.stopped = 0;
	(void)kill(p->pid, SIGCONT);
	return false;
}

static void watchdog_look(struct watchdog *p)
{
	struct watchdog_look look = {
		.now = clock_ns(),
		.due = p->due,
		.cpu = watchdog_cpu(p),
		.stopped = thread_states_stopped(p->pid),
	};
	uint64_t interval = watchdog_interval(p);
	bool killed = p->watch.last.killed;
	uint64_t held;

	/* After now was taken: with many threads this takes longer than a look may be late. */
	if (look.cpu == p->watch.last.cpu || p->watch.held + interval >= p->limit) {
		struct thread_states threads = thread_states_look(p->pid);

		look.dying = threads.dumps;
		look.killed = threads.killed;
		look.asleep = threads.asleep;
		look.traced = threads.traced;
	}
	held = watchdog_judge(&p->watch, &look, interval);
	/* At two looks: a core file may have been started during the first one. */
	if (killed && look.killed)
		p->calls->kill(p, NULL);
	if (p->leaves) {
		p->state = WATCHDOG_QUIET; /* it owes no answer, and only has to exit */
		return;
	}
	if (held >= p->limit) {
		watchdog_kill(p, "although it had CPU time or slept, it did not answer", held);
		return;
	}
	if (look.stopped && !look.traced && (p->reviving || p->watch.stopped >= p->limit) &&
	    watchdog_revive(p))
		return;
	(void)kill(p->pid, PROTO_POOL_SIGNAL);
	watchdog_timer(p, WATCHDOG_ASKED, interval);
}

static void watchdog_on_timer(struct loop_source *source, int result)
{
	struct watchdog *p = container_of(source, struct watchdog, timer);

	(void)result;
	if (!p->limit)
		p->state = WATCHDOG_QUIET;
	else if (p->state == WATCHDOG_ASKED)
		watchdog_look(p);
	else if (p->said || watchdog_works(p))
		watchdog_ask(p);
	else
		p->state = WATCHDOG_QUIET;
}

void watchdog_glance(struct watchdog *p)
{
	if (p->limit && p->pid && p->state != WATCHDOG_ASKED && watchdog_works(p))
		watchdog_ask(p);
}

void watchdog_stopped(struct watchdog *p, bool begins)
{
	if (begins) {
		p->watch.stopped = 0;
		p->watch.last.stopped = false;
	}
	if (p->limit && p->pid && p->state != WATCHDOG_ASKED)
		watchdog_ask(p);
}

void watchdog_init(struct watchdog *p, struct loop *loop, const struct watchdog_calls *calls,
		   uint64_t limit)
{
	*p = (struct watchdog){
		.loop = loop,
		.calls = calls,
		.limit = limit ? max(limit, WATCHDOG_LEAST) : 0,
		.timer = { .call = watchdog_on_timer },
	};
}

/* Asks nothing until a message is sent. */
static void watchdog_rest(struct watchdog *p)
{
	loop_forget(p->loop, &p->timer);
	p->state = WATCHDOG_QUIET;
	p->said = p->reviving = false;
}

void watchdog_set_limit(struct watchdog *p, uint64_t limit)
{
	limit = limit ? max(limit, WATCHDOG_LEAST) : 0;
	if (limit == p->limit)
		return;
	watchdog_rest(p);
	p->limit = limit;
}

void watchdog_said(struct watchdog *p)
{
	if (!p->pid)
		return;
	p->said = true;
	if (p->limit && p->state == WATCHDOG_QUIET)
		watchdog_timer(p, WATCHDOG_SOON, WATCHDOG_SOON_NS);
}

void watchdog_answered(struct watchdog *p, uint64_t number)
{
	if (p->state != WATCHDOG_ASKED || number < p->number)
		return;
	p->state = WATCHDOG_QUIET;
	p->reviving = false;
	if (p->said)
		watchdog_timer(p, WATCHDOG_SOON, WATCHDOG_SOON_NS);
	else if (watchdog_works(p))
		watchdog_timer(p, WATCHDOG_SOON, p->limit);
	else
		loop_forget(p->loop, &p->timer);
}

void watchdog_begin(struct watchdog *p, pid_t pid)
{
	p->pid = pid;
	p->continued = p->leaves = false;
}

void watchdog_end(struct watchdog *p)
{
	watchdog_rest(p);
	p->pid = 0;
}
