/* SPDX-License-Identifier: MIT */
/* reload, joining - new modules are loaded into the running pool: no job ends or waits. Modules
 * that cannot be loaded this way are loaded by another pool, with the reason in the log */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "shm/proto.h"
#define CHECK_TIMEOUT 600
#include "tests/support/refuse.h"
#include "tests/support/reload_rig.h"

#define USERS	3u
#define LOADS	100u
#define ORIGIN	"tests/support/modules/later/.libs/join000.so"
#define JOINED	"modules were loaded into the running pool"
#define DRAINED "another pool has other modules"

/* Writes a copy of the module under another name: NNN instead of 000. Returns its path. */
static const char *copy(uint32_t number)
{
	static const char old[] = "join000";
	static char path[128];
	char name[sizeof(old)], bytes[1 << 16];
	_cleanup_close_ int to = -1;
	ssize_t n;
	int from;

	daemon_add_module(&d, ORIGIN, "next");
	(void)snprintf(path, sizeof(path), "%s/next", d.modules);
	from = open(path, O_RDONLY | O_CLOEXEC);
	n = read(from, bytes, sizeof(bytes));
	ck_assert(n > 0 && n < (ssize_t)sizeof(bytes));
	ck_assert_int_eq(close(from), 0);
	ck_assert_int_eq(unlink(path), 0);
	(void)snprintf(name, sizeof(name), "join%03u", number % 1000);
	for (char *at = bytes; (at = memmem(at, (size_t)(bytes + n - at), old, strlen(old)));)
		memcpy(at, name, strlen(name));
	(void)snprintf(path, sizeof(path), "%s/%s.so", d.directory, name);
	to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ck_assert_int_eq(write(to, bytes, (size_t)n), n);
	return path;
}

/* Checks that `forkctl modules load FILE` ends with this status and prints this text. */
static void load(int status, const char *text, const char *file)
{
	char output[2048];

	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "modules", "load",
				    "--timeout=1000s", file, NULL),
			 status);
	ck_assert_msg(strstr(output, text), "\"%s\" is not in: %s", text, output);
}

/* Loads a copy, and checks that a client that was connected before can call its task. */
static void join(uint32_t number)
{
	const char *path = copy(number);
	char name[32];
	int64_t n = 0;

	load(0, JOINED, path);
	ck_assert_int_eq(unlink(path), 0);
	(void)snprintf(name, sizeof(name), "join%03u:next", number);
	ck_assert_int_eq(fk_call(c, name, &n, (int64_t)number), 0);
	ck_assert_int_eq(n, number + 1);
}

/* A user with one long job, which *end ends. Returns an exit status. */
static int user_run(_Atomic uint32_t *end)
{
	struct fk_buffer gate = { NULL, 1 };
	const fk_task *hold;
	fk_client *client;
	int64_t sum;
	fk_job job;

	if (fk_open(d.socket, NULL, &client) < 0 || fk_alloc(client, gate.size, &gate.data) < 0 ||
	    fk_task_find(client, "crash:hold", &hold) < 0)
		return 2;
	*(volatile uint8_t *)gate.data = 0;
	if (fk_submit(client, hold, 0, &job, gate) < 0)
		return 3;
	while (!atomic_load(end))
		(void)usleep(1000);
	*(volatile uint8_t *)gate.data = 1;
	if (fk_wait(client, job, FK_FOREVER) < 0 || fk_outcome(client, job, NULL, NULL) != FK_DONE)
		return 4;
	/* Its own connection can call the last module, too. */
	if (fk_call(client, "join100:next", &sum, INT64_C(1)) < 0 || sum != 2)
		return 5;
	(void)fk_close(client);
	return 0;
}

/* After start(): returns true if modules can join here. */
static bool joins(const TTest *test)
{
	if (can_join())
		return true;
	daemon_unmine(&d);
	jobs_end(&d, c);
	check_unit_not_run(test, "no module can be loaded into a running pool here");
	return false;
}

