# SPDX-License-Identifier: MIT
# Tests of the units in daemon/manager.

PROGRAM_TESTS += \
	tests/unit/manager/check_memory_budget \
	tests/unit/manager/check_memory_limit \
	tests/unit/manager/check_admission \
	tests/unit/manager/check_socket_close \
	tests/unit/manager/check_listener \
	tests/unit/manager/check_loop \
	tests/unit/manager/check_page_populate \
	tests/unit/manager/check_pool_process \
	tests/unit/manager/check_pool_watchdog \
	tests/unit/manager/check_quarantine_memory \
	tests/unit/manager/check_quota \
	tests/unit/manager/check_job_recovery \
	tests/unit/manager/check_saved_state \
	tests/unit/manager/check_import_check \
	tests/unit/manager/check_connection_line \
	tests/unit/manager/check_fdstore \
	tests/unit/manager/check_fdstore_inherit \
	tests/unit/manager/check_thread_states \
	tests/unit/manager/check_reload_trial

tests_unit_manager_check_loop_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=io_uring_submit_and_wait \
	-Wl,--wrap=nanosleep
tests_unit_manager_check_pool_process_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=execv \
	-Wl,--wrap=nanosleep \
	-Wl,--wrap=open_memstream \
	-Wl,--wrap=proto_recv_plain \
	-Wl,--wrap=proto_recv_short \
	-Wl,--wrap=proto_send \
	-Wl,--wrap=waitid
tests_unit_manager_check_connection_line_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=clock_gettime \
	-Wl,--wrap=conn_take
tests_unit_manager_check_fdstore_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=loop_poll \
	-Wl,--wrap=loop_timer \
	-Wl,--wrap=nanosleep \
	-Wl,--wrap=sendmsg
# A trial that is killed has ended then.
tests_unit_manager_check_reload_trial_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=kill
