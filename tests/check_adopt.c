/* SPDX-License-Identifier: MIT */
/*
 * adopt: the manager is killed, and the next one goes on with its clients, who notice nothing
 *
 * The stand-in for systemd (tests/fdstore.h) has forkd's descriptors meanwhile. Nobody connects
 * twice: each client is one connection, of the first manager's.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <hwloc.h>

#include "client/client.h"
#include "common/util.h"
#include "daemon/adopt.h"
#include "daemon/loop_fault.h"
#include "daemon/manager.h"
#include "tests/kept.h"
#include "tests/oracle.h"
#include "tests/sites.h"
#define CHECK_TIMEOUT 120
#include "tests/check_unit.h"

#define CLIENTS	  4u /* that stay */
#define GUESTS	  2u /* that come and go all the time */
#define KILLS	  20u
#define OTHER_UID 65531u

static struct daemon d;
static struct fdstore *store;
static _Atomic uint64_t *ended; /* jobs of each client, those that stay first */

static void begin(void)
{
	memset(&d, 0, sizeof(d));
	ended = daemon_share((CLIENTS + GUESTS) * sizeof(*ended));
}

static int outcome(fk_client *c, fk_job job)
{
	ck_assert_int_eq(fk_wait(c, job, DAEMON_PATIENCE * NSEC_PER_SEC), 0);
	return fk_outcome(c, job, NULL, NULL);
}

static fk_job submit_add(fk_client *c)
{
	const int64_t args[2] = { 40, 2 };
	const fk_task *task;
	fk_job job;

	ck_assert_int_eq(fk_task_find(c, "null:add", &task), 0);
	ck_assert_int_eq(fk_submit(c, task, args, sizeof(args), FK_IDEMPOTENT, &job), 0);
	return job;
}

/* A job of an old connection. */
static void serves(fk_client *c)
{
	fk_job job = submit_add(c);
	int64_t sum = 0;

	ck_assert_str_eq(fk_outcome_name(outcome(c, job)), "DONE");
	ck_assert_int_eq(fk_result(c, job, &sum, sizeof(sum)), 0);
	ck_assert_int_eq(sum, 42);
	ck_assert_int_eq(fk_release(c, job), 0);
}

static uint32_t n_running(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < 2; i++)
		n += atomic_load(&d.board->running[i].job) != UINT32_MAX;
	return n;
}

/* How many descriptors the stand-in has by such names: "c1", "c*". */
static uint32_t n_kept(const char *pattern)
{
	char names[4096], *save = NULL;
	uint32_t n = 0;

	fdstore_names(store, names, sizeof(names));
	for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save))
		n += fnmatch(pattern, name, 0) == 0;
	return n;
}

/* ------------------------------------------------------------------------ the fence */

