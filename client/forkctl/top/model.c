/* SPDX-License-Identifier: MIT */
/*
 * model.c - forkctl top: samples of the board, and rates between two samples
 *
 * A sample has rows of counts, most of them from board_rows.c. A frame has the rows of the second
 * of two samples, with rates: the increase of a count per second. The row of the same worker,
 * task or client in the first sample is found by its name. A client is new if its slot has
 * another process now. A connection that ended between the samples has no row, but its jobs count
 * for its user.
 *
 * INVARIANTS
 *   I1. Counts are not read at the same time, and a new pool starts at 0: rates below 0 are set
 *       to 0, and shares above 1 to 1.
 *   I2. Rates are null without a first sample. A new row has counted from 0.
 */
#include "client/forkctl/top/top.h"

#include <stdlib.h>
#include <string.h>

#include "client/forkctl/board_rows.h"
#include "common/clock.h"
#include "common/util.h"

static json_int_t member(const json_t *row, const char *key)
{
	return json_integer_value(json_object_get(row, key));
}

static void set(json_t *row, const char *key, json_t *value)
{
	(void)json_object_set_new(row, key, value);
}

static bool is_connected(const json_t *client)
{
	return streq(json_string_value(json_object_get(client, "state")), "connected");
}

/* ------------------------------------------------------------------------ samples */

/* Relaxed throughout: for display. */

/* The counters of a worker, as members of its row. */
static void add_counters(json_t *row, const struct board *board, uint32_t worker)
{
	for (uint32_t i = 0; i < board_n_counters; i++)
		set(row, board_counter_rows[i].name,
		    out_number(board_counter(board, worker, &board_counter_rows[i])));
}

static json_t *sum_counters(const struct board *board)
{
	json_t *sums = json_object();

	for (uint32_t i = 0; i < board_n_counters; i++)
		set(sums, board_counter_rows[i].name,
		    out_number(board_counter_sum(board, &board_counter_rows[i])));
	return sums;
}

/* Adds to the rows of rows_workers() the other members that top shows. */
static void add_to_worker(const struct board *board, json_t *row, uint32_t worker)
{
	const char *state = json_string_value(json_object_get(row, "state"));
	bool has_job = !json_is_null(json_object_get(row, "client"));

	if (streq(state, "searching"))
		set(row, "state", json_string("searching"));
	else if (streq(state, "running") && has_job)
		set(row, "state", json_string("running"));
	add_counters(row, board, worker);
	if (!has_job)
		return;
	set(row, "job", out_number(LOAD(board->running[worker].job)));
	set(row, "user", rows_user(LOAD(board->clients[member(row, "client")].uid)));
}

static json_t *sample_workers(const struct board *board)
{
	json_t *rows = rows_workers(board), *row;
	size_t i;

	json_array_foreach(rows, i, row) add_to_worker(board, row, (uint32_t)i);
	return rows;
}

static json_t *sample_tasks(const struct board *board)
{
	/* ORDER board/tasks [B1]: acquire, so that the entries are complete (board.h, I2). */
	uint32_t n = min(atomic_load_explicit(&board->n_tasks, memory_order_acquire), LIMIT_TASKS);
	json_t *rows = json_array();

	for (uint32_t i = 0; i < n; i++) {
		json_t *row;

		if (LOAD(board->tasks[i].flags) & TASK_GONE)
			continue;
		row = rows_load(board, i);
		set(row, "task", rows_task(board, i));
		(void)json_array_append_new(rows, row);
	}
	return rows;
}

/* Bytes of memory that clients share with forkd. */
static json_t *heap_bytes(const json_t *clients)
{
	json_int_t sum = 0;
	const json_t *row;
	size_t i;

	json_array_foreach(clients, i, row) if (is_connected(row)) sum +=
		member(row, "memory_bytes");
	return json_integer(sum);
}

