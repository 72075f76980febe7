# SPDX-License-Identifier: MIT
# Tests of the units in daemon/fiber.

PROGRAM_TESTS += \
	tests/unit/fiber/check_fiber \
	tests/unit/fiber/check_blocking_section \
	tests/unit/fiber/check_wait_counter \
	tests/unit/fiber/check_io \
	tests/unit/fiber/check_fiber_million \
	tests/unit/fiber/check_park_word \
	tests/unit/fiber/check_fiber_shared \
	tests/unit/fiber/check_timer

tests_unit_fiber_check_blocking_section_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_create
tests_unit_fiber_check_timer_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
tests_unit_fiber_check_io_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
