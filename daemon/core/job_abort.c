/* SPDX-License-Identifier: MIT */
#include "daemon/core/job_abort.h"

#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/abort_word.h"
#include "daemon/core/worker_state.h"

void abort_begin(struct pool *pool, uint32_t row, uint32_t generation)
{
	abort_word_begin(&pool->rows.aborts[row], generation);
}

struct verdict abort_get(struct pool *pool, uint32_t row)
{
	/* Relaxed: worker_ask() and worker_take_request() order it; a strand that begins with an
	 * older word gets a request afterwards. */
	uint64_t word = row == WORKER_NO_JOB ? 0 : load_relaxed(&pool->rows.aborts[row]);

	return (struct verdict){ .outcome = abort_outcome(word), .code = (int32_t)(word >> 32) };
}
