# SPDX-License-Identifier: MIT
# Tests of the units in daemon/pool.

PROGRAM_TESTS += \
	tests/unit/pool/check_process \
	tests/unit/pool/check_sleep \
	tests/unit/pool/check_worker_signal

tests_unit_pool_check_sleep_CFLAGS = $(libpool_la_CFLAGS)
