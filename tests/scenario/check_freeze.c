/* SPDX-License-Identifier: MIT */
/*
 * scenario: a user moves the sleepers of the board's words to another word, and others' jobs run
 * all the same (shm/wake.h, W10 and W11)
 *
 * FUTEX_REQUEUE works on a read-only mapping, so every client can do that. Each user is a process
 * with another uid, which only root can start. The test asserts that each job has its result and
 * that the pool was not replaced. It prints how long jobs have waited, next to the same without the
 * attack. FREEZE_SECONDS=60 makes the long form (with CK_TIMEOUT_MULTIPLIER=4).
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "shm/futex.h"
#include "shm/proto.h"
#include "shm/wake.h"
#include "tests/support/daemon.h"
#include "tests/support/refuse.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

#define ATTACKER  65533u /* a uid */
#define HONEST	  65531u
#define ROUNDS	  10u
#define WORKERS	  2u
#define WORDS	  (WORKERS + 1) /* and the dispatcher's */
#define STEADY	  3u		/* checks, a millisecond apart, that find no sleeper */
#define RINGS	  2000u
#define SHORT_RUN (300 * NSEC_PER_MSEC)

enum attack {
	NONE,
	REQUEUE, /* all sleepers, once */
	STEAL,	 /* the same, and wait on their words */
	JAM,	 /* the same, and wait there so that each FUTEX_WAKE fails */
	LOOP,	 /* requeue them again and again */
	HARMLESS /* the same calls for a private word: they only take CPU time */
};

struct shared {
	_Atomic uint32_t ready; /* the attacker has finished its first attack */
	_Atomic uint32_t stop;
	_Atomic uint32_t jobs;
	_Atomic uint64_t worst_ns;
	_Atomic uint64_t moved; /* sleepers */
	enum attack attack;
	bool pauses; /* the honest client lets the pool fall asleep before each job */
	/* without futex_waitv(2): a sleeper that was moved is back after BELL_TIMED_SLEEP */
	bool naps;
	uint64_t run_ns;
};

static struct shared *shared;

static bool takes_wakes(enum attack kind)
{
	return kind == STEAL || kind == JAM;
}

static struct daemon d;
static pid_t pool;

/* ------------------------------------------------------------------------ the attacker */

static const struct board *board; /* as a client has it: read-only */
static _Atomic uint32_t own;	  /* no thread wakes those that sleep on it */

static const _Atomic uint32_t *word_at(uint32_t i)
{
	if (shared->attack == HARMLESS)
		return &own;
	return i < WORKERS ? &board->workers[i].wake : &board->dispatcher;
}

static uint64_t move_all(const _Atomic uint32_t *to)
{
	uint64_t moved = 0;

	for (uint32_t i = 0; i < WORDS; i++) {
		const _Atomic uint32_t *from = word_at(i);
		long n = syscall(SYS_futex, from, FUTEX_REQUEUE, 0, (void *)(uintptr_t)INT32_MAX,
				 to ? to : from, 0);

		if (n > 0)
			moved += (uint64_t)n;
	}
	return moved;
}

static bool all_sleep(const struct board *b)
{
	bool sleeps = wake_state(wake_load(&b->dispatcher)) == WAKE_SLEEPING;

	for (uint32_t i = 0; i < WORKERS; i++)
		sleeps &= wake_state(wake_load(&b->workers[i].wake)) == WAKE_SLEEPING;
	return sleeps;
}

static void nap(void)
{
	(void)poll(NULL, 0, 1);
}

/* Moves sleepers until all threads sleep and none sleeps on a word of the board. */
static void move_every_sleeper(void)
{
	uint64_t all = 0;

	for (uint32_t steady = 0; steady < STEADY; nap()) {
		uint64_t moved = move_all(&own);

		all += moved;
		/* At least the worker that ran the last job sleeps there. */
		steady = all && (shared->naps || (!moved && all_sleep(board))) ? steady + 1 : 0;
	}
	atomic_fetch_add(&shared->moved, all);
}

