/* SPDX-License-Identifier: MIT */
/*
 * timeline_write.c - writes a timeline as a trace for Perfetto and Chrome
 *
 *	worker	a thread of the pool: slices (B, E) of strands and of sleeps, which do not overlap;
 *		instants (i) where it stole, or woke another; an arrow (s, f) from the victim to the
 *		strand that a steal began
 *	job	nestable slices (b, e) of the client process: the job, and in it the times for which
 *		it was queued and running
 *
 * The events of each worker are in order. They are merged by time with the marks of jobs
 * (jobs_make()).
 *
 * INVARIANTS
 *   L1. Each slice that begins also ends: an open slice ends when the next one begins, when events
 *       were lost, or with the trace. A slice without a beginning begins with the trace, or with
 *       the first event after lost ones.
 *   L2. An arrow leads from a strand to a strand, or is omitted: the strand of the victim may have
 *       ended before the thief read its clock.
 */
#include "client/forkctl/trace/timeline_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "shm/job.h"

/* ------------------------------------------------------------------------ events */

struct writer {
	struct timeline *t;
	FILE *out;
	uint64_t n;
	uint64_t arrows;
	uint64_t named[LIMIT_CLIENTS / 64]; /* clients whose process name was written */
	bool left_named;		    /* the name for clients that have left was */
};

/* Writes the event, and frees it. */
static void put(struct writer *w, json_t *event)
{
	(void)fputs(w->n++ ? ",\n" : "\n", w->out);
	(void)json_dumpf(event, w->out, JSON_COMPACT | JSON_REAL_PRECISION(15));
	json_decref(event);
}

static json_t *micros(const struct writer *w, uint64_t time_ns)
{
	return json_real((double)(time_ns - w->t->begun_ns) / 1e3);
}

/* The members of each event of a worker. */
static json_t *of_lane(const struct writer *w, const struct lane *lane, const char *phase,
		       uint64_t time_ns)
{
	return json_pack("{s:s, s:o, s:o, s:o}", "ph", phase, "pid", out_number(w->t->pid), "tid",
			 out_number(lane->tid), "ts", micros(w, time_ns));
}

static void put_name(struct writer *w, const char *what, uint64_t pid, uint64_t tid, json_t *name)
{
	put(w, json_pack("{s:s, s:s, s:o, s:o, s:{s:o}}", "ph", "M", "name", what, "pid",
			 out_number(pid), "tid", out_number(tid), "args",
			 strstr(what, "sort_index") ? "sort_index" : "name", name));
}

static void put_names(struct writer *w)
{
	const struct timeline *t = w->t;

	put_name(w, "process_name", t->pid, 0, json_string("forkd pool"));
	put_name(w, "process_sort_index", t->pid, 0, json_integer(-1));
	for (uint32_t i = 0; i < t->n_lanes; i++) {
		const struct lane *lane = &t->lanes[i];

		put_name(w, "thread_name", t->pid, lane->tid,
			 lane->cpu == UINT32_MAX
				 ? json_sprintf("worker %" PRIu32, i)
				 : json_sprintf("worker %" PRIu32 ", CPU %" PRIu32, i, lane->cpu));
		put_name(w, "thread_sort_index", t->pid, lane->tid, json_integer(i));
	}
}

/* "CLIENT.JOB", as forkctl jobs prints it. */
static json_t *job_id(const struct timeline *t, uint32_t row, uint32_t generation)
{
	return json_sprintf("%" PRIu32 ".%" PRIu64, row / t->jobs_max,
			    job_handle(generation, row % t->jobs_max));
}

static json_t *job_name(const struct timeline *t, uint32_t task, const char *otherwise)
{
	json_t *name = rows_task(t->board, task);

	return json_is_string(name) ? name : json_string(otherwise);
}

/* The arguments of an event of a worker and a job. */
static json_t *job_args(const struct timeline *t, const struct trace_event *e, uint64_t time_ns)
{
	const struct board_client *client = timeline_client(t, e->row, time_ns);
	json_t *args = json_object();

	if (e->row == TIMELINE_NONE)
		return args;
	if (client)
		(void)json_object_set_new(args, "pid", out_number(LOAD(client->pid)));
	if (e->generation)
		(void)json_object_set_new(args, "job", job_id(t, e->row, e->generation));
	return args;
}

