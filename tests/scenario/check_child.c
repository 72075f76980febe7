/* SPDX-License-Identifier: MIT */
/*
 * child: clients that have children: by fork(), by a fork without handlers, from one of many
 * threads, by vfork() and by posix_spawn(). The child is not its parent, the parent continues, and
 * a child that survives its parent keeps neither slot nor memory.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/cleanup.h"
#include "tests/support/counts.h"
#include "tests/support/daemon.h"
#include "tests/support/oracle.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

#define JOBS	20u
#define THREADS 3u

/* Memory shared by the test, the parent and the child. */
struct shared {
	_Atomic int32_t child;	  /* its pid */
	_Atomic uint32_t born;	  /* the child has made its checks */
	_Atomic uint32_t ready;	  /* the parent has finished its calls */
	_Atomic uint32_t over;	  /* tells the child to exit */
	_Atomic uint64_t threads; /* calls of the parent's threads */
};

static struct shared *shared;
static struct daemon d;
static struct oracle o;
static int gate[2]; /* a program reads it until the test closes it */

/* ------------------------------------------------------------------------ the child */

static fk_client *c;
static struct oracle_job jobs[JOBS];

/* Checks that every call except fk_open() refuses another process's client. */
static int refused_calls(void)
{
	const fk_task *task = NULL;
	fk_group group;
	int64_t n = 0;
	void *data;
	fk_job job;
	int bad = 0;

	bad |= fk_task_find(c, "null:add", &task) != -EPERM;
	bad |= fk_call(c, "null:add", &n, INT64_C(1), INT64_C(1)) != -EPERM;
	bad |= fk_submit_packed(c, task, NULL, 0, 0, &job) != -EPERM;
	bad |= fk_submit_batch(c, NULL, 0, 0, NULL) != -EPERM;
	bad |= fk_wait(c, jobs[0].job, FK_FOREVER) != -EPERM;
	bad |= fk_poll(c, jobs[0].job) != -EPERM;
	bad |= fk_cancel(c, jobs[0].job) != -EPERM;
	bad |= fk_result(c, jobs[0].job, &n, sizeof(n)) != -EPERM;
	bad |= fk_release(c, jobs[0].job) != -EPERM;
	bad |= fk_group_new(c, &group) != -EPERM;
	bad |= fk_alloc(c, 1, &data) != -EPERM;
	bad |= fk_close(c) != -EPERM;
	return bad;
}

/* Opens its own client, whatever the parent's threads were doing at the fork. */
static int own_client(void)
{
	fk_client *own = NULL;
	int64_t n = 0;
	int bad = fk_open(d.socket, NULL, &own) < 0;

	bad = bad || fk_call(own, "null:add", &n, INT64_C(20), INT64_C(3)) < 0 || n != 23;
	return bad || fk_close(own) < 0;
}

/* Reads every page of the parent's segment, so that they are in its page tables. */
static int look_at_segment(void)
{
	const volatile unsigned char *bytes = (const void *)c->segment;
	unsigned char sum = 0;

	for (uint64_t i = 0; i < c->segment_size; i += 4096)
		sum |= bytes[i];
	return !sum;
}

static _Noreturn void child(void)
{
	int bad = refused_calls() ? 1 : own_client() ? 2 : look_at_segment() ? 3 : 0;

	if (bad)
		_exit(bad);
	atomic_store(&shared->child, getpid());
	atomic_store(&shared->born, 1);
	/* The child exits on its own if the test fails. */
	for (uint32_t ms = 0; ms < 2 * DAEMON_PATIENCE * 1000 && !atomic_load(&shared->over); ms++)
		(void)poll(NULL, 0, 1);
	_exit(refused_calls() ? 4 : 0);
}

/* ------------------------------------------------------------------------ the parent */

static void by_fork(void)
{
	if (fork() == 0)
		child();
}

/* As a program that calls clone(): the handlers of pthread_atfork() do not run. */
static void by_bare_fork(void)
{
	if (_Fork() == 0)
		child();
}

static void *call_all_the_time(void *arg)
{
	for (int64_t i = 0;; i++) {
		void *data = NULL;
		int64_t n = 0;

		if (fk_call(c, "null:add", &n, i, INT64_C(7)) < 0 || n != i + 7 ||
		    fk_alloc(c, 64, &data) < 0 || fk_free(c, data) < 0)
			_exit(5);
		atomic_fetch_add(&shared->threads, 1);
	}
	return arg;
}

static void by_fork_beside_threads(void)
{
	pthread_t thread;

	for (uint32_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, call_all_the_time, NULL) != 0)
			_exit(6);
	while (atomic_load(&shared->threads) < 100)
		(void)poll(NULL, 0, 1);
	by_fork();
}

static char *const cat[] = { (char *)(uintptr_t) "cat", NULL };

