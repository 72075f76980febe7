/* SPDX-License-Identifier: MIT */
/*
 * reload - forkd.conf and the modules are read again while forkd runs: changed reloadable options
 * apply, an error changes nothing, and connected clients notice at most a pause.
 * check_reload_modules.c has the effect on tasks
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/oracle.h"
#include "tests/support/reload_rig.h"

#define CLIENTS 3u
#define RELOADS 3u

/* Returns the error code of a job of a task by this name. */
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

START_TEST(reloadable_options_change_and_others_are_logged)
{
	pid_t pool;

	prepare();
	start("workers = 2\nspin = 10us\njobs-max = 100\n");
	pool = daemon_pool(&d);
	reload(0, "no option has changed");
	configure(
		"workers = 3\nspin = 20us\nscheduler = busy\njobs-max = 10\nuser-weights = *:7\n");
	reload(0, "some options need a restart; changed: scheduler, spin, user-weights");
	ck_assert(daemon_logged(&d, "because they need a restart: workers, jobs-max", "restart"));
	ck_assert_uint_eq(atomic_load(&d.board->manager.scheduler), 1);
	daemon_set(&d, "spin", "30us", "spin = 30us (was 20us)\n");
	/* Settings are as in the file again. */
	reload(0, "some options need a restart; changed: spin");
	configure("workers = 2\njobs-max = 100\n");
	ck_assert_int_eq(kill(d.manager, SIGHUP), 0);
	/* A reload begins after the previous one has ended. */
	reload(0, "no option has changed");
	ck_assert_uint_eq(atomic_load(&d.board->manager.scheduler), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

START_TEST(reload_reads_the_directory_of_the_file)
{
	char directory[256], path[300];
	FILE *f;

	prepare();
	start("spin = 10us\n");
	(void)snprintf(directory, sizeof(directory), "%s/forkd.conf.d", d.directory);
	(void)snprintf(path, sizeof(path), "%s/a.conf", directory);
	ck_assert_int_eq(mkdir(directory, 0755), 0);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs("spin = 40us\n", f), 0);
	ck_assert_int_eq(fflush(f), 0);
	reload(0, "changed: spin");
	daemon_set(&d, "spin", "30us", "spin = 30us (was 40us)\n");
	ck_assert_int_ge(fputs("wokers = 3\n", f), 0);
	ck_assert_int_eq(fclose(f), 0);
	reload(1, "log");
	ck_assert(daemon_logged(&d, "forkd.conf.d/a.conf:2: unknown option \"wokers\"", "workers"));
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(directory), 0);
	reload(0, "changed: spin");
	daemon_set(&d, "spin", "30us", "spin = 30us (was 10us)\n");
	jobs_end(&d, c);
}
END_TEST

START_TEST(default_deadline_ends_the_next_jobs)
{
	int64_t n;

	prepare();
	start("");
	configure("default-deadline = 1ms\n");
	reload(0, "changed: default-deadline");
	/* It would take years. */
	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(90)), -ETIME);
	configure("");
	reload(0, "changed: default-deadline");
	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(20)), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(default_deadline_of_a_user_applies_to_a_connected_client)
{
	uint32_t uid = (uint32_t)geteuid();
	char conf[256];
	int64_t n;

	prepare();
	start("");
	(void)snprintf(conf, sizeof(conf), "default-deadline = %u:1ms, *:1000s\n", uid);
	configure(conf);
	reload(0, "changed: default-deadline");
	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(90)), -ETIME);
	(void)snprintf(conf, sizeof(conf), "default-deadline = 1ms\ndefault-deadline = %u:0\n",
		       uid);
	configure(conf);
	reload(0, "changed: default-deadline");
	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(32)), 0);
	/* The next pool has it as well. */
	configure("default-deadline = 1ms\n");
	reload(0, "changed: default-deadline");
	ck_assert_int_eq(kill(daemon_pool(&d), SIGKILL), 0);
	DAEMON_AWAIT(daemon_crashes(&d) == 1);
	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(90)), -ETIME);
	/* jobs_end() calls a task. */
	configure("default-deadline = 0\n");
	reload(0, "changed: default-deadline");
	jobs_end(&d, c);
}
END_TEST

START_TEST(job_cpu_max_ends_the_job_that_runs)
{
	fk_job job;
	int code;

	prepare();
	start("");
	job = jobs_submit(c, "fib:fib", 0, 90, 0);
	configure("job-cpu-max = 5ms\n");
	reload(0, "changed: job-cpu-max");
	ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_EXPIRED);
	ck_assert_int_eq(fk_outcome(c, job, &code, NULL), FK_EXPIRED);
	ck_assert_int_eq(code, -EDQUOT);
	ck_assert_int_eq(fk_release(c, job), 0);
	daemon_see_ctl(&d, 1, "EXPIRED: more CPU time than job-cpu-max", "call", "fib:fib", "90",
		       NULL);
	jobs_end(&d, c);
}
END_TEST

