/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/hang_detector.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "common/valgrind.h"
#include "daemon/core/hooks.h"
#include "daemon/fiber/scope.h"
#include "common/util.h"
#include "daemon/core/pool_settings.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/clients.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "shm/board.h"
#include "daemon/jobs/job_end.h"
#include "daemon/core/job_abort.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/wake.h"

#define HANG_LOOKS    256u /* checks in hang-timeout */
#define HANG_OFTEN    (20 * NSEC_PER_MSEC)
#define HANG_SELDOM   (50 * NSEC_PER_MSEC)
#define HANG_LOOKS_ON 8u /* checks after the last one that found something */

/* Number of times that this process was stopped and continued: a handler gets no argument. */
static _Atomic uint32_t hang_stops;

/* /proc/self/status, opened in advance: a sandboxed pool may open no file. */
static int hang_status = -1;
static struct stat hang_status_file; /* a task can put another file in its place */

/* ------------------------------------------------------------------------ the decision */

/* True if the thread slept since the last check, with a CPU available for it. */
static bool hang_slept(const struct hang_watch *watch, const struct hang_look *look,
		       uint64_t interval)
{
	return look->asked && look->answered >= look->asked &&
	       look->answered - look->asked <= interval / 2 && watch->compared &&
	       look->slept != watch->last.slept && !watch->stopped &&
	       look->stops == watch->last.stops;
}

uint64_t hang_judge(struct hang_watch *watch, const struct hang_look *look, uint64_t interval)
{
	struct hang_watch next = { .last = *look, .held = watch->held };
	uint64_t ran = look->cpu - watch->last.cpu;

	if (!look->doomed || look->doomed != watch->last.doomed || look->beat != watch->last.beat) {
		next.held = 0;
		*watch = next;
		return 0;
	}
	next.stopped = look->stops != watch->last.stops;
	next.compared = look->asked && look->answered >= look->asked;
	if (hang_slept(watch, look, interval))
		ran = max(ran, min(look->now - watch->last.now, interval));
	next.held += ran;
	*watch = next;
	return next.held;
}

/* ------------------------------------------------------------------------ the check */

static void hang_continued(int signo)
{
	(void)signo;
	/* Relaxed: a counter. */
	add_relaxed(&hang_stops, 1);
}

void hangs_begin(void)
{
	struct sigaction action = { .sa_handler = hang_continued,
				    .sa_flags = SA_RESTART | SA_ONSTACK };

	(void)sigaction(SIGCONT, &action, NULL);
	hang_status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	(void)fstat(hang_status, &hang_status_file);
}

/* Returns the process that traces this one; 0: none, or unknown. */
static int hang_tracer(void)
{
	static const char name[] = "\nTracerPid:";
	char text[4096];
	struct stat now;
	const char *tracer;
	ssize_t n;

	if (fstat(hang_status, &now) < 0 || now.st_dev != hang_status_file.st_dev ||
	    now.st_ino != hang_status_file.st_ino)
		return 0;
	n = pread(hang_status, text, sizeof(text) - 1, 0);
	text[max(n, 0)] = '\0';
	tracer = strstr(text, name);
	return tracer ? atoi(tracer + strlen(name)) : 0;
}

static bool hang_is_traced(void)
{
	static struct log_limit limit = LOG_LIMIT_INIT;
	int tracer = hang_tracer();

	if (tracer)
		log_limited(&limit, LOG_LEVEL_WARNING,
			    "hang-timeout ends no job while process %d traces the pool, as a "
			    "debugger does",
			    tracer);
	return tracer || on_valgrind();
}

bool hang_is_reached(struct pool *pool, uint64_t *held)
{
	uint64_t limit = pool_hang_timeout(pool);

	if (!limit || *held < limit)
		return false;
	if (!hang_is_traced())
		return true;
	*held = 0;
	return false;
}

void hang_answer(struct worker *w)
{
	struct rusage usage;

	/* Relaxed: a time; publishes no other data. */
	if (!load_relaxed(&w->requests.hang_asked) || getrusage(RUSAGE_THREAD, &usage) < 0)
		return;
	store_relaxed(&w->hang_answer.slept, (uint64_t)usage.ru_nvcsw);
	/* ORDER hang/answer [H2]: release, after slept. Pairs with hang_see(). */
	atomic_store_explicit(&w->hang_answer.at, clock_ns(), memory_order_release);
}

