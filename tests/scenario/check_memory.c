/* SPDX-License-Identifier: MIT */
/* memory: the limits of all memory that clients and tasks can use, in a real forkd. A task or
 * client at its limit fails alone, and all of them together use no more than forkd may have. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/cleanup.h"
#include "common/util.h"
#include "tests/support/control_group.h"
#include "tests/support/jobs.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

#define MIB	  (INT64_C(1) << 20)
#define OTHER_UID 65531u

static struct daemon d;

static int outcome(fk_client *c, fk_job job, int *ret_code)
{
	int how;

	ck_assert_int_eq(fk_wait(c, job, DAEMON_PATIENCE * NSEC_PER_SEC), 0);
	how = fk_outcome(c, job, ret_code, NULL);
	ck_assert_int_eq(fk_release(c, job), 0);
	return how;
}

static void fib_is_right(fk_client *c)
{
	int64_t n = 0;

	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(15)), 0);
	ck_assert_int_eq(n, 610);
}

static void some_is_there(fk_client *c, int64_t bytes)
{
	int64_t n = 0;
	int r = fk_call(c, "hog:some", &n, bytes);

	ck_assert_msg(r == 0 && n == bytes, "%" PRId64 " bytes: %s", bytes, fk_strerror(r));
}

/* A buffer of zeros; writing its first byte opens the gate. */
static struct fk_buffer make_gate(fk_client *c)
{
	struct fk_buffer gate = { .size = 64 };

	ck_assert_int_eq(fk_alloc(c, gate.size, &gate.data), 0);
	memset(gate.data, 0, gate.size);
	return gate;
}

static void open_gate(struct fk_buffer gate)
{
	*(volatile unsigned char *)gate.data = 1;
}

/* A job that allocates all that tasks may allocate, and has it when this returns. */
static fk_job keep_all(fk_client *c, struct fk_buffer gate)
{
	int64_t bytes = 0;
	fk_job job;

	ck_assert_int_eq(fk_submit(c, jobs_task(c, "hog:keep"), 0, &job, gate), 0);
	DAEMON_AWAIT(fk_call(c, "hog:held", &bytes, INT64_C(0)) == 0 && bytes > 0);
	return job;
}

/* ------------------------------------------------------------------------ what tasks allocate */

START_TEST(task_that_allocates_endlessly_fails_alone)
{
	static const int64_t pieces[] = { 1000, 100000, 8 * MIB };
	fk_client *greedy, *modest;
	int64_t before, most;
	pid_t pool;

	daemon_start(&d, "--workers=2", "--module-memory-max=64M", NULL);
	pool = daemon_pool(&d);
	before = daemon_proc_status(pool, "VmHWM") * 1024;
	greedy = daemon_open(&d);
	modest = daemon_open(&d);
	for (uint32_t i = 0; i < 2 * ARRAY_SIZE(pieces); i++) {
		int64_t piece = pieces[i / 2];
		int code = 0;
		fk_job job;

		ck_assert_int_eq(fk_submit(greedy, jobs_task(greedy, "hog:eat"), 0, &job, piece),
				 0);
		do
			fib_is_right(modest);
		while (fk_poll(greedy, job) == 0);
		ck_assert_int_eq(outcome(greedy, job, &code), FK_FAILED);
		ck_assert_int_eq(code, -ENOMEM);
		/* The memory that it had is available to others, in one piece, on any worker. */
		for (int k = 0; k < 8; k++)
			some_is_there(modest, 40 * MIB);
	}
	most = daemon_proc_status(pool, "VmHWM") * 1024 - before;
	printf("tasks had %" PRId64 " bytes at most\n", most);
	ck_assert_int_gt(most, 60 * MIB);
	ck_assert_int_lt(most, 72 * MIB);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_int_eq(fk_close(greedy), 0);
	daemon_stop_close(&d, modest);
}
END_TEST

static void call_fib(void)
{
	daemon_call_fib(&d);
}

START_TEST(clients_connect_and_jobs_end_while_a_task_has_all_memory)
{
	fk_client *greedy;
	struct fk_buffer gate;
	fk_job job;
	pid_t pool;

	daemon_start(&d, "--workers=2", "--module-memory-max=16M", "--clients-max=1000", NULL);
	pool = daemon_pool(&d);
	greedy = daemon_open(&d);
	gate = make_gate(greedy);
	job = keep_all(greedy, gate);
	for (int i = 0; i < 20; i++) {
		fk_client *c = daemon_open(&d);
		int64_t n = 0;

		fib_is_right(c);
		ck_assert_int_eq(fk_call(c, "hog:some", &n, MIB), -ENOMEM);
		ck_assert_int_eq(fk_close(c), 0);
	}
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_int_eq(daemon_reap(daemon_client(call_fib, OTHER_UID - i)), 0);
	open_gate(gate);
	ck_assert_int_eq(outcome(greedy, job, NULL), FK_DONE);
	some_is_there(greedy, MIB);
	ck_assert_int_eq(daemon_pool(&d), pool);
	daemon_stop_close(&d, greedy);
}
END_TEST

