/* SPDX-License-Identifier: MIT */
/*
 * requeue: how a new pool handles jobs that were QUEUED in the last pool, and chains that the last
 * pool was reading (daemon/jobs/queue_recovery.h, I1)
 *
 * The test simulates the last pool's death: rows in the ledger, and words in the rings of a second
 * tenant. The pool of the rig receives them as a new pool does, the client first and its rings
 * later.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <forkd/task.h>

#include "shm/ledger.h"
#include "shm/proto.h"
#include "shm/wake.h"
#define CHECK_TIMEOUT 60
#include "daemon/core/wakeup.h"
#include "daemon/jobs/attach.h"
#include "daemon/jobs/membership.h"
#include "tests/support/check_unit.h"
#include "tests/support/rig.h"

#define CLIENT 1u
#define TENANT 1u
#define GEN    5u /* of the client's slot */
#define JOBS   64u
#define OLD    7u /* generation of jobs known to the last pool */

static struct rig rig;
static int tenant_fd, client_fd;
static struct tenant_segment *tenant;
static struct job *jobs;
static _Atomic uint64_t ran;
static _Atomic uint32_t gate;

FK_LEAF_TASK(fk_void, count, ())
{
	atomic_fetch_add(&ran, 1);
}

/* Forks until the gate is open. */
FK_TASK(fk_void, await, (), )
FK_NO_LEAF(await)
{
	while (!atomic_load(&gate)) {
		FK_FORK_VOID(count);
		FK_JOIN();
	}
	FK_RETURN();
}
FK_END(await)

FK_EXPORT(count, 0, "Counts that it ran")
FK_EXPORT(await, 0, "Forks until the gate is open")
FK_MODULE(requeue, "What check_queue_recovery runs")

static void *map(int fd, uint32_t kind)
{
	void *base = NULL;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(segment_map(fd, kind, 1, 0, &base, NULL), 0);
	return base;
}

static void start(void)
{
	uint64_t size = client_segment_heap_offset(JOBS) + 4096;
	struct client_segment *segment;

	atomic_store(&ran, 0);
	rig_start(&rig, 1, &fk_module, false);
	tenant_fd = segment_create("tenant", SEGMENT_TENANT, tenant_segment_size(1), 1, 0, 0600);
	client_fd = segment_create("client", SEGMENT_CLIENT, size, 1, 0, 0600);
	tenant = map(tenant_fd, SEGMENT_TENANT);
	segment = map(client_fd, SEGMENT_CLIENT);
	jobs = (struct job *)(void *)(segment + 1);
}

/* Fills a submitted record; next: the chain's next one, or UINT32_MAX. */
static void fill_with(uint32_t index, const char *task, uint32_t generation, uint32_t next)
{
	struct job *job = &jobs[index];
	int t = board_find_task(rig.pool->board, task);

	ck_assert_int_ge(t, 0);
	atomic_store(&job->task, (uint32_t)t);
	atomic_store(&job->task_hash, rig.pool->board->tasks[t].hash);
	atomic_store(&job->generation, generation);
	atomic_store(&job->next, next + 1);
	atomic_store(&job->state, job_state(generation, JOB_PENDING));
}

static void fill(uint32_t index, uint32_t generation, uint32_t next)
{
	fill_with(index, "requeue:count", generation, next);
}

static void queued(uint32_t index)
{
	struct ledger_row row = { .generation = OLD, .state = LEDGER_QUEUED };

	atomic_store(&arena_rows(rig.pool->arena)[CLIENT * RIG_JOBS + index], ledger_pack(row));
}

static void word_of(uint32_t generation, uint32_t index)
{
	uint64_t position;

	ck_assert_int_eq(ring_push(&tenant->rings[0], ring_payload(CLIENT, generation, index),
				   &position),
			 RING_OK);
	tenant_mark(tenant, 0);
}

static void word(uint32_t index)
{
	word_of(GEN, index);
}