START_TEST(connected_client_stays_and_may_call_the_tasks_of_the_new_list)
{
	char conf[256];
	uint32_t uid = (uint32_t)geteuid();
	pid_t pool;

	prepare();
	start("");
	pool = daemon_pool(&d);
	(void)snprintf(conf, sizeof(conf), "allow-tasks = %u:fib:*\ndeny = %u\n", uid, uid);
	configure(conf);
	reload(0, "changed: deny, allow-tasks");
	ck_assert_int_eq(code_of("fib:fib"), 0);
	ck_assert_int_eq(code_of("null:add"), -FK_E_DENIED);
	daemon_see_ctl(&d, 3, "deny", "call", "fib:fib", "20", NULL);
	/* By their places in the list the old rules would allow it the other task. */
	(void)snprintf(conf, sizeof(conf),
		       "allow-tasks = 4294967294:x:y\nallow-tasks = %u:null:*\n", uid);
	configure(conf);
	reload(0, "changed: deny, allow-tasks");
	ck_assert_int_eq(code_of("fib:fib"), -FK_E_DENIED);
	ck_assert_int_eq(code_of("null:add"), 0);
	ck_assert(daemon_logged(&d, "forkd.conf:1: allow-tasks: \"x:y\" matches no task", ""));
	/* The next pool gets the current list, not the one with which forkd was started. */
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	pool = jobs_pool_after(&d, pool);
	ck_assert_int_eq(code_of("fib:fib"), -FK_E_DENIED);
	ck_assert_int_eq(code_of("null:add"), 0);
	configure("");
	reload(0, "changed: allow-tasks");
	ck_assert_int_eq(code_of("null:add"), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

START_TEST(invalid_config_is_reported_and_nothing_changes)
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
	configure("spin = 20us\nmemory-max = 16M\n");
	reload(1, "log");
	ck_assert(daemon_logged(&d, "memory-max is 16M", "forkd-reload"));
	configure("spin = 20us\nallow = no-user-has-this-name\n");
	reload(1, "log");
	(void)snprintf(text, sizeof(text), "%s/forkd.conf", d.directory);
	ck_assert_int_eq(unlink(text), 0);
	ck_assert_int_eq(mkfifo(text, 0600), 0);
	reload(1, "log");
	ck_assert(daemon_logged(&d, "forkd.conf: not a regular file", "--config"));
	ck_assert_int_eq(unlink(text), 0);
	configure("spin = 20us\n");
	ck_assert_int_eq(chmod(d.modules, 0777), 0);
	reload(1, "log");
	ck_assert(daemon_logged(&d, "module-dir", "go-w"));
	ck_assert_int_eq(chmod(d.modules, 0755), 0);
	daemon_set(&d, "spin", "10us", "spin = 10us (was 10us)\n");
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

START_TEST(jobs_beyond_the_time_limit_continue_and_nothing_changes)
{
	fk_job held, queued[RELOADS];
	const fk_task *task;
	volatile uint8_t *gate;
	pid_t pool;

	prepare();
	start("workers = 1\nstop-timeout = 50ms\nspin = 10us\n");
	pool = daemon_pool(&d);
	held = jobs_hold(c, 0, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	put(OURS("null"));
	put(SHIPPED("sort"));
	configure("workers = 1\nstop-timeout = 50ms\nspin = 20us\n");
	for (uint32_t i = 0; i < RELOADS; i++) {
		queued[i] = jobs_submit(c, "null:add", 0, i, 1);
		reload(1, "nothing changes: after 0.05 s 1 jobs of 1 users still run");
	}
	daemon_set(&d, "spin", "10us", "spin = 10us (was 10us)\n");
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &task), -FK_E_NO_TASK);
	jobs_let_go(c, held, gate);
	for (uint32_t i = 0; i < RELOADS; i++)
		jobs_see(c, queued[i], i + 1);
	ck_assert_int_eq(daemon_pool(&d), pool);
	/* No job runs, so there is nothing to wait for. */
	daemon_see_ctl(&d, 0, "another pool has other modules; changed: spin", "reload",
		       "--timeout=0s", NULL);
	ck_assert_int_eq(fk_task_find(c, "sort:i64", &task), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(interrupted_reload_delays_no_job)
{
	fk_job held, queued;
	volatile uint8_t *gate;
	pid_t pool, waits;

	prepare();
	held = start_held(&gate);
	pool = daemon_pool(&d);
	put(OURS("null"));
	put(SHIPPED("sort"));
	waits = reload_waits();
	queued = jobs_submit(c, "null:add", 0, 1, 2);
	daemon_kill_client(waits);
	DAEMON_AWAIT(daemon_logged(&d, "nothing changes: forkctl has ended", "reload"));
	jobs_let_go(c, held, gate);
	jobs_see(c, queued, 3);
	ck_assert_int_eq(daemon_pool(&d), pool);
	reload(0, "another pool has other modules");
	jobs_end(&d, c);
}
END_TEST

/* Starts forkctl reload with this option, or NULL. Returns its pid when forkd has received n
 * requests in total. */
static pid_t reload_asks(const char *timeout, const char *force, uint32_t n)
{
	pid_t pid = daemon_spawn(&d, "reload",
				 (const char *[]){ "forkctl", "reload", timeout, force, NULL });

	DAEMON_AWAIT(daemon_count_lines(&d, "forkd.conf and modules are read again", "") == n);
	return pid;
}

/* A job is held, and forkctl reload (*ret_tries) waits for a trial, which takes as long as this
 * file exists. Returns the job. */
static fk_job hold_and_try(volatile uint8_t **ret_gate, pid_t *ret_tries, char *ret_file,
			   size_t size)
{
	fk_job held;

	prepare();
	(void)snprintf(ret_file, size, "%s/slow", d.directory);
	ck_assert_int_eq(close(creat(ret_file, 0644)), 0);
	ck_assert_int_eq(setenv("SLOW_TRIAL", ret_file, 1), 0);
	held = start_held(ret_gate);
	put("tests/support/modules/later/.libs/slow.so", "slow.so");
	*ret_tries = reload_asks("--timeout=1000s", NULL, 1);
	return held;
}

/* forkd has completed a loop turn when it answers. */
static void see_turn(void)
{
	char text[16384];

	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "config", NULL), 0);
}

START_TEST(reload_interrupted_before_it_replaces_the_pool_ends_no_job)
{
	volatile uint8_t *gate;
	char file[128];
	pid_t pool, tries, forced;
	fk_job held;

	held = hold_and_try(&gate, &tries, file, sizeof(file));
	pool = daemon_pool(&d);
	forced = reload_asks("--timeout=0s", "--force", 2);
	daemon_kill_client(tries);
	daemon_kill_client(forced);
	see_turn();
	ck_assert_int_eq(unlink(file), 0);
	/* The request that was in a trial, and the one that waited for it. */
	DAEMON_AWAIT(daemon_count_lines(&d, "nothing changes: forkctl has ended", "reload") == 2);
	jobs_let_go(c, held, gate);
	ck_assert(!daemon_logged(&d, "the pool starts no more jobs", ""));
	ck_assert_int_eq(daemon_pool(&d), pool);
	reload(0, "another pool has other modules");
	jobs_end(&d, c);
}
END_TEST

START_TEST(request_of_an_ended_forkctl_does_not_count)
{
	volatile uint8_t *gate;
	pid_t pool, tries, forced, polite;
	char file[128];
	fk_job held;

	held = hold_and_try(&gate, &tries, file, sizeof(file));
	pool = daemon_pool(&d);
	/* One reload for both. */
	forced = reload_asks("--timeout=1000s", "--force", 2);
	polite = reload_asks("--timeout=10ms", NULL, 3);
	daemon_kill_client(tries);
	daemon_kill_client(forced);
	ck_assert_int_eq(unlink(file), 0);
	ck_assert_int_eq(daemon_reap(polite), 1);
	ck_assert(daemon_logged(&d, "nothing changes: after 0.01 s 1 jobs", "reload"));
	jobs_let_go(c, held, gate);
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

START_TEST(forced_reload_makes_late_jobs_LOST_or_rerun_and_blames_no_job)
{
	volatile uint8_t *gates[2];
	char text[512], ended[64];
	fk_job jobs[2];

	prepare();
	start("workers = 2\n");
	jobs[0] = jobs_hold(c, 0, &gates[0]);
	jobs[1] = jobs_hold(c, FK_IDEMPOTENT, &gates[1]);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 2);
	/* Repeatedly: the job is not a suspect. */
	for (uint32_t i = 0; i < 3; i++) {
		put(OURS("null"));
		ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "reload", "--timeout=50ms",
					    "--force", NULL),
				 0);
		(void)snprintf(ended, sizeof(ended),
			       "another pool has other modules; %d running jobs were ended",
			       i ? 1 : 2);
		ck_assert_msg(strstr(text, ended), "%s", text);
		DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	}
	ck_assert_int_eq(jobs_outcome(c, jobs[0], NULL), FK_LOST);
	jobs_let_go(c, jobs[1], gates[1]);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(hang_limit_set_later_finds_a_job_that_hangs_already)
{
	fk_job job;

	prepare();
	put(OURS("hang"));
	start("workers = 2\nhang-timeout = 0\n");
	job = jobs_submit(c, "hang:spin", 0, 0, 0);
	DAEMON_AWAIT(jobs_running(&d, "hang:spin") == 1);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	ck_assert_int_eq(code_of("null:add"), 0);
	configure("workers = 2\nhang-timeout = 100ms\n");
	reload(0, "changed: hang-timeout");
	jobs_see_end(c, job, "CRASHED");
	jobs_end(&d, c);
}
END_TEST

