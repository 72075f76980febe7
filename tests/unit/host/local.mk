# SPDX-License-Identifier: MIT
# Tests of the units in daemon/host.

PROGRAM_TESTS += \
	tests/unit/host/check_cgroup \
	tests/unit/host/check_module \
	tests/unit/host/check_module_names \
	tests/unit/host/check_topology \
	tests/unit/host/check_topology_own \
	tests/unit/host/check_victims

tests_unit_host_check_victims_LDADD = $(LDADD) -lm
