# SPDX-License-Identifier: MIT
# Tests of the units in contrib/gearman.

PROGRAM_TESTS += \
	tests/unit/gearman/check_client \
	tests/unit/gearman/check_gateway_exporter \
	tests/unit/gearman/check_gateway_options \
	tests/unit/gearman/check_journal \
	tests/unit/gearman/check_payload \
	tests/unit/gearman/check_peer

tests_unit_gearman_check_gateway_exporter_LDADD = libgearmangateway.la $(LDADD) $(FORKCTL_LIBS)
tests_unit_gearman_check_gateway_options_LDADD = libgearmangateway.la $(LDADD) $(FORKCTL_LIBS)
tests_unit_gearman_check_journal_LDADD = libgearmangateway.la $(LDADD)
tests_unit_gearman_check_peer_LDADD = libgearmangateway.la $(LDADD)

tests_unit_gearman_check_payload_SOURCES = \
	tests/unit/gearman/check_payload.c \
	tests/unit/gearman/vectors.h
tests_unit_gearman_check_payload_LDADD = libgearmanpayload.la $(LDADD) $(JANSSON_LIBS)

EXTRA_tests_unit_gearman_check_client_DEPENDENCIES = client-gearman.la

SCRIPT_TESTS += tests/unit/gearman/check-client-tests
EXTRA_DIST += tests/unit/gearman/exceptions

# Authors of other clients can use them, too.
EXTRA_DIST += \
	tests/unit/gearman/vectors/answers-refused \
	tests/unit/gearman/vectors/calls \
	tests/unit/gearman/vectors/exceptions \
	tests/unit/gearman/vectors/refused
