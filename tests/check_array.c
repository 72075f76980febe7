/* SPDX-License-Identifier: MIT */
/*
 * modules/array.c, compiled in, with its memory counted. What its tasks compute is tested in
 * check_modules.c, from the shared object.
 */
#define CHECK_TIMEOUT 60

#include "tests/counted.h"

#include "modules/array.c"

#include <check.h>

#include "tests/check_unit.h"
#include "tests/rig.h"

static struct rig rig;

START_TEST(a_histogram_gives_its_tables_back_when_the_job_fails_as_they_are_taken)
{
	struct {
		struct job_ref data;
		double low, high;
		struct job_ref counts;
	} args = { { 8, 8000 }, -1.0, 4.0, { 8192, 80 } };

	for (int forced = 0; forced < 2; forced++) {
		rig_start(&rig, 1, &fk_module, forced);
		atomic_store(&counted_code, -EDOM);
		rig_submit(&rig, 0, "array:histogram_f64", &args, sizeof(args));
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_FAILED);
		ck_assert_int_eq(atomic_load(&rig.jobs[0].code), -EDOM);
		ck_assert_int_eq(counted_blocks, 0);
		atomic_store(&counted_code, 0);
		rig_submit(&rig, 0, "array:histogram_f64", &args, sizeof(args));
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
		ck_assert_int_eq(counted_blocks, 0);
		rig_stop(&rig);
	}
}
END_TEST

CHECK_MAIN("array", a_histogram_gives_its_tables_back_when_the_job_fails_as_they_are_taken)
