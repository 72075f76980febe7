/* SPDX-License-Identifier: MIT */
/* outcome.c - reads the outcome, times and result of a job from its record */
#include "client/lib/client.h"

#include <errno.h>
#include <string.h>

#include "common/relaxed.h"
#include "shm/fence.h"

/*
 * Copies a result. A later job of the record may be writing it: then the caller drops the copy. So
 * it copies words, hidden from ThreadSanitizer. size: bytes, a multiple of 8.
 */
static __attribute__((no_sanitize("thread"))) void wait_copy(uint8_t *to, struct job *job,
							     uint32_t size)
{
	_Atomic uint64_t *words = (_Atomic uint64_t *)(void *)job->result;

	for (uint32_t i = 0; i < size / sizeof(*words); i++) {
		/* Relaxed: client_end_in_table() has acquired the outcome. */
		uint64_t word = load_relaxed(&words[i]);

		memcpy(to + i * sizeof(word), &word, sizeof(word));
	}
}

int client_end_in_table(struct fk_client *client, fk_job handle, struct client_end *ret_end,
			void *result)
{
	struct client_slot *slot = client_slot(client, handle);
	struct job *job = client_job(client, handle);
	int outcome = client_outcome_in_table(client, handle);
	uint64_t submitted, started, ended;

	if (outcome < 0)
		return outcome;
	if (outcome == JOB_PENDING || outcome == JOB_IDLE)
		return -EINPROGRESS;
	/* Relaxed, all of them: written before the outcome. */
	submitted = load_relaxed(&slot->submitted_ns);
	started = load_relaxed(&job->started_ns);
	ended = load_relaxed(&job->ended_ns);
	*ret_end = (struct client_end){
		.outcome = (uint32_t)outcome,
		.code = outcome == JOB_FAILED || outcome == JOB_EXPIRED ? load_relaxed(&job->code)
									: 0,
		.signo = outcome == JOB_CRASHED ? load_relaxed(&job->signo) : 0,
		.task_hash = outcome == JOB_FAILED ? load_relaxed(&job->task_hash) : 0,
		.result_size = load_relaxed(&slot->result_size),
		/* Both are 0 for a job that never started: error_outcome(). */
		.wait_ns = started > submitted ? started - submitted : 0,
		.run_ns = started >= submitted && ended > started ? ended - started : 0,
		.memory = load_relaxed(&slot->memory),
	};
	if (result)
		wait_copy(result, job, ret_end->result_size);
	/* ORDER job/reuse [J2]: acquire, the copy comes before the check of the generations. If the
	 * copy has data of a later job, the check sees that this handle has ended (spill.c,
	 * I3). Pairs with submit_fill(), job_done(), job_end_row() and recovery_finish(). */
	fence_acquire();
	return client_outcome_in_table(client, handle) == outcome ? 0 : -ESTALE;
}