void top_sample_take(struct top_sample *ret_sample, const struct board *board, uint64_t now_ns)
{
	struct top_sample s = { .time_ns = now_ns };

	s.generation = LOAD(board->manager.pool_generation);
	s.rows[TOP_WORKERS] = sample_workers(board);
	s.rows[TOP_TASKS] = sample_tasks(board);
	s.rows[TOP_CLIENTS] = rows_clients(board, ROWS_ALL);
	s.head = json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o}", "manager", rows_manager(board), "pool",
		rows_pool(board), "connections", rows_connections(board), "counters",
		sum_counters(board), "jobs",
		out_number(board_jobs_ended(board, min(board->manager.n_workers, LIMIT_WORKERS))),
		"heap_bytes", heap_bytes(s.rows[TOP_CLIENTS]));
	s.times = times_new();
	times_read(s.times, board);
	top_sample_fini(ret_sample);
	*ret_sample = s;
}

void top_sample_fini(struct top_sample *sample)
{
	json_decref(sample->head);
	for (size_t i = 0; i < TOP_TABLES; i++)
		json_decref(sample->rows[i]);
	free(sample->times);
	*sample = (struct top_sample){ 0 };
}

/* ------------------------------------------------------------------------ rates */

/* Two samples; seconds is 0 if they are of different pools. */
struct between {
	double seconds;
	uint32_t n_workers;
};

/* The increase of a count. old: the row of the first sample, NULL for a new row (I1, I2). */
static double grown(const json_t *row, const json_t *old, const char *key)
{
	json_int_t before = old ? member(old, key) : 0;

	return (double)max(member(row, key) - before, (json_int_t)0);
}

static json_t *per_second(const struct between *b, double n)
{
	return b->seconds > 0 ? json_real(n / b->seconds) : json_null();
}

/* A share; null if the total is 0. */
static json_t *part(double n, double of)
{
	return of > 0 ? json_real(min(n / of, 1.0)) : json_null();
}

/* The mean of a time: ns. */
static json_t *mean(double ns, double n)
{
	return n > 0 ? json_integer((json_int_t)(ns / n)) : json_null();
}

static bool is_same(const json_t *a, const json_t *b, const char *key)
{
	return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* The row of the same name, or NULL. It usually has the same index. */
static const json_t *same(const json_t *rows, const json_t *row, const char *key, size_t was)
{
	const json_t *other = json_array_get(rows, was);
	size_t i;

	if (other && is_same(other, row, key))
		return other;
	json_array_foreach(rows, i, other) if (is_same(other, row, key)) return other;
	return NULL;
}

/* ------------------------------------------------------------------------ steals */

struct level {
	const char *name;
	const char *steals; /* counters */
	const char *attempts;
};

static const struct level levels[] = {
	{ "near", "steals", "steal_attempts" }, /* minus those of the other levels */
	{ "far", "steals_far", "attempts_far" },
	{ "farther", "steals_farther", "attempts_farther" },
};

/* Steals and attempts since `old` at one distance level. Level 0 is the total minus the other
 * levels. */
static void grown_level(const json_t *now, const json_t *old, size_t level, double *ret_steals,
			double *ret_attempts)
{
	double steals = grown(now, old, levels[level].steals);
	double attempts = grown(now, old, levels[level].attempts);

	for (size_t i = 1; !level && i < ARRAY_SIZE(levels); i++) {
		steals -= grown(now, old, levels[i].steals);
		attempts -= grown(now, old, levels[i].attempts);
	}
	*ret_steals = max(steals, 0.0);
	*ret_attempts = max(attempts, 0.0);
}

static json_t *frame_steals(const struct between *b, const json_t *now, const json_t *old)
{
	double all = grown(now, old, "steals"), steals, attempts;
	json_t *rows = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		grown_level(now, old, i, &steals, &attempts);
		(void)json_array_append_new(
			rows, json_pack("{s:s, s:o, s:o, s:o, s:o, s:b}", "level", levels[i].name,
					"steals", per_second(b, steals), "attempts",
					per_second(b, attempts), "found",
					b->seconds > 0 ? part(steals, attempts) : json_null(),
					"share", b->seconds > 0 ? part(steals, all) : json_null(),
					"tried", !i || member(now, levels[i].attempts) > 0));
	}
	return rows;
}