/* Starts forkctl reload. Returns its pid when forkd uses this scheduler and has not reported that
 * yet. */
static pid_t reload_begins(uint32_t scheduler, const char *said)
{
	pid_t pid = daemon_spawn(&d, "reload", (const char *[]){ "forkctl", "reload", NULL });
	char text[16384];

	DAEMON_AWAIT(atomic_load(&d.board->manager.scheduler) == scheduler);
	/* The manager has completed that loop turn when it answers another request. */
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "config", NULL), 0);
	ck_assert(!daemon_logged(&d, "reload: changed:", said));
	return pid;
}

START_TEST(reload_ends_when_the_pool_has_applied_it_or_has_ended)
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

/* The pool has not released it yet, and its groups cannot be read any more. */
START_TEST(disconnected_client_is_not_checked)
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
	configure("workers = 2\nscheduler = busy\nallow-tasks = @4294967294:x:*,*:*:*\n");
	waits = reload_begins(1, "allow-tasks");
	ck_assert_int_eq(kill(pool, SIGCONT), 0);
	ck_assert_int_eq(daemon_reap(waits), 0);
	ck_assert(daemon_logged(&d, "reload: changed:", "allow-tasks"));
	ck_assert(!daemon_logged(&d, "may no longer call any task", ""));
	jobs_end(&d, c);
}
END_TEST

