/* SPDX-License-Identifier: MIT */
/* job_hold.h - begins and revokes a shutdown (daemon/core/shutdown.h): queued jobs are held back */
#pragma once

struct pool;

/* From now on no job is started. */
void shutdown_begin(struct pool *pool);

/* Jobs are started again. After shutdown_begin(). */
void shutdown_end(struct pool *pool);
