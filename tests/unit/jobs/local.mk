# SPDX-License-Identifier: MIT
# Tests of the units in daemon/jobs.

PROGRAM_TESTS += \
	tests/unit/jobs/check_deadline \
	tests/unit/jobs/check_drain \
	tests/unit/jobs/check_hang \
	tests/unit/jobs/check_intake \
	tests/unit/jobs/check_intake_turn \
	tests/unit/jobs/check_record \
	tests/unit/jobs/check_requeue \
	tests/unit/jobs/check_strict \
	tests/unit/jobs/check_vacate

# The kernel unmaps what was there, and has no memory then.
tests_unit_jobs_check_vacate_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mremap