/* True if a client waits for the job's end: until then a job that fails may take any time. */
static bool hang_is_wanted(struct pool *pool, uint32_t row, uint32_t generation, uint32_t outcome)
{
	if (outcome != JOB_FAILED)
		return outcome;
	/* Relaxed: a check follows each change. */
	return job_is_cancelled(pool, row, generation) ||
	       load_relaxed(&clients_of(pool, row)->state) != CLIENT_LIVE;
}

/* Returns the job of this row as a number, if it runs and is to end; otherwise 0. */
static uint64_t hang_doomed_row(struct pool *pool, uint32_t row)
{
	struct ledger_row now = ledger_row(pool->arena, row);

	if (now.state != LEDGER_RUNNING ||
	    !hang_is_wanted(pool, row, now.generation, abort_get(pool, row).outcome))
		return 0;
	return ((uint64_t)row + 1) << 32 | now.generation;
}

uint64_t hang_doomed(struct pool *pool, const struct worker *w)
{
	/* Relaxed: it is read at each check, and must be the same each time. */
	uint32_t row = load_relaxed(&w->job.ledger->job);

	/* A wild write of a task may have changed the number. */
	return row / pool->jobs_max < pool->clients_max ? hang_doomed_row(pool, row) : 0;
}

static uint64_t hang_beat(const struct worker *w)
{
	/* Relaxed: statistics. */
	return load_relaxed(&w->counters->strands) + load_relaxed(&w->counters->requests_served);
}

uint64_t hang_cpu(const struct worker *w)
{
	struct timespec used = { 0 };
	clockid_t clock;

	if (pthread_getcpuclockid(w->thread, &clock) == 0)
		(void)clock_gettime(clock, &used);
	return clock_of_timespec(&used);
}

static struct hang_look hang_see(struct pool *pool, struct worker *w, uint64_t now)
{
	struct hang_look look = { .now = now, .doomed = hang_doomed(pool, w) };

	if (!look.doomed)
		return look;
	look.beat = hang_beat(w);
	look.cpu = hang_cpu(w);
	/* Relaxed: the dispatcher's own word, and a counter. */
	look.asked = load_relaxed(&w->requests.hang_asked);
	look.stops = load_relaxed(&hang_stops);
	/* ORDER hang/answer [H2]: acquire, pairs with hang_answer(). */
	look.answered = atomic_load_explicit(&w->hang_answer.at, memory_order_acquire);
	look.slept = load_relaxed(&w->hang_answer.slept);
	return look;
}

/* Without a signal there is no answer: only the thread's CPU time counts. */
static void hang_ask(struct worker *w)
{
	int signo = w->pool->signal;

	/* Relaxed: as in hang_answer(). */
	store_relaxed(&w->requests.hang_asked, clock_ns());
	if (signo)
		(void)pthread_kill(w->thread, signo);
}

/* Checks a worker. True if it runs a job that is to end. */
static bool hang_look_at(struct pool *pool, uint32_t index, uint64_t now, uint64_t interval)
{
	struct hang_watch *watch = &pool->hangs->watches[index];
	struct worker *w = &pool->workers[index];
	struct hang_look look = hang_see(pool, w, now), last = watch->last;
	uint64_t held = hang_judge(watch, &look, interval);
	bool again = look.doomed && look.doomed == last.doomed;

	if (hang_is_reached(pool, &watch->held))
		pool->crash->hang(pool, index, (uint32_t)(look.doomed >> 32) - 1,
				  (uint32_t)look.doomed, held);
	/* A worker that had the CPU most of the time need not be asked. */
	if (again && look.cpu - last.cpu < (look.now - last.now) / 2)
		hang_ask(w);
	/* Relaxed: an answer for another job does not count. */
	if (!again)
		store_relaxed(&w->requests.hang_asked, 0);
	return look.doomed;
}

/* ------------------------------------------------------------------------ jobs without a worker */

/* Returns a number that changes when a worker runs or sleeps again; 0: a worker is awake. Relaxed:
 * statistics, and words that are read again. */
static uint64_t hang_rests(struct pool *pool)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < pool->n_workers; i++) {
		const struct worker *w = &pool->workers[i];

		if (!wake_rests(wake_load(&w->board->wake)))
			return 0;
		n += hang_beat(w) + load_relaxed(&w->counters->sleeps) +
		     load_relaxed(&w->counters->timed_sleeps) +
		     load_relaxed(&w->counters->offline_sleeps);
	}
	return n;
}

/* Returns a running job that is to end; 0: none. Only clients that have jobs are checked, because
 * unused rows have no memory yet. */