static json_t *thief_row(const struct between *b, const json_t *now, const json_t *old)
{
	double n = grown(now, old, "steals"), of = grown(now, old, "steal_attempts"), none;
	json_t *row = json_pack("{s:O, s:O, s:o, s:o, s:o, s:o, s:o}", "worker",
				json_object_get(now, "worker"), "node",
				json_object_get(now, "node"), "attempts", per_second(b, of),
				"found", b->seconds > 0 ? part(n, of) : json_null(), "job_steals",
				per_second(b, grown(now, old, "job_steals")), "forks_stolen",
				per_second(b, grown(now, old, "forks_stolen")), "sleeps",
				per_second(b, grown(now, old, "sleeps")));

	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		grown_level(now, old, i, &n, &none);
		set(row, levels[i].name, per_second(b, n));
	}
	return row;
}

/* ------------------------------------------------------------------------ rows with rates */

static void rate_worker(const struct between *b, json_t *row, const json_t *old)
{
	double all = b->seconds * 1e9;
	double busy = min(grown(row, old, "running_ns"), all);
	double asleep = min(grown(row, old, "sleeping_ns"), all - busy);

	set(row, "run", b->seconds > 0 ? part(busy, all) : json_null());
	set(row, "search", b->seconds > 0 ? part(all - busy - asleep, all) : json_null());
	set(row, "jobs_rate",
	    per_second(b, grown(row, old, "jobs_done") + grown(row, old, "jobs_failed")));
	set(row, "steals_rate", per_second(b, grown(row, old, "steals")));
}

static void rate_task(const struct between *b, json_t *row, const json_t *old,
		      const json_t *workers)
{
	double jobs = grown(row, old, "jobs"), ns = grown(row, old, "run_ns");
	const json_t *worker;
	json_int_t running = 0;
	size_t i;

	json_array_foreach(workers, i, worker) running += is_same(worker, row, "task");
	/* If no job has ended since, the mean of all jobs. */
	if (!jobs) {
		set(row, "mean_ns",
		    mean((double)member(row, "run_ns"), (double)member(row, "jobs")));
	} else {
		set(row, "mean_ns", mean(ns, jobs));
	}
	set(row, "jobs_rate", per_second(b, jobs));
	set(row, "running", json_integer(running));
}

/* Tasks that this pool has run or runs. */
static json_t *frame_tasks(const struct between *b, const json_t *now, const json_t *old,
			   const json_t *workers)
{
	json_t *rows = json_array(), *row;
	size_t i;

	json_array_foreach(now, i, row)
	{
		_cleanup_json_ json_t *copy = json_copy(row);

		rate_task(b, copy, old ? same(old, row, "task", i) : NULL, workers);
		if (member(copy, "jobs") || member(copy, "running"))
			(void)json_array_append(rows, copy);
	}
	return rows;
}

/* Rates of jobs and CPU time, of a client or a user. */
static void rate_jobs(const struct between *b, json_t *row, double jobs, double failed, double cpu,
		      double run, double wait)
{
	set(row, "jobs_rate", per_second(b, jobs));
	set(row, "failed_rate", per_second(b, failed));
	set(row, "share",
	    b->seconds > 0 ? part(cpu, b->seconds * 1e9 * b->n_workers) : json_null());
	set(row, "mean_ns", b->seconds > 0 ? mean(run, jobs) : json_null());
	set(row, "mean_wait_ns", b->seconds > 0 ? mean(wait, jobs) : json_null());
}

/* Numbers of workers that run jobs of a client, and of these jobs. */
static void count_workers(json_t *row, const json_t *workers)
{
	_cleanup_json_ json_t *seen = json_array();
	const json_t *worker;
	json_int_t n = 0;
	size_t i;

	json_array_foreach(workers, i, worker)
	{
		if (json_is_null(json_object_get(worker, "client")) ||
		    member(worker, "client") != member(row, "client"))
			continue;
		n++;
		if (!same(seen, worker, "job", 0))
			(void)json_array_append(seen, (json_t *)(uintptr_t)worker);
	}
	set(row, "workers", json_integer(n));
	set(row, "running", out_number(json_array_size(seen)));
	set(row, "queued",
	    json_integer(max(member(row, "pending") - (json_int_t)json_array_size(seen),
			     (json_int_t)0)));
}

