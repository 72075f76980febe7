/* SPDX-License-Identifier: MIT */
/*
 * reload - forkd.conf and the modules are read again while forkd runs: what can change does, what
 * is wrong changes nothing, and who is connected notices a pause at most
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "common/cleanup.h"
#include "common/util.h"
#include "tests/jobs.h"
#include "tests/kept.h"
#include "tests/oracle.h"
#define CHECK_TIMEOUT 120
#include "tests/check_unit.h"

#define QUEUED	10u
#define CLIENTS 3u
#define RELOADS 3u

#define SHIPPED(name) "daemon/modules/.libs/" name ".so", name ".so"
#define OURS(name)    "tests/modules/.libs/" name ".so", name ".so"

static struct daemon d;
static fk_client *c;

/* A file of the build tree is in the module folder under this name from now on: another file than
 * before, whole at any time. */
static void put(const char *path, const char *name)
{
	char from[128], to[128];

	daemon_add_module(&d, path, "next");
	(void)snprintf(from, sizeof(from), "%s/next", d.modules);
	(void)snprintf(to, sizeof(to), "%s/%s", d.modules, name);
	ck_assert_int_eq(rename(from, to), 0);
}

static void take_away(const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", d.modules, name);
	ck_assert_int_eq(unlink(path), 0);
}

static void prepare(void)
{
	memset(&d, 0, sizeof(d));
	daemon_prepare_bare(&d);
	put(SHIPPED("fib"));
	put(OURS("null"));
	put(OURS("crash"));
}

static void start(const char *conf)
{
	daemon_start(&d, kept_configure(&d, conf), NULL);
	c = daemon_open(&d);
}

static void configure(const char *conf)
{
	(void)kept_configure(&d, conf);
}

/* forkctl reload ends with this status, and what it prints has this text. */
static void reload(int status, const char *text)
{
	char output[1024];

	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "reload", NULL), status);
	ck_assert_msg(strstr(output, text), "\"%s\" is not in: %s", text, output);
}

/* It waits for jobs, and forkctl with it: returns its pid when the pool was told to end. */
static pid_t reload_waits(void)
{
	pid_t pid = daemon_spawn(&d, "reload", (const char *[]){ "forkctl", "reload", NULL });

	DAEMON_AWAIT(daemon_logged(&d, "there is to be another pool", ""));
	/* It has heard of that. */
	DAEMON_AWAIT(daemon_logged(&d, "no job is started any more", ""));
	return pid;
}

/* The outcome of a job of a task by this name, and its error. */
static int code_of(const char *name)
{
	fk_job job = jobs_submit(c, name, 0, 1, 2);
	int code = 0;

	(void)jobs_outcome(c, job, NULL);
	if (fk_outcome(c, job, &code, NULL) == FK_DONE)
		code = 0;
	ck_assert_int_eq(fk_release(c, job), 0);
	return code;
}