/* ------------------------------------------------------------------------ workers */

static void lane_close(struct writer *w, struct lane *lane, uint64_t time_ns)
{
	if (lane->open != LANE_IDLE)
		put(w, of_lane(w, lane, "E", time_ns));
	lane->open = LANE_IDLE;
}

static void lane_open(struct writer *w, struct lane *lane, uint64_t time_ns, enum lane_state what,
		      json_t *name, json_t *args)
{
	json_t *event = of_lane(w, lane, "B", time_ns);

	lane_close(w, lane, time_ns);
	(void)json_object_update_new(event, json_pack("{s:o, s:s, s:o}", "name", name, "cat",
						      what == LANE_STRAND ? "strand" : "rest",
						      "args", args));
	put(w, event);
	lane->open = what;
}

static void lane_instant(struct writer *w, const struct lane *lane, const struct trace_event *e,
			 const char *name, json_t *args)
{
	json_t *event = of_lane(w, lane, "i", e->time_ns);

	(void)json_object_update_new(event, json_pack("{s:s, s:s, s:o}", "name", name, "s", "t",
						      "args", args));
	put(w, event);
}

/* One end of an arrow. */
static void lane_arrow(struct writer *w, const struct lane *lane, const char *phase, uint64_t arrow,
		       uint64_t time_ns)
{
	json_t *event = of_lane(w, lane, phase, time_ns);

	(void)json_object_update_new(event, json_pack("{s:s, s:s, s:o}", "name", "steal", "cat",
						      "steal", "id", out_number(arrow)));
	/* The arrow ends at the slice at this time, not at the next one. */
	if (streq(phase, "f"))
		(void)json_object_set_new(event, "bp", json_string("e"));
	put(w, event);
}

static void lane_rest(struct writer *w, struct lane *lane, uint64_t time_ns, uint64_t how)
{
	static const char *const names[] = {
		[TRACE_SLEEP] = "sleep",
		[TRACE_NAP] = "timed sleep",
		[TRACE_PARK] = "offline",
	};

	lane_open(w, lane, time_ns, LANE_RESTS,
		  json_string(how < ARRAY_SIZE(names) ? names[how] : "rest"), json_object());
}

/* The first event from k on of these kinds, a bit for each; NULL if there is none before one of
 * those. */
static const struct trace_event *lane_find(const struct lane *lane, size_t k, uint32_t kinds,
					   uint32_t before)
{
	for (; k < lane->n; k++) {
		uint32_t bit = lane->events[k].kind < 32 ? 1u << lane->events[k].kind : 0;

		if (bit & kinds)
			return &lane->events[k];
		if (bit & before)
			break;
	}
	return NULL;
}

#define KIND(kind)   (1u << (kind))
#define KINDS_STRAND (KIND(TRACE_ROOT) | KIND(TRACE_STRAND))
#define KINDS_END    (KIND(TRACE_STRAND_END) | KIND(TRACE_AWAKE))
#define KINDS_START  (KINDS_STRAND | KIND(TRACE_REST) | KIND(TRACE_STEAL) | KIND(TIMELINE_LOST))

static void lane_strand(struct writer *w, struct lane *lane, uint64_t time_ns,
			const struct trace_event *e, uint32_t task)
{
	lane_open(w, lane, time_ns, LANE_STRAND, job_name(w->t, task, "job"),
		  job_args(w->t, e, time_ns));
}

/* The slice that was open before event k (L1). */
static void lane_resume(struct writer *w, struct lane *lane, size_t k, uint64_t time_ns,
			const struct lane_start *otherwise)
{
	const struct trace_event *end = lane_find(lane, k, KINDS_END, KINDS_START);
	bool decided = end || lane_find(lane, k, KINDS_START, 0);
	static const struct trace_event unknown = { .row = TIMELINE_NONE, .task = UINT32_MAX };

	if (end && end->kind == TRACE_AWAKE) {
		lane_rest(w, lane, time_ns, end->value);
	} else if (end) {
		const struct trace_event *job = lane_find(
			lane, k, KIND(TRACE_TASK) | KIND(TRACE_JOB_END), KIND(TRACE_STRAND_END));

		if (!job)
			job = otherwise && otherwise->state == LANE_STRAND ? &otherwise->event
									   : &unknown;
		lane_strand(w, lane, time_ns, job, job->task);
	} else if (!decided && otherwise && otherwise->state == LANE_STRAND) {
		lane_strand(w, lane, time_ns, &otherwise->event, otherwise->event.task);
	} else if (!decided && otherwise && otherwise->state == LANE_RESTS) {
		lane_rest(w, lane, time_ns, otherwise->event.value);
	}
}

