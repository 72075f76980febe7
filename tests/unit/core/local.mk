# SPDX-License-Identifier: MIT
# Tests of the units in daemon/core.

PROGRAM_TESTS += \
	tests/unit/core/check_cpu_account \
	tests/unit/core/check_bell \
	tests/unit/core/check_manager_channel \
	tests/unit/core/check_deque \
	tests/unit/core/check_fiber_stack \
	tests/unit/core/check_fiber_stack_guard \
	tests/unit/core/check_shutdown \
	tests/unit/core/check_mailbox \
	tests/unit/core/check_lazy_policy \
	tests/unit/core/check_task_permission \
	tests/unit/core/check_work_span \
	tests/unit/core/check_clients \
	tests/unit/core/check_stacklet \
	tests/unit/core/check_stack_account \
	tests/unit/core/check_stack_arena \
	tests/unit/core/check_context_switch \
	tests/unit/core/check_switch_ucontext \
	tests/unit/core/check_trace

# Again, with the implementation that few machines need.
tests_unit_core_check_switch_ucontext_SOURCES = \
	daemon/core/context_switch.c \
	daemon/core/context_switch_ucontext.c \
	tests/unit/core/check_context_switch.c
tests_unit_core_check_switch_ucontext_CPPFLAGS = $(AM_CPPFLAGS) -DSWITCH_UCONTEXT=1
tests_unit_core_check_switch_ucontext_LDADD = libcommon.la $(CHECK_LIBS)
# The test makes calls of the kernel fail.
tests_unit_core_check_manager_channel_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=nanosleep \
	-Wl,--wrap=proto_recv_short \
	-Wl,--wrap=proto_send
FIBER_STACK_WRAPS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=madvise \
	-Wl,--wrap=mincore \
	-Wl,--wrap=mmap \
	-Wl,--wrap=mprotect \
	-Wl,--wrap=sysconf
tests_unit_core_check_fiber_stack_LDFLAGS = $(FIBER_STACK_WRAPS)
tests_unit_core_check_fiber_stack_guard_LDFLAGS = $(FIBER_STACK_WRAPS)
