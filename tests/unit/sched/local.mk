# SPDX-License-Identifier: MIT
# Tests of the units in daemon/sched.

PROGRAM_TESTS += \
	tests/unit/sched/check_slice_timer \
	tests/unit/sched/check_fair \
	tests/unit/sched/check_preemption \
	tests/unit/sched/check_fair_queue \
	tests/unit/sched/check_fair_short \
	tests/unit/sched/check_lazy_pool \
	tests/unit/sched/check_cpu_parking

tests_unit_sched_check_lazy_pool_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=strdup
# It says that a worker cannot be pinned.
tests_unit_sched_check_cpu_parking_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_setaffinity_np
