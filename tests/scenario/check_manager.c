/* SPDX-License-Identifier: MIT */
/* manager - the manager and its pool: one that does not start, one that dies, what becomes of
 * its jobs */
#define CHECK_TIMEOUT 60

#include "daemon/manager/manager.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/check_unit.h"
#include "tests/support/daemon.h"
#include "tests/support/service.h"

START_TEST(a_pool_that_cannot_start_ends_it)
{
	service_setup("fail");
	ck_assert_int_eq(service_ends(SERVICE_START()), MANAGER_EXIT_POOL);
	ck_assert_int_eq(setenv("FORKD_STUB", "die", 1), 0);
	ck_assert_int_eq(service_ends(SERVICE_START()), MANAGER_EXIT_POOL);
	service_teardown();
}
END_TEST

/* A manager whose first pool has died of job 1; job 0 was queued there. */
static pid_t after_a_crash(const char *mode, struct service_client *ret_client)
{
	pid_t pid = SERVICE_READY(mode);

	*ret_client = service_attach();
	service_submit(ret_client, 0, STUB_QUEUE, 0);
	service_submit(ret_client, 1, STUB_CRASH, 0);
	ck_assert_uint_eq(service_outcome(ret_client, 1), JOB_CRASHED);
	return pid;
}

static void dies_again_and_again(const char *mode)
{
	struct service_client c;
	pid_t pid = after_a_crash(mode, &c);

	ck_assert_int_eq(service_ends(pid), MANAGER_EXIT_POOL);
	ck_assert_uint_eq(service_outcome(&c, 0), JOB_LOST);
	service_teardown();
}

START_TEST(a_pool_that_dies_again_and_again_ends_it)
{
	dies_again_and_again("once");
}
END_TEST

/* A new forkd may have the libraries that it needs. */
START_TEST(a_later_pool_that_cannot_be_loaded_ends_it)
{
	dies_again_and_again("unloaded");
}
END_TEST

/* More of them than deaths in a row that end it. */
START_TEST(a_later_pool_that_has_too_little_to_start_with_is_tried_until_it_has)
{
	struct service_client c;
	pid_t pid = after_a_crash("short", &c);

	ck_assert_uint_eq(service_outcome(&c, 0), JOB_DONE);
	ck_assert_uint_eq(c.board->profile.jobs, STUB_SHORT);
	ck_assert_uint_eq(c.board->manager.crashes, 1);
	ck_assert_uint_eq(c.board->manager.pool_generation, 2);
	service_stop(pid);
}
END_TEST

START_TEST(when_the_pool_crashes_each_job_gets_what_it_deserves)
{
	pid_t pid = SERVICE_READY("");
	struct service_client c = service_attach();
	uint64_t crashes;

	service_submit(&c, 0, STUB_HANG, 0);
	service_submit(&c, 1, STUB_HANG, JOB_IDEMPOTENT);
	service_submit(&c, 2, STUB_QUEUE, 0);
	service_submit(&c, 3, STUB_CRASH, JOB_IDEMPOTENT);
	service_submit(&c, 4, STUB_HANG, 0); /* still in the ring: the next pool drains it */
	ck_assert_uint_eq(service_outcome(&c, 3), JOB_CRASHED);
	ck_assert_uint_eq(c.jobs[3].signo, SIGSEGV);
	ck_assert_uint_eq(service_outcome(&c, 0), JOB_LOST);
	ck_assert_uint_eq(service_outcome(&c, 1), JOB_DONE);
	ck_assert_uint_eq(service_outcome(&c, 2), JOB_DONE);
	ck_assert_uint_eq(service_outcome(&c, 4), JOB_DONE);
	/* ORDER board/crashes [B2]: acquire, pairs with the release in the manager. */
	crashes = atomic_load_explicit(&c.board->manager.crashes, memory_order_acquire);
	ck_assert_uint_eq(crashes, 1);
	ck_assert_str_eq(c.board->crashes[0].task, "stub:crash");
	ck_assert_uint_eq(c.board->crashes[0].signo, SIGSEGV);
	ck_assert_uint_eq(c.board->crashes[0].address, 0xabc);
	ck_assert_uint_eq(c.board->crashes[0].client_pid, (uint32_t)getpid());
	ck_assert_uint_eq(c.board->crashes[0].job, 3);
	ck_assert_uint_eq(c.board->crashes[0].lost, 1);
	ck_assert_uint_eq(c.board->crashes[0].requeued, 1);
	ck_assert_uint_eq(c.board->crashes[0].reason, CRASH_FAULT);
	ck_assert_uint_eq(c.board->manager.pool_generation, 2);
	service_stop(pid);
}
END_TEST

