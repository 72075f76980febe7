/* SPDX-License-Identifier: MIT */
/*
 * client/forkctl_modules.c - forkctl modules: what the pool has loaded
 *
 * From the board, where a task can write: numbers and text to show.
 */
#include "client/forkctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "common/util.h"

#define MODULES_ID 12u /* letters of a build-id: who compares wants no more */

static const char *loaded_at(struct forkctl_text *text, uint64_t ns)
{
	const time_t seconds = (time_t)(ns / NSEC_PER_SEC);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || !strftime(text->text, sizeof(text->text), "%F %T", &tm))
		text->text[0] = '\0';
	return text->text;
}

static void print_modules(const struct board *board)
{
	/* ORDER board/modules [B3]: acquire, so that the entries are complete. Pairs with
	 * module_show(). */
	uint32_t n =
		min(atomic_load_explicit(&board->n_modules, memory_order_acquire), LIMIT_MODULES);

	printf("%-12s %5s %-*s  %-19s  %-16s %s\n", "MODULE", "TASKS", (int)MODULES_ID, "BUILD-ID",
	       "LOADED", "FILE", "HELP");
	for (uint32_t i = 0; i < n; i++) {
		const struct board_module *m = &board->modules[i];
		struct forkctl_text name, file, id, help, time;

		printf("%-12s %5" PRIu32 " %-*s  %-19s  %-16s %s\n",
		       forkctl_name(&name, m->name, sizeof(m->name)), m->n_tasks, (int)MODULES_ID,
		       forkctl_name(&id, m->build_id, MODULES_ID), loaded_at(&time, m->loaded_ns),
		       forkctl_name(&file, m->file, sizeof(m->file)),
		       forkctl_name(&help, m->help, sizeof(m->help)));
	}
}

int forkctl_modules(const char *socket, int argc, char *argv[])
{
	fk_client *client;
	int err;

	if (argc > 1 && streq(argv[1], "check"))
		return forkctl_check(socket, argc - 1, argv + 1);
	err = forkctl_look(socket, argc, argv, &client);
	if (err)
		return err;
	print_modules(client->board);
	(void)fk_close(client);
	return FORKCTL_OK;
}
