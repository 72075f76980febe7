/* SPDX-License-Identifier: MIT */
/*
 * quarantine.c - refuses tasks to a user for whom they crash
 *
 * If a pool crashes and a job is blamed, the crash counts against the job's user and task, and
 * against the user. After quarantine-task-crashes of a task within quarantine-window, this user
 * cannot call the task; after quarantine-user-crashes of the user, no task. The quarantine ends
 * after quarantine-time, or when an operator lifts it.
 *
 * INVARIANTS
 *   I1. Crashes are counted per user, because others call the same tasks. The uid is the manager's
 *       own record for the slot of the blamed row.
 *   I2. A crash without a job to blame is not counted: signals from outside, a kill, other code.
 *   I3. A crash leads to at most one entry for a task, which resets the task's count to 0. It stays
 *       counted against the user.
 *   I4. If the table is full, the entry that would end first ends now, even if it is another
 *       user's.
 *
 * If a peer dies: the pool: the next one receives all entries before any job. The manager: crashes
 * and entries are in the saved state, each complete or absent (saved_state.c, I1), and the next
 * manager continues with them.
 */
#include "daemon/manager/quarantine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/number.h"
#include "common/options.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/tenants.h"
#include "shm/board.h"
#include "shm/limits.h"
#include "shm/proto.h"

/* ------------------------------------------------------------------------ entries */

static uint64_t quarantine_until(const struct saved_refusal *e)
{
	return saved_load(&e->until_ns);
}

static struct board_quarantine *quarantine_row(struct quarantine *q, const struct saved_refusal *e)
{
	return &q->board->quarantine[e - q->memory->refusals];
}

/* Relaxed throughout: for display. until_ns is written first if the row becomes free, else last. */
static void quarantine_show_entry(struct quarantine *q, const struct saved_refusal *e)
{
	struct board_quarantine *b = quarantine_row(q, e);

	store_relaxed(&b->until_ns, 0);
	memcpy(b->task, e->name, sizeof(b->task));
	store_relaxed(&b->uid, e->uid);
	store_relaxed(&b->crashes, e->crashes);
	store_relaxed(&b->until_ns, quarantine_until(e));
}

uint32_t quarantine_count_all(const struct quarantine *q)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++)
		n += quarantine_until(&q->memory->refusals[i]) != 0;
	return n;
}

void quarantine_show(struct quarantine *q)
{
	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++)
		quarantine_show_entry(q, &q->memory->refusals[i]);
}

static void quarantine_tell_one(struct quarantine *q, const struct saved_refusal *e,
				uint32_t tenant, bool refused)
{
	const struct tenants_slot *slot = &q->tenants->slots[tenant];
	struct proto_pool m = {
		.head = { PROTO_MAGIC, PROTO_POOL_TASKS },
		.tenant = tenant,
		.task_hash = e->task,
		.refused = refused,
	};

	/* When a tenant leaves, the pool drops its refused tasks with it. */
	if (slot->state == TENANTS_USED && slot->uid == e->uid)
		pool_process_send(q->pool, &m, -1);
}

static void quarantine_tell(struct quarantine *q, const struct saved_refusal *e, bool refused)
{
	for (uint32_t i = 0; i < q->tenants->n; i++)
		quarantine_tell_one(q, e, i, refused);
}

void quarantine_tell_tenant(struct quarantine *q, uint32_t tenant)
{
	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++)
		if (quarantine_until(&q->memory->refusals[i]))
			quarantine_tell_one(q, &q->memory->refusals[i], tenant, true);
}

void quarantine_tell_pool(struct quarantine *q)
{
	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++)
		if (quarantine_until(&q->memory->refusals[i]))
			quarantine_tell(q, &q->memory->refusals[i], true);
}

static const char *quarantine_what(const struct saved_refusal *e, char text[80])
{
	(void)snprintf(text, 80, "%s%s", e->name[0] ? "task " : "every task", e->name);
	return text;
}

static struct log_about quarantine_about(const struct saved_refusal *e)
{
	return (struct log_about){
		.has = LOG_UID,
		.uid = e->uid,
		.task = e->name,
		.message_id = LOG_ID_QUARANTINE,
	};
}

/* Updates board and pool first, so that a client that reads the line finds no row. The saved state
 * last: if the manager dies before, the next manager finds the entry and ends it. */
static void quarantine_end(struct quarantine *q, struct saved_refusal *e, const char *why)
{
	const struct log_about about = quarantine_about(e);
	char what[80];

	store_relaxed(&quarantine_row(q, e)->until_ns, 0);
	quarantine_tell(q, e, false);
	log_about(LOG_LEVEL_NOTICE, &about, "%s of uid %u is no longer in quarantine: %s",
		  quarantine_what(e, what), e->uid, why);
	saved_store(&e->until_ns, 0);
}

/* The entry that ends first; NULL if there is none. */
static struct saved_refusal *quarantine_first(struct quarantine *q)
{
	struct saved_refusal *first = NULL;

	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++) {
		struct saved_refusal *e = &q->memory->refusals[i];

		if (quarantine_until(e) &&
		    (!first || quarantine_until(e) < quarantine_until(first)))
			first = e;
	}
	return first;
}

/* Ends entries whose time has passed, and waits for the next one. */
static void quarantine_wait(struct quarantine *q)
{
	uint64_t now = clock_ns();
	struct saved_refusal *e;

	while ((e = quarantine_first(q)) && quarantine_until(e) <= now)
		quarantine_end(q, e, "quarantine-time has passed");
	loop_forget(q->loop, &q->timer);
	if (e && loop_timer(q->loop, &q->timer, quarantine_until(e) - now) < 0)
		log_warning("out of memory: no quarantine ends before the next crash");
}