static void lane_steal(struct writer *w, struct lane *lane, const struct trace_event *e)
{
	struct timeline *t = w->t;
	json_t *args = job_args(t, e, e->time_ns);

	(void)json_object_set_new(args, "from", out_number(e->peer));
	lane_instant(w, lane, e, "steal", args);
	if (e->peer >= t->n_lanes || t->lanes[e->peer].open != LANE_STRAND ||
	    !lane_find(lane, lane->at + 1, KINDS_STRAND, KINDS_START & ~KINDS_STRAND))
		return;
	lane->arrow = ++w->arrows;
	lane_arrow(w, &t->lanes[e->peer], "s", lane->arrow, e->time_ns);
}

static void lane_begin(struct writer *w, struct lane *lane, const struct trace_event *e)
{
	/* The task of a job is known after its first strand has begun. */
	const struct trace_event *named =
		e->kind == TRACE_ROOT
			? lane_find(lane, lane->at + 1, KIND(TRACE_TASK), KINDS_END | KINDS_START)
			: e;

	lane_strand(w, lane, e->time_ns, e, named ? named->task : UINT32_MAX);
	if (lane->arrow)
		lane_arrow(w, lane, "f", lane->arrow, e->time_ns);
	lane->arrow = 0;
}

/* The next event of a worker. */
static void lane_step(struct writer *w, struct lane *lane)
{
	const struct trace_event *e = &lane->events[lane->at];

	switch (e->kind) {
	case TRACE_ROOT:
	case TRACE_STRAND:
		lane_begin(w, lane, e);
		break;
	case TRACE_STRAND_END:
	case TRACE_AWAKE:
		lane_close(w, lane, e->time_ns);
		break;
	case TRACE_STEAL:
		lane_steal(w, lane, e);
		break;
	case TRACE_REST:
		lane_rest(w, lane, e->time_ns, e->value);
		break;
	case TRACE_WAKE:
		lane_instant(w, lane, e, "wake", json_pack("{s:o}", "worker", out_number(e->peer)));
		break;
	case TIMELINE_LOST:
		lane_close(w, lane, e->time_ns);
		lane_instant(w, lane, e, "events lost",
			     json_pack("{s:o}", "events", out_number(e->value)));
		lane_resume(w, lane, lane->at + 1, e->time_ns, NULL);
		break;
	default: /* events of jobs, which the marks contain */
		break;
	}
	lane->at++;
}

/* ------------------------------------------------------------------------ jobs */

static const char *outcome_name(uint64_t outcome)
{
	static const char *const names[] = {
		[JOB_DONE] = "DONE",	   [JOB_FAILED] = "FAILED",   [JOB_CANCELLED] = "CANCELLED",
		[JOB_EXPIRED] = "EXPIRED", [JOB_CRASHED] = "CRASHED", [JOB_LOST] = "LOST",
	};
	uint32_t low = (uint32_t)outcome;

	return low < ARRAY_SIZE(names) && names[low] ? names[low] : "?";
}

static void job_put(struct writer *w, const struct timeline_job *job, const char *phase,
		    uint64_t time_ns, json_t *name, json_t *args)
{
	put(w, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "ph", phase, "cat", "job",
			 "name", name, "id", job_id(w->t, job->row, job->generation), "pid",
			 out_number(job->pid), "tid", out_number(job->pid), "ts",
			 micros(w, time_ns), "args", args));
}

/* The process under which the jobs of a client are shown. */
static void job_put_process(struct writer *w, const struct timeline_job *job)
{
	uint32_t slot = job->row / w->t->jobs_max;

	if (job->pid == TIMELINE_LEFT) {
		if (!w->left_named)
			put_name(w, "process_name", job->pid, 0,
				 json_string("clients that have left"));
		w->left_named = true;
	} else if (!(w->named[slot / 64] >> slot % 64 & 1)) {
		w->named[slot / 64] |= UINT64_C(1) << slot % 64;
		put_name(w, "process_name", job->pid, 0, rows_command(&w->t->board->clients[slot]));
	}
}

