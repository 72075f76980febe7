/* SPDX-License-Identifier: MIT */
/* reload of modules - modules are added and removed with another pool; queued jobs and task handles
 * survive */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/support/reload_rig.h"

#define QUEUED 10u

static void take_away(const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", d.modules, name);
	ck_assert_int_eq(unlink(path), 0);
}

START_TEST(modules_are_replaced_after_running_jobs_and_before_queued_ones)
{
	fk_job held[2], queued[2 * QUEUED];
	volatile uint8_t *gates[2];
	const fk_task *add, *sort;
	fk_client *late;
	pid_t pool, waits;

	prepare();
	start("workers = 2\nstop-timeout = 1000s\n");
	pool = daemon_pool(&d);
	ck_assert_int_eq(fk_task_find(c, "null:add", &add), 0);
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &sort), -FK_E_NO_TASK);
	for (uint32_t i = 0; i < 2; i++)
		held[i] = jobs_hold(c, 0, &gates[i]);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 2);
	for (uint32_t i = 0; i < QUEUED; i++)
		queued[i] = jobs_submit(c, "null:add", 0, i, 1);
	/* Another file, so that the pool cannot load the rest while it runs. */
	put(OURS("null"));
	/* Before the others, by its name and its file's. */
	put("daemon/modules/.libs/array.so", "array.so");
	put("daemon/modules/.libs/sort.so", "a.so");
	waits = reload_waits();
	for (uint32_t i = QUEUED; i < 2 * QUEUED; i++)
		queued[i] = jobs_submit(c, "null:add", 0, i, 1);
	jobs_let_go(c, held[0], gates[0]);
	for (uint32_t i = 0; i < 2 * QUEUED; i++)
		ck_assert_int_eq(fk_outcome(c, queued[i], NULL, NULL), FK_PENDING);
	/* A client that connects is served in the meantime, except that its jobs wait. */
	late = daemon_open(&d);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert(!daemon_has_ended(waits));
	*gates[1] = 1;
	ck_assert_int_eq(daemon_reap(waits), 0);
	ck_assert_int_eq(jobs_outcome(c, held[1], NULL), FK_DONE);
	for (uint32_t i = 0; i < 2 * QUEUED; i++)
		jobs_see(c, queued[i], i + 1);
	ck_assert_int_ne(daemon_pool(&d), pool);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_uint_eq(atomic_load(&d.board->manager.pool_generation), 2);
	/* An old handle still works, and new tasks are found. */
	ck_assert_int_eq(fk_submit_packed(c, add, (const int64_t[]){ 40, 2 }, 16, 0, &held[0]), 0);
	jobs_see(c, held[0], 42);
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &sort), 0);
	ck_assert_int_eq(fk_close(late), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(queued_jobs_are_cancelled_expire_and_are_left_while_running_jobs_end)
{
	struct fk_request late = { .options.timeout_ns = 50 * NSEC_PER_MSEC };
	volatile uint8_t *gate;
	fk_client *gone;
	fk_job held, jobs[3];
	pid_t waits;

	prepare();
	start("workers = 2\nstop-timeout = 1000s\n");
	gone = daemon_open(&d);
	held = jobs_hold(c, 0, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	put(OURS("null"));
	waits = reload_waits();
	jobs[0] = jobs_submit(c, "null:add", 0, 1, 2);
	jobs[1] = jobs_submit(c, "null:null", 0, 0, 0);
	late.task = jobs_task(c, "null:null");
	ck_assert_int_eq(fk_submit_batch(c, &late, 1, 0, &jobs[2]), 0);
	(void)jobs_submit(gone, "null:null", 0, 0, 0);
	/* The other worker has looked at all of them. */
	DAEMON_AWAIT(daemon_counter(&d, "drained") == 5);
	ck_assert_int_eq(fk_cancel(c, jobs[1]), 0);
	jobs_see_end(c, jobs[1], "CANCELLED");
	jobs_see_end(c, jobs[2], "EXPIRED");
	(void)fk_close(gone);
	DAEMON_AWAIT(daemon_counter(&d, "jobs_dropped") == 3);
	ck_assert(!daemon_has_ended(waits));
	ck_assert_int_eq(fk_outcome(c, jobs[0], NULL, NULL), FK_PENDING);
	*gate = 1;
	ck_assert_int_eq(daemon_reap(waits), 0);
	ck_assert_int_eq(jobs_outcome(c, held, NULL), FK_DONE);
	jobs_see(c, jobs[0], 3);
	jobs_end(&d, c);
}
END_TEST

START_TEST(replaced_task_must_be_looked_up_again)
{
	static const uint8_t nothing[LIMIT_ARGS];
	const fk_task *add, *fib, *sort;
	union fk_value values[3] = { { .i64 = 1 }, { .i64 = 2 }, { .i64 = 4 } };
	fk_job job;
	pid_t pool;

	prepare();
	put(SHIPPED("sort"));
	start("workers = 2\n");
	ck_assert_int_eq(fk_task_find(c, "null:add", &add), 0);
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &sort), 0);
	ck_assert_int_eq(fk_task_find(c, "fib:fib", &fib), 0);
	pool = daemon_pool(&d);
	put("tests/support/modules/later/.libs/null.so", "null.so");
	put(SHIPPED("fib"));
	take_away("sort.so");
	reload(0, "another pool has other modules");
	ck_assert_int_ne(daemon_pool(&d), pool);
	ck_assert_int_eq(fk_submit_packed(c, add, (const int64_t[]){ 40, 2 }, 16, 0, &job),
			 -FK_E_TASK_GONE);
	ck_assert_int_eq(fk_submit_packed(c, sort, nothing, fk_task_args_size(sort), 0, &job),
			 -FK_E_TASK_GONE);
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &sort), -FK_E_NO_TASK);
	ck_assert_int_eq(fk_task_find(c, "null:add", &add), 0);
	ck_assert_str_eq(fk_task_signature(add), "a:i64, b:i64, c:i64 -> i64");
	ck_assert_int_eq(fk_submit_values(c, add, values, 3, 0, &job), 0);
	jobs_see(c, job, 7);
	/* Another file with the same task. */
	ck_assert_int_eq(fk_submit_values(c, fib, &(union fk_value){ .i64 = 20 }, 1, 0, &job), 0);
	jobs_see(c, job, 6765);
	/* It has its old index again. */
	put(SHIPPED("sort"));
	reload(0, can_join() ? "loaded into the running pool" : "another pool has other modules");
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &sort), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(queued_job_of_a_replaced_task_fails)
{
	volatile uint8_t *gate;
	fk_job held, other, gone;
	pid_t waits;
	int code;

	prepare();
	held = start_held(&gate);
	other = jobs_submit(c, "null:add", 0, 1, 2);
	gone = jobs_submit(c, "null:null", 0, 0, 0);
	put("tests/support/modules/later/.libs/null.so", "null.so");
	waits = reload_waits();
	*gate = 1;
	ck_assert_int_eq(daemon_reap(waits), 0);
	ck_assert_int_eq(jobs_outcome(c, held, NULL), FK_DONE);
	ck_assert_int_eq(jobs_outcome(c, other, NULL), FK_FAILED);
	ck_assert_int_eq(fk_outcome(c, other, &code, NULL), FK_FAILED);
	ck_assert_int_eq(code, -FK_E_TASK_GONE);
	ck_assert_int_eq(jobs_outcome(c, gone, NULL), FK_FAILED);
	ck_assert_int_eq(fk_outcome(c, gone, &code, NULL), FK_FAILED);
	ck_assert_int_eq(code, -FK_E_TASK_GONE);
	jobs_end(&d, c);
}
END_TEST

