/* SPDX-License-Identifier: MIT */
/*
 * timeline.c - the events of workers, and the marks of jobs made from them
 *
 * The events of each worker are in order. The marks of a job are made from the events of all
 * workers, because one worker may start a job and another end it.
 */
#include "client/forkctl/trace/timeline_internal.h"

#include <stdlib.h>

#include "client/forkctl/common.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"
#include "shm/wake.h"

/* ------------------------------------------------------------------------ events */

void *timeline_alloc(void *array, size_t n, size_t size)
{
	array = reallocarray(array, n, size);
	if (!array)
		exit(forkctl_fail(FORKCTL_FAILED, "out of memory"));
	return array;
}

static struct lane_start lane_look(const struct board *board, uint32_t worker)
{
	const uint32_t job = LOAD(board->running[worker].job);
	struct lane_start start = { .event = { .row = job, .task = board_job_task(board, job) } };

	switch (wake_state(wake_load(&board->workers[worker].wake))) {
	case WAKE_SLEEPING:
		start.state = LANE_RESTS;
		start.event.value = TRACE_SLEEP;
		break;
	case WAKE_PARKED:
		start.state = LANE_RESTS;
		start.event.value = TRACE_PARK;
		break;
	default:
		start.state = start.event.row == TIMELINE_NONE ? LANE_IDLE : LANE_STRAND;
	}
	return start;
}

struct timeline *timeline_new(const struct board *board, uint32_t n_workers)
{
	struct timeline *t = timeline_alloc(NULL, 1, sizeof(*t));

	*t = (struct timeline){
		.board = board,
		.pid = LOAD(board->manager.pool_pid),
		.n_lanes = min(n_workers, LIMIT_WORKERS),
		.jobs_max = max(board->manager.jobs_max, 1u),
		.begun_ns = clock_ns(),
		.begun_real_ns = out_now_ns(),
	};
	for (uint32_t i = 0; i < t->n_lanes; i++) {
		t->lanes[i].tid = LOAD(board->workers[i].tid);
		t->lanes[i].cpu = LOAD(board->workers[i].cpu);
		t->lanes[i].start = lane_look(board, i);
	}
	return t;
}

struct timeline *timeline_free(struct timeline *t)
{
	for (uint32_t i = 0; t && i < t->n_lanes; i++)
		free(t->lanes[i].events);
	free(t);
	return NULL;
}

static void lane_push(struct lane *lane, const struct trace_event *event)
{
	if (lane->n == lane->max) {
		lane->max = max(2 * lane->max, (size_t)1024);
		lane->events = timeline_alloc(lane->events, lane->max, sizeof(*lane->events));
	}
	lane->events[lane->n++] = *event;
}

void timeline_add(struct timeline *t, uint32_t worker, const struct trace_event *events, uint32_t n,
		  uint64_t lost)
{
	struct lane *lane = &t->lanes[worker];
	uint64_t last = lane->n ? lane->events[lane->n - 1].time_ns : t->begun_ns;

	t->n_lost += lost;
	t->n_events += n;
	/* The pool was starting when the trace began. */
	if (!lane->tid)
		lane->tid = LOAD(t->board->workers[worker].tid);
	if (lost) {
		/* The time at which it continues; the clock of a worker does not go back. */
		last = n ? max(events[0].time_ns, last) : last;
		lane_push(lane, &(struct trace_event){ .time_ns = last,
						       .row = TIMELINE_NONE,
						       .kind = TIMELINE_LOST,
						       .value = lost });
	}
	for (uint32_t i = 0; i < n; i++) {
		struct trace_event event = events[i];

		event.time_ns = last = max(event.time_ns, last);
		lane_push(lane, &event);
	}
}

uint64_t timeline_events(const struct timeline *t)
{
	return t->n_events;
}

uint64_t timeline_lost(const struct timeline *t)
{
	return t->n_lost;
}

/* ------------------------------------------------------------------------ jobs */