START_TEST(what_can_change_does_and_the_rest_is_named)
{
	char text[512];
	pid_t pool;

	prepare();
	start("workers = 2\nspin = 10us\nmax-jobs = 100\n");
	pool = daemon_pool(&d);
	reload(0, "no option has changed");
	configure("workers = 3\nspin = 20us\nscheduler = busy\nmax-jobs = 10\nweights = *:7\n");
	reload(0, "some options need a restart; changed: scheduler, weights, spin");
	ck_assert(daemon_logged(&d, "stay as they are: workers, max-jobs", "restart"));
	ck_assert_uint_eq(atomic_load(&d.board->manager.scheduler), 1);
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "set", "spin", "30us", NULL), 0);
	ck_assert_str_eq(text, "spin = 30us (was 20us)\n");
	/* What was set is as the file says again. */
	reload(0, "some options need a restart; changed: spin");
	configure("workers = 2\nmax-jobs = 100\n");
	ck_assert_int_eq(kill(d.manager, SIGHUP), 0);
	/* It begins after that one is over. */
	reload(0, "no option has changed");
	ck_assert_uint_eq(atomic_load(&d.board->manager.scheduler), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

START_TEST(who_is_in_stays_and_may_call_what_the_new_list_says)
{
	char conf[256], text[512];
	uint32_t uid = (uint32_t)geteuid();
	pid_t pool;

	prepare();
	start("");
	pool = daemon_pool(&d);
	(void)snprintf(conf, sizeof(conf), "tasks = %u:fib:*\ndeny = %u\n", uid, uid);
	configure(conf);
	reload(0, "changed: deny, tasks");
	ck_assert_int_eq(code_of("fib:fib"), 0);
	ck_assert_int_eq(code_of("null:add"), -EACCES);
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "call", "fib:fib", "20", NULL), 3);
	ck_assert_msg(strstr(text, "deny"), "%s", text);
	/* By their places in the list the old rules would let it call the other one. */
	(void)snprintf(conf, sizeof(conf), "tasks = 4294967294:x:y\ntasks = %u:null:*\n", uid);
	configure(conf);
	reload(0, "changed: deny, tasks");
	ck_assert_int_eq(code_of("fib:fib"), -EACCES);
	ck_assert_int_eq(code_of("null:add"), 0);
	ck_assert(daemon_logged(&d, "forkd.conf:1: tasks: \"x:y\" fits no task", ""));
	/* The next pool is told of the list that holds, not of that which it was started with. */
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	pool = jobs_pool_after(&d, pool);
	ck_assert_int_eq(code_of("fib:fib"), -EACCES);
	ck_assert_int_eq(code_of("null:add"), 0);
	configure("");
	reload(0, "changed: tasks");
	ck_assert_int_eq(code_of("null:add"), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

START_TEST(what_is_wrong_is_said_and_nothing_changes)
{
	char text[512];
	pid_t pool;

	prepare();
	start("spin = 10us\n");
	pool = daemon_pool(&d);
	configure("spin = 20us\nwokers = 3\n");
	reload(1, "log");
	ck_assert(daemon_logged(&d, "forkd.conf:2: unknown option \"wokers\"", "workers"));
	ck_assert_int_eq(kill(d.manager, SIGHUP), 0);
	reload(1, "log");
	configure("spin = 20us\nmemory-total = 16M\n");
	reload(1, "log");
	ck_assert(daemon_logged(&d, "memory-total is 16M", "forkd-reload"));
	configure("spin = 20us\nallow = nobody-has-this-name\n");
	reload(1, "log");
	configure("spin = 20us\n");
	ck_assert_int_eq(chmod(d.modules, 0777), 0);
	reload(1, "log");
	ck_assert(daemon_logged(&d, "module-dir", "go-w"));
	ck_assert_int_eq(chmod(d.modules, 0755), 0);
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "set", "spin", "10us", NULL), 0);
	ck_assert_str_eq(text, "spin = 10us (was 10us)\n");
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

