/* SPDX-License-Identifier: MIT */
/*
 * many.c - many small jobs, hundreds of them in flight
 *
 * Job i is fib:fib of i mod 16, some microseconds at most. As many as the job table holds are under
 * way; the oldest is waited for, its answer added to the sum, and its place taken by a new one.
 */
#include "contrib/demo/demo.h"

#include <inttypes.h>

#define MANY_JOBS   200000u
#define MANY_FLIGHT 256u

int main(int argc, char *argv[])
{
	/* fib(0) + ... + fib(15) = fib(17) - 1 */
	const int64_t right_sum = (int64_t)(MANY_JOBS / 16) * 1596;
	fk_client *client = demo_open(MANY_FLIGHT, 0);
	char what[64], answer[32], right[32];
	fk_job jobs[MANY_FLIGHT];
	const fk_task *fib;
	int64_t sum = 0;

	demo_must(fk_task_find(client, "fib:fib", &fib), "many: fib:fib");
	for (uint32_t i = 0; i < MANY_JOBS + MANY_FLIGHT; i++) {
		fk_job *job = &jobs[i % MANY_FLIGHT];

		if (i >= MANY_FLIGHT) {
			int64_t result;

			demo_must(fk_wait(client, *job, FK_FOREVER), "many: wait");
			demo_must(fk_result(client, *job, &result, sizeof(result)), "many: result");
			demo_must(fk_release(client, *job), "many: release");
			sum += result;
		}
		if (i < MANY_JOBS)
			demo_must(fk_submit(client, fib, FK_WAIT_ROOM, job, i % 16),
				  "many: submit");
	}
	(void)snprintf(what, sizeof(what), "fib:fib, %u small jobs, sum", MANY_JOBS);
	(void)snprintf(answer, sizeof(answer), "%" PRId64, sum);
	(void)snprintf(right, sizeof(right), "%" PRId64, right_sum);
	return demo_end(client, argc, argv, what, answer, right);
}