static const char *const summed[] = { "jobs", "failed", "cpu_ns", "run_ns", "wait_ns" };

static void rate_client(const struct between *b, json_t *row, const json_t *old,
			const json_t *workers)
{
	double n[ARRAY_SIZE(summed)];

	/* The slot has another process now, which has counted from 0. */
	if (old && member(old, "pid") != member(row, "pid"))
		old = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(summed); i++) {
		n[i] = grown(row, old, summed[i]);
		/* For the row of the user. */
		set(row, summed[i], json_real(n[i]));
	}
	rate_jobs(b, row, n[0], n[1], n[2], n[3], n[4]);
	count_workers(row, workers);
}

/* ------------------------------------------------------------------------ users */

/* A connection that has ended counts for its user, if jobs of it ran or ended since the sample
 * before. */
static bool is_of_interest(const json_t *client, const struct between *b)
{
	return is_connected(client) ||
	       (b->seconds > 0 && (json_real_value(json_object_get(client, "cpu_ns")) > 0 ||
				   json_real_value(json_object_get(client, "jobs")) > 0));
}

/* Adds the rates of a client to the row of its user. */
static void add_to_user(json_t *user, const json_t *client)
{
	static const char *const counts[] = { "workers", "running", "queued", "memory_bytes" };
	bool connected = is_connected(client);

	for (size_t i = 0; i < ARRAY_SIZE(summed); i++)
		set(user, summed[i],
		    json_real(json_real_value(json_object_get(user, summed[i])) +
			      json_real_value(json_object_get(client, summed[i]))));
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		set(user, counts[i],
		    json_integer(member(user, counts[i]) +
				 (connected ? member(client, counts[i]) : 0)));
	set(user, "clients", json_integer(member(user, "clients") + connected));
	set(user, "weight", json_incref(json_object_get(client, "user_weight")));
}

/* Histograms of the wait times of jobs that were started between two samples. */
static json_t *frame_waits(const struct top_sample *old, const struct top_sample *now)
{
	_cleanup_free_ struct times *times = times_new();

	*times = *now->times;
	times_subtract(times, old->times);
	return times_rows(times, 0, true);
}

static void add_waits(json_t *user, const json_t *waits)
{
	const json_t *row;
	size_t i;

	json_array_foreach(waits, i, row)
	{
		if (!is_same(row, user, "uid") ||
		    !streq(json_string_value(json_object_get(row, "time")),
			   board_time_rows[TIMES_WAIT].name))
			continue;
		set(user, "wait_p50_ns", json_incref(json_object_get(row, "p50_ns")));
		set(user, "wait_p99_ns", json_incref(json_object_get(row, "p99_ns")));
	}
}

/* waits: of frame_waits(), or NULL. */
static json_t *frame_users(const struct between *b, const json_t *clients, const json_t *waits)
{
	json_t *rows = json_array(), *row;
	const json_t *client;
	double n[ARRAY_SIZE(summed)];
	size_t i;

	json_array_foreach(clients, i, client)
	{
		if (!is_of_interest(client, b))
			continue;
		row = (json_t *)(uintptr_t)same(rows, client, "uid", 0);
		if (!row) {
			row = json_pack("{s:O, s:O}", "uid", json_object_get(client, "uid"), "user",
					json_object_get(client, "user"));
			(void)json_array_append_new(rows, row);
		}
		add_to_user(row, client);
	}
	json_array_foreach(rows, i, row)
	{
		for (size_t k = 0; k < ARRAY_SIZE(summed); k++)
			n[k] = json_real_value(json_object_get(row, summed[k]));
		rate_jobs(b, row, n[0], n[1], n[2], n[3], n[4]);
		add_waits(row, waits);
	}
	return rows;
}

/* ------------------------------------------------------------------------ frames */

/* Removes the clients that have left. */
static void keep_connected(json_t *clients)
{
	for (size_t i = json_array_size(clients); i-- > 0;)
		if (!is_connected(json_array_get(clients, i)))
			(void)json_array_remove(clients, i);
}