START_TEST(module_that_cannot_be_loaded_leaves_the_others)
{
	pid_t pool;

	prepare();
	put("tests/support/modules/broken/.libs/broken_abi.so", "old.so");
	start("workers = 2\nspin = 10us\n");
	pool = daemon_pool(&d);
	/* This was so when forkd was started. */
	configure("workers = 2\nspin = 20us\n");
	reload(0, "changed: spin");
	put("tests/support/modules/broken/.libs/broken_undefined.so", "other.so");
	configure("workers = 2\n");
	reload(1, "not all modules can be loaded");
	ck_assert(daemon_logged(&d, "other.so: not loaded", "forkd-reload"));
	take_away("old.so");
	put("tests/support/modules/broken/.libs/broken_crash.so", "other.so");
	reload(1, "died of signal 6");
	ck_assert_int_eq(daemon_pool(&d), pool);
	take_away("other.so");
	reload(0, "another pool has other modules; changed: spin");
	ck_assert_int_ne(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

/* The library that the module needs is installed, and no file in the directory changes. */
START_TEST(module_that_was_left_out_is_tried_again)
{
	char library[128];
	pid_t pool;

	/* Its runtime must be the first of all libraries. */
	if (daemon_sanitized())
		return;
	prepare();
	put("tests/support/modules/later/.libs/needs.so", "needs.so");
	put("tests/support/modules/broken/.libs/broken_abi.so", "old.so");
	(void)snprintf(library, sizeof(library), "%s/needed.so", d.directory);
	ck_assert_int_eq(setenv("LD_PRELOAD", library, 1), 0);
	start("workers = 2\n");
	ck_assert(daemon_logged(&d, "needs.so: not loaded", "needed"));
	pool = daemon_pool(&d);
	reload(0, "no option has changed");
	ck_assert_int_eq(daemon_pool(&d), pool);
	put("tests/support/modules/later/.libs/needed.so", "../needed.so");
	/* An unchanged module does not prevent that. */
	reload(0, "another pool has other modules");
	ck_assert_int_ne(daemon_pool(&d), pool);
	jobs_see(c, jobs_submit(c, "needs:next", 0, 41, 0), 42);
	pool = daemon_pool(&d);
	reload(0, "no option has changed");
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_int_eq(unsetenv("LD_PRELOAD"), 0);
	ck_assert_int_eq(unlink(library), 0);
	jobs_end(&d, c);
}
END_TEST

/* After the trial, and before the pool that must load the same modules. */
START_TEST(pool_that_leaves_out_more_than_the_trial_is_a_failure)
{
	volatile uint8_t *gate;
	fk_job held, queued;
	pid_t waits, pool;

	prepare();
	held = start_held(&gate);
	pool = daemon_pool(&d);
	queued = jobs_submit(c, "null:add", 0, 1, 2);
	put(OURS("null"));
	waits = reload_waits();
	put("tests/support/modules/broken/.libs/broken_abi.so", "old.so");
	*gate = 1;
	ck_assert_int_eq(daemon_reap(waits), 1);
	ck_assert_int_eq(jobs_outcome(c, held, NULL), FK_DONE);
	jobs_see(c, queued, 3);
	ck_assert_int_ne(daemon_pool(&d), pool);
	ck_assert(daemon_logged(&d, "reload: another pool has other modules, but", "log"));
	take_away("old.so");
	reload(0, "another pool has other modules");
	jobs_end(&d, c);
}
END_TEST

START_TEST(pool_that_dies_before_its_end_is_replaced_too)
{
	volatile uint8_t *gate;
	fk_job held, queued;
	const fk_task *task;
	pid_t waits;

	prepare();
	held = start_held(&gate);
	queued = jobs_submit(c, "null:add", 0, 1, 2);
	put(OURS("null"));
	put(SHIPPED("sort"));
	waits = reload_waits();
	ck_assert_int_eq(kill(daemon_pool(&d), SIGKILL), 0);
	ck_assert_int_eq(daemon_reap(waits), 0);
	ck_assert_int_eq(jobs_outcome(c, held, NULL), FK_LOST);
	jobs_see(c, queued, 3);
	ck_assert_uint_eq(daemon_crashes(&d), 1);
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &task), 0);
	jobs_end(&d, c);
}
END_TEST