START_TEST(modules_come_when_what_runs_has_ended_and_what_is_queued_waits)
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
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &sort), -ENOENT);
	for (uint32_t i = 0; i < 2; i++)
		held[i] = jobs_hold(c, 0, &gates[i]);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 2);
	for (uint32_t i = 0; i < QUEUED; i++)
		queued[i] = jobs_submit(c, "null:add", 0, i, 1);
	/* Before the others, by its name and its file's. */
	put("daemon/modules/.libs/array.so", "array.so");
	put("daemon/modules/.libs/sort.so", "a.so");
	waits = reload_waits();
	for (uint32_t i = QUEUED; i < 2 * QUEUED; i++)
		queued[i] = jobs_submit(c, "null:add", 0, i, 1);
	*gates[0] = 1;
	ck_assert_int_eq(jobs_outcome(c, held[0], NULL), FK_DONE);
	for (uint32_t i = 0; i < 2 * QUEUED; i++)
		ck_assert_int_eq(fk_outcome(c, queued[i], NULL, NULL), FK_PENDING);
	/* Who connects is served meanwhile, as far as that goes. */
	late = daemon_open(&d);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert(!daemon_has_ended(waits));
	*gates[1] = 1;
	ck_assert_int_eq(daemon_reap(waits), 0);
	ck_assert_int_eq(jobs_outcome(c, held[1], NULL), FK_DONE);
	for (uint32_t i = 0; i < 2 * QUEUED; i++)
		jobs_see(c, queued[i], i + 1);
	ck_assert_int_ne(daemon_pool(&d), pool);
	ck_assert_uint_eq(atomic_load(&d.board->manager.crashes), 0);
	ck_assert_uint_eq(atomic_load(&d.board->manager.pool_generation), 2);
	/* A handle of then is as good as ever, and of those that came there are some. */
	ck_assert_int_eq(fk_submit(c, add, (const int64_t[]){ 40, 2 }, 16, 0, &held[0]), 0);
	jobs_see(c, held[0], 42);
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &sort), 0);
	ck_assert_int_eq(fk_close(late), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(a_task_that_is_another_now_has_to_be_asked_for_again)
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
	put("tests/modules/later/.libs/null.so", "null.so");
	put(SHIPPED("fib"));
	take_away("sort.so");
	reload(0, "another pool has other modules");
	ck_assert_int_ne(daemon_pool(&d), pool);
	ck_assert_int_eq(fk_submit(c, add, (const int64_t[]){ 40, 2 }, 16, 0, &job), -ENOENT);
	ck_assert_int_eq(fk_submit(c, sort, nothing, fk_task_args_size(sort), 0, &job), -ENOENT);
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &sort), -ENOENT);
	ck_assert_int_eq(fk_task_find(c, "null:add", &add), 0);
	ck_assert_str_eq(fk_task_signature(add), "a:i64, b:i64, c:i64 -> i64");
	ck_assert_int_eq(fk_submit_values(c, add, values, 3, 0, &job), 0);
	jobs_see(c, job, 7);
	/* Another file with the same task. */
	ck_assert_int_eq(fk_submit_values(c, fib, &(union fk_value){ .i64 = 20 }, 1, 0, &job), 0);
	jobs_see(c, job, 6765);
	/* It comes back to where it was. */
	put(SHIPPED("sort"));
	reload(0, "another pool has other modules");
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &sort), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(a_job_that_waits_for_a_task_that_is_another_now_fails)
{
	volatile uint8_t *gate;
	fk_job held, other, gone;
	pid_t waits;
	int code;

	prepare();
	start("workers = 1\nstop-timeout = 1000s\n");
	held = jobs_hold(c, 0, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	other = jobs_submit(c, "null:add", 0, 1, 2);
	gone = jobs_submit(c, "null:null", 0, 0, 0);
	put("tests/modules/later/.libs/null.so", "null.so");
	waits = reload_waits();
	*gate = 1;
	ck_assert_int_eq(daemon_reap(waits), 0);
	ck_assert_int_eq(jobs_outcome(c, held, NULL), FK_DONE);
	ck_assert_int_eq(jobs_outcome(c, other, NULL), FK_FAILED);
	ck_assert_int_eq(fk_outcome(c, other, &code, NULL), FK_FAILED);
	ck_assert_int_eq(code, -ESTALE);
	ck_assert_int_eq(jobs_outcome(c, gone, NULL), FK_FAILED);
	ck_assert_int_eq(fk_outcome(c, gone, &code, NULL), FK_FAILED);
	ck_assert_int_eq(code, -ESTALE);
	jobs_end(&d, c);
}
END_TEST

START_TEST(what_does_not_end_in_time_is_LOST_or_runs_again_and_nobody_is_blamed)
{
	volatile uint8_t *gates[2];
	fk_job jobs[2];

	prepare();
	start("workers = 2\nstop-timeout = 50ms\n");
	jobs[0] = jobs_hold(c, 0, &gates[0]);
	jobs[1] = jobs_hold(c, FK_IDEMPOTENT, &gates[1]);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 2);
	/* Again and again: it is suspected of nothing. */
	for (uint32_t i = 0; i < 3; i++) {
		put(OURS("null"));
		reload(0, "another pool has other modules");
		DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	}
	ck_assert_int_eq(jobs_outcome(c, jobs[0], NULL), FK_LOST);
	*gates[1] = 1;
	ck_assert_int_eq(jobs_outcome(c, jobs[1], NULL), FK_DONE);
	ck_assert_uint_eq(atomic_load(&d.board->manager.crashes), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(what_hangs_already_is_seen_by_a_limit_that_comes)
{
	fk_job job;

	prepare();
	put(OURS("hang"));
	start("workers = 2\nhang-limit = 0\n");
	job = jobs_submit(c, "hang:spin", 0, 0, 0);
	DAEMON_AWAIT(jobs_running(&d, "hang:spin") == 1);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	ck_assert_int_eq(code_of("null:add"), 0);
	configure("workers = 2\nhang-limit = 100ms\n");
	reload(0, "changed: hang-limit");
	jobs_see_end(c, job, "CRASHED");
	jobs_end(&d, c);
}
END_TEST

START_TEST(a_module_that_cannot_be_loaded_leaves_those_that_are)
{
	pid_t pool;

	prepare();
	put("tests/modules/broken/.libs/broken_abi.so", "old.so");
	start("workers = 2\nspin = 10us\n");
	pool = daemon_pool(&d);
	/* It was so when forkd was started. */
	configure("workers = 2\nspin = 20us\n");
	reload(0, "changed: spin");
	put("tests/modules/broken/.libs/broken_undefined.so", "other.so");
	configure("workers = 2\n");
	reload(1, "not all modules can be loaded");
	ck_assert(daemon_logged(&d, "other.so is left out", "forkd-reload"));
	take_away("old.so");
	put("tests/modules/broken/.libs/broken_crash.so", "other.so");
	reload(1, "died of signal 6");
	ck_assert_int_eq(daemon_pool(&d), pool);
	take_away("other.so");
	reload(0, "another pool has other modules; changed: spin");
	ck_assert_int_ne(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

/* The library that it needs comes, and no file in the folder changes. */
START_TEST(a_module_that_was_left_out_is_tried_again)
{
	char library[128];
	pid_t pool;

	/* Its runtime wants to be the first of all libraries. */
	if (daemon_sanitized())
		return;
	prepare();
	put("tests/modules/later/.libs/needs.so", "needs.so");
	put("tests/modules/broken/.libs/broken_abi.so", "old.so");
	(void)snprintf(library, sizeof(library), "%s/needed.so", d.folder);
	ck_assert_int_eq(setenv("LD_PRELOAD", library, 1), 0);
	start("workers = 2\n");
	ck_assert(daemon_logged(&d, "needs.so is left out", "needed"));
	pool = daemon_pool(&d);
	reload(0, "no option has changed");
	ck_assert_int_eq(daemon_pool(&d), pool);
	put("tests/modules/later/.libs/needed.so", "../needed.so");
	/* Another that is as it was keeps it from nothing. */
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

/* After the trial, and before the pool that was to load what it had tried. */
START_TEST(a_pool_that_has_left_out_more_than_the_trial_is_no_success)
{
	volatile uint8_t *gate;
	fk_job held, queued;
	pid_t waits, pool;

	prepare();
	start("workers = 1\nstop-timeout = 1000s\n");
	pool = daemon_pool(&d);
	held = jobs_hold(c, 0, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	queued = jobs_submit(c, "null:add", 0, 1, 2);
	put(SHIPPED("sort"));
	waits = reload_waits();
	put("tests/modules/broken/.libs/broken_abi.so", "old.so");
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

START_TEST(a_pool_that_dies_before_its_end_makes_room_too)
{
	volatile uint8_t *gate;
	fk_job held, queued;
	const fk_task *task;
	pid_t waits;

	prepare();
	start("workers = 1\nstop-timeout = 1000s\n");
	held = jobs_hold(c, 0, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	queued = jobs_submit(c, "null:add", 0, 1, 2);
	put(SHIPPED("sort"));
	waits = reload_waits();
	ck_assert_int_eq(kill(daemon_pool(&d), SIGKILL), 0);
	ck_assert_int_eq(daemon_reap(waits), 0);
	ck_assert_int_eq(jobs_outcome(c, held, NULL), FK_LOST);
	jobs_see(c, queued, 3);
	ck_assert_uint_eq(atomic_load(&d.board->manager.crashes), 1);
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &task), 0);
	jobs_end(&d, c);
}
END_TEST

/* forkctl reload has begun, and forkd goes by this scheduler; it has not said that yet. */
static pid_t reload_begins(uint32_t scheduler, const char *said)
{
	pid_t pid = daemon_spawn(&d, "reload", (const char *[]){ "forkctl", "reload", NULL });
	char text[16384];

	DAEMON_AWAIT(atomic_load(&d.board->manager.scheduler) == scheduler);
	/* What it did in that turn is done when it answers another. */
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "config", NULL), 0);
	ck_assert(!daemon_logged(&d, "reload: changed:", said));
	return pid;
}

START_TEST(it_is_over_when_the_pool_has_heard_or_has_ended)
{
	pid_t pool, waits;

	prepare();
	start("workers = 2\n");
	pool = daemon_pool(&d);
	daemon_suspend(pool);
	configure("workers = 2\nscheduler = busy\n");
	waits = reload_begins(1, "scheduler");
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	ck_assert_int_eq(daemon_reap(waits), 0);
	ck_assert(daemon_logged(&d, "reload: changed:", "scheduler"));
	DAEMON_AWAIT(daemon_logged(&d, "pool 2 runs", ""));
	pool = daemon_pool(&d);
	daemon_suspend(pool);
	configure("workers = 2\nspin = 20us\n");
	waits = reload_begins(0, "spin");
	ck_assert_int_eq(kill(pool, SIGCONT), 0);
	ck_assert_int_eq(daemon_reap(waits), 0);
	ck_assert(daemon_logged(&d, "reload: changed:", "spin"));
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

/* The pool has not let go of it yet, and nobody can ask for its groups any more. */
START_TEST(who_is_gone_is_not_judged)
{
	fk_client *late;
	pid_t pool, waits;

	prepare();
	start("workers = 2\n");
	late = daemon_open(&d);
	pool = daemon_pool(&d);
	daemon_suspend(pool);
	ck_assert_int_eq(fk_close(late), 0);
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == 2);
	configure("workers = 2\nscheduler = busy\ntasks = @4294967294:x:*,*:*:*\n");
	waits = reload_begins(1, "tasks");
	ck_assert_int_eq(kill(pool, SIGCONT), 0);
	ck_assert_int_eq(daemon_reap(waits), 0);
	ck_assert(daemon_logged(&d, "reload: changed:", "tasks"));
	ck_assert(!daemon_logged(&d, "may call nothing any more", ""));
	jobs_end(&d, c);
}
END_TEST

START_TEST(where_there_is_no_room_for_all_it_is_names_that_are_cut)
{
	prepare();
	start("workers = 2\n");
	put(SHIPPED("sort"));
	configure("workers = 3\nscheduler = busy\nspin = 20us\nweight = 7\nweights = *:7\n"
		  "deny = 4294967294\ntasks = *:*:*\nstack-max = 1G\nlimit-clients = 100\n"
		  "limit-jobs = 1000\nlimit-bytes = 1G\nquarantine-crashes = 4\n"
		  "quarantine-budget = 100\nquarantine-window = 1min\nquarantine-time = 1min\n");
	reload(0, "another pool has other modules; some options need a restart; changed: ");
	reload(0, "some options need a restart; no option has changed");
	jobs_end(&d, c);
}
END_TEST

START_TEST(a_constructor_that_forks_and_exits_writes_nothing_twice)
{
	prepare();
	put("tests/modules/later/.libs/forks.so", "forks.so");
	start("workers = 2\nweights = *:7\nlimit-clients = 100\n");
	reload(0, "no option has changed");
	jobs_end(&d, c);
}
END_TEST

START_TEST(a_stop_does_not_wait_for_a_reload)
{
	volatile uint8_t *gate;
	pid_t waits;
	fk_job held;

	prepare();
	start("workers = 1\nstop-timeout = 1000s\n");
	held = jobs_hold(c, 0, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	put(SHIPPED("sort"));
	waits = reload_waits();
	ck_assert_int_eq(kill(d.manager, SIGTERM), 0);
	ck_assert_int_eq(daemon_reap(waits), 1);
	*gate = 1;
	ck_assert_int_eq(jobs_outcome(c, held, NULL), FK_DONE);
	ck_assert_int_eq(fk_close(c), 0);
	ck_assert_int_eq(daemon_wait(&d), 0);
}
END_TEST

START_TEST(nor_does_a_planned_restart_and_who_waits_is_told)
{
	const char *conf = kept_configure(&d, "workers = 1\nstop-timeout = 1000s\n");
	volatile uint8_t *gate;
	struct fdstore *store;
	pid_t waits;
	fk_job held;

	store = kept_start(&d, conf, NULL);
	c = daemon_open(&d);
	held = jobs_hold(c, 0, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	put(SHIPPED("fib"));
	waits = reload_waits();
	ck_assert_int_eq(kill(d.manager, SIGUSR2), 0);
	ck_assert_int_eq(daemon_reap(waits), 1);
	*gate = 1;
	ck_assert_int_eq(jobs_outcome(c, held, NULL), FK_DONE);
	kept_ready(&d, store);
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}
END_TEST

/* `forkctl modules WHAT FILE` ends with this status, and what it prints has this text. */
static void modules(int status, const char *text, const char *what, const char *file)
{
	char output[1024];

	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "modules", what, file, NULL),
			 status);
	ck_assert_msg(strstr(output, text), "\"%s\" is not in: %s", text, output);
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

/* Files in the module folder, of whatever name. */
static uint32_t n_files(void)
{
	_cleanup_closedir_ DIR *dir = opendir(d.modules);
	uint32_t n = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	return n - 2;
}

START_TEST(forkctl_brings_a_module_or_takes_it_away_and_undoes_what_is_refused)
{
	char copy[128];
	const fk_task *task;
	pid_t pool;

	prepare();
	start("workers = 2\n");
	modules(0, "another pool has other modules", "load", built("daemon/modules/.libs/sort.so"));
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &task), 0);
	ck_assert(is_there("sort.so"));
	modules(0, "another pool has other modules", "load",
		built("tests/modules/later/.libs/null.so"));
	ck_assert_int_eq(fk_task_find(c, "null:add", &task), 0);
	ck_assert_str_eq(fk_task_signature(task), "a:i64, b:i64, c:i64 -> i64");
	ck_assert_uint_eq(n_files(), 4);
	/* One that cannot be loaded: a new one, and one in place of another. */
	pool = daemon_pool(&d);
	modules(1, "is as it was", "load", built("tests/modules/broken/.libs/broken_crash.so"));
	put("tests/modules/broken/.libs/broken_abi.so", "../null.so");
	(void)snprintf(copy, sizeof(copy), "%s/null.so", d.folder);
	modules(1, "is as it was", "load", copy);
	ck_assert_int_eq(unlink(copy), 0);
	ck_assert_uint_eq(n_files(), 4);
	ck_assert_int_eq(daemon_pool(&d), pool);
	reload(0, "no option has changed");
	ck_assert_int_eq(fk_task_find(c, "null:add", &task), 0);
	ck_assert_str_eq(fk_task_signature(task), "a:i64, b:i64, c:i64 -> i64");
	/* By its name, or by its file's. */
	put(OURS("bytes"));
	modules(0, "another pool has other modules", "unload", "sort");
	modules(0, "another pool has other modules", "unload", "bytes.so");
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &task), -ENOENT);
	ck_assert(!is_there("sort.so") && is_there("sort.so.unloaded"));
	(void)snprintf(copy, sizeof(copy), "%s/sort.so.unloaded", d.modules);
	modules(0, "another pool has other modules", "load", copy);
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &task), 0);
	pool = daemon_pool(&d);
	modules(1, "cannot take", "unload", "sorted");
	modules(2, "no name of a module", "unload", "../sort");
	modules(2, "has to end in .so", "load", "/etc/passwd");
	modules(2, "cannot read", "load", "/nowhere/there.so");
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