/* Sums of the states of workers, and rates of all their counters. */
static json_t *frame_head(const struct between *b, const struct top_frame *frame,
			  const struct top_sample *old, const struct top_sample *now)
{
	static const char *const rates[] = { "steals", "steal_attempts", "sleeps", "wakes" };
	const json_t *counters = json_object_get(now->head, "counters");
	const json_t *before = old ? json_object_get(old->head, "counters") : NULL;
	json_t *head = json_copy(now->head);
	double run = 0, search = 0;
	json_int_t pending = 0, running = 0;
	const json_t *row;
	size_t i;

	json_array_foreach(frame->rows[TOP_WORKERS], i, row)
	{
		run += json_real_value(json_object_get(row, "run"));
		search += json_real_value(json_object_get(row, "search"));
	}
	json_array_foreach(frame->rows[TOP_USERS], i, row)
	{
		pending += member(row, "queued");
		running += member(row, "running");
	}
	set(head, "run", b->seconds > 0 ? part(run, b->n_workers) : json_null());
	set(head, "search", b->seconds > 0 ? part(search, b->n_workers) : json_null());
	set(head, "queued", json_integer(pending));
	set(head, "running", json_integer(running));
	set(head, "jobs_rate", per_second(b, grown(now->head, old ? old->head : NULL, "jobs")));
	set(head, "failed_rate",
	    per_second(b, grown(counters, before, "jobs_failed") +
				  grown(counters, before, "jobs_dropped")));
	set(head, "stack_bytes", json_incref(json_object_get(counters, "stack_bytes")));
	for (i = 0; i < ARRAY_SIZE(rates); i++)
		set(head, rates[i], per_second(b, grown(counters, before, rates[i])));
	return head;
}

void top_frame_make(struct top_frame *ret_frame, const struct top_sample *old,
		    const struct top_sample *now)
{
	bool same_pool = old && old->time_ns && old->generation == now->generation &&
			 now->time_ns > old->time_ns;
	struct between b = {
		.seconds = same_pool ? (double)(now->time_ns - old->time_ns) / 1e9 : 0,
		.n_workers = (uint32_t)json_array_size(now->rows[TOP_WORKERS]),
	};
	_cleanup_json_ json_t *waits = same_pool ? frame_waits(old, now) : NULL;
	struct top_frame f = { 0 };
	json_t *row;
	size_t i;

	if (!same_pool)
		old = NULL;
	f.rows[TOP_WORKERS] = json_deep_copy(now->rows[TOP_WORKERS]);
	f.rows[TOP_CLIENTS] = json_deep_copy(now->rows[TOP_CLIENTS]);
	f.rows[TOP_THIEVES] = json_array();
	json_array_foreach(f.rows[TOP_WORKERS], i, row)
	{
		const json_t *was = old ? same(old->rows[TOP_WORKERS], row, "worker", i) : NULL;

		(void)json_array_append_new(f.rows[TOP_THIEVES], thief_row(&b, row, was));
		rate_worker(&b, row, was);
	}
	f.rows[TOP_TASKS] = frame_tasks(&b, now->rows[TOP_TASKS], old ? old->rows[TOP_TASKS] : NULL,
					f.rows[TOP_WORKERS]);
	json_array_foreach(f.rows[TOP_CLIENTS], i, row)
		rate_client(&b, row, old ? same(old->rows[TOP_CLIENTS], row, "client", i) : NULL,
			    f.rows[TOP_WORKERS]);
	f.rows[TOP_USERS] = frame_users(&b, f.rows[TOP_CLIENTS], waits);
	keep_connected(f.rows[TOP_CLIENTS]);
	f.rows[TOP_STEALS] = frame_steals(&b, json_object_get(now->head, "counters"),
					  old ? json_object_get(old->head, "counters") : NULL);
	f.head = frame_head(&b, &f, old, now);
	top_frame_fini(ret_frame);
	*ret_frame = f;
}

void top_frame_fini(struct top_frame *frame)
{
	json_decref(frame->head);
	for (size_t i = 0; i < TOP_TABLES; i++)
		json_decref(frame->rows[i]);
	*frame = (struct top_frame){ 0 };
}