/* Checks that `forkctl modules WHAT FILE` ends with this status and prints this text. */
static void modules(int status, const char *text, const char *what, const char *file)
{
	daemon_see_ctl(&d, status, text, "modules", what, file, NULL);
}

/* A file of the build tree. */
static const char *built(const char *file)
{
	static char path[4096];
	const char *top = getenv("top_builddir");

	(void)snprintf(path, sizeof(path), "%s/%s", top ? top : ".", file);
	return path;
}

static bool is_there(const char *name)
{
	char path[128];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/%s", d.modules, name);
	return stat(path, &st) == 0 && (st.st_mode & 07777) == 0644;
}

/* Returns the number of files in the module directory. */
static uint32_t n_files(void)
{
	_cleanup_closedir_ DIR *dir = opendir(d.modules);
	uint32_t n = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	return n - 2;
}

START_TEST(forkctl_loads_and_unloads_modules_and_undoes_refused_changes)
{
	const char *come;
	char copy[128];
	const fk_task *task;
	pid_t pool;

	prepare();
	start("workers = 2\n");
	come = can_join() ? "loaded into the running pool" : "another pool has other modules";
	modules(0, come, "load", built("daemon/modules/.libs/sort.so"));
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &task), 0);
	ck_assert(is_there("sort.so"));
	modules(0, "another pool has other modules", "load",
		built("tests/support/modules/later/.libs/null.so"));
	ck_assert_int_eq(fk_task_find(c, "null:add", &task), 0);
	ck_assert_str_eq(fk_task_signature(task), "a:i64, b:i64, c:i64 -> i64");
	ck_assert_uint_eq(n_files(), 4);
	/* A module that cannot be loaded: a new one, and one instead of another. */
	pool = daemon_pool(&d);
	modules(1, "was restored", "load",
		built("tests/support/modules/broken/.libs/broken_crash.so"));
	put("tests/support/modules/broken/.libs/broken_abi.so", "../null.so");
	(void)snprintf(copy, sizeof(copy), "%s/null.so", d.directory);
	modules(1, "was restored", "load", copy);
	ck_assert_int_eq(unlink(copy), 0);
	ck_assert_uint_eq(n_files(), 4);
	ck_assert_int_eq(daemon_pool(&d), pool);
	reload(0, "no option has changed");
	/* The next reload does not take the restored file for a changed one. */
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_int_eq(fk_task_find(c, "null:add", &task), 0);
	ck_assert_str_eq(fk_task_signature(task), "a:i64, b:i64, c:i64 -> i64");
	/* By its name, or by its file's. */
	put(OURS("bytes"));
	modules(0, "another pool has other modules", "unload", "sort");
	modules(0, "another pool has other modules", "unload", "bytes.so");
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &task), -FK_E_NO_TASK);
	ck_assert(!is_there("sort.so") && is_there("sort.so.unloaded"));
	(void)snprintf(copy, sizeof(copy), "%s/sort.so.unloaded", d.modules);
	modules(0, come, "load", copy);
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &task), 0);
	pool = daemon_pool(&d);
	modules(2, "there is no module sorted", "unload", "sorted");
	modules(2, "not the name of a module", "unload", "../sort");
	modules(2, "must end in .so", "load", "/etc/passwd");
	modules(2, "cannot read", "load", "/nowhere/there.so");
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

