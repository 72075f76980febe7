/* SPDX-License-Identifier: MIT */
/*
 * last_steps: a pool that dies at each step of its only job, and the result for that job: exactly
 * one outcome, the right one for that step
 *
 * In check_pool_sites.c other jobs run as well, so there both DONE and LOST are right. Built with
 * --enable-crash-sites only.
 */
#include <stdlib.h>

#include "client/lib/client.h"
#include "common/crash_site.h"
#include "common/util.h"
#include "tests/support/jobs.h"
#include "tests/support/oracle.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

/* Steps that a job passes for which no client waits. */
static const struct step {
	const char *site;
	int outcome;	      /* of a job that is not idempotent; others are DONE */
	uint32_t runs, again; /* of a job that is not idempotent; of an idempotent one */
	uint32_t left;	      /* in its group: the pool has died before it decremented the count */
} steps[] = {
	{ "intake_accepted", FK_DONE, 1, 1, 0 }, /* QUEUED */
	{ "job_running", FK_LOST, 0, 1, 0 },
	{ "job_begun", FK_LOST, 0, 1, 0 },
	{ "job_loaded", FK_LOST, 0, 1, 0 },
	{ "job_finishing", FK_DONE, 1, 1, 0 }, /* the manager gives the outcome of the row */
	{ "job_told", FK_DONE, 1, 1, 1 },
	{ "job_woken", FK_DONE, 1, 1, 0 },
	{ "job_freed", FK_DONE, 1, 1, 0 },
};

static struct daemon d;
static struct oracle o;

static uint32_t in_group(fk_client *c, fk_group group)
{
	return group_count(group_load(&c->groups[group & 0xffffu]));
}

/* One job, alone in its group; its pool dies. */
static void end_one(fk_client *c, const struct step *step, unsigned int flags)
{
	int outcome = flags & FK_IDEMPOTENT ? FK_DONE : step->outcome;
	pid_t pool = daemon_pool(&d);
	struct oracle_job job;
	fk_group groups[2];

	ck_assert_int_eq(fk_group_new(c, &groups[0]), 0);
	groups[1] = groups[0];
	ck_assert_int_eq(oracle_submit(&o, c, 1, groups, flags, &job), 0);
	(void)jobs_pool_after(&d, pool);
	ck_assert(!daemon_is_mined(&d));
	ck_assert_int_eq(oracle_end(&o, c, &job), outcome);
	/* Only the two pools and the manager have counted. */
	DAEMON_AWAIT(in_group(c, groups[0]) == step->left);
	ck_assert_int_eq(fk_group_wait(c, groups[0], FK_FOREVER), 0);
	ck_assert_int_eq(fk_group_free(c, groups[0]), 0);
}

static void die_at(const struct step *step)
{
	struct oracle_verdict v;
	fk_client *c;

	printf("%s\n", step->site);
	(void)fflush(stdout);
	daemon_mine(&d, step->site, 0);
	daemon_start(&d, "--workers=1", NULL);
	oracle_init(&o, d.directory);
	c = daemon_open(&d);
	end_one(c, step, 0);
	daemon_mine(&d, step->site, 0);
	end_one(c, step, FK_IDEMPOTENT);
	ck_assert_uint_eq(daemon_crashes(&d), 2);
	ck_assert_int_eq(fk_close(c), 0);
	ck_assert_msg(oracle_judge(&o, &v), "%s: %s", step->site, v.wrong);
	ck_assert_uint_eq(v.runs, step->runs + step->again);
	oracle_fini(&o);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

START_TEST(outcome_of_a_job_follows_from_the_step_at_which_its_pool_dies)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		die_at(&steps[i]);
}
END_TEST

CHECK_MAIN("last_steps")