static int add(uint32_t slot, uint32_t generation)
{
	const struct intake_newcomer client = {
		.slot = slot,
		.generation = generation,
		.tenant = TENANT,
		.weight = FAIR_WEIGHT,
		.n_jobs = JOBS,
	};

	return intake_add_client(rig.pool, &client, ATTACH_FILE(client_fd));
}

static void add_client(void)
{
	ck_assert_int_eq(add(CLIENT, GEN), 0);
	/* One address for both ends: ThreadSanitizer compares addresses, not memory. */
	jobs = rig.pool->clients.entries[CLIENT].jobs;
	pool_wake_dispatcher(rig.pool);
}

static void add_tenant(void)
{
	ck_assert_int_eq(intake_add_tenant(rig.pool, TENANT, FAIR_WEIGHT, ATTACH_FILE(tenant_fd)),
			 0);
	tenant = rig.pool->clients.tenants[TENANT].segment;
	tenant_mark(tenant, 0);
	wake_published();
	pool_wake_dispatcher(rig.pool);
}

/* Round trips of another tenant, during which a fair pool of one worker runs all other jobs. */
static void let_others_run(void)
{
	for (int i = 0; i < 20; i++) {
		rig_submit(&rig, 0, "requeue:count", NULL, 0);
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	}
	atomic_fetch_sub(&ran, 20);
}

/* Waits until all jobs in rings and queues have ended. */
static void await_all(void)
{
	struct ledger_ring *side = &rig.pool->arena->rings[TENANT][0];

	while (atomic_load(&side->head) < atomic_load(&tenant->rings[0].tail) ||
	       atomic_load(&rig.pool->clients.entries[CLIENT].active))
		sched_yield();
}

static void ended(uint32_t index, uint32_t generation)
{
	ck_assert_uint_eq(atomic_load(&jobs[index].state), job_state(generation, JOB_DONE));
}

static void stop(void)
{
	rig_stop(&rig);
	close(tenant_fd);
	close(client_fd);
}

static uint64_t refused(void)
{
	return rig_counter(&rig, jobs_refused) + rig_counter(&rig, malformed_slots);
}

/* The client's part: releases ended jobs, and fills their records for jobs that are not submitted
 * yet. Returns their number. */
static uint32_t fill_again(uint32_t n)
{
	uint32_t filled = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (job_outcome(&jobs[i]) == JOB_PENDING || atomic_load(&jobs[i].generation) != OLD)
			continue;
		fill(i, OLD + 1, UINT32_MAX);
		filled++;
	}
	return filled;
}

#define N 6u /* of a chain */

/* The pool died while it read a chain, of which it had accepted this many jobs. */
static void die_after(uint32_t accepted)
{
	start();
	for (uint32_t i = 0; i < N; i++)
		fill(i, OLD, i + 1 < N ? i + 1 : UINT32_MAX);
	for (uint32_t i = 0; i < accepted; i++)
		queued(i);
	word(0);
	/* After it, one that the pool never read. */
	fill(N, OLD, UINT32_MAX);
	word(N);
	add_client();
	let_others_run();
	ck_assert_uint_eq(fill_again(N), 0);
	add_tenant();
	await_all();
	for (uint32_t i = 0; i <= N; i++)
		ended(i, OLD);
	ck_assert_uint_eq(atomic_load(&ran), N + 1);
	ck_assert_uint_eq(refused(), 0);
	/* The records are usable again. */
	ck_assert_uint_eq(fill_again(N + 1), N + 1);
	for (uint32_t i = 0; i <= N; i++)
		word(i);
	wake_published();
	pool_wake_dispatcher(rig.pool);
	await_all();
	for (uint32_t i = 0; i <= N; i++)
		ended(i, OLD + 1);
	ck_assert_uint_eq(refused(), 0);
	stop();
}

START_TEST(rest_of_a_chain_is_read_before_its_records_are_reused)
{
	for (uint32_t accepted = 0; accepted <= N; accepted++)
		die_after(accepted);
}
END_TEST