#define USERS 3u
#define LOADS 50u

/* Memory that the users of the next test share with the test. */
struct users {
	_Atomic uint32_t opened; /* long jobs that each user may end */
	_Atomic uint32_t ended;	 /* of all ended jobs */
};

/* A user with one long job after another, and a short one that may have to wait. Returns an exit
 * status. */
static int user_run(struct users *users, uint32_t n)
{
	fk_client *client;
	int64_t sum;

	if (fk_open(d.socket, NULL, &client) < 0)
		return 2;
	for (uint32_t i = 0; i < n; i++) {
		struct fk_buffer gate = { NULL, 1 };
		const fk_task *hold;
		fk_job job;

		if (fk_alloc(client, gate.size, &gate.data) < 0 ||
		    fk_task_find(client, "crash:hold", &hold) < 0)
			return 3;
		*(volatile uint8_t *)gate.data = 0;
		if (fk_submit(client, hold, 0, &job, gate) < 0)
			return 4;
		while (atomic_load(&users->opened) <= i)
			(void)usleep(1000);
		*(volatile uint8_t *)gate.data = 1;
		if (fk_wait(client, job, FK_FOREVER) < 0 ||
		    fk_outcome(client, job, NULL, NULL) != FK_DONE || fk_release(client, job) < 0)
			return 5;
		fk_free(client, gate.data);
		if (fk_call(client, "null:add", &sum, (int64_t)i, INT64_C(1)) < 0 || sum != i + 1)
			return 6;
		atomic_fetch_add(&users->ended, 1);
	}
	(void)fk_close(client);
	return 0;
}

/* Every other time the jobs continue, and nothing changes. Otherwise they end while forkctl waits,
 * and the pool is replaced. */
START_TEST(module_is_loaded_and_refused_50_times_during_long_jobs_of_three_users)
{
	static const char *const load[] = { "forkctl",	       "modules", "load",
					    "--timeout=1000s", NULL,	  NULL };
	struct users *users = daemon_share(sizeof(*users));
	const char *argv[ARRAY_SIZE(load)];
	char text[1024], running[32];
	pid_t pids[USERS];

	memcpy(argv, load, sizeof(argv));
	argv[4] = built("daemon/modules/.libs/sort.so");
	prepare();
	put(SHIPPED("sort"));
	start("workers = 3\n");
	for (uint32_t i = 0; i < USERS; i++) {
		pids[i] = daemon_fork(65533u - i);
		if (pids[i] == 0)
			_exit(user_run(users, LOADS));
	}
	(void)snprintf(running, sizeof(running), "%u jobs of %u users still run", USERS,
		       geteuid() == 0 ? USERS : 1);
	for (uint32_t i = 0; i < LOADS; i++) {
		pid_t pool = daemon_pool(&d), waits;

		DAEMON_AWAIT(jobs_running(&d, "crash:hold") == USERS);
		ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "modules", "load",
					    "--timeout=1ms", argv[4], NULL),
				 1);
		ck_assert_msg(strstr(text, running) && strstr(text, "was restored"), "%s", text);
		ck_assert_int_eq(daemon_pool(&d), pool);
		waits = daemon_spawn(&d, "load", argv);
		DAEMON_AWAIT(daemon_count_lines(&d, "the pool starts no more jobs", "") ==
			     2 * (i + 1));
		atomic_store(&users->opened, i + 1);
		ck_assert_int_eq(daemon_reap(waits), 0);
		ck_assert_int_ne(daemon_pool(&d), pool);
		DAEMON_AWAIT(atomic_load(&users->ended) >= USERS * (i + 1));
	}
	for (uint32_t i = 0; i < USERS; i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
	ck_assert_uint_eq(atomic_load(&d.board->manager.pool_generation), 1 + LOADS);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("reload_modules")
