/* SPDX-License-Identifier: MIT */
/*
 * reload_trial_main.c - the process that makes the dry run of a reload
 *
 * forkd --dry-run, which the manager starts (reload_trial.c). It reads what a start would read, by
 * the same command line, and may wait for disks and for directory services. It loads every module,
 * whose constructors may do anything. Then it writes its results, and ends:
 *
 *  	[forkd]
 *  	name = value		as options_print() has them, users and groups as numbers
 *  	# VERSION N JOINABLE	of the modules (module.h): version and joinable in hexadecimal, and
 *  				how many were left out
 */
#include "daemon/manager/reload_trial.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/low_latency.h"
#include "common/options.h"
#include "common/options_print.h"
#include "daemon/host/module.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/memory_budget.h"
#include "daemon/manager/runas.h"
#include "daemon/manager/task_rules.h"
#include "shm/board.h"

static int reload_trial_main_load(const struct options *options, struct modules *modules)
{
	_cleanup_free_ struct board *board = aligned_alloc(_Alignof(struct board), BOARD_FRONT);
	int r = -ENOMEM;

	if (board) {
		memset(board, 0, BOARD_FRONT);
		r = modules_load(modules, board, options->module_dir);
	}
	if (r < 0)
		log_error("module-dir %s (%s): %s", options->module_dir, modules_advice(r),
			  strerror(-r));
	else
		task_rules_look(options, board);
	return r;
}

/* The pool can read only what this user can. */
static int reload_trial_main_become(const struct options *options)
{
	struct options_error text;
	struct runas runas;
	int r = runas_choose(options, &runas, &text);

	if (r < 0) {
		log_error("%s", text.text);
		return r;
	}
	r = runas.drops ? runas_become(&runas) : 0;
	if (r < 0)
		log_error("user: cannot become uid %u: %s", runas.uid, strerror(-r));
	return r;
}

int reload_trial_main(struct options *options, int fd)
{
	_cleanup_fclose_ FILE *out = fdopen(fd, "w");
	static struct modules modules;
	struct options_error text;

	low_latency_take_over();
	low_latency_end();
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	(void)prctl(PR_SET_NAME, "forkd-reload");
	if (!out) {
		log_error("--dry-run is for forkd itself: forkd --check-config checks forkd.conf");
		return MANAGER_EXIT_USAGE;
	}
	/* Before auto values are replaced: the manager needs the values as given. */
	options_print(options, out);
	/* A constructor that forks and exits would write the buffer's contents a second time. */
	if (fflush(out) != 0)
		return MANAGER_EXIT_SYSTEM;
	if (budget_decide(options, 0, &text) < 0) {
		log_error("%s", text.text);
		return MANAGER_EXIT_USAGE;
	}
	if (reload_trial_main_become(options) < 0 || reload_trial_main_load(options, &modules) < 0)
		return MANAGER_EXIT_USAGE;
	(void)fprintf(out, "# %016" PRIx64 " %" PRIu32 " %016" PRIx64 "\n", modules.version,
		      modules.n_left_out, modules.joinable);
	return fflush(out) == 0 ? MANAGER_EXIT_OK : MANAGER_EXIT_SYSTEM;
}