START_TEST(queued_jobs_run_without_ring_entries)
{
	start();
	for (uint32_t i = 0; i < 3; i++) {
		fill(i, OLD, UINT32_MAX);
		queued(i);
	}
	add_client();
	add_tenant();
	await_all();
	for (uint32_t i = 0; i < 3; i++)
		ended(i, OLD);
	ck_assert_uint_eq(atomic_load(&ran), 3);
	stop();
}
END_TEST

static bool hears(int manager)
{
	struct pollfd p = { .fd = manager, .events = POLLIN };

	return poll(&p, 1, 0);
}

/* Its rings are never read, but each accepted job gets its outcome, and then the manager is
 * notified. The pool receives the client first, or has failed to map the rings before. */
static void without_rings(bool client_first)
{
	int small = segment_create("small", SEGMENT_TENANT, 4096, 1, 0, 0600), pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	atomic_store(&gate, 0);
	start();
	rig.pool->channel.fd = pair[1];
	fill(0, OLD, UINT32_MAX);
	queued(0);
	fill_with(1, "requeue:await", OLD, UINT32_MAX);
	queued(1);
	if (client_first)
		add_client();
	ck_assert_int_eq(intake_add_tenant(rig.pool, TENANT, FAIR_WEIGHT, ATTACH_FILE(small)),
			 -EBADMSG);
	if (!client_first)
		add_client();
	let_others_run();
	ck_assert_uint_eq(job_outcome(&jobs[1]), JOB_PENDING);
	ck_assert(!hears(pair[0]));
	atomic_store(&gate, 1);
	rig_hear(pair[0], PROTO_POOL_ATTACHED, CLIENT, GEN,
		 "its rings cannot be mapped: Bad message");
	ended(0, OLD);
	ended(1, OLD);

	/* The manager ends the client. Until then no word of the rings may be read, and no other
	 * client is accepted. */
	word(2);
	ck_assert_int_eq(intake_add_tenant(rig.pool, TENANT, FAIR_WEIGHT, ATTACH_FILE(tenant_fd)),
			 -EBADMSG);
	ck_assert_int_eq(add(CLIENT + 1, GEN), -EBADMSG);
	clients_gone(rig.pool, CLIENT, GEN);
	rig_hear(pair[0], PROTO_POOL_RELEASED, CLIENT, GEN, "");
	ck_assert(!hears(pair[0]));

	/* Its last client has left: the next one gets the rings if they can be mapped now. */
	add_tenant();
	ck_assert_int_eq(add(CLIENT, GEN + 1), 0);
	jobs = rig.pool->clients.entries[CLIENT].jobs;
	fill(3, OLD, UINT32_MAX);
	word_of(GEN + 1, 3);
	pool_wake_dispatcher(rig.pool);
	await_all();
	ended(3, OLD);
	stop();
	close(small);
	close(pair[0]);
	close(pair[1]);
}

START_TEST(queued_jobs_end_without_their_rings_before_the_client_is_refused)
{
	without_rings(true);
}
END_TEST

START_TEST(queued_jobs_end_if_mapping_the_rings_failed_before)
{
	without_rings(false);
}
END_TEST

/* A hostile client: chains that are circular, leave the table, or belong to another client. */
START_TEST(endless_chain_is_followed_for_one_step_per_row)
{
	start();
	for (uint32_t i = 0; i < 4; i++) {
		fill(i, OLD, (i + 1) % 4);
		queued(i);
	}
	word(2);
	fill(4, OLD, JOBS + 9);
	queued(4);
	word(4);
	word(JOBS + 1);
	add_client();
	add_tenant();
	await_all();
	for (uint32_t i = 0; i < 5; i++)
		ended(i, OLD);
	ck_assert_uint_eq(atomic_load(&ran), 5);
	/* The pool still works. */
	rig_submit(&rig, 0, "requeue:count", NULL, 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	stop();
}
END_TEST

CHECK_MAIN("requeue")