const struct board_client *timeline_client(const struct timeline *t, uint32_t row, uint64_t time_ns)
{
	uint32_t slot = row / t->jobs_max;

	if (slot >= LIMIT_CLIENTS || LOAD(t->board->clients[slot].connected_ns) > time_ns)
		return NULL;
	return &t->board->clients[slot];
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Orders events by job, then by time. */
static int compare_events(const void *left, const void *right)
{
	const struct trace_event *a = left, *b = right;
	int order = compare_numbers((uint64_t)a->row << 32 | a->generation,
				    (uint64_t)b->row << 32 | b->generation);

	if (!order)
		order = compare_numbers(a->time_ns, b->time_ns);
	return order ? order : (int)a->kind - (int)b->kind;
}

static int compare_marks(const void *left, const void *right)
{
	const struct timeline_mark *a = left, *b = right;
	int order = compare_numbers(a->time_ns, b->time_ns);

	if (!order)
		order = compare_numbers(a->job, b->job);
	return order ? order : (int)a->what - (int)b->what;
}

static bool is_of_job(const struct trace_event *e)
{
	return e->kind >= TRACE_ROOT && e->kind <= TRACE_STRAND && e->row != TIMELINE_NONE;
}

/* Adds a job. e: its first event. */
static struct timeline_job *jobs_add(struct timeline_jobs *jobs, const struct trace_event *e)
{
	struct timeline_job *job = &jobs->jobs[jobs->n++];
	struct timeline_job *last = job > jobs->jobs ? job - 1 : NULL;

	*job = (struct timeline_job){
		.row = e->row,
		.generation = e->generation,
		.task = UINT32_MAX,
	};
	/* The last job has ended by now: two jobs never have the same number at one time. */
	if (last && last->row == e->row && last->generation == e->generation) {
		last->ended_ns = last->ended_ns ? last->ended_ns : e->time_ns;
		job->after_ns = e->time_ns;
	}
	return job;
}

/* Makes jobs from strands and outcomes; the events are sorted. */
static void jobs_gather(struct timeline_jobs *jobs, const struct trace_event *events, size_t n)
{
	struct timeline_job *job = NULL;

	jobs->jobs = timeline_alloc(NULL, n + 1, sizeof(*jobs->jobs));
	for (size_t i = 0; i < n; i++) {
		const struct trace_event *e = &events[i];

		if (!job || job->row != e->row || job->generation != e->generation ||
		    job->ended_ns || e->kind == TRACE_ROOT)
			job = jobs_add(jobs, e);
		if (e->task != UINT32_MAX)
			job->task = e->task;
		if (e->kind == TRACE_ROOT) {
			job->drained_ns = e->value;
			job->started_ns = e->time_ns;
		} else if (e->kind == TRACE_JOB_END) {
			job->ended_ns = e->time_ns;
			job->outcome = e->value;
		}
	}
}

/* Returns the pid of a job's client. Called once for each job: the slot may be reused later. */
static uint32_t jobs_pid(const struct timeline *t, const struct timeline_job *job)
{
	const struct board_client *client =
		timeline_client(t, job->row, job->ended_ns ? job->ended_ns : UINT64_MAX);

	return client ? LOAD(client->pid) : TIMELINE_LEFT;
}

/* Limits times to the trace, in ascending order. */
static void jobs_mark(struct timeline_jobs *jobs, uint64_t begun_ns, uint64_t end_ns)
{
	jobs->marks = timeline_alloc(NULL, 3 * jobs->n + 1, sizeof(*jobs->marks));
	for (size_t i = 0; i < jobs->n; i++) {
		struct timeline_job *job = &jobs->jobs[i];
		uint64_t first = max(job->after_ns, begun_ns);
		uint64_t started = max(job->started_ns, first);
		uint64_t queued = min(max(job->drained_ns, first), started);
		uint64_t ended = max(job->ended_ns ? job->ended_ns : end_ns, started);
		const uint64_t times[] = { queued, started, ended };

		for (uint32_t what = 0; what < 3; what++)
			jobs->marks[jobs->n_marks++] =
				(struct timeline_mark){ times[what], (uint32_t)i, what };
	}
	qsort(jobs->marks, jobs->n_marks, sizeof(*jobs->marks), compare_marks);
}

void jobs_make(struct timeline_jobs *jobs, const struct timeline *t, uint64_t end_ns)
{
	_cleanup_free_ struct trace_event *events =
		timeline_alloc(NULL, t->n_events + 1, sizeof(*events));
	size_t n = 0;

	for (uint32_t i = 0; i < t->n_lanes; i++)
		for (size_t k = 0; k < t->lanes[i].n; k++)
			if (is_of_job(&t->lanes[i].events[k]))
				events[n++] = t->lanes[i].events[k];
	qsort(events, n, sizeof(*events), compare_events);
	jobs_gather(jobs, events, n);
	for (size_t i = 0; i < jobs->n; i++)
		jobs->jobs[i].pid = jobs_pid(t, &jobs->jobs[i]);
	jobs_mark(jobs, t->begun_ns, end_ns);
}
