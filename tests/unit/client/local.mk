# SPDX-License-Identifier: MIT
# Tests of the units in client/lib.

PROGRAM_TESTS += \
	tests/unit/client/check_arguments \
	tests/unit/client/check_batch \
	tests/unit/client/check_call \
	tests/unit/client/check_cancel_message \
	tests/unit/client/check_connect \
	tests/unit/client/check_error \
	tests/unit/client/check_events \
	tests/unit/client/check_group \
	tests/unit/client/check_heap \
	tests/unit/client/check_long_job_hint \
	tests/unit/client/check_publish \
	tests/unit/client/check_record_pool \
	tests/unit/client/check_spill \
	tests/unit/client/check_submit \
	tests/unit/client/check_wait \
	tests/unit/client/check_wait_many

# No memory for a spilled job.
tests_unit_client_check_spill_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc -Wl,--wrap=tsearch