START_TEST(a_job_that_hung_and_has_ended_leaves_the_next_one_of_its_worker_alone)
{
	pid_t pid = SERVICE_READY("");
	struct service_client c = service_attach();

	service_submit(&c, 0, STUB_HANG, JOB_IDEMPOTENT);
	service_submit(&c, 1, STUB_LATE, 0);
	service_submit(&c, 2, STUB_KILL, 0);
	ck_assert_uint_eq(service_outcome(&c, 2), JOB_LOST);
	ck_assert_uint_eq(service_outcome(&c, 1), JOB_DONE);
	ck_assert_uint_eq(service_outcome(&c, 0), JOB_DONE);
	/* ORDER board/crashes [B2]: acquire, pairs with the release in the manager. */
	ck_assert_uint_eq(atomic_load_explicit(&c.board->manager.crashes, memory_order_acquire), 1);
	ck_assert_uint_eq(c.board->crashes[0].reason, CRASH_HANG);
	ck_assert_uint_eq(c.board->crashes[0].client_pid, 0);
	ck_assert_uint_eq(c.board->crashes[0].lost, 1);
	ck_assert_uint_eq(c.board->crashes[0].requeued, 1);
	service_stop(pid);
}
END_TEST

/* Nothing is said of it to the pool, and hang-timeout would have it asked in an hour. */
START_TEST(a_pool_is_asked_with_each_sign_of_life_while_a_job_runs)
{
	struct systemd_stub *store = SERVICE_KEEP("", 32, 1000000, "--hang-timeout=3600s");
	struct service_client c;

	c = service_attach();
	service_submit(&c, 0, STUB_HANG, 0);
	/* At its start it was told something, and of a client: twice at most it is asked for
	 * that. */
	DAEMON_AWAIT(STUB_PINGS(c.board) >= 5);
	service_end(store);
}
END_TEST

/* A task may have left that word. The job is to blame all the same. */
START_TEST(a_pool_that_leaves_word_of_a_fault_and_does_not_end_is_ended)
{
	pid_t pid = SERVICE_READY("dying", "--hang-timeout=100ms");
	struct service_client c = service_attach();

	service_submit(&c, 0, STUB_HANG, 0);
	ck_assert_uint_eq(service_outcome(&c, 0), JOB_CRASHED);
	ck_assert_uint_eq(c.jobs[0].signo, SIGSEGV);
	/* ORDER board/crashes [B2]: acquire, pairs with the release in the manager. */
	DAEMON_AWAIT(atomic_load_explicit(&c.board->manager.crashes, memory_order_acquire) == 1);
	ck_assert_uint_eq(c.board->crashes[0].reason, CRASH_FAULT);
	service_stop(pid);
}
END_TEST

START_TEST(a_pool_that_is_killed_comes_back)
{
	pid_t pid = SERVICE_READY("");
	struct service_client c = service_attach();

	service_do(&c, 0);
	ck_assert_int_eq(kill((pid_t)c.board->manager.pool_pid, SIGKILL), 0);
	service_do(&c, 1);
	service_stop(pid);
}
END_TEST

/* How often a text stands in a file. */
static uint32_t count(FILE *file, const char *text)
{
	char line[1024];
	uint32_t n = 0;

	rewind(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, text) != NULL;
	return n;
}

