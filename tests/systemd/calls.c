/* SPDX-License-Identifier: MIT */
/*
 * calls.c - a load on the forkd of a booted systemd, which is restarted under it
 *
 *	calls kill N       N times the manager is killed
 *	calls restart N    N times systemctl restarts it: no job may be lost
 *	calls jobs N       the manager is killed until N jobs have ended
 *
 * Four clients of two users submit jobs that leave a trace each time they run
 * (tests/support/oracle.h); one more, of root's, connects once and asks for an answer after each
 * restart. Prints the figures.
 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_TIMEOUT 3000
#include "client/lib/client.h"
#include "common/clock.h"
#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/oracle.h"

#define SOCKET	"/run/forkd/forkd.sock"
#define CLIENTS 4
#define USER	1234
#define MOST	10000

static bool killed;	/* not restarted by systemctl */
static bool until_jobs; /* `wanted` jobs have ended */
static uint64_t wanted;
static fk_client *client;
static struct oracle o;
static pid_t pids[CLIENTS];
static _Atomic uint64_t *ended;
static uint64_t answers[MOST]; /* ns */
static uint32_t n_answers;

static uint64_t all_ended(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < CLIENTS; i++)
		sum += atomic_load(&ended[i]);
	return sum;
}

static void begin(void)
{
	static char directory[] = "/output/calls.XXXXXX";

	ended = mmap(NULL, CLIENTS * sizeof(*ended), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(ended != MAP_FAILED);
	ck_assert_msg(fk_open(SOCKET, NULL, &client) == 0, "%s", fk_error_text());
	/* forkd is another user, and sees no other directory. */
	ck_assert(mkdtemp(directory) && chmod(directory, 0755) == 0);
	oracle_init(&o, directory);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		uid_t uid = USER + i % 2;

		(void)fflush(NULL);
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(setgid(uid) < 0 || setuid(uid) < 0
				      ? 91
				      : oracle_serve(&o, SOCKET, &ended[i]));
	}
}

/* A call's result, now or when forkd is there again. */
static void answer(uint64_t since)
{
	const int64_t args[2] = { 40, 2 };
	const fk_task *task;
	int64_t sum = 0;
	fk_job job;

	ck_assert(fk_task_find(client, "null:add", &task) == 0);
	ck_assert(fk_submit_packed(client, task, args, sizeof(args), FK_IDEMPOTENT, &job) == 0);
	ck_assert(fk_wait(client, job, FK_FOREVER) == 0);
	ck_assert(fk_result(client, job, &sum, sizeof(sum)) == 0 && sum == 42);
	(void)fk_release(client, job);
	answers[n_answers++ % MOST] = clock_ns() - since;
}

/* Waits until each of them has seen the end of some more jobs. */
static void go_on(void)
{
	for (uint32_t i = 0; i < CLIENTS; i++)
		for (uint64_t seen = atomic_load(&ended[i]); atomic_load(&ended[i]) < seen + 2;)
			(void)usleep(500);
}

static void restart(void)
{
	uint64_t since;

	go_on();
	since = clock_ns();
	if (killed) {
		pid_t manager = (pid_t)client->board->manager.pid;
		struct pollfd p = { .events = POLLIN };

		p.fd = pidfd_open((pid_t)atomic_load(&client->board->manager.pool_pid), 0);
		ck_assert(kill(manager, SIGKILL) == 0);
		(void)poll(&p, p.fd >= 0, -1);
		(void)close(p.fd);
	} else {
		ck_assert(system("systemctl restart forkd") == 0);
	}
	answer(since);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void end(void)
{
	struct oracle_verdict v;
	uint32_t n = min(n_answers, (uint32_t)MOST);
	int status;

	atomic_store(&o.shared->stop, 1);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
	}
	(void)oracle_judge(&o, &v);
	qsort(answers, n, sizeof(answers[0]), compare);
	printf("%u restarts, first answer after %.1f ms (median), %.1f ms (worst); %" PRIu64
	       " jobs: %" PRIu64 " done, %" PRIu64 " lost, %" PRIu64
	       " idempotent ones lost, %" PRIu64 " ran again%s%s\n",
	       n_answers, (double)answers[n / 2] / 1e6, (double)answers[n - 1] / 1e6, v.submitted,
	       v.outcomes[FK_DONE], v.outcomes[FK_LOST], v.lost_idempotent, v.again,
	       v.wrong[0] ? ": " : "", v.wrong);
	(void)fflush(stdout);
	ck_assert_str_eq(v.wrong, "");
	ck_assert_uint_eq(v.lost_idempotent + v.refused + v.outcomes[FK_CANCELLED], 0);
	if (!killed)
		ck_assert_uint_eq(v.outcomes[FK_DONE], v.submitted);
}

START_TEST(each_job_ends_once_and_in_the_right_way)
{
	begin();
	for (uint64_t i = 0; until_jobs ? all_ended() < wanted : i < wanted; i++)
		restart();
	go_on();
	end();
}
END_TEST

int main(int argc, char *argv[])
{
	if (argc != 3)
		return 2;
	killed = !streq(argv[1], "restart");
	until_jobs = streq(argv[1], "jobs");
	wanted = strtoull(argv[2], NULL, 10);
	return check_unit_main("calls");
}