/* Takes the wakes that are meant for a sleeper. */
static void *steal(void *word)
{
	for (;;)
		(void)futex_wait(word, wake_load(word), 0);
	return NULL;
}

/* The kernel's FUTEX_WAKE refuses a word on which such a thread waits. */
static void *jam(void *word)
{
	static _Atomic uint32_t with_owner;

	for (;;)
		(void)syscall(SYS_futex, word, FUTEX_WAIT_REQUEUE_PI, wake_load(word), NULL,
			      &with_owner, 0);
	return NULL;
}

static bool is_jammed(const _Atomic uint32_t *word)
{
	return syscall(SYS_futex, word, FUTEX_REQUEUE, 0, (void *)(uintptr_t)INT32_MAX, word, 0) <
	       0;
}

static void attack(void)
{
	void *(*const waits)(void *) = shared->attack == JAM ? jam : steal;
	pthread_t thread;
	fk_client *c;

	DAEMON_MUST(fk_open(d.socket, NULL, &c) == 0);
	board = c->board;
	if (shared->attack == REQUEUE || takes_wakes(shared->attack))
		move_every_sleeper();
	if (takes_wakes(shared->attack)) {
		for (uint32_t i = 0; i < WORDS; i++)
			DAEMON_MUST(pthread_create(&thread, NULL, waits,
						   (void *)(uintptr_t)word_at(i)) == 0);
		/* A requeue onto the same word returns the number of sleepers. */
		while (shared->attack == STEAL && move_all(NULL) < WORDS)
			nap();
		for (uint32_t i = 0; shared->attack == JAM && i < WORDS;)
			if (is_jammed(word_at(i)))
				i++;
			else
				nap();
	}
	atomic_store(&shared->ready, 1);
	while (!atomic_load(&shared->stop))
		if (shared->attack == LOOP || shared->attack == HARMLESS)
			atomic_fetch_add(&shared->moved, move_all(&own));
		else
			nap();
	_exit(0);
}

static pid_t begin_attack(enum attack kind)
{
	pid_t pid;

	shared->attack = kind;
	atomic_store(&shared->ready, 0);
	atomic_store(&shared->stop, 0);
	pid = daemon_client(attack, ATTACKER);
	DAEMON_AWAIT(atomic_load(&shared->ready) || daemon_has_ended(pid));
	return pid;
}

static void end_attack(pid_t pid)
{
	atomic_store(&shared->stop, 1);
	ck_assert_int_eq(daemon_reap(pid), 0);
}

/* ------------------------------------------------------------------------ the honest client */

static void one_job(fk_client *c)
{
	uint64_t since = clock_ns(), took;
	int64_t n = 0;

	DAEMON_MUST(fk_call(c, "fib:fib", &n, (int64_t)10) == 0);
	DAEMON_MUST(n == 55);
	took = clock_ns() - since;
	if (took > atomic_load(&shared->worst_ns))
		atomic_store(&shared->worst_ns, took);
	atomic_fetch_add(&shared->jobs, 1);
}

/* Runs jobs for run_ns, at least one. */
static void work(void)
{
	uint64_t end = clock_ns() + shared->run_ns;
	fk_client *c;

	DAEMON_MUST(fk_open(d.socket, NULL, &c) == 0);
	do {
		/* Not forever: an attacker may wake them all the time, too. */
		for (uint32_t i = 0; shared->pauses && i < 3 && !all_sleep(c->board); i++)
			nap();
		one_job(c);
	} while (clock_ns() < end);
	DAEMON_MUST(fk_close(c) == 0);
	_exit(0);
}

static void work_for(uint64_t ns)
{
	shared->run_ns = ns;
	ck_assert_int_eq(daemon_reap(daemon_client(work, HONEST)), 0);
}

/* ------------------------------------------------------------------------ tests */

