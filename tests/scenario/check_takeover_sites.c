/* SPDX-License-Identifier: MIT */
/* takeover_sites: a manager dies, or fails, at any step of a takeover */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "daemon/manager/takeover.h"
#include "daemon/manager/loop_inject.h"
#include "daemon/manager/manager.h"
#include "tests/support/sealed.h"
#include "tests/support/takeover_rig.h"
#include "tests/support/sites.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

#ifdef FK_CRASH_SITES

START_TEST(manager_whose_loop_fails_is_replaced)
{
	struct loop_inject *fault = MAP_FAILED;
	volatile uint8_t *gate;
	char path[96];
	fk_client *c;
	fk_job job;
	int fd;

	daemon_prepare(&d);
	(void)snprintf(path, sizeof(path), "%s/loop", d.directory);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(ftruncate(fd, sizeof(*fault)), 0);
	fault = mmap(NULL, sizeof(*fault), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(fault, MAP_FAILED);
	ck_assert_int_eq(setenv("FORKD_LOOP_INJECT", path, 1), 0);
	c = TAKEOVER_BEGIN("--workers=2", NULL);
	job = jobs_hold_one(&d, c, FK_IDEMPOTENT, &gate);
	atomic_store(&fault->kinds[LOOP_INJECT_ENTER].error, -ENOMEM);
	atomic_store(&fault->kinds[LOOP_INJECT_ENTER].times, 1);
	atomic_store(&fault->kinds[LOOP_INJECT_ENTER].nth, 1);
	/* A request for it to handle. */
	ck_assert_int_eq(kill(d.manager, SIGHUP), 0);
	kept_ready(&d, store);
	ck_assert(daemon_logged(&d, "io_uring failed", ""));
	ck_assert_int_eq(WEXITSTATUS(store->status), MANAGER_EXIT_BUG);
	*gate = 1;
	jobs_see_end(c, job, "DONE");
	ck_assert(!daemon_logged(&d, "disconnected", ""));
	takeover_end(c);
}
END_TEST

START_TEST(state_that_kills_each_manager_is_discarded)
{
	volatile uint8_t *gate;
	fk_client *c;
	fk_job job;

	daemon_prepare(&d);
	ck_assert_int_eq(setenv("FORKD_CRASH_SITE", "takeover_client", 1), 0);
	ck_assert_int_eq(unsetenv("FORKD_CRASH_TOKEN"), 0);
	c = TAKEOVER_BEGIN("--workers=2", NULL);
	job = jobs_hold_one(&d, c, FK_IDEMPOTENT, &gate);
	kept_kill(&d, store);
	jobs_see_end(c, job, "LOST");
	ck_assert_uint_eq(store->starts, 1 + 5 + 1);
	see_all_lost(c, &job, 1);
}
END_TEST

/* A manager dies at the site while it takes over from one that was killed: the next one takes
 * over. */
static void die_taking_over(const char *site)
{
	volatile uint8_t *gates[2];
	fk_job jobs[2];
	fk_client *c;

	daemon_mine(&d, site, 0);
	daemon_unmine(&d);
	c = TAKEOVER_BEGIN("--workers=2", NULL);
	jobs[0] = jobs_hold(c, 0, &gates[0]);
	jobs[1] = jobs_hold(c, FK_IDEMPOTENT, &gates[1]);
	DAEMON_AWAIT(jobs_running(&d, NULL) == 2);
	/* This manager must not reach the site itself: it stores a word after it has run for a
	 * second. */
	daemon_suspend(d.manager);
	daemon_mine(&d, site, 0);
	kept_kill(&d, store);
	DAEMON_AWAIT(!daemon_is_mined(&d));
	DAEMON_AWAIT(store->starts >= 3);
	jobs_see_end(c, jobs[0], "LOST");
	*gates[1] = 1;
	jobs_see_end(c, jobs[1], "DONE");
	kept_ready(&d, store);
	daemon_call_fib(&d);
	takeover_end(c);
}

/* A manager dies at the site while it extends a heap. The client repeats its request. */
static void die_growing(const char *site)
{
	struct saved_state *saved;
	unsigned char *bytes;
	int64_t sum = 0;
	fk_client *c;
	void *data;

	daemon_mine(&d, site, 0);
	daemon_unmine(&d);
	c = TAKEOVER_BEGIN("--workers=2", NULL);
	daemon_mine(&d, site, 0);
	ck_assert_int_eq(fk_alloc(c, 2 << 20, &data), 0);
	DAEMON_AWAIT(!daemon_is_mined(&d));
	kept_ready(&d, store);
	bytes = memset(data, 1, 2 << 20);
	ck_assert_int_eq(fk_call(c, "bytes:sum", &sum, FK_BUFFER(bytes, 2 << 20)), 0);
	ck_assert_int_eq(sum, 2 << 20);
	saved = systemd_stub_saved(store);
	ck_assert_uint_eq(saved_client(saved, c->id).memory,
			  client_segment_heap_offset(c->n_jobs) + c->heap.size);
	saved_unmap(saved);
	takeover_end(c);
}

/* A manager dies at the site while it makes an import. The client repeats its request. */
static void die_importing(const char *site)
{
	int fd = sealed_file(1 << 20, 1, SEALED_FULLY, NULL);
	struct saved_state *saved;
	uint32_t n = 0;
	int64_t sum = 0;
	fk_client *c;
	void *data;

	daemon_mine(&d, site, 0);
	daemon_unmine(&d);
	c = TAKEOVER_BEGIN("--workers=2", "--clients-max=8", NULL);
	daemon_mine(&d, site, 0);
	ck_assert_int_eq(fk_import(c, fd, 0, 1 << 20, &data), 0);
	DAEMON_AWAIT(!daemon_is_mined(&d));
	kept_ready(&d, store);
	ck_assert_int_eq(fk_call(c, "bytes:sum", &sum, FK_BUFFER(data, 1 << 20)), 0);
	ck_assert_int_eq(sum, 1 << 20);
	saved = systemd_stub_saved(store);
	for (uint32_t i = 0; i < LIMIT_IMPORTS; i++)
		n += saved_import(saved, c->id, i).size != 0;
	ck_assert_uint_eq(n, 1);
	saved_unmap(saved);
	ck_assert_int_eq(fk_free(c, data), 0);
	ck_assert_int_eq(close(fd), 0);
	takeover_end(c);
}

/* While it takes over, admits a client, extends a heap, makes an import, or discards jobs. */
enum when { OVER, IN, GROWING, IMPORTING, UP };

#define SITE(site, when)                                                                           \
	{                                                                                          \
		CRASH_AT_##site, when                                                              \
	}

static const struct {
	enum crash_site site;
	enum when when;
} rows[] = {
	SITE(takeover_fenced, OVER),	 SITE(takeover_client, OVER),
	SITE(recovery_given, OVER),	 SITE(pool_forked, OVER),
	SITE(pool_stored, OVER),	 SITE(saved_store, OVER),
	SITE(conn_stored, IN),		 SITE(saved_store, IN),
	SITE(conn_welcoming, IN),	 SITE(conn_growing, GROWING),
	SITE(saved_store, GROWING),	 SITE(conn_grown, GROWING),
	SITE(import_checked, IMPORTING), SITE(saved_store, IMPORTING),
	SITE(import_saved, IMPORTING),	 SITE(takeover_lost, UP),
};

static void die_at_each(enum when when, void (*die)(const char *site))
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].when == when)
			die(crash_rows[rows[i].site].name);
}

