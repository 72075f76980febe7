# SPDX-License-Identifier: MIT
# Real processes with a real gearmand.

SCRIPT_TESTS += \
	tests/gearman/check-demo \
	tests/gearman/check-faults \
	tests/gearman/check-gateway

PROGRAM_TESTS += tests/gearman/check_cluster tests/gearman/check_gateway_fuzz
tests_gearman_check_cluster_SOURCES = \
	tests/gearman/check_cluster.c \
	tests/gearman/protocol.c \
	tests/gearman/protocol.h
EXTRA_tests_gearman_check_cluster_DEPENDENCIES = client-gearman.la forkd-gearman
tests_gearman_check_gateway_fuzz_SOURCES = \
	tests/gearman/check_gateway_fuzz.c \
	tests/gearman/protocol.c \
	tests/gearman/protocol.h
tests_gearman_check_gateway_fuzz_LDADD = libgearmanpayload.la $(LDADD) $(JANSSON_LIBS)
