/* SPDX-License-Identifier: MIT */
/* scenario: requests of other processes about a client's jobs (daemon/manager/control_request.c):
 * cancel them, list them; and the users that may do so */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "client/lib/connect.h"
#include "common/cleanup.h"
#include "shm/proto.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"

#define ONE	8u
#define OWNER	65531u
#define ANOTHER 65532u

static struct daemon d;
static volatile uint8_t *gate_open;
static uint64_t answer_n; /* the number in the last answer */

/* Sends a request of this size; *ret_fd: the descriptor of the answer, or NULL. Returns the error
 * code, 0 for an answer, 1 for the end of the connection. Uses no assertion of libcheck: it also
 * runs in children. */
static int ask(const struct proto_ask *question, uint32_t size, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	int fds[PROTO_MAX_FDS], r;
	union proto_message answer;
	uint32_t n_fds = 0;

	DAEMON_MUST(connect_socket(d.socket, &fd) == 0);
	DAEMON_MUST(proto_send(fd, question, size, NULL, 0) == 0);
	r = proto_recv(fd, &answer, fds, &n_fds, 0);
	if (r <= 0)
		return 1;
	if (answer.head.type == PROTO_ERROR)
		return answer.error.code;
	DAEMON_MUST(answer.head.type == PROTO_TOLD && n_fds == (ret_fd != NULL));
	answer_n = answer.told.n;
	if (ret_fd)
		*ret_fd = fds[0];
	return 0;
}

static struct proto_ask cancel_of(const fk_client *c, uint32_t job, uint32_t generation)
{
	return (struct proto_ask){
		.head = { PROTO_MAGIC, PROTO_CANCEL_FOR },
		.client = c->id,
		.client_generation = c->generation,
		.job = job,
		.generation = generation,
	};
}

/* Until the pool takes it. */
static int ask_again(const struct proto_ask *question)
{
	int r;

	while ((r = ask(question, sizeof(*question), NULL)) == -EAGAIN)
		(void)poll(NULL, 0, 1);
	return r;
}

static int cancel(const fk_client *c, uint32_t job, uint32_t generation)
{
	const struct proto_ask question = cancel_of(c, job, generation);

	return ask_again(&question);
}

static int cancel_job(const fk_client *c, fk_job job)
{
	return cancel(c, (uint32_t)(job & 0xffff), (uint32_t)(job >> 16));
}

/* Lists the jobs that forkd reports to this process. */
static uint32_t list(struct proto_job *ret_jobs, uint32_t most)
{
	struct proto_ask question = { .head = { PROTO_MAGIC, PROTO_JOBS } };
	_cleanup_fclose_ FILE *file = NULL;
	int fd = -1;

	DAEMON_MUST(ask(&question, sizeof(question), &fd) == 0);
	DAEMON_MUST(lseek(fd, 0, SEEK_SET) == 0);
	file = fdopen(fd, "r");
	DAEMON_MUST(file);
	return (uint32_t)fread(ret_jobs, sizeof(*ret_jobs), most, file);
}

START_TEST(cancel_of_a_client_ends_all_its_jobs_and_no_other)
{
	fk_job gate, jobs[ONE], other;
	fk_client *a, *b;

	a = JOBS_BEGIN(&d, "--workers=1", NULL);
	b = daemon_open(&d);
	/* Gives the records different generations. */
	for (uint32_t i = 0; i < 3; i++)
		jobs_see(a, jobs_submit(a, "fib:fib", 0, 10, 0), 55);
	gate = jobs_hold_one(&d, a, 0, &gate_open);
	jobs_queue(a, 0, jobs, ONE);
	other = jobs_submit(b, "fib:fib", 0, 10, 0);
	ck_assert_int_eq(cancel(a, PROTO_EVERY_JOB, 0), 0);
	ck_assert_uint_eq(answer_n, ONE + 1);
	/* They did not wait for the gate. */
	for (uint32_t i = 0; i < ONE; i++)
		ck_assert_int_eq(jobs_outcome(a, jobs[i], NULL), FK_CANCELLED);
	*gate_open = 1;
	ck_assert_int_eq(jobs_outcome(a, gate, NULL), FK_CANCELLED);
	jobs_see(b, other, 55);
	/* Later jobs in the same records. */
	for (uint32_t i = 0; i < ONE; i++)
		ck_assert_int_eq(fk_release(a, jobs[i]), 0);
	jobs_queue(a, 0, jobs, ONE);
	jobs_see_queue(a, jobs, ONE);
	(void)fk_close(b);
	jobs_end(&d, a);
}
END_TEST

