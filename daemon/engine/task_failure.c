/* SPDX-License-Identifier: MIT */
/* task_failure.c - a task fails its job, or breaks a rule of forkd/task.h */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log.h"
#include "common/util.h"
#include "daemon/core/hooks.h"
#include "daemon/core/worker_state.h"
#include "daemon/engine/slow_path.h"

void fk_rt_fail(struct fk_worker *fk, int code)
{
	struct worker *w = worker_of(fk);

	worker_fail(w, code);
}

void strand_misused(struct worker *w, const struct fk_task *task, const char *how)
{
	/* Tasks rarely share a limit. */
	static struct log_limit limits[16] = { [0 ... 15] = LOG_LIMIT_INIT };
	size_t i = ((uintptr_t)task >> 6) % ARRAY_SIZE(limits);

	log_limited(&limits[i], LOG_LEVEL_ERROR, "task %s: %s; its job fails", task->name, how);
	worker_fail(w, -EPROTO);
}
