# SPDX-License-Identifier: MIT
# Stress tests. `make check` includes a few seconds of each.

PROGRAM_TESTS += \
	tests/soak/soak_starve \
	tests/soak/soak_stress

tests_soak_soak_stress_SOURCES = \
	tests/support/maze.h \
	tests/soak/soak.h \
	tests/soak/soak_arrays.c \
	tests/soak/soak_jobs.c \
	tests/soak/soak_jobs.h \
	tests/soak/soak_modules.c \
	tests/soak/soak_stress.c \
	tests/soak/soak_torment.c \
	tests/soak/soak_torment.h
tests_soak_soak_stress_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) $(NETTLE_CFLAGS)
tests_soak_soak_stress_LDADD = $(LDADD) $(NETTLE_LIBS) -lm

# Scenarios with a longer form.
SOAK_TESTS = tests/scenario/check_promises

soak-local:
	SOAK=1 CK_TIMEOUT_MULTIPLIER=4 $(MAKE) $(AM_MAKEFLAGS) check TEST_TIME=7200 \
		TESTS='$(SOAK_TESTS)'

# An hour of stress, or SOAK_SECONDS.
soak-stress:
	SOAK_SECONDS="$${SOAK_SECONDS:-3600}" $(MAKE) $(AM_MAKEFLAGS) check TEST_TIME=100000 \
		TESTS=tests/soak/soak_stress

# The same with only jobs of fibers and frames.
soak-fibers:
	SOAK_FIBERS=1 SOAK_SECONDS="$${SOAK_SECONDS:-3600}" $(MAKE) $(AM_MAKEFLAGS) check \
		TEST_TIME=100000 TESTS=tests/soak/soak_stress

# A million parked fibers of each kind: about five GB of memory. The log has the cost of each.
soak-million:
	FIBERS="$${FIBERS:-1000000}" CK_TIMEOUT_MULTIPLIER=4 $(MAKE) $(AM_MAKEFLAGS) check \
		TESTS=tests/unit/fiber/check_fiber_million
	sed -n '/fibers parked/p' tests/unit/fiber/check_fiber_million.log

# Five minutes with a tenth of a CPU.
soak-starve:
	SOAK_SECONDS="$${SOAK_SECONDS:-300}" CK_TIMEOUT_MULTIPLIER=20 $(MAKE) $(AM_MAKEFLAGS) \
		check TEST_TIME=100000 TESTS=tests/soak/soak_starve
	sed -n '/no job blamed/p' tests/soak/soak_starve.log

# Clients killed at random for a quarter of an hour; the log has the times until that was detected.
soak-kill:
	KILLS="$${KILLS:-100000}" CK_TIMEOUT_MULTIPLIER=20 $(MAKE) $(AM_MAKEFLAGS) check \
		TEST_TIME=11000 TESTS=tests/scenario/check_kill
	sed -n '/deaths noticed\|clients killed\|were counted/p' tests/scenario/check_kill.log

# Every call fails once in every way: hours. INJECT="pool restart mmap" selects some.
inject: all
	INJECT_ALL=1 $(MAKE) $(AM_MAKEFLAGS) check TEST_TIME=20000 TESTS=tests/scenario/check_inject
	sed -n '/ runs: /p' tests/scenario/check_inject.log
.PHONY: inject

SOAK_TARGETS += soak-local soak-stress soak-fibers soak-million soak-starve soak-kill