START_TEST(modules_join_100_times_during_long_jobs_of_three_users)
{
	_Atomic uint32_t *end = daemon_share(sizeof(*end));
	pid_t pids[USERS], pool;
	char twice[128];
	int64_t n;

	prepare();
	start("workers = 4\n");
	if (!joins(modules_join_100_times_during_long_jobs_of_three_users))
		return;
	pool = daemon_pool(&d);
	for (uint32_t i = 0; i < USERS; i++) {
		pids[i] = daemon_fork(65533u - i);
		if (pids[i] == 0)
			_exit(user_run(end));
	}
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == USERS);
	for (uint32_t i = 1; i <= LOADS; i++)
		join(i);
	/* An error changes nothing: a file whose task exists already. */
	(void)snprintf(twice, sizeof(twice), "%s/twice.so", d.directory);
	ck_assert_int_eq(rename(copy(7), twice), 0);
	load(1, "not all modules can be loaded", twice);
	ck_assert_uint_eq(jobs_running(&d, "crash:hold"), USERS);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(atomic_load(&d.board->manager.pool_generation), 1);
	ck_assert_uint_eq(daemon_count_lines(&d, "the pool starts no more jobs", ""), 0);
	ck_assert_uint_eq(daemon_count_lines(&d, "is loaded into the running pool", ""), LOADS);
	ck_assert_uint_eq(atomic_load(&d.board->n_modules), 3 + LOADS);
	atomic_store(end, 1);
	for (uint32_t i = 0; i < USERS; i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
	/* The next pool has all of them. */
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	pool = jobs_pool_after(&d, pool);
	ck_assert_int_eq(fk_call(c, "join050:next", &n, INT64_C(1)), 0);
	ck_assert_uint_eq(atomic_load(&d.board->n_modules), 3 + LOADS);
	join(LOADS + 1);
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

/* Returns the error code of a call, or 0. */
static int call_next(const char *name)
{
	int64_t n = 0;
	int err = fk_call(c, name, &n, INT64_C(1));

	ck_assert(err || n == 2);
	return err;
}

START_TEST(rules_apply_to_tasks_that_join)
{
	char conf[256];
	pid_t pool;

	prepare();
	(void)snprintf(conf, sizeof(conf), "allow-tasks = %u:fib:*\nallow-tasks = %u:join002:*\n",
		       (uint32_t)geteuid(), (uint32_t)geteuid());
	start(conf);
	if (!joins(rules_apply_to_tasks_that_join))
		return;
	pool = daemon_pool(&d);
	load(0, JOINED, copy(1));
	ck_assert_int_eq(call_next("join001:next"), -FK_E_DENIED);
	load(0, JOINED, copy(2));
	ck_assert_int_eq(call_next("join002:next"), 0);
	/* Rules of the same reload. */
	(void)snprintf(conf, sizeof(conf), "allow-tasks = %u:fib:*\nallow-tasks = %u:join003:*\n",
		       (uint32_t)geteuid(), (uint32_t)geteuid());
	configure(conf);
	load(0, JOINED "; changed: allow-tasks", copy(3));
	ck_assert_int_eq(call_next("join003:next"), 0);
	ck_assert_int_eq(call_next("join002:next"), -FK_E_DENIED);
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}
END_TEST

START_TEST(quarantine_applies_to_a_task_that_is_loaded_again)
{
	char text[1024];
	pid_t pool;
	int64_t n;

	prepare();
	c = JOBS_BEGIN(&d, kept_configure(&d, ""), "--quarantine-task-crashes=1", NULL);
	if (!joins(quarantine_applies_to_a_task_that_is_loaded_again))
		return;
	pool = daemon_pool(&d);
	ck_assert_int_eq(fk_call(c, "crash:maybe", &n, INT64_C(1)), -ENOTRECOVERABLE);
	pool = jobs_pool_after(&d, pool);
	daemon_see_ctl(&d, 0, DRAINED, "modules", "unload", "crash", NULL);
	pool = daemon_pool(&d);
	ck_assert_int_eq(fk_call(c, "crash:maybe", &n, INT64_C(0)), -FK_E_NO_TASK);
	(void)snprintf(text, sizeof(text), "%s/crash.so.unloaded", d.modules);
	load(0, JOINED, text);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_int_eq(fk_call(c, "crash:maybe", &n, INT64_C(0)), -EKEYREVOKED);
	jobs_end(&d, c);
}
END_TEST

/* Loads a module that cannot join: another pool loads it, and the log has the reason. */
static void see_drained(const char *path, const char *name, const char *why)
{
	pid_t pool = daemon_pool(&d);

	put(path, name);
	reload(0, DRAINED);
	ck_assert_int_ne(daemon_pool(&d), pool);
	ck_assert_msg(daemon_logged(&d, "replacing the pool", why), "%s", why);
}

START_TEST(module_that_cannot_join_is_loaded_by_another_pool)
{
	prepare();
	start("workers = 2\n");
	see_drained("tests/support/modules/later/.libs/slow.so", "slow.so", "has constructors");
	see_drained(OURS("null"), "has changed or was removed");
	jobs_end(&d, c);
	prepare();
	start("workers = 2\nsandbox = strict\n");
	see_drained(ORIGIN, "join000.so", "sandbox = strict");
	ck_assert_int_eq(call_next("join000:next"), 0);
	jobs_end(&d, c);
}
END_TEST

/* A job of this task, which must end when **ret_gate is 1. */
static fk_job ask_until(const char *task, volatile uint8_t **ret_gate)
{
	struct fk_buffer buffer = { NULL, 1 };
	fk_job job = 0;

	ck_assert_int_eq(fk_alloc(c, buffer.size, &buffer.data), 0);
	*ret_gate = buffer.data;
	**ret_gate = 0;
	ck_assert_int_eq(fk_submit(c, jobs_task(c, task), 0, &job, buffer), 0);
	return job;
}

START_TEST(tasks_cannot_use_the_gate_while_modules_join)
{
	volatile uint8_t *gates[2];
	fk_job asks[2];

	prepare();
	put(OURS("ask"));
	start("workers = 3\n");
	if (!joins(tasks_cannot_use_the_gate_while_modules_join))
		return;
	for (uint32_t i = 0; i < ARRAY_SIZE(asks); i++)
		asks[i] = ask_until("ask:map", &gates[i]);
	DAEMON_AWAIT(jobs_running(&d, "ask:map") == ARRAY_SIZE(asks));
	for (uint32_t i = 1; i <= USERS; i++)
		join(i);
	/* The manager serves other clients, too. */
	daemon_call_fib(&d);
	for (uint32_t i = 0; i < ARRAY_SIZE(asks); i++) {
		*gates[i] = 1;
		jobs_see(c, asks[i], 0);
	}
	jobs_end(&d, c);
}
END_TEST

/* A job that holds the loader's lock: no module can be loaded until **ret_gate is 1. */
static fk_job keep_loader(volatile uint8_t **ret_gate)
{
	fk_job job = ask_until("ask:loader", ret_gate);

	DAEMON_AWAIT(jobs_running(&d, "ask:loader") == 1);
	return job;
}

/* While a task holds the loader's lock the pool can load nothing, but the reload ends. Modules
 * that the pool loads later are callable after the next reload. */
START_TEST(endless_load_changes_nothing_or_ends_the_pool_by_force)
{
	volatile uint8_t *gate;
	char output[2048];
	fk_job keeps;
	pid_t pool;

	prepare();
	put(OURS("ask"));
	start("workers = 2\nhang-timeout = 0\n");
	if (!joins(endless_load_changes_nothing_or_ends_the_pool_by_force))
		return;
	pool = daemon_pool(&d);
	put(ORIGIN, "join000.so");
	keeps = keep_loader(&gate);
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "reload", "--timeout=0s", NULL), 1);
	ck_assert_msg(strstr(output, "loader's lock"), "%s", output);
	*gate = 1;
	jobs_see(c, keeps, 1);
	ck_assert_int_eq(call_next("join000:next"), -FK_E_NO_TASK);
	reload(0, JOINED);
	ck_assert_int_eq(call_next("join000:next"), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	keeps = keep_loader(&gate);
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "modules", "load", "--timeout=0s",
				    "--force", copy(2), NULL),
			 0);
	ck_assert_msg(strstr(output, DRAINED "; 1 running jobs were ended"), "%s", output);
	ck_assert_int_ne(daemon_pool(&d), pool);
	jobs_see_end(c, keeps, "LOST");
	ck_assert_int_eq(call_next("join002:next"), 0);
	jobs_end(&d, c);
}
END_TEST

