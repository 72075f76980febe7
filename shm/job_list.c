/* SPDX-License-Identifier: MIT */
#include "shm/job_list.h"

#include "common/relaxed.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/proto.h"

void job_list_write(FILE *file, struct arena *arena, const struct job_list_client *client,
		    uint32_t state, uint64_t *n)
{
	for (uint32_t i = 0; i < client->n_jobs; i++) {
		struct ledger_row row = ledger_row(arena, client->row + i);
		bool runs = ledger_is_started(row.state);
		struct proto_job job = {
			.client = client->slot,
			.client_generation = client->generation,
			.job = i,
			.generation = row.generation,
			.worker = runs ? row.worker : UINT32_MAX,
			.task = row.task - 1,
		};

		if (state != (runs ? LEDGER_RUNNING : row.state) || (*n)++ >= PROTO_MAX_TOLD)
			continue;
		job.drained_ns = load_relaxed(&client->jobs[i].drained_ns);
		(void)fwrite(&job, sizeof(job), 1, file);
	}
}