static void begin(void (*entering)(void))
{
	shared = daemon_share(sizeof(*shared));
	shared->naps = entering != NULL;
	daemon_prepare(&d);
	d.entering = entering;
	daemon_start(&d, "--workers=2", "--hang-timeout=0", NULL);
	pool = daemon_pool(&d);
}

/* The pool was not replaced, and has lost no job. */
static void end(void)
{
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	DAEMON_AWAIT(daemon_counter(&d, "jobs_done") == atomic_load(&shared->jobs));
	ck_assert_int_eq(daemon_stop(&d), 0);
}

/* Returns the worst wait of ROUNDS jobs, each of a new client while the whole pool sleeps. */
static double worst_after(enum attack kind)
{
	pid_t pid;

	atomic_store(&shared->worst_ns, 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		DAEMON_AWAIT(all_sleep(d.board));
		pid = kind != NONE ? begin_attack(kind) : 0;
		/* An attacker that takes wakes stays. */
		if (kind == REQUEUE)
			end_attack(pid);
		work_for(0);
		if (takes_wakes(kind))
			end_attack(pid);
	}
	return (double)atomic_load(&shared->worst_ns) / NSEC_PER_MSEC;
}

static void attack_once(enum attack kind, const char *what, void (*entering)(void))
{
	double quiet;

	begin(entering);
	quiet = worst_after(NONE);
	printf("%s: worst wait %.2f ms (%.2f ms without)\n", what, worst_after(kind), quiet);
	ck_assert_uint_ge(atomic_load(&shared->moved), ROUNDS);
	ck_assert_uint_eq(atomic_load(&shared->jobs), 2 * ROUNDS);
	end();
}

START_TEST(job_runs_after_all_sleepers_were_moved)
{
	attack_once(REQUEUE, "sleepers moved once", NULL);
}
END_TEST

START_TEST(job_runs_although_an_attacker_takes_the_wakes)
{
	attack_once(STEAL, "sleepers moved once and their wakes taken", NULL);
}
END_TEST

START_TEST(job_runs_although_no_word_can_be_woken)
{
	attack_once(JAM, "sleepers moved once and each wake refused", NULL);
}
END_TEST

/* The thread that reports watched jobs sleeps already when the job is submitted. */
START_TEST(watched_job_is_reported_although_an_attacker_takes_the_wakes)
{
	struct pollfd pfd = { .events = POLLIN };
	uint64_t since, worst = 0;
	const fk_task *add;
	fk_client *c;
	fk_job job;
	pid_t pid;

	begin(NULL);
	c = daemon_open(&d);
	ck_assert_int_eq(fk_task_find(c, "null:add", &add), 0);
	ck_assert_int_eq(fk_event_fd(c, &pfd.fd), 0);
	for (uint32_t i = 0; i < 2 * ROUNDS; i++) {
		/* Every second job is not attacked, but lets the thread look at its next tick. */
		pid = i % 2 ? begin_attack(STEAL) : 0;
		since = clock_ns();
		ck_assert_int_eq(fk_submit(c, add, 0, &job, INT64_C(1), INT64_C(2)), 0);
		ck_assert_int_eq(fk_watch(c, job, NULL, NULL), 0);
		ck_assert_int_eq(poll(&pfd, 1, -1), 1);
		if (pid)
			worst = max(worst, clock_ns() - since);
		ck_assert_int_eq(fk_next_completion(c, 0, &job, NULL), 0);
		ck_assert_int_eq(fk_release(c, job), 0);
		atomic_fetch_add(&shared->jobs, 1);
		if (pid)
			end_attack(pid);
	}
	printf("a watched job, wakes taken: worst wait %.2f ms\n", (double)worst / NSEC_PER_MSEC);
	ck_assert_int_eq(fk_close(c), 0);
	end();
}
END_TEST