static bool is_dead(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

START_TEST(nothing_goes_on_before_each_pool_of_the_store_is_dead)
{
	struct store_inherited *inherited = calloc(2, sizeof(*inherited));
	struct adopt adopt = ADOPT_INIT;
	struct store s = STORE_INIT;
	int fds[2];

	for (uint32_t i = 0; i < 2; i++) {
		pid_t pid = daemon_fork(DAEMON_UID);

		while (pid == 0)
			(void)pause();
		fds[i] = (int)syscall(SYS_pidfd_open, pid, 0);
		ck_assert_int_ge(fds[i], 0);
		inherited[i] = (struct store_inherited){
			.name = "pool",
			.kind = STORE_PIDFD,
			.fd = dup(fds[i]),
		};
	}
	s.fd = open("/dev/null",
		    O_WRONLY | O_CLOEXEC); /* there is a store, to which nothing is said */
	s.inherited = inherited;
	s.n_inherited = 2;
	s.max = 16;
	ck_assert(!is_dead(fds[0]) && !is_dead(fds[1]));
	adopt_look(&adopt, &s);
	ck_assert(is_dead(fds[0]) && is_dead(fds[1]));
	ck_assert_ptr_null(adopt.roster);
	ck_assert(!adopt.inherited);
	adopt_fini(&adopt);
	(void)close(s.fd);
	free(inherited);
}
END_TEST

/* ------------------------------------------------------------------------ without loss */

static void see_clients_go_on(void)
{
	for (uint32_t i = 0; i < CLIENTS + GUESTS; i++) {
		uint64_t seen = atomic_load(&ended[i]);

		DAEMON_AWAIT(atomic_load(&ended[i]) > seen + 1);
	}
}

/* Whoever is connecting when a manager dies is let in by the next. Returns an exit status. */
static int visit(const _Atomic uint32_t *stop, _Atomic uint64_t *calls)
{
	while (!atomic_load(stop)) {
		fk_client *c = NULL;
		int64_t sum = 0;

		if (fk_open(d.socket, NULL, &c) < 0) {
			(void)fprintf(stderr, "guest %d: %s\n", (int)getpid(), fk_open_error());
			return 94;
		}
		/* LOST, if it ran. */
		if (fk_call(c, "null:add", &sum, (int64_t)40, (int64_t)2) == 0 && sum != 42)
			return 95;
		atomic_fetch_add(calls, 1);
		if (fk_close(c) < 0)
			return 96;
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

START_TEST(twenty_managers_are_killed_under_load_and_no_client_notices)
{
	struct oracle_verdict v;
	pid_t pids[CLIENTS + GUESTS];
	uint64_t ns[KILLS];
	struct oracle o;

	store = kept_start(&d, "--workers=2", NULL);
	oracle_init(&o, d.folder);
	for (uint32_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = daemon_fork(i % 2 ? OTHER_UID : DAEMON_UID);
		if (pids[i] == 0)
			_exit(i < CLIENTS ? oracle_serve(&o, d.socket, &ended[i])
					  : visit(&o.shared->stop, &ended[i]));
	}
	see_clients_go_on();
	for (uint32_t i = 0; i < KILLS; i++) {
		ns[i] = clock_ns();
		kept_kill(&d, store);
		serves(d.watcher);
		ns[i] = clock_ns() - ns[i];
		kept_ready(&d, store);
		see_clients_go_on();
	}
	serves(d.watcher);
	atomic_store(&o.shared->stop, 1);
	for (uint32_t i = 0; i < ARRAY_SIZE(pids); i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
	ck_assert_uint_eq(store->starts, KILLS + 1);
	ck_assert_msg(oracle_judge(&o, &v), "%s; the log is %s", v.wrong, d.log);
	ck_assert_uint_eq(v.outcomes[FK_CANCELLED] + v.refused + v.orphans, 0);
	ck_assert_uint_eq(v.lost_idempotent, 0);
	qsort(ns, KILLS, sizeof(*ns), compare);
	printf("from a kill to the next job done: %.1f ms (median), %.1f (max)\n",
	       (double)ns[KILLS / 2] / 1e6, (double)ns[KILLS - 1] / 1e6);
	printf("%" PRIu64 " jobs done, %" PRIu64 " lost, %" PRIu64 " runs again\n",
	       v.outcomes[FK_DONE], v.outcomes[FK_LOST], v.again);
	ck_assert_uint_eq(atomic_load(&d.board->manager.crashes), 0);
	/* No two pools are one to those who wake workers. */
	ck_assert_uint_eq(atomic_load(&d.board->manager.pool_generation), KILLS + 1);
	/* What the roster says of clients, the store had. */
	ck_assert(!daemon_logged(&d, "of the last forkd is disconnected", ""));
	/* The watcher's socket, pidfd and segment are left. */
	DAEMON_AWAIT(n_kept("c*") == 3);
	oracle_fini(&o);
	kept_stop(&d, store);
}
END_TEST

START_TEST(what_ran_is_LOST_or_runs_again_as_often_as_it_takes)
{
	volatile uint8_t *gates[2];
	fk_job jobs[2];
	fk_client *c;

	store = kept_start(&d, "--workers=2", NULL);
	c = daemon_open(&d);
	jobs[0] = kept_hold(c, 0, &gates[0]);
	jobs[1] = kept_hold(c, FK_IDEMPOTENT, &gates[1]);
	DAEMON_AWAIT(n_running() == 2);
	/* Nobody suspects it of these deaths. */
	for (uint32_t i = 0; i < 4; i++) {
		kept_kill(&d, store);
		kept_ready(&d, store);
		ck_assert_str_eq(fk_outcome_name(outcome(c, jobs[0])), "LOST");
		DAEMON_AWAIT(n_running() == 1);
	}
	*gates[1] = 1;
	ck_assert_str_eq(fk_outcome_name(outcome(c, jobs[1])), "DONE");
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}
END_TEST

START_TEST(what_is_submitted_while_nobody_is_there_is_done)
{
	fk_client *c;
	fk_job job;

	store = kept_start(&d, "--workers=2", NULL);
	c = daemon_open(&d);
	kept_kill_and_hold(&d, store);
	job = submit_add(c);
	kept_go_on(store);
	ck_assert_str_eq(fk_outcome_name(outcome(c, job)), "DONE");
	ck_assert_int_eq(fk_close(c), 0);
	kept_ready(&d, store);
	kept_stop(&d, store);
}
END_TEST

START_TEST(a_cancel_while_nobody_is_there_holds)
{
	volatile uint8_t *gate;
	fk_client *c;
	fk_job job;

	store = kept_start(&d, "--workers=2", NULL);
	c = daemon_open(&d);
	job = kept_hold(c, FK_IDEMPOTENT, &gate);
	DAEMON_AWAIT(n_running() == 1);
	kept_kill_and_hold(&d, store);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	kept_go_on(store);
	ck_assert_str_eq(fk_outcome_name(outcome(c, job)), "CANCELLED");
	serves(c);
	ck_assert_int_eq(fk_close(c), 0);
	kept_ready(&d, store);
	kept_stop(&d, store);
}
END_TEST

static void be_held(void)
{
	fk_client *c = daemon_open(&d);
	volatile uint8_t *gate;

	(void)kept_hold(c, FK_IDEMPOTENT, &gate);
	for (;;)
		(void)pause();
}

START_TEST(a_client_that_dies_while_nobody_is_there_leaves_nothing)
{
	pid_t pid;

	store = kept_start(&d, "--workers=2", NULL);
	pid = daemon_client(be_held, DAEMON_UID);
	DAEMON_AWAIT(n_running() == 1);
	DAEMON_AWAIT(n_kept("c0") && n_kept("c1"));
	kept_kill_and_hold(&d, store);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(daemon_reap(pid), 256 + SIGKILL);
	kept_go_on(store);
	kept_ready(&d, store);
	/* Its job does not run again. */
	ck_assert(daemon_logged(&d, "going on with 2 clients", "1 cancelled, 0 run again"));
	DAEMON_AWAIT(!n_kept("c1"));
	ck_assert(n_kept("c0"));
	serves(d.watcher);
	kept_stop(&d, store);
}
END_TEST

static int maybe(fk_client *c, int64_t bad)
{
	int64_t n = 0;

	return fk_call(c, "crash:maybe", &n, bad);
}

START_TEST(crashes_count_and_quarantine_lasts_over_the_death_of_a_manager)
{
	fk_client *c;

	store = kept_start(&d, "--workers=2", "--quarantine-crashes=2", NULL);
	c = daemon_open(&d);
	ck_assert_int_eq(maybe(c, 1), -ENOTRECOVERABLE);
	/* The outcome is given before the crash is counted, and that before the next pool. */
	serves(c);
	kept_kill(&d, store);
	kept_ready(&d, store);
	ck_assert_uint_eq(atomic_load(&d.board->manager.crashes), 1);
	ck_assert_int_eq(maybe(c, 1), -ENOTRECOVERABLE);
	ck_assert_int_eq(maybe(c, 0), -EKEYREVOKED);
	kept_kill(&d, store);
	kept_ready(&d, store);
	ck_assert_int_eq(maybe(c, 0), -EKEYREVOKED);
	ck_assert_uint_eq(atomic_load(&d.board->manager.crashes), 2);
	serves(c);
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}
END_TEST

/* ------------------------------------------------------------------------ with loss */

/* A roster as a forkd of version 1 has left it: its CPUs are missing. It knows one client. */
static int old_roster(uint32_t slot, const struct roster_entry *entry)
{
	const size_t size = offsetof(struct roster, cpus_at);
	const struct roster_geometry geometry = { .n_workers = 1 };
	struct roster *old, *new;
	void *base;
	int fd;

	ck_assert_int_ge(roster_new(&geometry, 77, &new), 0);
	roster_enter_client(new, slot, entry);
	fd = segment_create("forkd-roster", SEGMENT_ROSTER, size, 77, 1, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(segment_map_sized(fd, size, &base), 0);
	old = base;
	memcpy(&old->version, &new->version, size - offsetof(struct roster, version));
	old->version = 1;
	roster_unmap(old);
	roster_unmap(new);
	return fd;
}

START_TEST(what_a_forkd_of_an_older_version_has_left_is_LOST_and_the_log_says_why)
{
	const struct roster_geometry geometry = { .n_workers = 1 };
	struct store_inherited *inherited = calloc(2, sizeof(*inherited));
	struct roster_entry entry = {
		.state = ROSTER_HERE,
		.n_jobs = 4,
		.size = client_segment_heap_offset(4),
	};
	int log = memfd_create("log", MFD_CLOEXEC), saved = dup(STDERR_FILENO), segment;
	hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
	struct adopt adopt = ADOPT_INIT;
	struct hangups hangups = { 0 };
	struct store s = STORE_INIT;
	struct options o;
	struct job *jobs;
	char text[1024];
	ssize_t n;
	void *base;

	segment = segment_create("c", SEGMENT_CLIENT, entry.size, 77, 1, 0600);
	ck_assert_int_eq(segment_map_sized(segment, entry.size, &base), 0);
	jobs = (struct job *)(void *)((char *)base + sizeof(struct client_segment));
	for (uint32_t i = 0; i < 4; i++)
		atomic_store(&jobs[i].state, (i + 1) << JOB_GEN_SHIFT | JOB_DONE);
	atomic_store(&jobs[2].state, 3 << JOB_GEN_SHIFT | JOB_PENDING);
	inherited[0] = (struct store_inherited){
		.name = "c9",
		.kind = STORE_MEMFD,
		.fd = segment,
	};
	inherited[1] = (struct store_inherited){
		.name = "roster",
		.kind = STORE_MEMFD,
		.fd = old_roster(9, &entry),
	};
	s.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	s.inherited = inherited;
	s.n_inherited = 2;
	s.max = 16;
	(void)dup2(log, STDERR_FILENO);
	adopt_look(&adopt, &s);
	/* Nothing of it is taken for granted. */
	ck_assert_int_eq(options_init(&o), 0);
	ck_assert_uint_eq(adopt_inherit(&adopt, &o), 0);
	ck_assert(!o.workers && !o.cpus);
	hwloc_bitmap_zero(cpus);
	ck_assert(!adopt_had_cpus(&adopt, cpus));
	ck_assert_int_eq(adopt_begin(&adopt, &s, &hangups, &geometry, cpus), 0);
	(void)dup2(saved, STDERR_FILENO);
	ck_assert(!adopt.inherited);
	ck_assert_uint_eq(adopt.roster->version, ROSTER_VERSION);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_uint_eq(atomic_load(&jobs[i].state),
				  (i + 1) << JOB_GEN_SHIFT | (i == 2 ? JOB_LOST : JOB_DONE));
	n = pread(log, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	ck_assert_msg(strstr(text, "forkd has another version now: 1 clients of the last forkd are "
				   "disconnected, 1 of their jobs are lost"),
		      "%s", text);
	hwloc_bitmap_free(cpus);
	options_fini(&o);
	adopt_fini(&adopt);
}
END_TEST

static void see_all_lost(fk_client *c, const fk_job *jobs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		ck_assert_str_eq(fk_outcome_name(outcome(c, jobs[i])), "LOST");
	kept_ready(&d, store);
	ck_assert(daemon_logged(&d, "clients of the last forkd are disconnected", ""));
	/* Its connection has ended, and the next is another forkd's. */
	ck_assert_int_eq(fk_close(c), 0);
	daemon_call_fib(&d);
	ck_assert_int_eq(fk_close(d.watcher), 0);
	d.watcher = daemon_open(&d);
	kept_stop(&d, store);
}

START_TEST(with_another_layout_each_job_is_LOST_and_all_is_new)
{
	volatile uint8_t *gates[3];
	struct roster *roster;
	fk_job jobs[3];
	fk_client *c;

	store = kept_start(&d, "--workers=2", NULL);
	c = daemon_open(&d);
	for (uint32_t i = 0; i < 3; i++)
		jobs[i] = kept_hold(c, FK_IDEMPOTENT, &gates[i]);
	DAEMON_AWAIT(n_running() == 2);
	roster = fdstore_roster(store);
	roster->head.layout_hash ^= 1;
	roster_unmap(roster);
	kept_kill(&d, store);
	DAEMON_AWAIT(daemon_logged(&d, "forkd has another version now: ", "disconnected"));
	see_all_lost(c, jobs, 3);
}
END_TEST

/* ------------------------------------------------------------------------ tries */

START_TEST(a_manager_that_has_lived_for_a_while_is_no_try)
{
	struct roster *roster;

	store = kept_start(&d, "--workers=2", NULL);
	kept_kill(&d, store);
	kept_ready(&d, store);
	roster = fdstore_roster(store);
	DAEMON_AWAIT(atomic_load(&roster->tries) == 0);
	roster_unmap(roster);
	kept_stop(&d, store);
}
END_TEST

#ifdef FK_CRASH_SITES
START_TEST(a_manager_whose_loop_fails_is_gone_on_from)
{
	struct loop_fault *fault = MAP_FAILED;
	volatile uint8_t *gate;
	char path[96];
	fk_client *c;
	fk_job job;
	int fd;

	daemon_prepare(&d);
	(void)snprintf(path, sizeof(path), "%s/loop", d.folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(ftruncate(fd, sizeof(*fault)), 0);
	fault = mmap(NULL, sizeof(*fault), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(fault, MAP_FAILED);
	ck_assert_int_eq(setenv("FORKD_LOOP_FAULT", path, 1), 0);
	store = kept_start(&d, "--workers=2", NULL);
	c = daemon_open(&d);
	job = kept_hold(c, FK_IDEMPOTENT, &gate);
	DAEMON_AWAIT(n_running() == 1);
	atomic_store(&fault->kinds[LOOP_FAULT_ENTER].error, -ENOMEM);
	atomic_store(&fault->kinds[LOOP_FAULT_ENTER].times, 1);
	atomic_store(&fault->kinds[LOOP_FAULT_ENTER].nth, 1);
	/* Something for it to do. */
	ck_assert_int_eq(kill(d.manager, SIGHUP), 0);
	kept_ready(&d, store);
	ck_assert(daemon_logged(&d, "io_uring failed", ""));
	ck_assert_int_eq(WEXITSTATUS(store->status), MANAGER_EXIT_BUG);
	*gate = 1;
	ck_assert_str_eq(fk_outcome_name(outcome(c, job)), "DONE");
	ck_assert(!daemon_logged(&d, "disconnected", ""));
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}
END_TEST
#endif

#define FAILURES 7u

static _Atomic uint32_t *failing; /* managers that are to come, which have so little: */
static rlim_t little;		  /* bytes of addresses */

static void be_short(void)
{
	struct rlimit limit = { .rlim_cur = little, .rlim_max = little };

	if (atomic_load(failing)) {
		atomic_fetch_sub(failing, 1);
		ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	}
}

/* Managers that have so little come to this, and nobody is given up. */
static void start_short(rlim_t bytes, const char *line)
{
	const struct fk_open_options large = { .heap_size = UINT64_C(512) << 20 };
	volatile uint8_t *gate;
	fk_client *c;
	fk_job job;

	little = bytes;
	failing = daemon_share(sizeof(*failing));
	daemon_prepare(&d);
	d.entering = be_short;
	store = kept_start(&d, "--workers=2", "--arena-max=256M", "--heap-max=512M",
			   "--memory-max=1G", NULL);
	ck_assert_int_eq(fk_open(d.socket, &large, &c), 0);
	job = kept_hold(c, FK_IDEMPOTENT, &gate);
	DAEMON_AWAIT(n_running() == 1);
	atomic_store(failing, FAILURES);
	kept_kill(&d, store);
	kept_ready(&d, store);
	ck_assert_uint_eq(store->starts, 1 + FAILURES + 1);
	ck_assert(daemon_logged(&d, line, ""));
	*gate = 1;
	ck_assert_str_eq(fk_outcome_name(outcome(c, job)), "DONE");
	ck_assert(!daemon_logged(&d, "disconnected", ""));
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}

START_TEST(a_shortage_at_its_start_is_no_reason_to_give_clients_up)
{
	if (daemon_sanitized())
		check_unit_not_run(a_shortage_at_its_start_is_no_reason_to_give_clients_up,
				   "sanitizers need address space");
	else
		start_short(200 << 20, "cannot map the arena");
}
END_TEST

START_TEST(nor_is_a_shortage_while_they_are_taken_over)
{
	if (daemon_sanitized())
		check_unit_not_run(nor_is_a_shortage_while_they_are_taken_over,
				   "sanitizers need address space");
	else
		start_short(600 << 20, "cannot go on with the clients of the last forkd");
}
END_TEST

/* ------------------------------------------------------------------------ sizes */

static uint64_t arena_max(void)
{
	struct roster *roster = fdstore_roster(store);
	uint64_t size = roster_arena_max(roster);

	roster_unmap(roster);
	return size;
}

START_TEST(what_is_auto_stays_as_it_is_for_those_who_are_there)
{
	static const char *const later[] = {
		"memory-total = 550M\n",
		"memory-total = 2G\nheap-max = 1M\n",
		"memory-total = 600M\nworkers = 2\nlimit-clients = 3\n",
	};
	volatile uint8_t *gate;
	uint64_t before;
	fk_client *c;
	fk_job job;

	store = kept_start(&d, kept_configure(&d, "memory-total = 600M\nworkers = 2\n"), NULL);
	before = arena_max();
	c = daemon_open(&d);
	job = kept_hold(c, FK_IDEMPOTENT, &gate);
	for (uint32_t i = 0; i < ARRAY_SIZE(later); i++) {
		DAEMON_AWAIT(n_running() == 1);
		(void)kept_configure(&d, later[i]);
		kept_kill(&d, store);
		kept_ready(&d, store);
		ck_assert_uint_eq(arena_max(), before);
		ck_assert_uint_eq(d.board->manager.n_workers, 2);
	}
	*gate = 1;
	ck_assert_str_eq(fk_outcome_name(outcome(c, job)), "DONE");
	ck_assert(!daemon_logged(&d, "disconnected", ""));
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}
END_TEST

/* The next one has this forkd.conf, and says that. */
static void change(const char *conf, const char *says)
{
	volatile uint8_t *gate;
	fk_client *c;
	fk_job job;

	begin();
	store = kept_start(&d, kept_configure(&d, "memory-total = 600M\nworkers = 2\n"), NULL);
	c = daemon_open(&d);
	job = kept_hold(c, FK_IDEMPOTENT, &gate);
	DAEMON_AWAIT(n_running() == 1);
	(void)kept_configure(&d, conf);
	kept_kill(&d, store);
	DAEMON_AWAIT(daemon_logged(&d, "clients of the last forkd are disconnected", says));
	see_all_lost(c, &job, 1);
}

START_TEST(what_is_set_otherwise_is_named_and_all_is_new)
{
	change("memory-total = 600M\nworkers = 3\nmax-jobs = 2000\n",
	       "forkd has other sizes now: workers was 2 and is 3, max-jobs was 1024 and is 2000");
	change("memory-total = 600M\nworkers = 2\narena-max = 100M\n",
	       "sizes now: arena-max was 244M and is 100M: ");
	/* It does not fit any more. */
	change("memory-total = 200M\nworkers = 2\n", "sizes now: arena-max was 244M and is ");
}
END_TEST

#ifdef FK_CRASH_SITES

START_TEST(a_state_that_kills_each_manager_is_given_up)
{
	volatile uint8_t *gate;
	fk_client *c;
	fk_job job;

	daemon_prepare(&d);
	ck_assert_int_eq(setenv("FORKD_CRASH_SITE", "adopt_client", 1), 0);
	ck_assert_int_eq(unsetenv("FORKD_CRASH_TOKEN"), 0);
	store = kept_start(&d, "--workers=2", NULL);
	c = daemon_open(&d);
	job = kept_hold(c, FK_IDEMPOTENT, &gate);
	DAEMON_AWAIT(n_running() == 1);
	kept_kill(&d, store);
	ck_assert_str_eq(fk_outcome_name(outcome(c, job)), "LOST");
	ck_assert_uint_eq(store->starts, 1 + 5 + 1);
	see_all_lost(c, &job, 1);
}
END_TEST

/* ------------------------------------------------------------------------ at its crash sites */

/* A manager dies at the site while it takes over from one that was killed: the next takes over. */
static void die_taking_over(const char *site)
{
	volatile uint8_t *gates[2];
	fk_job jobs[2];
	fk_client *c;

	begin();
	daemon_prepare(&d);
	daemon_mine(&d, site, 0);
	daemon_unmine(&d);
	store = kept_start(&d, "--workers=2", NULL);
	c = daemon_open(&d);
	jobs[0] = kept_hold(c, 0, &gates[0]);
	jobs[1] = kept_hold(c, FK_IDEMPOTENT, &gates[1]);
	DAEMON_AWAIT(n_running() == 2);
	daemon_mine(&d, site, 0);
	kept_kill(&d, store);
	DAEMON_AWAIT(!daemon_is_mined(&d));
	DAEMON_AWAIT(store->starts >= 3);
	ck_assert_str_eq(fk_outcome_name(outcome(c, jobs[0])), "LOST");
	*gates[1] = 1;
	ck_assert_str_eq(fk_outcome_name(outcome(c, jobs[1])), "DONE");
	kept_ready(&d, store);
	daemon_call_fib(&d);
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}

/* While it takes over, while it takes a client in, while it gives up. */
static const char *const sites_over[] = { "adopt_fenced", "adopt_client", "recover_given",
					  "pool_forked",  "pool_stored",  "roster_store" };
static const char *const sites_in[] = { "session_stored", "roster_store", "session_welcoming" };
static const char *const sites_up[] = { "adopt_lost" };

START_TEST(a_manager_that_dies_while_it_takes_over_is_taken_over_from)
{
	for (size_t i = 0; i < ARRAY_SIZE(sites_over); i++)
		die_taking_over(sites_over[i]);
}
END_TEST

/* A manager dies at the site while it takes a client in. twice: who is told so again, by the next
 * one, does not care. */
static void die_taking_in(const char *site, bool twice)
{
	struct roster *roster;
	fk_client *old, *c;
	fk_job job;

	begin();
	daemon_prepare(&d);
	daemon_mine(&d, site, 0);
	daemon_unmine(&d);
	store = kept_start(&d, "--workers=2", NULL);
	old = daemon_open(&d);
	daemon_mine(&d, site, 0);
	c = daemon_open(&d);
	/* The next manager may hear this before it has said WELCOME itself. */
	job = submit_add(c);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	DAEMON_AWAIT(!daemon_is_mined(&d));
	kept_ready(&d, store);
	if (twice) {
		roster = fdstore_roster(store);
		DAEMON_AWAIT(roster_client(roster, c->id).welcomed);
		roster_unmap(roster);
		ck_assert(!client_gone(c));
	}
	(void)outcome(c, job);
	serves(c);
	ck_assert_int_eq(fk_close(c), 0);
	serves(old);
	daemon_call_fib(&d);
	ck_assert_int_eq(fk_close(old), 0);
	DAEMON_AWAIT(!n_kept("c1") && !n_kept("c2") && !n_kept("c3"));
	kept_stop(&d, store);
}

START_TEST(a_client_that_a_manager_takes_in_while_it_dies_is_in)
{
	for (size_t i = 0; i < ARRAY_SIZE(sites_in); i++)
		die_taking_in(sites_in[i], streq(sites_in[i], "session_welcoming"));
}
END_TEST

START_TEST(one_that_dies_while_it_gives_jobs_up_has_the_next_do_it)
{
	volatile uint8_t *gates[2];
	struct roster *roster;
	fk_job jobs[2];
	fk_client *c;

	daemon_prepare(&d);
	daemon_mine(&d, sites_up[0], 0);
	store = kept_start(&d, "--workers=2", NULL);
	c = daemon_open(&d);
	for (uint32_t i = 0; i < 2; i++)
		jobs[i] = kept_hold(c, FK_IDEMPOTENT, &gates[i]);
	DAEMON_AWAIT(n_running() == 2);
	roster = fdstore_roster(store);
	roster->geometry.max_jobs++;
	roster_unmap(roster);
	kept_kill(&d, store);
	DAEMON_AWAIT(!daemon_is_mined(&d));
	see_all_lost(c, jobs, 2);
}
END_TEST

static bool is_in(const char *site, const char *const *sites, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (streq(sites[i], site))
			return true;
	return false;
}

static bool is_tried(enum crash_site site)
{
	const char *name = crash_rows[site].name;

	return is_in(name, sites_over, ARRAY_SIZE(sites_over)) ||
	       is_in(name, sites_in, ARRAY_SIZE(sites_in)) ||
	       is_in(name, sites_up, ARRAY_SIZE(sites_up));
}

START_TEST(every_site_of_the_manager_is_tried)
{
	sites_check(CRASH_MANAGER, is_tried);
}
END_TEST

#endif

int main(void)
{
	const TTest *const tests[] = {
		nothing_goes_on_before_each_pool_of_the_store_is_dead,
		twenty_managers_are_killed_under_load_and_no_client_notices,
		what_ran_is_LOST_or_runs_again_as_often_as_it_takes,
		what_is_submitted_while_nobody_is_there_is_done,
		a_cancel_while_nobody_is_there_holds,
		a_client_that_dies_while_nobody_is_there_leaves_nothing,
		crashes_count_and_quarantine_lasts_over_the_death_of_a_manager,
		what_a_forkd_of_an_older_version_has_left_is_LOST_and_the_log_says_why,
		with_another_layout_each_job_is_LOST_and_all_is_new,
		a_manager_that_has_lived_for_a_while_is_no_try,
		a_shortage_at_its_start_is_no_reason_to_give_clients_up,
		nor_is_a_shortage_while_they_are_taken_over,
		what_is_auto_stays_as_it_is_for_those_who_are_there,
		what_is_set_otherwise_is_named_and_all_is_new,
#ifdef FK_CRASH_SITES
		a_manager_whose_loop_fails_is_gone_on_from,
		a_state_that_kills_each_manager_is_given_up,
		a_manager_that_dies_while_it_takes_over_is_taken_over_from,
		a_client_that_a_manager_takes_in_while_it_dies_is_in,
		one_that_dies_while_it_gives_jobs_up_has_the_next_do_it,
		every_site_of_the_manager_is_tried,
#endif
	};

	return check_unit_run("adopt", tests, ARRAY_SIZE(tests), begin, NULL, CHECK_TIMEOUT);
}
