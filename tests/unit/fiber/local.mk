# SPDX-License-Identifier: MIT
# Tests of the units in daemon/fiber.

PROGRAM_TESTS += \
	tests/unit/fiber/check_fiber \
	tests/unit/fiber/check_fiber_block \
	tests/unit/fiber/check_fiber_counter \
	tests/unit/fiber/check_fiber_io \
	tests/unit/fiber/check_fiber_million \
	tests/unit/fiber/check_fiber_park \
	tests/unit/fiber/check_fiber_shared \
	tests/unit/fiber/check_fiber_time

tests_unit_fiber_check_fiber_block_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_create
tests_unit_fiber_check_fiber_time_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
tests_unit_fiber_check_fiber_io_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
