# SPDX-License-Identifier: MIT
# Tests of the units in daemon/jobs.

PROGRAM_TESTS += \
	tests/unit/jobs/check_cpu_limit \
	tests/unit/jobs/check_deadline \
	tests/unit/jobs/check_ring_drain \
	tests/unit/jobs/check_hang_detector \
	tests/unit/jobs/check_job_batches \
	tests/unit/jobs/check_time_slice \
	tests/unit/jobs/check_job_input \
	tests/unit/jobs/check_job_local \
	tests/unit/jobs/check_queue_recovery \
	tests/unit/jobs/check_strict \
	tests/unit/jobs/check_tenant_unmap

# The kernel unmaps what was there, and has no memory then.
tests_unit_jobs_check_tenant_unmap_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mremap

# calloc() has no memory when a test requests it.
tests_unit_jobs_check_job_local_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
