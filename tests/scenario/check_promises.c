/* SPDX-License-Identifier: MIT */
/*
 * promises: documented properties of forkd, observed from outside
 *
 * Small jobs end whatever the workers run. No thread wakes up without a reason. The dispatcher has
 * priority over workers. Recursion is limited only by memory, releases its memory, and takes none
 * from other jobs. The trees of UTS have the nodes that their authors found.
 *
 * Times are printed and never asserted. With SOAK=1 in the environment the idle pool is watched for
 * 30 s instead of 3, and the large tree T3L is walked as well.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "shm/wake.h"
#include "tests/support/daemon.h"
#define CHECK_TIMEOUT 300
#include "tests/support/check_unit.h"

#define SMALL_JOBS 20
#define GIANTS_MAX 8u
#define FOREVER_MS INT64_C(86400000) /* a day: the giants are cancelled */

/* Memory shared by the test and its clients. */
struct shared {
	_Atomic uint32_t over; /* set by the test when the small jobs have ended */
	_Atomic uint32_t told; /* deep jobs that have ended */
};

static struct shared *shared;
static struct daemon d;

static void start(uint32_t n_workers)
{
	char workers[32];

	shared = daemon_share(sizeof(*shared));
	(void)snprintf(workers, sizeof(workers), "--workers=%" PRIu32, n_workers);
	/* The manager may make its last check this long after a job: less than settling takes. */
	daemon_start(&d, workers, "--hang-timeout=1s", NULL);
}

/* ------------------------------------------------------------------------ small jobs and giants */

/* Jobs that end only on request of this client, after the small jobs have ended: forking ones are
 * then cancelled, leaves read it in the client's memory. */
static void giants(bool leaves, uint32_t n)
{
	volatile unsigned char *gate;
	fk_client *c = NULL;
	const fk_task *task;
	fk_job jobs[GIANTS_MAX];
	void *data;

	if (fk_open(d.socket, NULL, &c) < 0 || fk_alloc(c, 1, &data) < 0 ||
	    fk_task_find(c, leaves ? "crash:hold" : "crash:spin", &task) < 0)
		_exit(2);
	gate = data;
	*gate = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct fk_buffer buffer = { data, 1 };

		if ((leaves ? fk_submit(c, task, 0, &jobs[i], buffer)
			    : fk_submit(c, task, 0, &jobs[i], FOREVER_MS)) < 0)
			_exit(3);
	}
	while (!atomic_load(&shared->over))
		(void)poll(NULL, 0, 1);
	*gate = 1;
	for (uint32_t i = 0; i < n; i++)
		if (!leaves && fk_cancel(c, jobs[i]) < 0)
			_exit(4);
	for (uint32_t i = 0; i < n; i++)
		if (fk_wait(c, jobs[i], FK_FOREVER) < 0 ||
		    fk_outcome(c, jobs[i], NULL, NULL) != (leaves ? FK_DONE : FK_CANCELLED))
			_exit(5);
	if (fk_close(c) < 0)
		_exit(6);
}

static pid_t start_giants(bool leaves, uint32_t n)
{
	uint64_t roots = daemon_counter(&d, "jobs_started");
	pid_t pid;

	ck_assert_uint_le(n, GIANTS_MAX);
	pid = daemon_fork(DAEMON_UID);
	if (pid == 0) {
		giants(leaves, n);
		_exit(0);
	}
	DAEMON_AWAIT(daemon_counter(&d, "jobs_started") == roots + n);
	return pid;
}

/* The small jobs of another client, all of which must end before any giant is released. */
static void small_jobs_beside(const char *what, const pid_t *pids, uint32_t n_pids)
{
	fk_client *c = daemon_open(&d);
	uint64_t done = daemon_counter(&d, "jobs_done"), worst = 0;

	for (int i = 0; i < SMALL_JOBS; i++) {
		uint64_t start_ns = clock_ns(), ns;
		int64_t n = 0;

		ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(10)), 0);
		ns = clock_ns() - start_ns;
		ck_assert_int_eq(n, 55);
		if (ns > worst)
			worst = ns;
	}
	DAEMON_AWAIT(daemon_counter(&d, "jobs_done") >= done + SMALL_JOBS);
	printf("with %s, %" PRIu32 " workers: worst round trip %" PRIu64 " us\n", what,
	       d.board->manager.n_workers, worst / NSEC_PER_USEC);
	ck_assert_int_eq(fk_close(c), 0);
	atomic_store(&shared->over, 1);
	for (uint32_t i = 0; i < n_pids; i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
}

