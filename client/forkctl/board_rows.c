/* SPDX-License-Identifier: MIT */
/* board_rows.c - forkd, its clients, workers and counters as rows */
#include "client/forkctl/board_rows.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"
#include "shm/wake.h"

json_t *rows_user(uint32_t uid)
{
	const struct passwd *user = getpwuid(uid);
	char number[16];

	if (user)
		return out_text(user->pw_name, SIZE_MAX);
	(void)snprintf(number, sizeof(number), "%" PRIu32, uid);
	return out_text(number, sizeof(number));
}

json_t *rows_command(const struct board_client *client)
{
	char comm[sizeof(client->comm)], path[sizeof("/proc/4294967295/comm")];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	memcpy(comm, client->comm, sizeof(comm));
	if (comm[0] || LOAD(client->left_ns))
		return out_text(comm, sizeof(comm));
	(void)snprintf(path, sizeof(path), "/proc/%" PRIu32 "/comm", LOAD(client->pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, comm, sizeof(comm)) : 0;
	return out_text(comm, n > 0 ? (size_t)n - 1 : 0); /* without the line's end */
}

json_t *rows_task(const struct board *board, uint32_t task)
{
	/* ORDER board/tasks [B1]: acquire, so that the entry is complete (board.h, I2). */
	uint32_t n = atomic_load_explicit(&board->n_tasks, memory_order_acquire);

	if (task >= min(n, LIMIT_TASKS))
		return json_null();
	return out_text(board->tasks[task].name, sizeof(board->tasks[task].name));
}

json_t *rows_load(const struct board *board, uint32_t task)
{
	uint64_t jobs, run_ns;

	board_task_load(board, task, &jobs, &run_ns);
	return json_pack("{s:o, s:o}", "jobs", out_number(jobs), "run_ns", out_number(run_ns));
}

static const char *state_name(uint32_t state)
{
	static const char *const names[] = {
		[BOARD_STARTING] = "starting",
		[BOARD_RUNNING] = "running",
		[BOARD_STOPPING] = "stopping",
		[BOARD_STOPPED] = "stopped",
	};

	return state < ARRAY_SIZE(names) ? names[state] : "?";
}

json_t *rows_manager(const struct board *board)
{
	const struct board_manager *m = &board->manager;
	uint64_t age = clock_ns() - m->started_ns;

	return json_pack("{s:o, s:s, s:o, s:o, s:o}", "version",
			 out_text(m->version, sizeof(m->version)), "state",
			 state_name(LOAD(m->state)), "pid", out_number(m->pid), "age_ns",
			 out_number(age), "started_ns", out_number(out_now_ns() - age));
}

/* Workers whose CPUs forkd may not use at the moment, and that run nothing. */
static uint32_t count_offline(const struct board *board)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < min(board->manager.n_workers, LIMIT_WORKERS); i++)
		n += wake_state(wake_load(&board->workers[i].wake)) == WAKE_PARKED;
	return n;
}

json_t *rows_pool(const struct board *board)
{
	const struct board_manager *m = &board->manager;
	uint32_t pid = LOAD(m->pool_pid);

	return json_pack("{s:o, s:o, s:o, s:o, s:s, s:o}", "pid",
			 pid ? out_number(pid) : json_null(), "generation",
			 out_number(LOAD(m->pool_generation)), "workers", out_number(m->n_workers),
			 "offline", out_number(count_offline(board)), "scheduler",
			 LOAD(m->scheduler) ? "busy" : "lazy", "crashes",
			 out_number(LOAD(m->crashes)));
}

json_t *rows_connections(const struct board *board)
{
	const struct board_manager *m = &board->manager;

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "clients", out_number(LOAD(m->clients)),
			 "most", out_number(m->clients_max), "users", out_number(LOAD(m->tenants)),
			 "accepted", out_number(LOAD(m->accepted)), "refused",
			 out_number(LOAD(m->refused)), "failed_by_manager",
			 out_number(LOAD(m->manager_fails)));
}

/* Returns the share of a client in the CPU time of all workers since it connected: 0 to 1. */
static double cpu_share(const struct board *board, uint64_t cpu_ns, uint64_t age_ns)
{
	uint64_t all = age_ns * max(board->manager.n_workers, 1u);

	return all ? min((double)cpu_ns / (double)all, 1.0) : 0;
}

