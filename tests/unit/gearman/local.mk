# SPDX-License-Identifier: MIT
# Tests of the units in contrib/gearman.

PROGRAM_TESTS += tests/unit/gearman/check_payload

tests_unit_gearman_check_payload_SOURCES = \
	tests/unit/gearman/check_payload.c \
	tests/unit/gearman/vectors.h
tests_unit_gearman_check_payload_LDADD = libgearmanpayload.la $(LDADD) $(JANSSON_LIBS)

# Authors of other clients can use them, too.
EXTRA_DIST += \
	tests/unit/gearman/vectors/answers-refused \
	tests/unit/gearman/vectors/calls \
	tests/unit/gearman/vectors/exceptions \
	tests/unit/gearman/vectors/refused
