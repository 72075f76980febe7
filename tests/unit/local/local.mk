# SPDX-License-Identifier: MIT
# Tests of libforkpool, linked as a user links it.

PROGRAM_TESTS += tests/unit/local/check_local

SCRIPT_TESTS += tests/unit/local/check-client tests/unit/local/check-guest
EXTRA_DIST += tests/unit/local/exceptions tests/unit/local/guest.c

tests_unit_local_check_local_LDADD = libforkpool.la $(CHECK_LIBS)