/* The next message to the service manager that begins so; flags: MSG_DONTWAIT if it is there. */
static void told_so(const char *text, int flags)
{
	char message[512];

	do {
		ssize_t n = recv(d.notify_fd, message, sizeof(message) - 1, flags);

		ck_assert_msg(n > 0, "it was not told %s", text);
		message[n] = '\0';
	} while (strncmp(message, text, strlen(text)) != 0);
}

static void told(const char *text)
{
	told_so(text, 0);
}

START_TEST(the_service_manager_is_told_when_it_begins_and_when_it_is_over)
{
	prepare();
	start("workers = 2\n");
	ck_assert_int_eq(kill(d.manager, SIGHUP), 0);
	told("RELOADING=1\nMONOTONIC_USEC=");
	told("READY=1");
	told("STATUS=Running: 2 workers, 2 clients of 1 users; reload: no option has changed");
	put(SHIPPED("sort"));
	reload(0, "");
	/* Before forkctl, which is ExecReload=. */
	told_so("RELOADING=1\nMONOTONIC_USEC=", MSG_DONTWAIT);
	told_so("READY=1", MSG_DONTWAIT);
	told("STATUS=Running: 2 workers, 2 clients of 1 users; reload: another pool has other "
	     "modules; no option has changed");
	ck_assert_int_eq(kill(daemon_pool(&d), SIGKILL), 0);
	told("STATUS=Running: 2 workers, 2 clients of 1 users, 1 crashes; reload:");
	jobs_end(&d, c);
}
END_TEST