START_TEST(cancel_ends_one_job_and_not_the_next_of_its_record)
{
	fk_job gate, jobs[ONE], next;
	fk_client *c;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	gate = jobs_hold_one(&d, c, 0, &gate_open);
	jobs_queue(c, 0, jobs, ONE);
	ck_assert_int_eq(cancel_job(c, jobs[3]), 0);
	ck_assert_uint_eq(answer_n, 1);
	jobs_drop(c, jobs[3], "CANCELLED");
	next = jobs_submit(c, "fib:fib", 0, 10, 0);
	ck_assert_uint_eq(next & 0xffff, jobs[3] & 0xffff);
	ck_assert_int_eq(cancel_job(c, jobs[3]), 0);
	ck_assert_uint_eq(answer_n, 0);
	/* The pool has handled earlier messages when it has handled this one. */
	ck_assert_int_eq(cancel_job(c, jobs[4]), 0);
	ck_assert_int_eq(jobs_outcome(c, jobs[4], NULL), FK_CANCELLED);
	*gate_open = 1;
	ck_assert_int_eq(jobs_outcome(c, gate, NULL), FK_DONE);
	jobs_see(c, next, 55);
	jobs_end(&d, c);
}
END_TEST

START_TEST(cancel_of_an_unknown_job_or_client_is_refused)
{
	struct proto_ask question;
	fk_client *c, *left;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	left = daemon_open(&d);
	question = cancel_of(left, PROTO_EVERY_JOB, 0);
	ck_assert_int_eq(cancel(left, PROTO_EVERY_JOB, 0), 0);
	ck_assert_uint_eq(answer_n, 0);
	(void)fk_close(left);
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == 2);
	ck_assert_int_eq(ask(&question, sizeof(question), NULL), -ENOENT);
	ck_assert_int_eq(cancel(c, c->n_jobs, 1), -ENOENT);
	ck_assert_int_eq(cancel(c, 0, 0), -ENOENT);
	ck_assert_int_eq(cancel(c, 0, JOB_GEN_MASK + 1), -ENOENT);
	question = cancel_of(c, PROTO_EVERY_JOB, 0);
	question.client_generation++;
	ck_assert_int_eq(ask(&question, sizeof(question), NULL), -ENOENT);
	question = cancel_of(c, PROTO_EVERY_JOB, 0);
	question.client = UINT32_MAX;
	ck_assert_int_eq(ask(&question, sizeof(question), NULL), -ENOENT);
	ck_assert_int_eq(ask(&question, sizeof(question) - 1, NULL), -EBADMSG);
	jobs_end(&d, c);
}
END_TEST

/* The job may run again, and would without the cancel, whether the pool had received the cancel or
 * not. */
START_TEST(cancel_survives_the_death_of_the_pool)
{
	fk_job gate, jobs[ONE], one;
	fk_client *c;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	for (uint32_t heard = 0; heard < 2; heard++) {
		pool = daemon_pool(&d);
		one = jobs_hold_one(&d, c, FK_IDEMPOTENT, &gate_open);
		if (!heard)
			daemon_suspend(pool);
		ck_assert_int_eq(cancel_job(c, one), 0);
		(void)jobs_replace_pool(&d);
		*gate_open = 1;
		jobs_drop(c, one, "CANCELLED");
	}
	/* All jobs, and no job submitted later. */
	pool = daemon_pool(&d);
	gate = jobs_hold_one(&d, c, 0, &gate_open);
	jobs_queue(c, 0, jobs, ONE);
	daemon_suspend(pool);
	ck_assert_int_eq(cancel(c, PROTO_EVERY_JOB, 0), 0);
	one = jobs_submit(c, "fib:fib", 0, 10, 0);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	for (uint32_t i = 0; i < ONE; i++)
		ck_assert_int_eq(jobs_outcome(c, jobs[i], NULL), FK_CANCELLED);
	ck_assert_int_eq(jobs_outcome(c, gate, NULL), FK_LOST);
	jobs_see(c, one, 55);
	jobs_end(&d, c);
}
END_TEST