START_TEST(manager_that_dies_during_a_takeover_is_replaced)
{
	die_at_each(OVER, die_taking_over);
}
END_TEST

/* A manager dies at the site while it admits a client. A client that receives WELCOME again, from
 * the next manager, ignores it. */
static void die_taking_in(const char *site)
{
	struct saved_state *saved;
	fk_client *old, *c;
	fk_job job;

	daemon_mine(&d, site, 0);
	daemon_unmine(&d);
	old = TAKEOVER_BEGIN("--workers=2", NULL);
	daemon_mine(&d, site, 0);
	c = daemon_open(&d);
	/* The next manager may receive this before it has sent WELCOME. */
	job = jobs_submit(c, "null:add", FK_IDEMPOTENT, 40, 2);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	DAEMON_AWAIT(!daemon_is_mined(&d));
	kept_ready(&d, store);
	if (streq(site, "conn_welcoming")) {
		saved = systemd_stub_saved(store);
		DAEMON_AWAIT(saved_client(saved, c->id).welcomed);
		saved_unmap(saved);
		ck_assert(!client_gone(c));
	}
	(void)jobs_outcome(c, job, NULL);
	serves(c);
	ck_assert_int_eq(fk_close(c), 0);
	serves(old);
	daemon_call_fib(&d);
	ck_assert_int_eq(fk_close(old), 0);
	DAEMON_AWAIT(!n_kept("c1") && !n_kept("c2") && !n_kept("c3"));
	kept_stop(&d, store);
}

START_TEST(client_admitted_by_a_dying_manager_stays_admitted)
{
	die_at_each(IN, die_taking_in);
}
END_TEST

START_TEST(a_heap_that_grows_while_a_manager_dies_has_grown)
{
	die_at_each(GROWING, die_growing);
}
END_TEST

START_TEST(an_import_that_is_made_while_a_manager_dies_is_made)
{
	die_at_each(IMPORTING, die_importing);
}
END_TEST

START_TEST(pool_that_dies_while_it_discards_jobs_leaves_that_to_the_next)
{
	volatile uint8_t *gates[2];
	struct saved_state *saved;
	fk_job jobs[2];
	fk_client *c;

	daemon_mine(&d, "takeover_lost", 0);
	c = TAKEOVER_BEGIN("--workers=2", NULL);
	for (uint32_t i = 0; i < 2; i++)
		jobs[i] = jobs_hold(c, FK_IDEMPOTENT, &gates[i]);
	DAEMON_AWAIT(jobs_running(&d, NULL) == 2);
	saved = systemd_stub_saved(store);
	saved->geometry.jobs_max++;
	saved_unmap(saved);
	kept_kill(&d, store);
	DAEMON_AWAIT(!daemon_is_mined(&d));
	see_all_lost(c, jobs, 2);
}
END_TEST

START_TEST(every_site_of_the_manager_is_tried)
{
	SITES_CHECK(CRASH_MANAGER, rows);
}
END_TEST

CHECK_MAIN("takeover_sites")

#else

int main(void)
{
	puts("needs --enable-crash-sites");
	return 77;
}

#endif