static void job_step(struct writer *w, const struct timeline_job *job,
		     const struct timeline_mark *mark)
{
	json_t *args = json_object();

	switch (mark->what) {
	case MARK_QUEUED:
		job_put_process(w, job);
		job_put(w, job, "b", mark->time_ns, job_name(w->t, job->task, "job"), args);
		job_put(w, job, "b", mark->time_ns, json_string("queued"), json_object());
		break;
	case MARK_STARTED:
		job_put(w, job, "e", mark->time_ns, json_string("queued"), args);
		job_put(w, job, "b", mark->time_ns, json_string("running"), json_object());
		break;
	case MARK_ENDED:
		job_put(w, job, "e", mark->time_ns, json_string("running"), json_object());
		if (job->ended_ns) {
			(void)json_object_set_new(args, "outcome",
						  json_string(outcome_name(job->outcome)));
			(void)json_object_set_new(args, "code",
						  json_integer((int32_t)(job->outcome >> 32)));
		}
		job_put(w, job, "e", mark->time_ns, job_name(w->t, job->task, "job"), args);
		break;
	}
}

/* ------------------------------------------------------------------------ the trace */

/* The worker whose next event is the oldest; NULL: there are none. */
static struct lane *next_lane(struct timeline *t)
{
	struct lane *next = NULL;

	for (uint32_t i = 0; i < t->n_lanes; i++) {
		struct lane *lane = &t->lanes[i];

		if (lane->at < lane->n &&
		    (!next || lane->events[lane->at].time_ns < next->events[next->at].time_ns))
			next = lane;
	}
	return next;
}

static void write_events(struct writer *w, const struct timeline_jobs *jobs, uint64_t end_ns)
{
	struct timeline *t = w->t;
	struct lane *lane;
	size_t mark = 0;

	put_names(w);
	for (uint32_t i = 0; i < t->n_lanes; i++)
		lane_resume(w, &t->lanes[i], 0, t->begun_ns, &t->lanes[i].start);
	for (;;) {
		const struct timeline_mark *m = &jobs->marks[mark];

		lane = next_lane(t);
		if (mark < jobs->n_marks && (!lane || m->time_ns <= lane->events[lane->at].time_ns))
			job_step(w, &jobs->jobs[jobs->marks[mark++].job], m);
		else if (lane)
			lane_step(w, lane);
		else
			break;
	}
	for (uint32_t i = 0; i < t->n_lanes; i++)
		lane_close(w, &t->lanes[i], end_ns);
}

int timeline_write(struct timeline *t, uint64_t end_ns, const char *why, FILE *out)
{
	_cleanup_free_ struct writer *w = timeline_alloc(NULL, 1, sizeof(*w));
	struct timeline_jobs jobs = { NULL };
	struct out_cell date;
	_cleanup_json_ json_t *begun = out_number(t->begun_real_ns);
	json_t *other;

	for (uint32_t i = 0; i < t->n_lanes; i++) {
		struct lane *lane = &t->lanes[i];

		if (lane->n)
			end_ns = max(end_ns, lane->events[lane->n - 1].time_ns);
		/* The tid is not known and the thread has ended: use an unused number. */
		if (!lane->tid)
			lane->tid = i + 1;
	}
	*w = (struct writer){ .t = t, .out = out };
	jobs_make(&jobs, t, end_ns);
	(void)fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", out);
	write_events(w, &jobs, end_ns);
	other = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:s}", "forkd", PACKAGE_VERSION, "begun",
			  out_show(&date, begun, OUT_DATE), "begun_ns", out_number(t->begun_ns),
			  "duration_ns", out_number(end_ns - t->begun_ns), "events",
			  out_number(t->n_events), "lost", out_number(t->n_lost), "ended", why);
	(void)fputs("\n],\"otherData\":", out);
	(void)json_dumpf(other, out, JSON_COMPACT);
	(void)fputs("}\n", out);
	json_decref(other);
	free(jobs.jobs);
	free(jobs.marks);
	return fflush(out) == 0 && !ferror(out) ? 0 : errno ? -errno : -EIO;
}