START_TEST(a_pool_that_releases_what_nobody_has_does_not_fill_the_log)
{
	FILE *log = tmpfile();
	pid_t pid;

	ck_assert_ptr_nonnull(log);
	ck_assert_int_ge(dup2(fileno(log), STDERR_FILENO), 0);
	pid = SERVICE_READY("stray");
	(void)service_attach();
	service_stop(pid);
	ck_assert_uint_eq(count(log, "the pool released"), 1);
	ck_assert_uint_eq(count(log, "stopped:"), 1);
	(void)fclose(log);
}
END_TEST

START_TEST(a_wild_write_into_the_front_of_the_arena_does_not_reach_the_manager)
{
	pid_t pid = SERVICE_READY("");
	struct service_client first, second;

	first = service_attach();
	service_submit(&first, 0, STUB_WILD, 0);
	ck_assert_uint_eq(service_outcome(&first, 0), JOB_DONE);
	/* Its rows are put in order at this. */
	second = service_attach();
	ck_assert_uint_ne(second.segment->client, first.segment->client);
	service_do(&second, 0);
	service_stop(pid);
}
END_TEST

/* Numbers of its own about itself, as they stand on the board. */
static void see_board(const struct board *board, const struct board_manager *old, uint32_t crashes)
{
	const struct board_manager *m = &board->manager;

	ck_assert_uint_eq(board->head.magic, SEGMENT_MAGIC);
	ck_assert_uint_eq(board->head.reserved[23], 0);
	ck_assert_uint_eq(m->state, BOARD_RUNNING);
	ck_assert_uint_eq(m->pool_generation, 1 + crashes);
	ck_assert_uint_eq(m->crashes, crashes);
	ck_assert_uint_eq(m->accepted, old->accepted);
	ck_assert_uint_eq(m->refused, old->refused);
	ck_assert_uint_eq(m->clients, old->clients);
	ck_assert_uint_eq(m->tenants, old->tenants);
	ck_assert_uint_eq(m->pid, old->pid);
	ck_assert_uint_eq(m->n_workers, old->n_workers);
	ck_assert_uint_eq(m->jobs_max, old->jobs_max);
	ck_assert_uint_eq(m->clients_max, old->clients_max);
	ck_assert_uint_eq(m->scheduler, old->scheduler);
	ck_assert_uint_eq(m->heap_max, old->heap_max);
	ck_assert_uint_eq(m->started_ns, old->started_ns);
	ck_assert_str_eq(m->version, old->version);
}

START_TEST(a_task_that_wrecks_the_fronts_takes_no_other_pool_with_it)
{
	pid_t pid = SERVICE_READY("");
	struct service_client c, late;
	struct board_manager old;

	c = service_attach();
	memcpy(&old, &c.board->manager, sizeof(old));
	service_submit(&c, 0, STUB_HANG, 0);
	service_submit(&c, 1, STUB_HANG, JOB_IDEMPOTENT);
	service_submit(&c, 2, STUB_QUEUE, 0);
	service_submit(&c, 3, STUB_WRECK, 0);
	service_submit(&c, 4, STUB_HANG, 0);
	ck_assert_uint_eq(service_outcome(&c, 3), JOB_CRASHED);
	ck_assert_uint_eq(service_outcome(&c, 0), JOB_LOST);
	ck_assert_uint_eq(service_outcome(&c, 1), JOB_DONE);
	ck_assert_uint_eq(service_outcome(&c, 2), JOB_DONE);
	ck_assert_uint_eq(service_outcome(&c, 4), JOB_DONE);
	see_board(c.board, &old, 1);
	ck_assert_uint_eq(c.board->manager.manager_fails, 2);
	ck_assert_uint_eq(c.board->crashes[0].job, 3);
	/* Its client maps them anew. */
	late = service_attach();
	service_do(&late, 0);
	ck_assert_uint_eq(late.board->manager.accepted, old.accepted + 1);
	service_stop(pid);
}
END_TEST

SERVICE_MAIN("manager")
