/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/pending.h"

#include "daemon/core/worker.h"
#include "daemon/jobs/intake.h"

bool worker_jobs_pending(struct pool *pool)
{
	return worker_roots_pending(pool) || intake_pending(pool);
}