START_TEST(long_reports_are_truncated_at_names)
{
	prepare();
	start("workers = 2\n");
	put(OURS("null"));
	put(SHIPPED("sort"));
	configure("workers = 3\nscheduler = busy\nspin = 20us\nconnection-weight = 7\nuser-weights "
		  "= *:7\n"
		  "deny = 4294967294\nallow-tasks = *:*:*\nstack-max = 1G\nuser-clients-max = 100\n"
		  "user-jobs-max = 1000\nuser-shared-memory-max = 1G\nquarantine-task-crashes = 4\n"
		  "quarantine-user-crashes = 100\nquarantine-window = 1min\nquarantine-time = "
		  "1min\n");
	reload(0, "another pool has other modules; some options need a restart; changed: ");
	reload(0, "some options need a restart; no option has changed");
	jobs_end(&d, c);
}
END_TEST

START_TEST(constructor_that_forks_and_exits_writes_nothing_twice)
{
	prepare();
	put("tests/support/modules/later/.libs/forks.so", "forks.so");
	start("workers = 2\nuser-weights = *:7\nuser-clients-max = 100\n");
	reload(0, "no option has changed");
	jobs_end(&d, c);
}
END_TEST

START_TEST(stop_does_not_wait_for_a_reload)
{
	volatile uint8_t *gate;
	pid_t waits;
	fk_job held;

	prepare();
	held = start_held(&gate);
	put(OURS("null"));
	put(SHIPPED("sort"));
	waits = reload_waits();
	ck_assert_int_eq(kill(d.manager, SIGTERM), 0);
	ck_assert_int_eq(daemon_reap(waits), 1);
	jobs_let_go(c, held, gate);
	ck_assert_int_eq(fk_close(c), 0);
	ck_assert_int_eq(daemon_wait(&d), 0);
}
END_TEST

START_TEST(planned_restart_crashes_no_job_and_notifies_waiting_clients)
{
	const char *conf = kept_configure(&d, "workers = 1\nstop-timeout = 1000s\n");
	volatile uint8_t *gate;
	struct systemd_stub *store;
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
	jobs_let_go(c, held, gate);
	kept_ready(&d, store);
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}
END_TEST

/* Waits for the next message to the service manager that begins with this text; flags: MSG_DONTWAIT
 * if it must have arrived. */
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