static json_t *client_row(const struct board *board, uint32_t slot)
{
	const struct board_client *c = &board->clients[slot];
	uint64_t since = LOAD(c->connected_ns); /* read before the clock */
	uint64_t left = LOAD(c->left_ns), now = clock_ns();
	uint64_t age = (left ? left : now) - since, cpu = board_client_cpu(board, slot, now);
	json_t *row = json_pack("{s:o, s:o, s:o, s:o, s:o, s:s}", "client", out_number(slot), "pid",
				out_number(LOAD(c->pid)), "uid", out_number(LOAD(c->uid)), "user",
				rows_user(LOAD(c->uid)), "command", rows_command(c), "state",
				left ? "left" : "connected");
	json_t *sums =
		json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o}", "jobs",
			  out_number(LOAD(c->jobs)), "pending",
			  out_number(left ? 0 : board_client_pending(board, slot)), "failed",
			  out_number(LOAD(c->failed)), "refused", out_number(LOAD(c->refused)),
			  "run_ns", out_number(LOAD(c->run_ns)), "wait_ns",
			  out_number(LOAD(c->wait_ns)), "cpu_ns", out_number(cpu), "cpu_share",
			  cpu_share(board, cpu, age), "weight", out_number(LOAD(c->weight)),
			  "user_weight", out_number(LOAD(c->user_weight)), "memory_bytes",
			  out_number(LOAD(c->memory)), "age_ns", out_number(age));

	(void)json_object_update_new(row, sums);
	return row;
}

json_t *rows_clients(const struct board *board, enum rows_clients which)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
		const struct board_client *c = &board->clients[i];

		if (LOAD(c->pid) && (which == ROWS_ALL || !LOAD(c->left_ns)))
			(void)json_array_append_new(rows, client_row(board, i));
	}
	return rows;
}

static const char *wake_name(uint32_t state)
{
	static const char *const names[] = {
		[WAKE_BUSY] = "running",
		[WAKE_LOOKING] = "searching",
		[WAKE_SLEEPING] = "sleeping",
		[WAKE_PARKED] = "offline",
	};

	return state < ARRAY_SIZE(names) ? names[state] : "?";
}

/* The job and task that a worker runs now; nulls if it runs none. */
static json_t *running_row(const struct board *board, uint32_t worker)
{
	const struct board_running *running = &board->running[worker];
	uint32_t job = LOAD(running->job);
	uint32_t client = job / max(board->manager.jobs_max, 1u);
	uint64_t started = LOAD(running->since_ns);

	if (client >= LIMIT_CLIENTS)
		return json_pack("{s:n, s:n, s:n, s:n}", "client", "pid", "task", "running_ns");
	return json_pack("{s:o, s:o, s:o, s:o}", "client", out_number(client), "pid",
			 out_number(LOAD(board->clients[client].pid)), "task",
			 rows_task(board, board_job_task(board, job)), "running_ns",
			 out_number(clock_ns() - started));
}

/* The time that a worker was busy, and asleep, since the pool started. Else it searched. */
static json_t *used_row(const struct board *board, uint32_t worker)
{
	const struct board_running *running = &board->running[worker];
	uint64_t now = clock_ns();

	return json_pack("{s:o, s:o}", "running_ns",
			 out_number(stopwatch_read(&running->busy, now)), "sleeping_ns",
			 out_number(stopwatch_read(&running->asleep, now)));
}

json_t *rows_workers(const struct board *board)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < min(board->manager.n_workers, LIMIT_WORKERS); i++) {
		const struct board_worker *w = &board->workers[i];
		json_t *row = json_pack("{s:o, s:o, s:o, s:o, s:s}", "worker", out_number(i), "cpu",
					out_index(LOAD(w->cpu)), "node", out_index(LOAD(w->node)),
					"tid", out_number(LOAD(w->tid)), "state",
					wake_name(wake_state(wake_load(&w->wake))));

		(void)json_object_update_new(row, running_row(board, i));
		(void)json_object_update_new(row, used_row(board, i));
		(void)json_array_append_new(rows, row);
	}
	return rows;
}

json_t *rows_counters(const struct board *board)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < board_n_counters; i++) {
		const struct counter_row *counter = &board_counter_rows[i];
		uint32_t n = min(board->manager.n_workers, LIMIT_WORKERS);
		json_t *workers = json_array();

		/* Only the sum of a gauge has a meaning: one worker may increase it and another
		 * decrease it. */
		for (uint32_t w = 0; !counter->gauge && w < n; w++)
			(void)json_array_append_new(workers,
						    out_number(board_counter(board, w, counter)));
		(void)json_array_append_new(
			rows, json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o}", "name",
					counter->name, "kind", counter->gauge ? "gauge" : "counter",
					"unit", counter->unit, "help", counter->help, "sum",
					out_number(board_counter_sum(board, counter)), "pool",
					counter->gauge ? json_null()
						       : out_number(board_counter(board, BOARD_POOL,
										  counter)),
					"workers", workers));
	}
	return rows;
}
