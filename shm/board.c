/* SPDX-License-Identifier: MIT */
/*
 * shm/board.c - the counters as a table, the times of a tenant, the usage of clients and tasks, and
 * the search for a task
 *
 * Threads: board_show_task(): the worker of a job. The rest: any thread of any process that maps
 * the board; they write nothing.
 *
 * INVARIANTS
 *   I1. The rows are in the order of counters.def, on which readers of older versions rely.
 *   I2. No loop exceeds the board's limits, whatever its counts are.
 */
#include "shm/board.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "common/relaxed.h"
#include "common/util.h"

const struct counter_row board_counter_rows[] = {
#define COUNTER(name, unit, help) { #name, unit, help, offsetof(struct board_counters, name), 0 },
#define GAUGE(name, unit, help)	  { #name, unit, help, offsetof(struct board_counters, name), 1 },
#include "shm/counters.def"
#undef COUNTER
};

const uint32_t board_n_counters = ARRAY_SIZE(board_counter_rows);

uint64_t board_counter(const struct board *board, uint32_t worker, const struct counter_row *row)
{
	const char *base = (const char *)&board->counters[worker];

	/* Relaxed: a statistic. */
	return load_relaxed((const _Atomic uint64_t *)(const void *)(base + row->offset));
}

uint64_t board_counter_sum(const struct board *board, const struct counter_row *row)
{
	uint32_t n = min(board->manager.n_workers, LIMIT_WORKERS);
	uint64_t sum = board_counter(board, BOARD_POOL, row);

	for (uint32_t i = 0; i < n; i++)
		sum += board_counter(board, i, row);
	return sum;
}

const struct time_row board_time_rows[N_TIMES] = {
#define TIME(name, NAME, help) [TIMES_##NAME] = { #name, help },
#include "shm/times.def"
#undef TIME
};

bool board_read_time(const struct board *board, uint32_t tenant, enum board_time which,
		     struct histogram_sum *ret_histogram)
{
	uint32_t n = min(board->manager.n_workers, LIMIT_WORKERS);
	struct histogram_sum h = { 0 };

	/* Relaxed: for display. */
	if (!load_relaxed(&board->tenants[tenant].since_ns))
		return false;
	for (uint32_t w = 0; w < n; w++) {
		const struct board_times *t = &board->times[tenant][w];

		h.sum_ns += load_relaxed(&t->sum_ns[which]);
		h.max_ns = max(h.max_ns, load_relaxed(&t->max_ns[which]));
		for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
			h.counts[i] += load_relaxed(&t->counts[which][i]);
	}
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		h.n += h.counts[i];
	*ret_histogram = h;
	return true;
}

uint64_t board_jobs_ended(const struct board *board, uint32_t n_workers)
{
	uint64_t sum = 0;

	/* Relaxed: statistics. */
	for (uint32_t i = 0; i < n_workers; i++) {
		const struct board_counters *c = &board->counters[i];

		sum += load_relaxed(&c->jobs_done);
		sum += load_relaxed(&c->jobs_failed);
	}
	return sum + load_relaxed(&board->counters[BOARD_POOL].jobs_dropped);
}

/* Returns the time of a client's running job that this worker has not been charged for yet. */
static uint64_t board_uncharged(const struct board *board, uint32_t worker, uint32_t client,
				uint64_t settled_ns, uint64_t now_ns)
{
	const struct board_running *running = &board->running[worker];
	uint32_t job = load_relaxed(&running->job);
	uint64_t since = load_relaxed(&running->since_ns);

	if (job == UINT32_MAX || job / max(board->manager.jobs_max, 1u) != client)
		return 0;
	since = max(since, settled_ns);
	return now_ns > since ? now_ns - since : 0;
}

uint64_t board_client_cpu(const struct board *board, uint32_t client, uint64_t now_ns)
{
	const struct board_client *c = &board->clients[client];
	/* Relaxed: statistics. The sum is read first: time charged in between is missed until the
	 * next read, and not counted twice. */
	uint64_t sum = load_relaxed(&c->cpu_ns);
	uint64_t settled = load_relaxed(&board->settled_ns);

	if (load_relaxed(&c->left_ns))
		return sum;
	for (uint32_t i = 0; i < min(board->manager.n_workers, LIMIT_WORKERS); i++)
		sum += board_uncharged(board, i, client, settled, now_ns);
	return sum;
}

uint32_t board_client_pending(const struct board *board, uint32_t client)
{
	const struct board_client *c = &board->clients[client];
	/* Relaxed: statistics. Ended jobs are read first, so that they do not exceed the accepted
	 * ones. */
	uint32_t ended = (uint32_t)load_relaxed(&c->jobs);

	return load_relaxed(&c->accepted) - ended;
}

/* Spreads the entries: a client's records are neighbours, and different workers start them. */
static uint32_t board_place(uint32_t job)
{
	return job * UINT32_C(2654435761) % BOARD_STARTED;
}

void board_show_task(struct board *board, uint32_t job, uint32_t task)
{
	/* Relaxed: for display, and a single word. */
	store_relaxed(&board->started[board_place(job)].word, (uint64_t)(task + 1) << 32 | job);
}

uint32_t board_job_task(const struct board *board, uint32_t job)
{
	uint64_t word = load_relaxed(&board->started[board_place(job)].word);

	return (uint32_t)word == job ? (uint32_t)(word >> 32) - 1 : UINT32_MAX;
}

void board_task_load(const struct board *board, uint32_t task, uint64_t *ret_jobs,
		     uint64_t *ret_run_ns)
{
	uint64_t jobs = 0, run_ns = 0;

	/* Relaxed: statistics. */
	for (uint32_t i = 0; i < min(board->manager.n_workers, LIMIT_WORKERS); i++) {
		const struct board_load *load = &board->loads[i][task];

		jobs += load_relaxed(&load->jobs);
		run_ns += load_relaxed(&load->run_ns);
	}
	*ret_jobs = jobs;
	*ret_run_ns = run_ns;
}

int board_find_task(const struct board *board, const char *name)
{
	/* ORDER board/tasks [B1]: acquire, so that a counted entry is complete. Pairs with the
	 * release of n_tasks by the pool (board.h, I2). */
	uint32_t n = atomic_load_explicit(&board->n_tasks, memory_order_acquire);

	for (uint32_t i = 0; i < min(n, LIMIT_TASKS); i++) {
		const struct board_task *task = &board->tasks[i];

		if (strncmp(task->name, name, sizeof(task->name)) != 0)
			continue;
		/* ORDER board/tasks [B1]: acquire: a task that is not marked gone is callable.
		 * Pairs with module_write_entry(). It may be marked at any time after this; the
		 * pool checks again. */
		if (atomic_load_explicit(&task->flags, memory_order_acquire) & TASK_GONE)
			continue;
		return (int)i;
	}
	return -ENOENT;
}
