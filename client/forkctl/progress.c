/* SPDX-License-Identifier: MIT */
/* If standard error is a terminal, a line appears there after one second. It is updated from the
 * board ten times a second, and removed before anything else is written there. */
#include "client/forkctl/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "client/forkctl/common.h"
#include "client/lib/client_state.h"
#include "common/clock.h"
#include "common/relaxed.h"
#include "common/util.h"

#define PROGRESS_TICK  (NSEC_PER_SEC / 10)
#define PROGRESS_AFTER NSEC_PER_SEC

void progress_init(struct progress *p, fk_client *client, const char *task, uint32_t runs)
{
	uint64_t now = clock_ns();

	*p = (struct progress){
		.client = client,
		.task = task,
		.runs = runs,
		.start_ns = now,
		.cpu_ns = board_client_cpu(client->board, client->id, now),
		.terminal = isatty(STDERR_FILENO),
	};
}

/* Replaces the line. */
static void show(struct progress *p, uint64_t now, const char *workers)
{
	char run[32] = "", text[80];
	int n;

	if (p->runs > 1)
		(void)snprintf(run, sizeof(run), "run %" PRIu32 " of %" PRIu32 ", ", p->run,
			       p->runs);
	n = snprintf(text, sizeof(text), "%.30s: %s%.1f s%s", p->task, run,
		     (double)(now - p->start_ns) / 1e9, workers);
	(void)dprintf(STDERR_FILENO, "\r%-*s", (int)p->width, text);
	p->width = min((size_t)max(n, 0), sizeof(text) - 1);
	p->shown_ns = now;
}

void progress_next(struct progress *p)
{
	uint64_t now;

	p->run++;
	if (!p->terminal)
		return;
	now = clock_ns();
	/* No line for short runs. */
	if (now - p->start_ns >= PROGRESS_AFTER && now - p->shown_ns >= PROGRESS_AFTER)
		show(p, now, "");
}

/* The workers that run strands of the job right now. */
static uint32_t workers_on(const fk_client *client, fk_job job)
{
	const struct board *board = client->board;
	uint32_t row = client->id * board->manager.jobs_max + (uint32_t)(job & 0xffff);
	uint32_t n = 0;

	/* Relaxed: for display. */
	for (uint32_t i = 0; i < client->n_workers; i++)
		n += load_relaxed(&board->running[i].job) == row;
	return n;
}

static void look(struct progress *p, fk_job job)
{
	uint64_t now = clock_ns();
	uint64_t cpu = board_client_cpu(p->client->board, p->client->id, now);
	uint32_t on = workers_on(p->client, job);
	struct forkctl_text text;

	if (now - p->start_ns < PROGRESS_AFTER)
		return;
	cpu = max(cpu, p->cpu_ns) - p->cpu_ns;
	(void)snprintf(text.text, sizeof(text.text),
		       ", on %" PRIu32 " worker%s, %.1f s of CPU time", on, forkctl_plural(on),
		       (double)cpu / 1e9);
	show(p, now, cpu ? text.text : ", waiting for a worker");
}

int progress_wait(struct progress *p, fk_job job, uint64_t timeout_ns)
{
	uint64_t deadline = client_deadline(clock_ns(), timeout_ns);
	uint64_t left = timeout_ns;
	int err;

	if (!p->terminal)
		return fk_wait(p->client, job, timeout_ns);
	do {
		err = fk_wait(p->client, job, min(left, PROGRESS_TICK));
		left = client_left(deadline);
		if (err == -ETIMEDOUT)
			look(p, job);
	} while (err == -ETIMEDOUT && left);
	return err;
}

void progress_clear(struct progress *p)
{
	if (p->width)
		(void)dprintf(STDERR_FILENO, "\r%*s\r", (int)p->width, "");
	p->width = 0;
}
