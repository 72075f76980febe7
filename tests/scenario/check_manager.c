/* SPDX-License-Identifier: MIT */
/* manager - the manager and its pool: a pool that does not start, one that dies, and its jobs */
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

START_TEST(pool_that_cannot_start_ends_forkd)
{
	service_setup("fail");
	ck_assert_int_eq(service_ends(SERVICE_START()), MANAGER_EXIT_POOL);
	ck_assert_int_eq(setenv("FORKD_STUB", "die", 1), 0);
	ck_assert_int_eq(service_ends(SERVICE_START()), MANAGER_EXIT_POOL);
	service_teardown();
}
END_TEST

/* A manager whose first pool was killed by job 1; job 0 was queued there. */
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

START_TEST(pool_that_dies_repeatedly_ends_forkd)
{
	dies_again_and_again("once");
}
END_TEST

/* A new forkd may have the libraries that it needs. */
START_TEST(later_pool_that_cannot_be_loaded_ends_forkd)
{
	dies_again_and_again("unloaded");
}
END_TEST

/* More of them than deaths in a row that end forkd. */
START_TEST(later_pool_without_resources_is_retried_until_it_starts)
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

START_TEST(each_job_gets_its_outcome_if_the_pool_crashes)
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
	ck_assert_uint_eq(c.board->crashes[0].job, job_handle(1, 3));
	ck_assert_uint_eq(c.board->crashes[0].lost, 1);
	ck_assert_uint_eq(c.board->crashes[0].requeued, 1);
	ck_assert_uint_eq(c.board->crashes[0].reason, CRASH_FAULT);
	ck_assert_uint_eq(c.board->manager.pool_generation, 2);
	service_stop(pid);
}
END_TEST

START_TEST(next_job_of_a_worker_is_not_blamed_for_a_hang)
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

/* The pool gets no messages, and hang-timeout would have it checked in an hour. */
START_TEST(pool_is_checked_with_each_watchdog_signal_while_a_job_runs)
{
	struct systemd_stub *store = SERVICE_KEEP("", 32, 1000000, "--hang-timeout=3600s");
	struct service_client c;

	c = service_attach();
	service_submit(&c, 0, STUB_HANG, 0);
	/* At its start it was sent messages, and the client: at most two checks for that. */
	DAEMON_AWAIT(STUB_PINGS(c.board) >= 5);
	service_end(store);
}
END_TEST

/* A task may have stored that report. The job is to blame all the same. */
START_TEST(pool_that_stores_a_fault_report_and_does_not_end_is_killed)
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

START_TEST(killed_pool_is_replaced)
{
	pid_t pid = SERVICE_READY("");
	struct service_client c = service_attach();

	service_do(&c, 0);
	ck_assert_int_eq(kill((pid_t)c.board->manager.pool_pid, SIGKILL), 0);
	service_do(&c, 1);
	service_stop(pid);
}
END_TEST

/* Returns how often a text is in a file. */
static uint32_t count(FILE *file, const char *text)
{
	char line[1024];
	uint32_t n = 0;

	rewind(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, text) != NULL;
	return n;
}

START_TEST(pool_that_releases_unknown_clients_does_not_fill_the_log)
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

START_TEST(stray_write_to_the_front_of_the_arena_does_not_affect_the_manager)
{
	pid_t pid = SERVICE_READY("");
	struct service_client first, second;

	first = service_attach();
	service_submit(&first, 0, STUB_WILD, 0);
	ck_assert_uint_eq(service_outcome(&first, 0), JOB_DONE);
	/* The new client's rows are reset by this. */
	second = service_attach();
	ck_assert_uint_ne(second.segment->client, first.segment->client);
	service_do(&second, 0);
	service_stop(pid);
}
END_TEST

/* Checks the manager's own numbers on the board. */
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

START_TEST(task_that_overwrites_the_fronts_ends_only_its_pool)
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
	ck_assert_uint_eq(c.board->crashes[0].job, job_handle(1, 3));
	/* A new client maps them again. */
	late = service_attach();
	service_do(&late, 0);
	ck_assert_uint_eq(late.board->manager.accepted, old.accepted + 1);
	service_stop(pid);
}
END_TEST

SERVICE_MAIN("manager")
