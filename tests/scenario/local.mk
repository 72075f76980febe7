# SPDX-License-Identifier: MIT
# Tests that start real processes.

PROGRAM_TESTS += \
	tests/scenario/check_ask \
	tests/scenario/check_blame \
	tests/scenario/check_board \
	tests/scenario/check_cancel \
	tests/scenario/check_cancel_kept \
	tests/scenario/check_chain \
	tests/scenario/check_child \
	tests/scenario/check_sandbox \
	tests/scenario/check_copies \
	tests/scenario/check_cpu_time \
	tests/scenario/check_cpus \
	tests/scenario/check_crash \
	tests/scenario/check_crash_report \
	tests/scenario/check_cut \
	tests/scenario/check_descriptors \
	tests/scenario/check_fiber_jobs \
	tests/scenario/check_freeze \
	tests/scenario/check_growth \
	tests/scenario/check_import \
	tests/scenario/check_hanging \
	tests/scenario/check_hostile \
	tests/scenario/check_hostile_record \
	tests/scenario/check_hostile_rings \
	tests/scenario/check_inject \
	tests/scenario/check_isolation \
	tests/scenario/check_keeping \
	tests/scenario/check_keeping_state \
	tests/scenario/check_kill \
	tests/scenario/check_latency \
	tests/scenario/check_making \
	tests/scenario/check_manager \
	tests/scenario/check_manager_killed \
	tests/scenario/check_memory \
	tests/scenario/check_parking \
	tests/scenario/check_passed \
	tests/scenario/check_planned \
	tests/scenario/check_promises \
	tests/scenario/check_quarantine \
	tests/scenario/check_reload \
	tests/scenario/check_reload_join \
	tests/scenario/check_reload_modules \
	tests/scenario/check_renew \
	tests/scenario/check_restart \
	tests/scenario/check_rights \
	tests/scenario/check_runas \
	tests/scenario/check_scenario \
	tests/scenario/check_service \
	tests/scenario/check_session \
	tests/scenario/check_settings \
	tests/scenario/check_stalled \
	tests/scenario/check_starved \
	tests/scenario/check_storm \
	tests/scenario/check_takeover \
	tests/scenario/check_takeover_drain \
	tests/scenario/check_takeover_sites \
	tests/scenario/check_times \
	tests/scenario/check_tracing \
	tests/scenario/check_userns \
	tests/scenario/check_users

if CRASH_SITES
PROGRAM_TESTS += \
	tests/scenario/check_client_sites \
	tests/scenario/check_last_steps \
	tests/scenario/check_pool_sites
endif

tests_scenario_check_inject_SOURCES = \
	tests/scenario/check_inject.c \
	tests/support/inject.c \
	tests/support/inject.h \
	tests/support/inject_runs.h \
	tests/support/visitor.c \
	tests/support/visitor.h
tests_scenario_check_isolation_SOURCES = \
	tests/scenario/check_isolation.c \
	tests/support/isolation.h \
	tests/support/isolation_processes.c \
	tests/support/isolation_segments.c
tests_scenario_check_keeping_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=listener_open -Wl,--wrap=pool_process_init
tests_scenario_check_manager_killed_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=proto_send