static void beside_forking_giants(uint32_t n_workers)
{
	pid_t pid;

	start(n_workers);
	pid = start_giants(false, n_workers);
	small_jobs_beside("giants that fork", &pid, 1);
	ck_assert_uint_gt(daemon_counter(&d, "frames_suspended"), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

START_TEST(small_jobs_end_while_the_only_worker_is_deep_in_a_giant)
{
	beside_forking_giants(1);
}
END_TEST

START_TEST(small_jobs_end_while_both_workers_are_deep_in_giants)
{
	beside_forking_giants(2);
}
END_TEST

static void beside_long_leaves(uint32_t n_workers)
{
	pid_t pid;

	start(n_workers);
	pid = start_giants(true, n_workers - 1);
	small_jobs_beside("long leaves", &pid, 1);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

START_TEST(small_jobs_end_while_one_of_two_workers_is_in_a_long_leaf)
{
	beside_long_leaves(2);
}
END_TEST

START_TEST(small_jobs_end_while_three_of_four_workers_are_in_a_long_leaf)
{
	beside_long_leaves(4);
}
END_TEST

START_TEST(small_jobs_end_while_one_worker_is_in_a_long_leaf_and_the_other_in_a_giant)
{
	pid_t pids[2];

	start(2);
	pids[0] = start_giants(true, 1);
	pids[1] = start_giants(false, 1);
	small_jobs_beside("a long leaf and a giant that forks", pids, 2);
	ck_assert_uint_gt(daemon_counter(&d, "frames_suspended"), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* ------------------------------------------------------------------------ nothing to do */

static bool all_sleep(void)
{
	for (uint32_t i = 0; i < d.board->manager.n_workers; i++)
		if (!wake_rests(wake_load(&d.board->workers[i].wake)))
			return false;
	return true;
}

static uint64_t switches(void)
{
	return daemon_switches(daemon_pool(&d)) + daemon_switches(d.manager);
}

/*
 * A thread whose word is SLEEPING may not be in the kernel yet. After a change the manager notifies
 * its service manager once, within a second. A thread that its timer has woken and that waits for a
 * CPU has not switched, but does not sleep either. If a hypervisor takes a CPU away, a timer is
 * late: so this waits for longer than the timer.
 */
static bool has_settled(void)
{
	uint64_t before = switches();

	(void)poll(NULL, 0, 3000);
	return all_sleep() && daemon_is_all(d.manager, 'S') &&
	       daemon_is_all(daemon_pool(&d), 'S') && switches() == before;
}

START_TEST(idle_pool_and_its_manager_do_not_wake_up)
{
	int seconds = getenv("SOAK") ? 30 : 3;
	uint64_t before;
	fk_client *c;
	int64_t n = 0;

	start(2);
	c = daemon_open(&d);
	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(25)), 0);
	ck_assert_int_eq(n, 75025);
	DAEMON_AWAIT(all_sleep());
	DAEMON_AWAIT(has_settled());
	before = switches();
	/* Not a wait for a state: nothing must happen in this time. */
	(void)poll(NULL, 0, seconds * 1000);
	ck_assert_uint_eq(switches() - before, 0);
	ck_assert(all_sleep());
	/* The pool was asleep, not dead: a job counts as switches. */
	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(25)), 0);
	ck_assert_int_eq(n, 75025);
	DAEMON_AWAIT(switches() > before);
	daemon_stop_close(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ urgent */

/* as: the user that the process becomes first. */
static bool may_be_urgent(uid_t as)
{
	const struct rlimit limit = { 35, 35 };
	pid_t pid = fork();

	if (pid == 0) {
		if (as != geteuid() && (setrlimit(RLIMIT_NICE, &limit) < 0 || setuid(as) < 0))
			_exit(0);
		_exit(setpriority(PRIO_PROCESS, 0, -15) == 0);
	}
	ck_assert_int_gt(pid, 0);
	return daemon_reap(pid);
}

/* Returns true if each thread of this name has that nice value. Threads get their names when they
 * first run. */
static bool has_nice(pid_t pid, const char *thread, int wanted)
{
	_cleanup_closedir_ DIR *dir = NULL;
	char path[300], name[32] = "";
	bool found = false, all = true;
	struct dirent *e;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		_cleanup_fclose_ FILE *f = NULL;

		(void)snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", (int)pid, e->d_name);
		f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (!f || !fgets(name, sizeof(name), f))
			continue;
		name[strcspn(name, "\n")] = '\0';
		if (strcmp(name, thread))
			continue;
		found = true;
		all &= getpriority(PRIO_PROCESS, (id_t)atoi(e->d_name)) == wanted;
	}
	return found && all;
}

START_TEST(dispatcher_is_urgent_and_workers_are_not)
{
	int usual = getpriority(PRIO_PROCESS, 0);
	int urgent = usual > -15 && may_be_urgent(geteuid()) ? -15 : usual;
	int urgent_pool;
	pid_t before;

	start(2);
	before = daemon_pool(&d);
	daemon_call_fib(&d);
	urgent_pool = may_be_urgent((uid_t)daemon_proc_status(before, "Uid")) ? urgent : usual;
	printf("urgent is a nice value of %d, in the pool of %d, usual one of %d\n", urgent,
	       urgent_pool, usual);
	for (int i = 0; i < 2; i++) {
		DAEMON_AWAIT(has_nice(d.manager, "forkd", urgent));
		before = daemon_pool(&d);
		DAEMON_AWAIT(has_nice(before, "forkd-pool", urgent_pool));
		DAEMON_AWAIT(has_nice(before, "forkd-dispatch", urgent_pool));
		DAEMON_AWAIT(has_nice(before, "forkd-worker", usual));
		/* An urgent thread starts the next pool. */
		ck_assert_int_eq(kill(before, SIGKILL), 0);
		DAEMON_AWAIT(daemon_pool(&d) != before);
	}
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* ------------------------------------------------------------------------ deep */

static void as_deep_as(const char *task, int64_t levels)
{
	fk_client *c;
	int64_t n = 0, kb;

	if (daemon_sanitized())
		levels = 100000;
	start(2);
	c = daemon_open(&d);
	ck_assert_int_eq(fk_call(c, task, &n, levels), 0);
	ck_assert_int_eq(n, levels);
	kb = daemon_proc_status(daemon_pool(&d), "VmHWM");
	printf("%s %" PRId64 ": the pool had at most %" PRId64 " MB\n", task, levels, kb / 1024);
	ck_assert_int_gt(kb, 0);
	ck_assert_int_lt(kb, INT64_C(2) * 1024 * 1024);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	daemon_stop_close(&d, c);
}

START_TEST(ten_million_nested_calls_fit_into_two_gigabytes)
{
	as_deep_as("deep:deep", 10000000);
}
END_TEST

START_TEST(million_nested_forks_fit_into_two_gigabytes)
{
	as_deep_as("deep:forked", 1000000);
}
END_TEST

/* Frames, stacks and deques are in the arena, which is shared memory; C stacks are not. */
static int64_t pool_memory(void)
{
	pid_t pid = daemon_pool(&d);
	/* A sanitizer has its own memory. */
	int64_t anon = daemon_sanitized() ? 0 : daemon_proc_status(pid, "RssAnon");

	return daemon_proc_status(pid, "RssShmem") + anon;
}

/* The dispatcher and the workers release all of it without other jobs, and then sleep. */
static void deep_and_back(const char *task, int64_t levels)
{
	int64_t n = 0, idle;
	uint64_t before;
	fk_client *c;

	if (daemon_sanitized())
		levels = 100000;
	start(2);
	c = daemon_open(&d);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(fk_call(c, task, &n, INT64_C(1000)), 0);
	DAEMON_AWAIT(has_settled());
	idle = pool_memory();
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(fk_call(c, task, &n, levels), 0);
		ck_assert_int_eq(n, levels);
	}
	/* Each worker may keep STACK_KEEP of each small size, 320 KiB. */
	DAEMON_AWAIT(pool_memory() <= idle + 1024);
	printf("%s %" PRId64 ": the pool's memory was %" PRId64 " kB before and is %" PRId64
	       " kB after\n",
	       task, levels, idle, pool_memory());
	DAEMON_AWAIT(has_settled());
	before = switches();
	/* Not a wait for a state: nothing must happen in this time. */
	(void)poll(NULL, 0, 2000);
	ck_assert_uint_eq(switches() - before, 0);
	daemon_stop_close(&d, c);
}

START_TEST(memory_of_deep_calls_is_released_and_the_pool_sleeps)
{
	deep_and_back("deep:deep", 10000000);
}
END_TEST

START_TEST(memory_of_deep_forks_is_released_and_the_pool_sleeps)
{
	deep_and_back("deep:forked", 1000000);
}
END_TEST

/* stack-max exceeds the arena: the deep job takes all the memory that it can get, again and
 * again. */
START_TEST(small_jobs_end_while_one_takes_the_whole_arena)
{
	fk_client *c;
	pid_t pid;

	shared = daemon_share(sizeof(*shared));
	daemon_start(&d, "--workers=2", "--arena-max=64M", "--stack-max=1G", NULL);
	pid = daemon_fork(DAEMON_UID);
	if (pid == 0) {
		fk_client *deep = NULL;
		int64_t n = 0;

		if (fk_open(d.socket, NULL, &deep) < 0)
			_exit(2);
		while (!atomic_load(&shared->over)) {
			/* The deep job's own error; a job of the other client is never that
			 * large. */
			if (fk_call(deep, "deep:deep", &n, INT64_C(100000000)) != -ENOMEM)
				_exit(3);
			atomic_fetch_add(&shared->told, 1);
		}
		_exit(fk_close(deep) < 0 ? 4 : 0);
	}
	c = daemon_open(&d);
	DAEMON_AWAIT(atomic_load(&shared->told) >= 1);
	for (int i = 0; i < 200; i++) {
		int64_t n = 0;

		ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(20)), 0);
		ck_assert_int_eq(n, 6765);
		ck_assert_int_eq(fk_call(c, "deep:deep", &n, INT64_C(500)), 0);
		ck_assert_int_eq(n, 500);
	}
	atomic_store(&shared->over, 1);
	ck_assert_int_eq(daemon_reap(pid), 0);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	daemon_stop_close(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ trees */

struct uts_result {
	int64_t nodes;
	int64_t depth;
	int64_t leaves;
};

static void walk(fk_client *c, const char *tree, const struct uts_result *wanted)
{
	struct uts_result found = { 0 };
	uint64_t start_ns = clock_ns();

	ck_assert_int_eq(fk_call(c, "uts:uts", &found, tree), 0);
	printf("%s on %" PRIu32 " workers: %" PRId64 " nodes in %" PRIu64 " ms\n", tree,
	       d.board->manager.n_workers, found.nodes, (clock_ns() - start_ns) / NSEC_PER_MSEC);
	ck_assert_int_eq(found.nodes, wanted->nodes);
	ck_assert_int_eq(found.depth, wanted->depth);
	ck_assert_int_eq(found.leaves, wanted->leaves);
}

static void walk_trees(uint32_t n_workers)
{
	static const struct uts_result t3 = { 4112897, 1572, 3599034 };
	static const struct uts_result t3l = { 111345631, 17844, 89076904 };
	fk_client *c;

	start(n_workers);
	c = daemon_open(&d);
	walk(c, "T3", &t3);
	if (getenv("SOAK"))
		walk(c, "T3L", &t3l);
	daemon_stop_close(&d, c);
}

START_TEST(one_worker_counts_every_node_of_a_deep_unbalanced_tree)
{
	walk_trees(1);
}
END_TEST

START_TEST(two_workers_count_every_node_of_a_deep_unbalanced_tree)
{
	walk_trees(2);
}
END_TEST

START_TEST(eight_workers_count_every_node_of_a_deep_unbalanced_tree)
{
	walk_trees(8);
}
END_TEST

int main(void)
{
	if (daemon_sanitized())
		check_unit_leave_out("too long with a sanitizer",
				     &one_worker_counts_every_node_of_a_deep_unbalanced_tree,
				     &eight_workers_count_every_node_of_a_deep_unbalanced_tree);
	return check_unit_main("promises");
}