START_TEST(service_manager_is_notified_when_a_reload_begins_and_ends)
{
	prepare();
	start("workers = 2\n");
	ck_assert_int_eq(kill(d.manager, SIGHUP), 0);
	told("RELOADING=1\nMONOTONIC_USEC=");
	told("READY=1");
	told("STATUS=Running: 2 workers, 2 clients of 1 users; reload: no option has changed");
	put(OURS("null"));
	put(SHIPPED("sort"));
	reload(0, "");
	/* Before the answer to forkctl, which is ExecReload=. */
	told_so("RELOADING=1\nMONOTONIC_USEC=", MSG_DONTWAIT);
	told_so("READY=1", MSG_DONTWAIT);
	told("STATUS=Running: 2 workers, 2 clients of 1 users; reload: another pool has other "
	     "modules; no option has changed");
	ck_assert_int_eq(kill(daemon_pool(&d), SIGKILL), 0);
	told("STATUS=Running: 2 workers, 2 clients of 1 users, 1 crashes; reload:");
	jobs_end(&d, c);
}
END_TEST

/* The old pool has ended, and the new one starts slowly. */
START_TEST(service_manager_is_notified_that_another_pool_starts)
{
	volatile uint8_t *gate;
	char file[128];
	pid_t waits;
	fk_job held;

	prepare();
	(void)snprintf(file, sizeof(file), "%s/slow", d.directory);
	ck_assert_int_eq(close(creat(file, 0644)), 0);
	ck_assert_int_eq(setenv("SLOW_START", file, 1), 0);
	start("workers = 2\nstop-timeout = 1000s\n");
	held = jobs_hold(c, 0, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	put("tests/support/modules/later/.libs/slow.so", "slow.so");
	waits = reload_waits();
	told("STATUS=Reloading: waiting for running jobs");
	jobs_let_go(c, held, gate);
	told("STATUS=Starting the pool");
	ck_assert_int_eq(unlink(file), 0);
	ck_assert_int_eq(daemon_reap(waits), 0);
	jobs_see(c, jobs_submit(c, "slow:next", 0, 41, 0), 42);
	jobs_end(&d, c);
}
END_TEST

/* Reloads n times while clients have jobs of all kinds; may_fail: with so short a timeout that jobs
 * may still run, and then nothing changes. Returns the number of successes. */
static uint32_t reloads_under_load(uint32_t n, const char *timeout, bool may_fail)
{
	_Atomic uint64_t *ended = daemon_share(CLIENTS * sizeof(*ended));
	uint32_t succeeded = 0;
	struct oracle_verdict v;
	pid_t pids[CLIENTS];
	struct oracle o;
	char text[512];

	prepare();
	put(OURS("count"));
	start("workers = 2\n");
	oracle_init(&o, d.directory);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		pids[i] = daemon_fork(DAEMON_UID);
		if (pids[i] == 0)
			_exit(oracle_serve(&o, d.socket, &ended[i]));
	}
	for (uint32_t i = 0; i <= n; i++) {
		for (uint32_t j = 0; j < CLIENTS; j++) {
			uint64_t seen = atomic_load(&ended[j]);

			DAEMON_AWAIT(atomic_load(&ended[j]) > seen + 1);
		}
		if (i == n)
			break;
		put(OURS("count"));
		if (daemon_ctl(&d, text, sizeof(text), "reload", timeout, NULL) == 0) {
			ck_assert_msg(strstr(text, "another pool has other modules"), "%s", text);
			succeeded++;
		} else {
			ck_assert_msg(may_fail && strstr(text, "still run"), "%s", text);
		}
	}
	atomic_store(&o.shared->stop, 1);
	for (uint32_t i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
	ck_assert_msg(oracle_judge(&o, &v), "%s; the log is %s", v.wrong, d.log);
	ck_assert_uint_eq(v.outcomes[FK_DONE], v.submitted);
	ck_assert_uint_eq(v.again, 0);
	ck_assert_uint_eq(atomic_load(&d.board->manager.pool_generation), succeeded + 1);
	oracle_fini(&o);
	jobs_end(&d, c);
	return succeeded;
}

START_TEST(reloads_under_load_lose_nothing)
{
	ck_assert_uint_eq(reloads_under_load(RELOADS, "--timeout=1000s", false), RELOADS);
}
END_TEST

START_TEST(reloads_that_do_not_wait_lose_nothing)
{
	(void)reloads_under_load(10 * RELOADS, "--timeout=0s", true);
}
END_TEST

CHECK_MAIN("reload")