START_TEST(next_pool_has_the_limit_too)
{
	fk_client *c;
	int64_t n = 0;

	c = JOBS_BEGIN(&d, "--workers=2", "--module-memory-max=16M", NULL);
	(void)kill(daemon_pool(&d), SIGKILL);
	DAEMON_AWAIT(daemon_crashes(&d) == 1);
	some_is_there(c, 8 * MIB);
	ck_assert_int_eq(fk_call(c, "hog:some", &n, 32 * MIB), -ENOMEM);
	daemon_stop_close(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ come and go */

/* Two rounds through all slots; of the queue to the manager that is a quarter. */
START_TEST(clients_without_jobs_leave_no_page_of_the_pool_behind)
{
	int64_t before, after;

	daemon_start(&d, "--workers=2", "--clients-max=256", NULL);
	for (int i = 0; i < 16; i++)
		ck_assert_int_eq(fk_close(daemon_open(&d)), 0);
	before = daemon_proc_status(daemon_pool(&d), "RssAnon");
	for (int i = 0; i < 512; i++)
		ck_assert_int_eq(fk_close(daemon_open(&d)), 0);
	after = daemon_proc_status(daemon_pool(&d), "RssAnon");
	printf("%" PRId64 " kB, then %" PRId64 " kB\n", before, after);
	ck_assert_int_gt(before, 0);
	ck_assert_int_lt(after, before + 128);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* ------------------------------------------------------------------------ taken away */

#define PUNCHES 200u

/* Removes all pages of its own segment, again and again, with jobs in it. */
static void punch(void)
{
	const struct fk_open_options options = { .heap_size = 2u << 20 };
	struct fk_buffer data = { .size = 1u << 20 }, quiet = { .size = 65536 }, gate;
	const fk_task *hold, *invert;
	fk_client *c = NULL;
	int64_t sum = 1;
	fk_job job;

	ck_assert_int_eq(fk_open(d.socket, &options, &c), 0);
	hold = jobs_task(c, "crash:hold");
	invert = jobs_task(c, "bytes:invert");
	gate = make_gate(c);
	ck_assert_int_eq(fk_alloc(c, data.size, &data.data), 0);
	ck_assert_int_eq(fk_alloc(c, quiet.size, &quiet.data), 0);
	memset(quiet.data, 1, quiet.size);
	ck_assert_int_eq(fk_submit(c, hold, 0, &job, gate), 0);
	for (uint32_t i = 0; i < PUNCHES; i++) {
		memset(data.data, 1, data.size);
		(void)fk_submit(c, invert, 0, &job, data);
		ck_assert_int_eq(madvise(c->segment, c->segment_size, MADV_REMOVE), 0);
	}
	open_gate(gate);
	/* Pages that no job writes back are zeros now; another record works as before. */
	ck_assert_int_eq(fk_call(c, "bytes:sum", &sum, quiet), 0);
	_exit(sum == 0 ? 0 : 1);
}

START_TEST(client_that_removes_its_memory_affects_no_other_client)
{
	fk_client *c;
	pid_t pool, puncher;
	int rounds = 0;

	daemon_start(&d, "--workers=2", NULL);
	pool = daemon_pool(&d);
	c = daemon_open(&d);
	puncher = daemon_client(punch, OTHER_UID);
	while (rounds++ < 500)
		fib_is_right(c);
	ck_assert_int_eq(daemon_reap(puncher), 0);
	/* Its slot and its jobs have ended; the two clients of the test are left. */
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == 2);
	fib_is_right(c);
	ck_assert_int_eq(daemon_reap(daemon_client(call_fib, OTHER_UID)), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	daemon_stop_close(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ all of it */

#define GROUP_LIMIT "314572800" /* 300 MiB */

/* A control group with a limit, of either version. */
struct limited {
	struct control_group group;
	struct control_group home; /* this process's original group */
	const char *killed;
};

static const struct {
	const char *mount, *controller, *limit, *killed;
} hierarchies[] = {
	{ "/sys/fs/cgroup", "::", "memory.max", "memory.events" },
	{ "/sys/fs/cgroup/memory", ":memory:", "memory.limit_in_bytes", "memory.oom_control" },
};

/* Returns the group of this process. */
static void find_home(char *ret, size_t size, const char *mount, const char *controller)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/cgroup", "re");
	char line[300];

	(void)snprintf(ret, size, "%s", mount);
	while (f && fgets(line, sizeof(line), f)) {
		const char *name = strchr(line, ':');

		line[strcspn(line, "\n")] = '\0';
		if (name && !strncmp(name, controller, strlen(controller)))
			(void)snprintf(ret, size, "%s%s", mount, name + strlen(controller));
	}
}

/* Returns false if no group can be created here. */
static bool make_limited(struct limited *g)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		const char *mount = hierarchies[i].mount;

		g->killed = hierarchies[i].killed;
		find_home(g->home.directory, sizeof(g->home.directory), mount,
			  hierarchies[i].controller);
		if (!control_group_make(&g->group, mount, hierarchies[i].limit, GROUP_LIMIT))
			continue;
		if (control_group_enter(&g->group, getpid()) &&
		    control_group_enter(&g->home, getpid()))
			return true;
		control_group_end(&g->group);
	}
	return false;
}

/* Returns how often the kernel has killed in it. */
static int64_t kills_in(const struct limited *g)
{
	char path[512], line[64];
	int64_t n = -1;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", g->group.directory, g->killed);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		(void)sscanf(line, "oom_kill %" SCNd64, &n);
	if (f)
		(void)fclose(f);
	return n;
}

/* Starts forkd in the group. */
static int try_in(const struct limited *g, const char *const *options)
{
	int status;

	ck_assert(control_group_enter(&g->group, getpid()));
	status = daemon_try(&d, options);
	ck_assert(control_group_enter(&g->home, getpid()));
	return status;
}

/* Allocates clients' memory until there is no more. Returns the number of clients that got some. */
static uint32_t take_shared(fk_client *clients[], uint32_t n)
{
	const struct fk_open_options options = { .heap_size = 16u << 20 };
	uint32_t i = 0;

	while (i < n && fk_open(d.socket, &options, &clients[i]) == 0)
		i++;
	ck_assert_msg(strstr(fk_error_text(), "shared-memory-max"), "%s", fk_error_text());
	return i;
}

START_TEST(all_memory_in_use_at_once_stays_within_the_control_group)
{
	const char *const large[] = { "--workers=2", "--arena-max=290M", NULL };
	const char *const usual[] = { "--workers=2", "--heap-max=16M",
				      "--user-shared-memory-max=16T", NULL };
	struct fk_buffer gate;
	fk_client *clients[64], *c;
	struct limited g;
	fk_job keeps, deep;
	uint32_t n;
	pid_t pool;
	int code;

	if (!make_limited(&g)) {
		check_unit_not_run(all_memory_in_use_at_once_stays_within_the_control_group,
				   "no control group with a limit of memory can be made here");
		return;
	}
	ck_assert_int_eq(try_in(&g, large), 2);
	ck_assert(daemon_logged(&d, "memory-max is 300M (/", strrchr(g.group.directory, '/')));
	ck_assert(daemon_logged(&d, "arena-max 290M", "arena-max=auto would be"));
	ck_assert_int_eq(try_in(&g, usual), -1);
	pool = daemon_pool(&d);
	c = daemon_open(&d);
	gate = make_gate(c);
	n = take_shared(clients, ARRAY_SIZE(clients));
	ck_assert_uint_ge(n, 2);
	for (int round = 0; round < 2; round++) {
		keeps = keep_all(c, gate);
		ck_assert_int_eq(
			fk_submit(c, jobs_task(c, "deep:deep"), 0, &deep, INT64_C(1) << 40), 0);
		ck_assert_int_eq(outcome(c, deep, &code), FK_FAILED);
		ck_assert_int_eq(code, -ENOMEM);
		fib_is_right(clients[0]);
		open_gate(gate);
		ck_assert_int_eq(outcome(c, keeps, NULL), FK_DONE);
		memset(gate.data, 0, gate.size);
	}
	ck_assert_int_eq(kills_in(&g), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	while (n--)
		ck_assert_int_eq(fk_close(clients[n]), 0);
	daemon_stop_close(&d, c);
	control_group_end(&g.group);
}
END_TEST

int main(void)
{
	if (daemon_sanitized())
		check_unit_leave_out("a sanitizer has a malloc() of its own",
				     &all_memory_in_use_at_once_stays_within_the_control_group,
				     &task_that_allocates_endlessly_fails_alone,
				     &clients_connect_and_jobs_end_while_a_task_has_all_memory,
				     &next_pool_has_the_limit_too,
				     &clients_without_jobs_leave_no_page_of_the_pool_behind);
	return check_unit_main("memory");
}
