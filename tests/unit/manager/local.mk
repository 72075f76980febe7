# SPDX-License-Identifier: MIT
# Tests of the units in daemon/manager.

PROGRAM_TESTS += \
	tests/unit/manager/check_budget \
	tests/unit/manager/check_ceiling \
	tests/unit/manager/check_cgroup \
	tests/unit/manager/check_greet \
	tests/unit/manager/check_hangup \
	tests/unit/manager/check_listener \
	tests/unit/manager/check_loop \
	tests/unit/manager/check_pages \
	tests/unit/manager/check_poolproc \
	tests/unit/manager/check_pulse \
	tests/unit/manager/check_quarantine_memory \
	tests/unit/manager/check_quota \
	tests/unit/manager/check_recover \
	tests/unit/manager/check_roster \
	tests/unit/manager/check_session_line \
	tests/unit/manager/check_store \
	tests/unit/manager/check_store_inherit \
	tests/unit/manager/check_thread_states \
	tests/unit/manager/check_trial

tests_unit_manager_check_loop_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=io_uring_submit_and_wait \
	-Wl,--wrap=nanosleep
tests_unit_manager_check_poolproc_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=execv \
	-Wl,--wrap=nanosleep \
	-Wl,--wrap=open_memstream \
	-Wl,--wrap=proto_recv_plain \
	-Wl,--wrap=proto_recv_short \
	-Wl,--wrap=proto_send \
	-Wl,--wrap=waitid
tests_unit_manager_check_session_line_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=clock_gettime \
	-Wl,--wrap=session_take
tests_unit_manager_check_store_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=loop_poll \
	-Wl,--wrap=loop_timer \
	-Wl,--wrap=nanosleep \
	-Wl,--wrap=sendmsg
# A trial that is killed has ended then.
tests_unit_manager_check_trial_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=kill