/* The old one has ended, and the new one takes its time. */
START_TEST(the_service_manager_is_told_that_another_pool_starts)
{
	volatile uint8_t *gate;
	char file[128];
	pid_t waits;
	fk_job held;

	prepare();
	(void)snprintf(file, sizeof(file), "%s/slow", d.folder);
	ck_assert_int_eq(close(creat(file, 0644)), 0);
	ck_assert_int_eq(setenv("SLOW_START", file, 1), 0);
	start("workers = 2\nstop-timeout = 1000s\n");
	held = jobs_hold(c, 0, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	put("tests/modules/later/.libs/slow.so", "slow.so");
	waits = reload_waits();
	told("STATUS=Reloading: waiting for running jobs");
	*gate = 1;
	ck_assert_int_eq(jobs_outcome(c, held, NULL), FK_DONE);
	told("STATUS=Starting the pool");
	ck_assert_int_eq(unlink(file), 0);
	ck_assert_int_eq(daemon_reap(waits), 0);
	jobs_see(c, jobs_submit(c, "slow:next", 0, 41, 0), 42);
	jobs_end(&d, c);
}
END_TEST

START_TEST(reloads_under_load_lose_nothing)
{
	_Atomic uint64_t *ended = daemon_share(CLIENTS * sizeof(*ended));
	struct oracle_verdict v;
	pid_t pids[CLIENTS];
	struct oracle o;

	prepare();
	put(OURS("count"));
	start("workers = 2\nstop-timeout = 1000s\n");
	oracle_init(&o, d.folder);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		pids[i] = daemon_fork(DAEMON_UID);
		if (pids[i] == 0)
			_exit(oracle_serve(&o, d.socket, &ended[i]));
	}
	for (uint32_t i = 0; i <= RELOADS; i++) {
		for (uint32_t j = 0; j < CLIENTS; j++) {
			uint64_t seen = atomic_load(&ended[j]);

			DAEMON_AWAIT(atomic_load(&ended[j]) > seen + 1);
		}
		if (i == RELOADS)
			break;
		put(OURS("count"));
		reload(0, "another pool has other modules");
	}
	atomic_store(&o.shared->stop, 1);
	for (uint32_t i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
	ck_assert_msg(oracle_judge(&o, &v), "%s; the log is %s", v.wrong, d.log);
	ck_assert_uint_eq(v.outcomes[FK_DONE], v.submitted);
	ck_assert_uint_eq(v.again, 0);
	ck_assert_uint_eq(atomic_load(&d.board->manager.pool_generation), RELOADS + 1);
	oracle_fini(&o);
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("reload", what_can_change_does_and_the_rest_is_named,
	   who_is_in_stays_and_may_call_what_the_new_list_says,
	   what_is_wrong_is_said_and_nothing_changes,
	   modules_come_when_what_runs_has_ended_and_what_is_queued_waits,
	   a_task_that_is_another_now_has_to_be_asked_for_again,
	   a_job_that_waits_for_a_task_that_is_another_now_fails,
	   what_does_not_end_in_time_is_LOST_or_runs_again_and_nobody_is_blamed,
	   what_hangs_already_is_seen_by_a_limit_that_comes,
	   a_module_that_cannot_be_loaded_leaves_those_that_are,
	   a_module_that_was_left_out_is_tried_again,
	   a_pool_that_has_left_out_more_than_the_trial_is_no_success,
	   a_pool_that_dies_before_its_end_makes_room_too,
	   it_is_over_when_the_pool_has_heard_or_has_ended, who_is_gone_is_not_judged,
	   where_there_is_no_room_for_all_it_is_names_that_are_cut,
	   a_constructor_that_forks_and_exits_writes_nothing_twice,
	   a_stop_does_not_wait_for_a_reload, nor_does_a_planned_restart_and_who_waits_is_told,
	   forkctl_brings_a_module_or_takes_it_away_and_undoes_what_is_refused,
	   the_service_manager_is_told_when_it_begins_and_when_it_is_over,
	   the_service_manager_is_told_that_another_pool_starts, reloads_under_load_lose_nothing)
