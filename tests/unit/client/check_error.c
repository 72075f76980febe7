/* SPDX-License-Identifier: MIT */
/*
 * error: each outcome has its errno and its name, each errno its text. Uses tests/support/fake.h.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/fake.h"
#include "tests/support/local.h"

START_TEST(every_outcome_has_its_error)
{
	int64_t result = 5;
	char text[128];

	fake_open(2, 2);
	ck_assert_int_eq(fk_call(client, "test:fail", &result, (int64_t)-ERANGE), -ERANGE);
	ck_assert_int_eq(fk_call(client, "test:fail", &result, (int64_t)42), -EREMOTEIO);
	ck_assert_int_eq(result, 5);
	ck_assert_int_eq(error_of_outcome(JOB_LOST, 0, 1), -EOWNERDEAD);
	ck_assert_int_eq(error_of_outcome(JOB_CANCELLED, 0, 1), -ECANCELED);
	ck_assert_int_eq(error_of_outcome(JOB_EXPIRED, 0, 1), -ETIME);
	ck_assert_int_eq(error_of_outcome(JOB_EXPIRED, JOB_CPU_EXCEEDED, 1), -ETIME);
	ck_assert_str_eq(error_outcome(text, sizeof(text), FK_EXPIRED, 0, 0, 1, 0), "EXPIRED");
	ck_assert_str_eq(error_outcome(text, sizeof(text), FK_EXPIRED, -EDQUOT, 0, 1, 0),
			 "EXPIRED: more CPU time than job-cpu-max of forkd.conf");
	for (int outcome = FK_PENDING; outcome <= FK_LOST; outcome++)
		ck_assert_str_ne(fk_outcome_name(outcome), "?");
	ck_assert_str_eq(fk_outcome_name(FK_LOST + 1), "?");
	ck_assert_str_eq(fk_outcome_name(-1), "?");
	ck_assert_str_eq(fk_strerror(-ESTALE), fk_strerror(ESTALE));
	ck_assert_ptr_nonnull(fk_strerror(INT32_MIN));
	fake_close();
}
END_TEST

/* Calls test:fail, which fails with this code. The task has this help. */
static void fails(int64_t code, int err, const char *reason, const char *help)
{
	char text[256];
	int64_t result;

	(void)snprintf(text, sizeof(text), "test:fail: FAILED%s (code:i64 -> i64%s)", reason, help);
	ck_assert_int_eq(fk_call(client, "test:fail", &result, code), err);
	ck_assert_str_eq(fk_error_text(), text);
}

/* Its arguments are not the cause. */
static void fails_otherwise(int64_t code, const char *text)
{
	int64_t result;

	ck_assert_int_eq(fk_call(client, "test:fail", &result, code), code);
	ck_assert_str_eq(fk_error_text(), text);
}

START_TEST(code_of_a_task_is_attributed_to_the_task)
{
	fake_open(2, 2);
	fails(-ENOENT, -ENOENT, ": No such file or directory", "");
	fails(-EACCES, -EACCES, ": Permission denied", "");
	fails(-ENODATA, -ENODATA, ": No data available: the input is empty", "");
	fails(-3000, -3000, " with code -3000 of its own", "");
	fails(INT32_MIN, -EREMOTEIO, " with code -2147483648 of its own", "");
	fails(42, -EREMOTEIO, " with code 42 of its own", "");
	fails(-5000, -EREMOTEIO, " with code -5000 of its own", "");
	fails_otherwise(-ENOMEM,
			local_is_on()
				? "test:fail: FAILED: Cannot allocate memory"
				: "test:fail: FAILED: Cannot allocate memory: jobs have stack-max "
				  "and arena-max of forkd.conf, what tasks allocate "
				  "module-memory-max");
	fails_otherwise(-EPROTO,
			local_is_on()
				? "test:fail: FAILED: Protocol error: the task may break a rule "
				  "of forkd-modules(7)"
				: "test:fail: FAILED: Protocol error: the task may break a rule "
				  "of forkd-modules(7): see the log of forkd");
	fake_close();
}
END_TEST

START_TEST(crash_has_the_signal)
{
	int code = 1, signo = 1;
	fk_job job;

	fake_open(2, 2);
	ck_assert_int_eq(fk_call(client, "test:crash", NULL), -ENOTRECOVERABLE);
	ck_assert_str_eq(fk_error_text(), "test:crash: CRASHED by signal 11 (SEGV)");
	ck_assert_int_eq(fk_submit(client, must_find(client, "test:crash"), 0, &job), 0);
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_outcome(client, job, &code, &signo), FK_CRASHED);
	ck_assert_int_eq(code, 0);
	ck_assert_int_eq(signo, SIGSEGV);
	fake_close();
}
END_TEST

START_TEST(code_of_a_task_has_the_help_of_the_task)
{
	fake_open(2, 2);
	for (uint32_t i = 0; i < fake.board->n_tasks; i++)
		(void)strcpy(fake.board->tasks[i].help, "code 0 to 9");
	fails(-EINVAL, -EINVAL, ": Invalid argument", ": code 0 to 9");
	fake_close();
}
END_TEST

