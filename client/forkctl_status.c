/* SPDX-License-Identifier: MIT */
/*
 * client/forkctl_status.c - forkctl status: the daemon, its last crash, its workers, its clients
 *
 * Everything comes from the board; nobody is asked and nobody is stopped. All loads are relaxed:
 * each number is right by itself, and they are not of one moment.
 */
#include "client/forkctl.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/util.h"
#include "shm/wake.h"

#define LOAD(x) atomic_load_explicit(&(x), memory_order_relaxed)

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

static const char *wake_name(uint32_t state)
{
	static const char *const names[] = {
		[WAKE_BUSY] = "busy",
		[WAKE_LOOKING] = "looking",
		[WAKE_SLEEPING] = "sleeping",
		[WAKE_PARKED] = "parked",
	};

	return state < ARRAY_SIZE(names) ? names[state] : "?";
}

/* Workers whose CPUs are not to be used, and that run nothing at the moment. */
static uint32_t count_parked(const struct board *board)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < min(board->manager.n_workers, LIMIT_WORKERS); i++)
		n += wake_state(wake_load(&board->workers[i].wake)) == WAKE_PARKED;
	return n;
}

static const char *number(struct forkctl_text *text, uint32_t n)
{
	if (n == UINT32_MAX)
		return "-";
	(void)snprintf(text->text, sizeof(text->text), "%" PRIu32, n);
	return text->text;
}

static void print_daemon(const struct board *board)
{
	const struct board_manager *m = &board->manager;
	struct forkctl_text up;
	struct forkctl_text name;
	uint32_t parked = count_parked(board);

	printf("forkd %s: %s for %s, pid %" PRIu32 "\n",
	       forkctl_name(&name, m->version, sizeof(m->version)), state_name(LOAD(m->state)),
	       forkctl_time(&up, clock_ns() - m->started_ns), m->pid);
	if (LOAD(m->pool_pid))
		printf("pool: pid %" PRIu32 ", %" PRIu32 " workers, %s, generation %" PRIu32
		       ", %" PRIu64 " crashes\n",
		       LOAD(m->pool_pid), m->n_workers, LOAD(m->scheduler) ? "busy" : "lazy",
		       LOAD(m->pool_generation), LOAD(m->crashes));
	else
		printf("pool: none at the moment, %" PRIu64 " crashes\n", LOAD(m->crashes));
	if (parked)
		printf("parked: %" PRIu32 " of the workers, whose CPUs are not to be used\n",
		       parked);
	printf("clients: %" PRIu32 " of at most %" PRIu32 ", %" PRIu32 " users, %" PRIu64
	       " accepted and %" PRIu64 " refused so far\n",
	       LOAD(m->clients), m->max_clients, LOAD(m->tenants), LOAD(m->accepted),
	       LOAD(m->refused));
}

static void print_workers(const struct board *board)
{
	printf("\n%-7s %5s %5s %8s %-9s %-12s %s\n", "WORKER", "CPU", "NODE", "TID", "STATE", "FOR",
	       "TASK");
	for (uint32_t i = 0; i < min(board->manager.n_workers, LIMIT_WORKERS); i++) {
		const struct board_worker *w = &board->workers[i];
		const struct board_running *running = &board->running[i];
		uint32_t client = LOAD(running->job) / max(board->manager.max_jobs, 1u);
		uint64_t started = LOAD(running->since_ns);
		struct forkctl_text cpu;
		struct forkctl_text node;
		struct forkctl_text time;

		printf("%-7" PRIu32 " %5s %5s %8" PRIu32 " %-9s ", i, number(&cpu, LOAD(w->cpu)),
		       number(&node, LOAD(w->node)), LOAD(w->tid),
		       wake_name(wake_state(wake_load(&w->wake))));
		if (client < LIMIT_CLIENTS)
			printf("%-12" PRIu32 " %s, %s\n", LOAD(board->clients[client].pid),
			       forkctl_task(board, LOAD(running->task)),
			       forkctl_time(&time, clock_ns() - started));
		else
			printf("%-12s %s\n", "-", "-");
	}
}

static void print_clients(const struct board *board)
{
	printf("\n%-8s %6s %-16s %10s %10s %s\n", "CLIENT", "UID", "COMMAND", "JOBS", "FAILED",
	       "SINCE");
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
		const struct board_client *c = &board->clients[i];
		struct forkctl_text name;
		struct forkctl_text time;
		uint32_t pid = LOAD(c->pid);
		uint64_t since = LOAD(c->connected_ns); /* before the clock is looked at */

		if (!pid || LOAD(c->left_ns))
			continue;
		printf("%-8" PRIu32 " %6" PRIu32 " %-16s %10" PRIu64 " %10" PRIu64 " %s\n", pid,
		       LOAD(c->uid), forkctl_command(&name, c), LOAD(c->jobs), LOAD(c->failed),
		       forkctl_time(&time, clock_ns() - since));
	}
}

static void print_trouble(const struct board *board)
{
	uint32_t n = forkctl_count_quarantine(board);

	forkctl_print_last_crash(board);
	if (n)
		printf("quarantine: %" PRIu32 "; `forkctl quarantine` lists what is refused\n", n);
}

int forkctl_status(const char *socket, int argc, char *argv[])
{
	fk_client *client;
	int err = forkctl_look(socket, argc, argv, &client);

	if (err)
		return err;
	print_daemon(client->board);
	print_trouble(client->board);
	print_workers(client->board);
	print_clients(client->board);
	(void)fk_close(client);
	return FORKCTL_OK;
}