/* A task sends the answer that the pool has loaded the modules, and the pool is killed for it. */
START_TEST(answer_forged_by_a_task_ends_the_pool)
{
	const struct proto_pool loaded = { .head = { PROTO_MAGIC, PROTO_POOL_LOADED } };
	struct fk_buffer bytes = { NULL, sizeof(loaded) };
	const char *args[] = { "forkctl", "modules", "load", NULL, NULL };
	volatile uint8_t *gate;
	fk_job keeps, says;
	pid_t pool, load;
	int64_t n = 0;

	prepare();
	put(OURS("ask"));
	start("workers = 2\nhang-timeout = 0\n");
	if (!joins(answer_forged_by_a_task_ends_the_pool))
		return;
	pool = daemon_pool(&d);
	args[3] = copy(1);
	keeps = keep_loader(&gate);
	ck_assert_int_eq(fk_alloc(c, bytes.size, &bytes.data), 0);
	memcpy(bytes.data, &loaded, sizeof(loaded));
	load = daemon_spawn(&d, "load", args);
	DAEMON_AWAIT(daemon_logged(&d, "the running pool loads them", ""));
	ck_assert_int_eq(fk_submit(c, jobs_task(c, "ask:write"), 0, &says, INT64_C(3), bytes), 0);
	jobs_see(c, says, (int64_t)sizeof(loaded));
	*gate = 1;
	ck_assert_int_eq(fk_wait(c, keeps, FK_FOREVER), 0);
	(void)jobs_pool_after(&d, pool);
	ck_assert_int_eq(daemon_reap(load), 0);
	ck_assert(daemon_logged(&d, "it sent an invalid message", ""));
	DAEMON_AWAIT(fk_call(c, "join001:next", &n, INT64_C(1)) == 0);
	jobs_end(&d, c);
}
END_TEST

