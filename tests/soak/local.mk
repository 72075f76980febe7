# SPDX-License-Identifier: MIT
# Tests of stress, of which a few seconds are part of check.

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

# The scenarios that do more of the same if there is time.
SOAK_TESTS = tests/scenario/check_promises

soak-local:
	SOAK=1 CK_TIMEOUT_MULTIPLIER=4 $(MAKE) $(AM_MAKEFLAGS) check TEST_TIME=7200 \
		TESTS='$(SOAK_TESTS)'

# An hour of stress, or SOAK_SECONDS; a few seconds of it are part of check.
soak-stress:
	SOAK_SECONDS="$${SOAK_SECONDS:-3600}" $(MAKE) $(AM_MAKEFLAGS) check TEST_TIME=100000 \
		TESTS=tests/soak/soak_stress

# The same with jobs of fibers and frames alone.
soak-fibers:
	SOAK_FIBERS=1 SOAK_SECONDS="$${SOAK_SECONDS:-3600}" $(MAKE) $(AM_MAKEFLAGS) check \
		TEST_TIME=100000 TESTS=tests/soak/soak_stress

# A million fibers that wait, of each kind: some five GB of memory. The log has what each cost.
soak-million:
	FIBERS="$${FIBERS:-1000000}" CK_TIMEOUT_MULTIPLIER=4 $(MAKE) $(AM_MAKEFLAGS) check \
		TESTS=tests/unit/fiber/check_fiber_million
	sed -n '/fibers parked/p' tests/unit/fiber/check_fiber_million.log

# Five minutes with a tenth of a CPU; a few seconds of it are part of check.
soak-starve:
	SOAK_SECONDS="$${SOAK_SECONDS:-300}" CK_TIMEOUT_MULTIPLIER=20 $(MAKE) $(AM_MAKEFLAGS) \
		check TEST_TIME=100000 TESTS=tests/soak/soak_starve
	sed -n '/no job blamed/p' tests/soak/soak_starve.log

# Clients killed at random, a quarter of an hour of it; the log has how soon that was noticed.
soak-kill:
	KILLS="$${KILLS:-100000}" CK_TIMEOUT_MULTIPLIER=20 $(MAKE) $(AM_MAKEFLAGS) check \
		TEST_TIME=11000 TESTS=tests/scenario/check_kill
	sed -n '/deaths noticed\|clients killed\|were counted/p' tests/scenario/check_kill.log

# Every call fails, in its turn, in every way: hours. INJECT="pool restart mmap": only those.
inject: all
	INJECT_ALL=1 $(MAKE) $(AM_MAKEFLAGS) check TEST_TIME=20000 TESTS=tests/scenario/check_inject
	sed -n '/ runs: /p' tests/scenario/check_inject.log
.PHONY: inject

SOAK_TARGETS += soak-local soak-stress soak-fibers soak-million soak-starve soak-kill