START_TEST(code_of_the_pool_says_that_the_task_was_not_begun)
{
	struct fk_timings timings;
	int64_t result;
	fk_job job;

	fake_open(2, 2);
	ck_assert_int_eq(fk_submit(client, must_find(client, "test:fail"), 0, &job,
				   (int64_t)-FK_E_TASK_GONE),
			 0);
	ck_assert_int_eq(fk_result(client, 77, &result, 8), -ESTALE);
	ck_assert_str_eq(fk_error_text(), fk_strerror(ESTALE));
	ck_assert_int_eq(fk_wait(client, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_result(client, job, &result, 8), -EREMOTEIO);
	ck_assert_str_eq(fk_error_text(), "FAILED with code -4103 of its own (code:i64 -> i64)");
	/* The state of the record if the pool does not begin the task. */
	atomic_store(&client_job(client, job)->started_ns,
		     atomic_load(&client_job(client, job)->ended_ns));
	ck_assert_int_eq(fk_result(client, job, &result, 8), -FK_E_TASK_GONE);
	ck_assert_str_eq(fk_error_text(), "FAILED: not begun: the module of this task was removed "
					  "or replaced: call fk_task_find() again");
	ck_assert_int_eq(fk_timings(client, job, &timings), 0);
	ck_assert_uint_eq(timings.run_ns, 0);
	fake_close();
}
END_TEST

/* All errors listed in client.h. */
START_TEST(every_error_has_a_text_for_forkd)
{
	static const int errors[] = {
		EPERM,	    EIO,	E2BIG,		 EAGAIN,       ENOMEM, EACCES,
		EBUSY,	    ENFILE,	EMFILE,		 ETIME,	       EPROTO, EUSERS,
		ECONNRESET, ESHUTDOWN,	ETIMEDOUT,	 EINPROGRESS,  ESTALE, EREMOTEIO,
		ECANCELED,  EOWNERDEAD, ENOTRECOVERABLE, ENAMETOOLONG, EDQUOT, EKEYREVOKED,
	};

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		ck_assert_str_ne(fk_strerror(errors[i]), strerrordesc_np(errors[i]));
		ck_assert_str_eq(fk_strerror(errors[i]), fk_strerror(-errors[i]));
	}
}
END_TEST

START_TEST(no_text_of_a_local_pool_is_about_a_daemon)
{
	static const char *const words[] = { "forkd.conf", "forkctl", "systemctl", "log of forkd" };
	static const int errors[] = { /* of client.h, those that a client of a local pool gets */
				      EPERM,
				      EBUSY,
				      EINPROGRESS,
				      EALREADY,
				      ENOMEM,
				      ESTALE,
				      ETIMEDOUT,
				      EMFILE,
				      ECANCELED,
				      ETIME,
				      EROFS,
				      ENOTSUP,
				      EREMOTEIO,
				      FK_E_HEAP_FULL,
				      FK_E_NO_TASK,
				      FK_E_NO_MORE_TASKS,
				      FK_E_TASK_GONE,
				      FK_E_NOT_WATCHED,
				      FK_E_NO_RECORD,
				      FK_E_RINGS_FULL,
				      FK_E_BATCH_SIZE,
				      FK_E_GROUPS_FULL,
				      FK_E_NO_THREAD,
				      FK_E_SIGNATURE,
				      FK_E_RESULT_SIZE,
				      FK_E_NULL,
				      FK_E_FLAGS,
				      FK_E_OPTIONS,
				      FK_E_RESERVED,
				      FK_E_WEIGHT,
				      FK_E_PLACE,
				      FK_E_NO_JOBS,
				      FK_E_NOT_ALLOCATED,
				      FK_E_BUFFER_ALIGN,
				      FK_E_BUFFER_PARTLY,
				      FK_E_BUFFER_NULL,
				      FK_E_TASK_UNREADABLE,
				      FK_E_NO_GROUP,
				      FK_E_COPIES
	};
	char text[256];

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(errors); k++)
			ck_assert_ptr_null(strstr(error_text(-errors[k], 1), words[i]));
		for (int code = 1; code < 134; code++) {
			(void)error_outcome(text, sizeof(text), FK_FAILED, -code, 0, 1, 1);
			ck_assert_ptr_null(strstr(text, words[i]));
		}
	}
}
END_TEST

START_TEST(every_own_error_has_a_text_and_an_errno)
{
	int n = 0;

	for (int err = FK_E_HEAP_FULL; error_is_own(-err); err++, n++) {
		ck_assert_str_ne(fk_strerror(err), "unknown error");
		ck_assert_str_eq(fk_strerror(err), fk_strerror(-err));
		ck_assert_int_lt(fk_errno(-err), 4096);
		ck_assert_int_eq(fk_errno(err), fk_errno(-err));
		ck_assert(!error_is_own(err));
		for (int other = FK_E_HEAP_FULL; other < err; other++)
			ck_assert_str_ne(fk_strerror(err), fk_strerror(other));
	}
	ck_assert_int_ge(n, 4);
	ck_assert_int_eq(fk_errno(-FK_E_HEAP_FULL), ENOMEM);
	ck_assert_int_eq(fk_errno(-ESTALE), ESTALE);
	ck_assert_int_eq(fk_errno(0), 0);
	ck_assert(!error_is_own(INT32_MIN) && !error_is_own(-ENOMEM));
}
END_TEST

CHECK_MAIN("error")
