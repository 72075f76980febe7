/* SPDX-License-Identifier: MIT */
/* hostile_record: a client whose records have one wrong field each */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/publish.h"
#include "client/lib/wake_worker.h"
#include "common/util.h"
#include "shm/wake.h"
#include "tests/support/hostile.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

static struct daemon d;
static fk_client *hostile;

static uint32_t next_generation = 100;

/* Submits record 0 as it is. Returns its outcome, or JOB_PENDING after patience_ns. */
static uint32_t submit_record(uint32_t generation, uint64_t patience_ns)
{
	struct job *job = &hostile->jobs[0];
	uint64_t end = clock_ns() + patience_ns;
	uint32_t outcome;
	int ring;

	atomic_store(&job->generation, generation);
	atomic_store(&job->state, job_state(generation, JOB_PENDING));
	ring = publish(hostile->board, hostile->tenant, hostile->n_workers, 0, generation,
		       ring_payload(hostile->id, hostile->generation, 0), NULL);
	if (ring < 0)
		_exit(20);
	while ((outcome = job_outcome(job)) == JOB_PENDING && clock_ns() < end) {
		(void)waker_wake(hostile->board, hostile->n_workers, (uint32_t)ring, NULL);
		(void)poll(NULL, 0, 0);
	}
	return outcome;
}

static void set_record(const fk_task *task, struct job_ref ref)
{
	struct job *job = &hostile->jobs[0];

	memset(job->args, 0, sizeof(job->args));
	memcpy(job->args, &ref, sizeof(ref));
	atomic_store(&job->task, task->index);
	atomic_store(&job->task_hash, task->hash);
	atomic_store(&job->flags, 0);
	atomic_store(&job->next, 0);
	atomic_store(&job->deadline_ns, 0);
	atomic_store(&job->weight, 0);
	atomic_store(&job->args_size, task->signature.args_size);
}

static void must_not_run(const char *what, uint64_t number)
{
	uint32_t outcome = submit_record(next_generation++, HOSTILE_HANG);

	if (outcome != JOB_DONE && outcome != JOB_PENDING)
		return;
	(void)fprintf(stderr, "hostile: %s %" PRIu64 " had the outcome %u\n", what, number,
		      outcome);
	_exit(21);
}

static void bad_references(const fk_task *task, uint64_t heap)
{
	const uint64_t edges[] = {
		0,
		1,
		8,
		heap - 1,
		heap,
		heap + 1,
		heap + 4096,
		UINT32_MAX,
		UINT64_C(1) << 32,
		(UINT64_C(1) << 63) - 1,
		UINT64_C(1) << 63,
		UINT64_MAX - heap,
		UINT64_MAX - heap + 1,
		UINT64_MAX - 7,
		UINT64_MAX,
	};

	for (size_t i = 0; i < ARRAY_SIZE(edges) * ARRAY_SIZE(edges); i++) {
		struct job_ref ref = {
			.offset = edges[i / ARRAY_SIZE(edges)],
			.size = edges[i % ARRAY_SIZE(edges)],
		};
		bool inside = ref.size <= heap && ref.offset <= heap - ref.size;
		uint32_t outcome;

		set_record(task, ref);
		outcome = submit_record(next_generation++, HOSTILE_HANG);
		if (outcome == JOB_PENDING || (outcome == JOB_DONE && !inside) ||
		    (outcome != JOB_DONE && inside && ref.offset % 64 == 0)) {
			(void)fprintf(stderr,
				      "hostile: offset %" PRIu64 ", size %" PRIu64 ", heap %" PRIu64
				      " had the outcome %u\n",
				      ref.offset, ref.size, heap, outcome);
			_exit(22);
		}
	}
}

/* All fields except one are right; each job gets its outcome, and none is DONE. */
static void careful(void)
{
	static const uint32_t numbers[] = { LIMIT_TASKS - 1, LIMIT_TASKS, INT32_MAX,
					    UINT32_C(1) << 31, UINT32_MAX };
	const _Atomic uint64_t *refused;
	const struct job_ref good = { .offset = 0, .size = 64 };
	const fk_task *task;
	uint64_t before, end;

	hostile = hostile_open();
	refused = &hostile->board->clients[hostile->id].refused;
	if (fk_task_find(hostile, "bytes:sum", &task) < 0)
		_exit(3);
	set_record(task, good);
	if (submit_record(next_generation++, HOSTILE_HANG) != JOB_DONE)
		_exit(23);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		set_record(task, good);
		atomic_store(&hostile->jobs[0].task, numbers[i]);
		must_not_run("task", numbers[i]);
		set_record(task, good);
		atomic_store(&hostile->jobs[0].args_size, numbers[i]);
		must_not_run("args_size", numbers[i]);
	}
	set_record(task, good);
	atomic_store(&hostile->jobs[0].task_hash, task->hash ^ 1);
	must_not_run("a hash that is off by", 1);
	bad_references(task, hostile->segment->heap_size);

	/* The same generation a second time runs nothing and is counted. */
	set_record(task, good);
	if (submit_record(next_generation, HOSTILE_HANG) != JOB_DONE)
		_exit(24);
	/* Until it is refused: the worker that ended the job may not have freed the row yet. */
	before = atomic_load(refused);
	end = clock_ns() + HOSTILE_HANG;
	do {
		if (submit_record(next_generation, NSEC_PER_MSEC) != JOB_PENDING)
			_exit(25);
	} while (atomic_load(refused) <= before && clock_ns() < end);
	if (atomic_load(refused) <= before)
		_exit(26);
	next_generation++;
	/* Generations that no library uses; the second 0 is a replay. */
	(void)submit_record(0, 200 * NSEC_PER_MSEC);
	(void)submit_record(0, 200 * NSEC_PER_MSEC);
	(void)submit_record(JOB_GEN_MASK, 200 * NSEC_PER_MSEC);
	(void)submit_record(UINT32_MAX, 200 * NSEC_PER_MSEC);
	set_record(task, good);
	if (submit_record(next_generation, HOSTILE_HANG) != JOB_DONE)
		_exit(27);
	(void)fk_close(hostile);
}

START_TEST(record_with_one_wrong_field_gets_an_outcome_and_never_runs)
{
	pid_t pool;

	(void)hostile_setup(&d);
	pool = daemon_pool(&d);
	ck_assert_int_eq(daemon_reap(daemon_client(careful, HOSTILE_UID)), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_int_eq(daemon_reap(daemon_client(honest_late, HOSTILE_UID)), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

CHECK_MAIN("hostile_record")