START_TEST(running_and_queued_jobs_are_reported)
{
	struct proto_job told[2 * ONE];
	fk_job gate, jobs[ONE];
	fk_client *c;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	gate = jobs_hold_one(&d, c, 0, &gate_open);
	jobs_queue(c, 0, jobs, ONE);
	/* The worker is held: the dispatcher drains the ring. */
	DAEMON_AWAIT(list(told, 2 * ONE) == 1 + ONE);
	ck_assert_uint_eq((uint64_t)told[0].generation << 16 | told[0].job, gate);
	ck_assert_uint_eq(told[0].worker, 0);
	ck_assert_uint_eq(told[0].drained_ns, atomic_load(&client_job(c, gate)->drained_ns));
	ck_assert_str_eq(d.board->tasks[told[0].task].name, "crash:hold");
	for (uint32_t i = 1; i <= ONE; i++) {
		ck_assert_uint_eq(told[i].client, c->id);
		ck_assert_uint_eq(told[i].worker, UINT32_MAX);
		/* In order of the records, which is that of the jobs. */
		ck_assert_uint_eq((uint64_t)told[i].generation << 16 | told[i].job, jobs[i - 1]);
	}
	*gate_open = 1;
	ck_assert_int_eq(jobs_outcome(c, gate, NULL), FK_DONE);
	jobs_see_queue(c, jobs, ONE);
	ck_assert_uint_eq(list(told, 2 * ONE), 0);
	jobs_end(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ permissions */

/* Memory that the owner's process shares with the test. */
static struct {
	struct proto_ask question; /* of its job; client_generation UINT32_MAX: not set yet */
	_Atomic uint32_t ready;
} * shared;

/* Runs an endless job, and exits with 0 if it is cancelled. */
static void own(void)
{
	fk_client *c = NULL;
	const fk_task *task;
	union fk_value days = { .i64 = INT64_C(86400000) };
	fk_job job = 0;

	DAEMON_MUST(fk_open(d.socket, NULL, &c) == 0);
	DAEMON_MUST(fk_task_find(c, "crash:spin", &task) == 0);
	DAEMON_MUST(fk_submit_values(c, task, &days, 1, 0, &job) == 0);
	shared->question = cancel_of(c, (uint32_t)(job & 0xffff), (uint32_t)(job >> 16));
	atomic_store(&shared->ready, 1);
	DAEMON_MUST(fk_wait(c, job, FK_FOREVER) == 0);
	DAEMON_MUST(fk_outcome(c, job, NULL, NULL) == FK_CANCELLED);
	(void)fk_close(c);
}

static pid_t begin_own(void)
{
	pid_t pid;

	atomic_store(&shared->ready, 0);
	pid = daemon_client(own, OWNER);
	DAEMON_AWAIT(atomic_load(&shared->ready));
	return pid;
}

/* Another user may do nothing, and gets no information. */
static void fail_to_end_it(void)
{
	struct proto_ask all = shared->question;
	struct proto_ask config = { .head = { PROTO_MAGIC, PROTO_CONFIG } };
	struct proto_ask trace = { .head = { PROTO_MAGIC, PROTO_TRACE } };
	struct proto_job told;

	all.job = PROTO_EVERY_JOB;
	DAEMON_MUST(ask(&shared->question, sizeof(all), NULL) == -EPERM);
	DAEMON_MUST(ask(&all, sizeof(all), NULL) == -EPERM);
	DAEMON_MUST(ask(&config, sizeof(config), NULL) == -EPERM);
	DAEMON_MUST(ask(&trace, sizeof(trace), NULL) == -EPERM);
	DAEMON_MUST(list(&told, 1) == 0);
}

static void end_it(void)
{
	struct proto_job told;

	DAEMON_MUST(list(&told, 1) == 1);
	DAEMON_MUST(ask_again(&shared->question) == 0);
}

START_TEST(only_its_user_and_root_may_cancel)
{
	struct proto_job told;
	pid_t owner;

	if (geteuid() != 0) {
		check_unit_not_run(only_its_user_and_root_may_cancel,
				   "only root can take other uids");
		return;
	}
	shared = daemon_share(sizeof(*shared));
	daemon_start(&d, "--workers=1", NULL);
	owner = begin_own();
	DAEMON_AWAIT(list(&told, 1) == 1);
	ck_assert_int_eq(daemon_reap(daemon_client(fail_to_end_it, ANOTHER)), 0);
	ck_assert(!daemon_has_ended(owner));
	ck_assert_int_eq(daemon_reap(daemon_client(end_it, OWNER)), 0);
	ck_assert_int_eq(daemon_reap(owner), 0);
	ck_assert(!daemon_logged(&d, "cancelled by pid", "uid"));
	/* Root. */
	owner = begin_own();
	DAEMON_AWAIT(list(&told, 1) == 1);
	end_it();
	ck_assert_int_eq(daemon_reap(owner), 0);
	ck_assert(daemon_logged(&d, "cancelled by pid", "uid 0"));
	daemon_call_fib(&d);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

CHECK_MAIN("ask")