/* Returns false if no sleeper was moved in the meantime. */
static bool run_beside(enum attack kind, bool pauses, uint64_t ns, double *ret_rate,
		       double *ret_worst)
{
	pid_t pid = kind != NONE ? begin_attack(kind) : 0;
	uint32_t before = atomic_load(&shared->jobs);
	uint64_t moved = atomic_load(&shared->moved);

	shared->pauses = pauses;
	atomic_store(&shared->worst_ns, 0);
	work_for(ns);
	moved = atomic_load(&shared->moved) - moved;
	if (pid)
		end_attack(pid);
	*ret_rate = (double)(atomic_load(&shared->jobs) - before) * 1e9 / (double)ns;
	*ret_worst = (double)atomic_load(&shared->worst_ns) / NSEC_PER_MSEC;
	return moved > 0;
}

static void attack_all_the_time(const char *what, void (*entering)(void))
{
	const char *seconds = getenv("FREEZE_SECONDS");
	uint64_t ns = seconds ? strtoull(seconds, NULL, 10) * NSEC_PER_SEC : SHORT_RUN;
	static const char *const kinds[] = {
		[NONE] = "without", [LOOP] = "attacked", [HARMLESS] = "next to the same loop, harmless"
	};
	static const enum attack order[] = { NONE, HARMLESS, LOOP };

	begin(entering);
	for (uint32_t i = 0; i < 2 * ARRAY_SIZE(order); i++) {
		bool pauses = i >= ARRAY_SIZE(order);
		enum attack kind = order[i % ARRAY_SIZE(order)];
		double rate, worst;

		/* Back to back, jobs may leave the pool no time to sleep. */
		DAEMON_AWAIT(run_beside(kind, pauses, ns, &rate, &worst) || kind != LOOP ||
			     !pauses);
		printf("%s, jobs %s, %s: %.0f jobs/s, worst %.2f ms\n", what,
		       pauses ? "with pauses" : "back to back", kinds[kind], rate, worst);
	}
}

START_TEST(jobs_run_while_all_sleepers_are_moved_repeatedly)
{
	attack_all_the_time("sleepers moved all the time", NULL);
	ck_assert(!daemon_logged(&d, "futex_waitv", ""));
	end();
}
END_TEST

/* ------------------------------------------------------------------------ rings */

/* Sends more requests than the socket holds. */
static void ring(void)
{
	const struct proto_head head = { PROTO_MAGIC, PROTO_RING };
	fk_client *c;

	DAEMON_MUST(fk_open(d.socket, NULL, &c) == 0);
	for (uint32_t i = 0; i < RINGS; i++) {
		int r = proto_send(c->fd, &head, sizeof(head), NULL, 0);

		DAEMON_MUST(r == 0 || r == -EAGAIN);
	}
	/* It is still connected, and its cancels arrive after them. */
	one_job(c);
	DAEMON_MUST(!client_gone(c));
	DAEMON_MUST(fk_close(c) == 0);
	_exit(0);
}

START_TEST(unlimited_ring_requests_are_accepted)
{
	begin(NULL);
	ck_assert_int_eq(daemon_reap(daemon_client(ring, ATTACKER)), 0);
	work_for(0);
	end();
}
END_TEST

/* ------------------------------------------------------------------------ the fallback */

/* As a container's filter that is older than the call. */
static void refuse_waitv(void)
{
	DAEMON_MUST(refuse_call(SYS_futex_waitv, EPERM));
}

START_TEST(job_runs_after_all_sleepers_were_moved_without_futex_waitv)
{
	attack_once(REQUEUE, "sleepers moved once, without futex_waitv", refuse_waitv);
}
END_TEST

START_TEST(jobs_run_without_futex_waitv)
{
	attack_all_the_time("the same without futex_waitv", refuse_waitv);
	ck_assert(daemon_logged(&d, "futex_waitv", "Operation not permitted"));
	end();
}
END_TEST

int main(void)
{
	if (geteuid() != 0) {
		(void)printf("only root can be several users\n");
		return 77;
	}
	return check_unit_main("freeze");
}
