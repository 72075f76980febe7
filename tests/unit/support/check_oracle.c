/* SPDX-License-Identifier: MIT */
/* oracle: tests/support/oracle.h finds each error, and nothing else, in artificial journals */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/oracle.h"

#define PID    1000
#define VICTIM 1001

static char directory[32];
static struct oracle o;

static void begin(void)
{
	(void)strcpy(directory, "/tmp/check_oracle.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	oracle_init(&o, directory);
}

static void end(void)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/journal", directory);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(unlink(o.runs), 0);
	ck_assert_int_eq(rmdir(directory), 0);
	oracle_fini(&o);
}

static void note(uint64_t id, uint16_t event, int64_t value, uint16_t outcome, int32_t pid)
{
	struct oracle_entry entry = { id, value, pid, event, outcome };

	ck_assert_int_eq(write(o.journal, &entry, sizeof(entry)), sizeof(entry));
}

static void run(uint64_t id)
{
	int fd = open(o.runs, O_WRONLY | O_APPEND | O_CLOEXEC);

	ck_assert_int_eq(write(fd, &id, sizeof(id)), sizeof(id));
	(void)close(fd);
}

/* A submitted job. */
static uint64_t job(bool idempotent)
{
	uint64_t id = atomic_fetch_add(&o.shared->ids, 1);

	note(id, ORACLE_SUBMIT, idempotent, 0, PID);
	return id;
}

static void ends(uint64_t id, uint16_t outcome)
{
	note(id, ORACLE_OUTCOME, outcome == FK_DONE ? oracle_result(id) : 0, outcome, PID);
}

/* A job without an error. */
static uint64_t good_job(void)
{
	uint64_t id = job(false);

	run(id);
	ends(id, FK_DONE);
	return id;
}

START_TEST(jobs_that_end_once_have_no_error)
{
	struct oracle_verdict v;
	uint64_t id;

	begin();
	for (uint32_t i = 0; i < 20; i++)
		(void)good_job();
	id = job(true);
	run(id);
	run(id);
	ends(id, FK_DONE);
	ends(job(false), FK_LOST);
	id = job(false);
	run(id);
	ends(id, FK_LOST);
	ends(job(true), FK_LOST);
	ends(job(false), FK_CANCELLED);
	note(job(false), ORACLE_REFUSED, -11, 0, PID);
	/* Jobs of a killed client: one has run, one had its outcome seen. An id that the client
	 * took and did not use. */
	id = atomic_fetch_add(&o.shared->ids, 3);
	note(id, ORACLE_SUBMIT, 0, 0, VICTIM);
	note(id + 1, ORACLE_SUBMIT, 0, 0, VICTIM);
	run(id);
	run(id + 1);
	ends(id + 1, FK_DONE);
	oracle_note_killed(&o, VICTIM);
	ck_assert_msg(oracle_judge(&o, &v), "%s", v.wrong);
	ck_assert_uint_eq(v.submitted, 28);
	ck_assert_uint_eq(v.refused, 1);
	ck_assert_uint_eq(v.outcomes[FK_DONE], 22);
	ck_assert_uint_eq(v.outcomes[FK_LOST], 3);
	ck_assert_uint_eq(v.lost_idempotent, 1);
	ck_assert_uint_eq(v.outcomes[FK_CANCELLED], 1);
	ck_assert_uint_eq(v.orphans, 1);
	ck_assert_uint_eq(v.runs, 25);
	ck_assert_uint_eq(v.again, 1);
	end();
}
END_TEST

static void no_outcome(void)
{
	run(job(false));
}

static void two_outcomes(void)
{
	ends(good_job(), FK_LOST);
}

static void ran_twice(void)
{
	run(good_job());
}

static void ran_twice_and_lost(void)
{
	uint64_t id = job(false);

	run(id);
	run(id);
	ends(id, FK_LOST);
}

static void never_ran(void)
{
	ends(job(true), FK_DONE);
}

static void false_result(void)
{
	uint64_t id = job(false);

	run(id);
	note(id, ORACLE_OUTCOME, oracle_result(id) + 1, FK_DONE, PID);
}

static void failed(void)
{
	uint64_t id = job(false);

	run(id);
	ends(id, FK_FAILED);
}

static void refused_and_run(void)
{
	uint64_t id = job(false);

	note(id, ORACLE_REFUSED, -11, 0, PID);
	run(id);
}

static void run_of_nobodys(void)
{
	run(atomic_fetch_add(&o.shared->ids, 1));
}

static void outcome_of_nobodys(void)
{
	ends(atomic_fetch_add(&o.shared->ids, 1), FK_DONE);
}

static void torn(void)
{
	ck_assert_int_eq(write(o.journal, "x", 1), 1);
}

/* A killed client needs no outcomes, but no job may run twice. */
static void killed_and_ran_twice(void)
{
	uint64_t id = atomic_fetch_add(&o.shared->ids, 1);

	note(id, ORACLE_SUBMIT, 0, 0, VICTIM);
	run(id);
	run(id);
	oracle_note_killed(&o, VICTIM);
}

START_TEST(each_error_is_found)
{
	static const struct {
		void (*make)(void);
		const char *text;
	} rows[] = {
		{ no_outcome, "has no outcome" },
		{ two_outcomes, "has 2 outcomes" },
		{ ran_twice, "has run 2 times" },
		{ ran_twice_and_lost, "has run 2 times" },
		{ never_ran, "is done, and has not run" },
		{ false_result, " for " },
		{ failed, "FAILED" },
		{ refused_and_run, "was refused, and has run" },
		{ run_of_nobodys, "was never submitted" },
		{ outcome_of_nobodys, "was never submitted" },
		{ torn, "was torn" },
		{ killed_and_ran_twice, "has run 2 times" },
	};
	struct oracle_verdict v;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		begin();
		(void)good_job();
		rows[i].make();
		if (rows[i].make != torn)
			(void)good_job();
		ck_assert(!oracle_judge(&o, &v));
		ck_assert_msg(strstr(v.wrong, rows[i].text) != NULL,
			      "\"%s\" says nothing of \"%s\"", v.wrong, rows[i].text);
		end();
	}
}
END_TEST

CHECK_MAIN("oracle")
