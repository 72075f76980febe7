/* SPDX-License-Identifier: MIT */
/*
 * client/forkctl_quarantine.c - forkctl quarantine: tasks that are refused because they crash
 *
 * WHAT IT IS
 *   The list comes from the board. Lifting one is a request to the manager.
 */
#include "client/forkctl.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>

#include "client/forkctl_control.h"
#include "common/clock.h"
#include "common/number.h"
#include "common/util.h"

uint32_t forkctl_count_quarantine(const struct board *board)
{
	uint32_t n = 0;

	/* Relaxed: for display. */
	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++)
		n += atomic_load_explicit(&board->quarantine[i].until_ns, memory_order_relaxed) !=
		     0;
	return n;
}

static int quarantine_list(const char *socket)
{
	fk_client *client;
	int err = forkctl_open(socket, 1, FORKCTL_HEAP_SMALL, &client);

	if (err)
		return err;
	printf("%10s %8s %-10s %s\n", "UID", "CRASHES", "FOR", "TASK");
	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++) {
		const struct board_quarantine *q = &client->board->quarantine[i];
		/* Relaxed: for display. */
		uint64_t until = atomic_load_explicit(&q->until_ns, memory_order_relaxed);
		uint64_t now = clock_ns();
		struct forkctl_text left, task;

		if (!until)
			continue;
		(void)forkctl_name(&task, q->task, sizeof(q->task));
		printf("%10" PRIu32 " %8" PRIu32 " %-10s %s\n",
		       atomic_load_explicit(&q->uid, memory_order_relaxed),
		       atomic_load_explicit(&q->crashes, memory_order_relaxed),
		       forkctl_time(&left, until > now ? until - now : 0),
		       task.text[0] ? task.text : "(every task)");
	}
	(void)fk_close(client);
	return FORKCTL_OK;
}

/* A uid, or the name of a user. Returns 0 or an exit code. */
static int quarantine_user(const char *text, char *ret, size_t size)
{
	const struct passwd *user;
	const char *rest;
	uint64_t uid;

	if (number_parse(text, 10, &uid, &rest) < 0 || *rest || uid >= UINT32_MAX) {
		user = getpwnam(text);
		if (!user)
			return forkctl_fail(FORKCTL_USAGE,
					    "quarantine: %.64s is no user and no uid", text);
		uid = user->pw_uid;
	}
	(void)snprintf(ret, size, "%" PRIu64, uid);
	return 0;
}

int forkctl_quarantine(const char *socket, int argc, char *argv[])
{
	struct proto_set answer;
	char uid[24];
	int err;

	if (argc == 1)
		return quarantine_list(socket);
	if (!streq(argv[1], "lift") || argc < 3 || argc > 4)
		return forkctl_fail(FORKCTL_USAGE,
				    "quarantine takes nothing, or whose to lift: `forkctl "
				    "quarantine lift USER [MODULE:TASK]`");
	err = quarantine_user(argv[2], uid, sizeof(uid));
	if (!err)
		err = forkctl_control(socket, argv[0], PROTO_LIFT, argc == 4 ? argv[3] : "", uid,
				      &answer);
	if (!err)
		(void)printf("%s lifted\n", answer.value);
	return err;
}