static void quarantine_on_timer(struct loop_source *source, int result)
{
	(void)result;
	quarantine_wait(container_of(source, struct quarantine, timer));
}

/* Returns the user's entry for this task, or else a free one (I4). */
static struct saved_refusal *quarantine_find(struct quarantine *q, uint32_t uid, uint64_t task)
{
	struct saved_refusal *free = NULL;

	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++) {
		struct saved_refusal *e = &q->memory->refusals[i];

		if (quarantine_until(e) && e->uid == uid && e->task == task)
			return e;
		if (!quarantine_until(e) && !free)
			free = e;
	}
	if (!free) {
		free = quarantine_first(q);
		quarantine_end(q, free, "the table is full");
	}
	return free;
}

static void quarantine_begin(struct quarantine *q, uint32_t uid, uint64_t task, const char *name,
			     uint32_t crashes)
{
	struct saved_refusal *e = quarantine_find(q, uid, task);
	struct log_about about;
	char what[80];

	saved_store(&e->until_ns, 0);
	e->task = task;
	e->uid = uid;
	e->crashes = crashes;
	(void)snprintf(e->name, sizeof(e->name), "%s", name);
	saved_store(&e->until_ns, clock_ns() + q->options->quarantine_time);
	about = quarantine_about(e);
	log_about(LOG_LEVEL_WARNING, &about,
		  "%s is refused to uid %u for %.6g s, after %u crashes: `forkctl quarantine "
		  "lift %u%s%s` ends that",
		  quarantine_what(e, what), uid,
		  (double)q->options->quarantine_time / (double)NSEC_PER_SEC, crashes, uid,
		  *name ? " " : "", name);
	quarantine_show_entry(q, e);
	quarantine_wait(q);
}

void quarantine_init(struct quarantine *q, const struct options *options, struct loop *loop,
		     struct pool_process *pool, const struct tenants *tenants, struct board *board,
		     struct saved_quarantine *memory)
{
	*q = (struct quarantine){
		.options = options,
		.loop = loop,
		.pool = pool,
		.tenants = tenants,
		.board = board,
		.timer = { .call = quarantine_on_timer },
		.memory = memory,
	};
	quarantine_wait(q);
}

/* ------------------------------------------------------------------------ crashes */

/* Counts the user's crashes within the window; task: 0: of any. */
static uint32_t quarantine_count(const struct quarantine *q, uint32_t uid, uint64_t task,
				 uint64_t now)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SAVED_CRASHES; i++) {
		const struct saved_crash *c = &q->memory->crashes[i];
		uint64_t time_ns = saved_load(&c->time_ns);

		n += time_ns && saved_load(&c->uid) == uid &&
		     (!task || saved_load(&c->task) == task) &&
		     now - time_ns <= q->options->quarantine_window;
	}
	return n;
}

/* Stops counting the user's crashes against the task; task 0: against any task and the user. */
static void quarantine_forget(struct quarantine *q, uint32_t uid, uint64_t task)
{
	for (uint32_t i = 0; i < SAVED_CRASHES; i++) {
		struct saved_crash *c = &q->memory->crashes[i];

		if (saved_load(&c->uid) != uid || (task && saved_load(&c->task) != task))
			continue;
		saved_store(task ? &c->task : &c->time_ns, 0);
	}
}

void quarantine_crashed(struct quarantine *q, uint32_t uid, uint64_t task, const char *name)
{
	const struct options *o = q->options;
	uint64_t now = clock_ns();
	uint64_t at = saved_load(&q->memory->n_crashes);
	struct saved_crash *c = &q->memory->crashes[at % SAVED_CRASHES];
	uint32_t n;

	saved_store(&q->memory->n_crashes, at + 1);
	saved_store(&c->time_ns, 0);
	saved_store(&c->task, task);
	saved_store(&c->uid, uid);
	saved_store(&c->time_ns, now);
	n = task ? quarantine_count(q, uid, task, now) : 0;
	if (o->quarantine_task_crashes && n >= o->quarantine_task_crashes) {
		quarantine_begin(q, uid, task, name, n);
		quarantine_forget(q, uid, task);
	}
	n = quarantine_count(q, uid, 0, now);
	if (o->quarantine_user_crashes && n >= o->quarantine_user_crashes) {
		quarantine_begin(q, uid, 0, "", n);
		quarantine_forget(q, uid, 0);
	}
}

int quarantine_lift(struct quarantine *q, const char *uid_text, const char *name, char *ret_n,
		    size_t n_size, char *ret_error, size_t error_size)
{
	const char *rest;
	uint64_t uid;
	uint32_t n = 0;

	if (number_parse(uid_text, 10, &uid, &rest) < 0 || *rest || uid >= UINT32_MAX) {
		(void)snprintf(ret_error, error_size, "\"%.40s\" is not a uid", uid_text);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++) {
		struct saved_refusal *e = &q->memory->refusals[i];

		if (!quarantine_until(e) || e->uid != uid || (*name && strcmp(e->name, name) != 0))
			continue;
		quarantine_end(q, e, "it was lifted");
		n++;
	}
	if (!n) {
		(void)snprintf(ret_error, error_size,
			       "no task%s%.64s of uid %" PRIu64
			       " is in quarantine: `forkctl quarantine` lists the entries",
			       *name ? " " : "", name, uid);
		return -ENOENT;
	}
	if (!*name)
		quarantine_forget(q, (uint32_t)uid, 0);
	quarantine_wait(q);
	(void)snprintf(ret_n, n_size, "%u", n);
	return 0;
}
