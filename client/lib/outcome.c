/* SPDX-License-Identifier: MIT */
/* outcome.c - reads how a job has ended from its record */
#include "client/lib/client.h"

#include <errno.h>
#include <string.h>

#include "shm/fence.h"

/*
 * Copies a result, which another job of the record may be writing: then the copy is dropped. Words,
 * as results are made of, and unknown to ThreadSanitizer. size: bytes.
 */
static __attribute__((no_sanitize("thread"))) void wait_copy(uint8_t *to, struct job *job,
							     uint32_t size)
{
	_Atomic uint64_t *words = (_Atomic uint64_t *)(void *)job->result;

	for (uint32_t i = 0; i < size / sizeof(*words); i++) {
		/* Relaxed: client_end_in_table() has acquired the outcome. */
		uint64_t word = atomic_load_explicit(&words[i], memory_order_relaxed);

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
	submitted = atomic_load_explicit(&slot->submitted_ns, memory_order_relaxed);
	started = atomic_load_explicit(&job->started_ns, memory_order_relaxed);
	ended = atomic_load_explicit(&job->ended_ns, memory_order_relaxed);
	*ret_end = (struct client_end){
		.outcome = (uint32_t)outcome,
		.code = outcome == JOB_FAILED
			      ? atomic_load_explicit(&job->code, memory_order_relaxed)
			      : 0,
		.signo = outcome == JOB_CRASHED
			       ? atomic_load_explicit(&job->signo, memory_order_relaxed)
			       : 0,
		.result_size = atomic_load_explicit(&slot->result_size, memory_order_relaxed),
		/* One that never started has neither: error_outcome(). */
		.wait_ns = started > submitted ? started - submitted : 0,
		.run_ns = started >= submitted && ended > started ? ended - started : 0,
	};
	if (result)
		wait_copy(result, job, ret_end->result_size);
	/* ORDER job/reuse [J2]: acquire, the copy comes before the check of the generations. If it
	 * has anything of a later job, the check sees that this one's handle has ended (spill.c,
	 * I3). Pairs with submit_fill(), root_done(), root_finish() and recover_finish(). */
	fence_acquire();
	return client_outcome_in_table(client, handle) == outcome ? 0 : -ESTALE;
}