/* In forkd's process: installs a filter with a listener, as a container may have one. The kernel
 * allows only one. */
static void deny_listener(void)
{
	if (!refuse_call_if(SYS_seccomp, 1, BPF_JSET, SECCOMP_FILTER_FLAG_NEW_LISTENER, EBUSY))
		_exit(90);
}

START_TEST(module_is_loaded_by_another_pool_if_there_is_no_gate)
{
	prepare();
	d.entering = deny_listener;
	start("workers = 2\n");
	see_drained(ORIGIN, "join000.so",
		    daemon_sanitized() ? "has constructors" : "it cannot map their code");
	ck_assert_int_eq(call_next("join000:next"), 0);
	ck_assert(daemon_sanitized() || !can_join());
	jobs_end(&d, c);
}
END_TEST

/* The pool dies when it has loaded a module whose tasks no client can call yet. */
START_TEST(pool_that_dies_before_a_task_is_callable_is_replaced_by_one_with_it)
{
	int64_t n = 0;

	prepare();
	daemon_mine(&d, "module_joined", 0);
	start("workers = 2\n");
	if (!joins(pool_that_dies_before_a_task_is_callable_is_replaced_by_one_with_it))
		return;
	load(0, JOINED, copy(1));
#ifdef FK_CRASH_SITES
	DAEMON_AWAIT(daemon_crashes(&d) == 1);
	ck_assert(!daemon_is_mined(&d));
#endif
	DAEMON_AWAIT(fk_call(c, "join001:next", &n, INT64_C(1)) == 0);
	ck_assert_int_eq(n, 2);
	join(2);
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("reload_join")