static uint64_t hang_find(struct pool *pool)
{
	uint64_t doomed = 0;

	for (uint32_t i = 0; i < pool->clients_max && !doomed; i++) {
		const struct client_entry *client = &pool->clients.entries[i];
		uint32_t n = 0;

		/* ORDER client/live [K1]: acquire, before its number of jobs. Pairs with
		 * clients_show_client(). */
		if (atomic_load_explicit(&client->state, memory_order_acquire) != CLIENT_NONE &&
		    load_relaxed(&client->active))
			n = min(client->n_jobs, pool->jobs_max);
		for (uint32_t j = 0; j < n && !doomed; j++)
			doomed = hang_doomed_row(pool, i * pool->jobs_max + j);
	}
	return doomed;
}

/* Checks for a job without a worker. True if there is a running job that is to end. */
static bool hang_look_for_orphan(struct pool *pool, uint64_t now, uint64_t interval)
{
	struct hang_orphan *orphan = &pool->hangs->orphan, last = *orphan;
	uint32_t row = (uint32_t)(last.doomed >> 32) - 1;

	*orphan = (struct hang_orphan){
		.doomed = last.doomed ? hang_doomed_row(pool, row) : hang_find(pool),
		.now = now,
		.rests = hang_rests(pool),
		/* Relaxed: a count. */
		.stops = load_relaxed(&hang_stops),
	};
	if (!last.doomed || orphan->doomed != last.doomed)
		return orphan->doomed || last.doomed;
	if (orphan->rests && orphan->rests == last.rests && orphan->stops == last.stops &&
	    !fibers_has_scope(pool, row))
		orphan->held = last.held + min(now - last.now, interval);
	if (hang_is_reached(pool, &orphan->held))
		pool->crash->hang(pool, ledger_row(pool->arena, row).worker % pool->n_workers, row,
				  (uint32_t)last.doomed, orphan->held);
	return true;
}

/* ------------------------------------------------------------------------ when to check */

void hang_expect(struct pool *pool)
{
	/* Relaxed: the thread that has set it does the rest. */
	if (!pool_hang_timeout(pool) || load_relaxed(&pool->hangs->news))
		return;
	/* ORDER hang/news [H1]: seq_cst, before the read of watching. Pairs with hangs_rest(). */
	atomic_store_explicit(&pool->hangs->news, true, memory_order_seq_cst);
	if (!atomic_load_explicit(&pool->hangs->watching, memory_order_seq_cst))
		pool_wake_dispatcher(pool);
}

/* Stops checking after several checks without a finding, unless there is news. True if stopped. */
static bool hangs_rest(struct hangs *h)
{
	/* ORDER hang/news [H1]: seq_cst, before the read of news. Pairs with hang_expect(). */
	atomic_store_explicit(&h->watching, false, memory_order_seq_cst);
	if (!atomic_load_explicit(&h->news, memory_order_seq_cst))
		return true;
	store_relaxed(&h->watching, true);
	return false;
}

/* Checks all workers once. Returns whether to check again. */
static bool hangs_look(struct pool *pool, uint64_t now, uint64_t interval)
{
	struct hangs *h = pool->hangs;

	/* Relaxed: hangs_rest() has the order. */
	store_relaxed(&h->watching, true);
	/* ORDER hang/news [H1]: acquire, the reason of the news was written before. Pairs with
	 * hang_expect(). A thread that finds news already set adds none: one of the next checks
	 * sees its reason. */
	if (atomic_exchange_explicit(&h->news, false, memory_order_acquire))
		h->looks = HANG_LOOKS_ON;
	h->looks--;
	for (uint32_t i = 0; i < pool->n_workers; i++)
		if (hang_look_at(pool, i, now, interval))
			h->looks = HANG_LOOKS_ON;
	if (!h->looks && (hang_look_for_orphan(pool, now, interval) || !hangs_rest(h)))
		h->looks = 1;
	return h->looks;
}

uint64_t hangs_check(struct pool *pool)
{
	struct hangs *h = pool->hangs;
	uint64_t limit = pool_hang_timeout(pool), now;
	uint64_t interval = min(max(limit / HANG_LOOKS, HANG_OFTEN), HANG_SELDOM);

	/* Relaxed: the dispatcher sleeps after a full fence, and is woken after one. */
	if (!h->looks && !load_relaxed(&h->news))
		return 0;
	now = clock_ns();
	if (h->looks && now < h->next)
		return h->next;
	h->next = now + interval;
	return hangs_look(pool, now, interval) ? h->next : 0;
}
