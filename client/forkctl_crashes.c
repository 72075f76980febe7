/* SPDX-License-Identifier: MIT */
/*
 * client/forkctl_crashes.c - forkctl crashes: how pools have died, and who is blamed
 *
 * Everything comes from the board, the newest last. A crash meanwhile may spoil the oldest line.
 */
#include "client/forkctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/util.h"

static const char *crash_time(struct forkctl_text *text, uint64_t ns)
{
	time_t seconds = (time_t)(ns / NSEC_PER_SEC);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || !strftime(text->text, sizeof(text->text), "%F %T", &tm))
		(void)strcpy(text->text, "?");
	return text->text;
}

/* How it ended: "SEGV", "exit 3". */
static const char *crash_end(struct forkctl_text *text, const struct board_crash *crash)
{
	const char *name = crash->signo ? sigabbrev_np((int)crash->signo) : NULL;

	if (name)
		return name;
	(void)snprintf(text->text, sizeof(text->text), crash->signo ? "signal %d" : "exit %d",
		       crash->signo ? (int)crash->signo : (int)crash->status);
	return text->text;
}

/* Whose doing it was, as far as is known. */
static const char *crash_cause(const struct board_crash *crash)
{
	static const char *const causes[] = {
		[CRASH_FAULT] = "fault",  [CRASH_EXIT] = "exit", [CRASH_SIGNAL] = "outside",
		[CRASH_ENDED] = "itself", [CRASH_HANG] = "hang",
	};

	return crash->reason && crash->reason < ARRAY_SIZE(causes) ? causes[crash->reason] : "?";
}

/* The newest that there is; the number of those before it that can be shown is *ret_first. */
static uint64_t crash_count(const struct board *board, uint64_t *ret_first)
{
	/* ORDER board/crashes [B2]: acquire, so that the entries are complete. Pairs with the
	 * release in postmortem_show(). */
	uint64_t n = atomic_load_explicit(&board->manager.crashes, memory_order_acquire);

	*ret_first = n > LIMIT_CRASHES ? n - LIMIT_CRASHES : 0;
	return n;
}

void forkctl_print_last_crash(const struct board *board)
{
	uint64_t first, n = crash_count(board, &first);
	const struct board_crash *crash = &board->crashes[(n - 1) % LIMIT_CRASHES];
	struct forkctl_text when, how, task;

	if (!n)
		return;
	printf("last crash: %s, %s", crash_time(&when, crash->time_ns), crash_end(&how, crash));
	if (crash->client_pid)
		printf(", %s of uid %" PRIu32,
		       forkctl_name(&task, crash->task, sizeof(crash->task)), crash->uid);
	printf("; `forkctl crashes` has more\n");
}

int forkctl_crashes(const char *socket, int argc, char *argv[])
{
	fk_client *client;
	uint64_t first, n;
	int err = forkctl_look(socket, argc, argv, &client);

	if (err)
		return err;
	n = crash_count(client->board, &first);
	printf("%-19s %8s %-8s %-8s %-18s %6s %8s %8s %6s %4s %8s %s\n", "WHEN", "POOL", "CAUSE",
	       "END", "ADDRESS", "WORKER", "CLIENT", "UID", "JOB", "LOST", "REQUEUED", "TASK");
	for (uint64_t i = first; i < n; i++) {
		const struct board_crash *crash = &client->board->crashes[i % LIMIT_CRASHES];
		struct forkctl_text when, how, task;
		char address[24] = "-", worker[16] = "-";

		if (crash->address)
			(void)snprintf(address, sizeof(address), "0x%" PRIx64, crash->address);
		if (crash->worker != UINT32_MAX)
			(void)snprintf(worker, sizeof(worker), "%" PRIu32, crash->worker);
		printf("%-19s %8" PRIu32 " %-8s %-8s %-18s %6s ", crash_time(&when, crash->time_ns),
		       crash->pid, crash_cause(crash), crash_end(&how, crash), address, worker);
		if (crash->client_pid)
			printf("%8" PRIu32 " %8" PRIu32 " %6" PRIu32, crash->client_pid, crash->uid,
			       crash->job);
		else
			printf("%8s %8s %6s", "-", "-", "-");
		(void)forkctl_name(&task, crash->task, sizeof(crash->task));
		printf(" %4" PRIu32 " %8" PRIu32 " %s\n", crash->lost, crash->requeued,
		       task.text[0] ? task.text : "-");
	}
	(void)fk_close(client);
	return FORKCTL_OK;
}