/* This is to test vfork(), though there are better ways. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void by_vfork(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		(void)dup2(gate[0], STDIN_FILENO);
		(void)execvp("cat", cat);
		_exit(127);
	}
	atomic_store(&shared->child, pid);
	atomic_store(&shared->born, 1);
}
#pragma GCC diagnostic pop

static void by_spawn(void)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;

	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, gate[0], STDIN_FILENO);
	if (posix_spawnp(&pid, "cat", &actions, NULL, cat, NULL) != 0)
		_exit(7);
	(void)posix_spawn_file_actions_destroy(&actions);
	atomic_store(&shared->child, pid);
	atomic_store(&shared->born, 1);
}

static void (*make_child)(void);

/* Submits jobs, makes a child, and checks that these jobs and more of them end. */
static void parent(void)
{
	uint64_t calls;

	if (fk_open(d.socket, NULL, &c) < 0)
		_exit(2);
	for (uint32_t i = 0; i < JOBS; i++)
		if (oracle_submit(&o, c, 1, NULL, 0, &jobs[i]) < 0)
			_exit(3);
	make_child();
	for (uint32_t i = 0; i < 2 * JOBS; i++) {
		if (oracle_end(&o, c, &jobs[i % JOBS]) != FK_DONE)
			_exit(4);
		if (i < JOBS && oracle_submit(&o, c, 1, NULL, 0, &jobs[i]) < 0)
			_exit(3);
		while (i == JOBS && !atomic_load(&shared->born))
			(void)poll(NULL, 0, 1);
	}
	calls = atomic_load(&shared->threads);
	while (calls && atomic_load(&shared->threads) < calls + 100)
		(void)poll(NULL, 0, 1);
	atomic_store(&shared->ready, 1);
	for (;;)
		(void)pause();
}

/* ------------------------------------------------------------------------ the test */

/* Returns true if a process has a descriptor of a segment, or a socket. */
static bool has_descriptors(pid_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	char path[64], target[256];
	struct dirent *e;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((e = readdir(dir))) {
		ssize_t n = e->d_name[0] == '.'
				  ? -1
				  : readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		if (!strncmp(target, "socket:", 7) || !strncmp(target, "/memfd:forkd-", 13))
			return true;
	}
	return false;
}

/* how: makes a child. execs: it runs another program. */
static void outlive(void (*how)(void), bool execs)
{
	struct oracle_verdict v;
	struct counts before;
	uint64_t pages;
	pid_t pid, child_pid;

	shared = daemon_share(sizeof(*shared));
	make_child = how;
	ck_assert_int_eq(pipe2(gate, O_CLOEXEC), 0);
	/* The watcher, the parent, and a child with its own client. */
	daemon_start(&d, "--workers=2", "--clients-max=3", NULL);
	oracle_init(&o, d.directory);
	before = counts_read(&d);
	pid = daemon_fork(DAEMON_UID);
	if (pid == 0) {
		(void)close(gate[1]);
		parent();
	}
	DAEMON_AWAIT(atomic_load(&shared->ready) || daemon_has_ended(pid));
	ck_assert_msg(atomic_load(&shared->ready), "the parent ended with %d", daemon_reap(pid));
	child_pid = (pid_t)atomic_load(&shared->child);
	if (execs) {
		/* It may not have executed its program yet. */
		DAEMON_AWAIT(!has_descriptors(child_pid));
		ck_assert_uint_eq(counts_mapped(child_pid, "forkd-", NULL), 0);
	} else {
		ck_assert_uint_eq(counts_mapped(child_pid, "forkd-client", &pages), 2);
		ck_assert_uint_gt(pages, 0);
	}
	/* The connection belongs to the parent and ends with it. */
	daemon_kill_client(pid);
	oracle_note_killed(&o, pid);
	counts_await(&d, &before);
	if (!execs) {
		/* The child has the mapping, but no page of it. */
		ck_assert_uint_eq(counts_mapped(child_pid, "forkd-client", &pages), 2);
		ck_assert_uint_eq(pages, 0);
	}
	daemon_call_fib(&d);
	ck_assert_msg(!daemon_has_ended(child_pid), "the child has ended before");
	atomic_store(&shared->over, 1);
	(void)close(gate[0]);
	(void)close(gate[1]);
	ck_assert_int_eq(daemon_reap(child_pid), 0);
	ck_assert_msg(oracle_judge(&o, &v), "%s", v.wrong);
	ck_assert_uint_eq(v.outcomes[FK_DONE], 2 * JOBS);
	oracle_fini(&o);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

START_TEST(child_of_fork_is_not_its_parent_and_keeps_nothing_of_it)
{
	outlive(by_fork, false);
}
END_TEST

START_TEST(child_without_fork_handlers_keeps_nothing_of_its_parent)
{
	outlive(by_bare_fork, false);
}
END_TEST

START_TEST(child_of_one_of_many_threads_is_not_its_parent)
{
	outlive(by_fork_beside_threads, false);
}
END_TEST

START_TEST(program_started_by_vfork_has_nothing_of_its_parent)
{
	outlive(by_vfork, true);
}
END_TEST

START_TEST(spawned_program_has_nothing_of_its_parent)
{
	outlive(by_spawn, true);
}
END_TEST

CHECK_MAIN("child")
