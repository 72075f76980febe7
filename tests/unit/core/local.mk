# SPDX-License-Identifier: MIT
# Tests of the units in daemon/core.

PROGRAM_TESTS += \
	tests/unit/core/check_account \
	tests/unit/core/check_bell \
	tests/unit/core/check_channel \
	tests/unit/core/check_deque \
	tests/unit/core/check_fiber_stack \
	tests/unit/core/check_fiber_stack_guard \
	tests/unit/core/check_halt \
	tests/unit/core/check_inbox \
	tests/unit/core/check_lazy \
	tests/unit/core/check_permit \
	tests/unit/core/check_profile \
	tests/unit/core/check_registry \
	tests/unit/core/check_stack \
	tests/unit/core/check_stack_account \
	tests/unit/core/check_stack_arena \
	tests/unit/core/check_switch \
	tests/unit/core/check_switch_ucontext \
	tests/unit/core/check_trace

# Once more, with the implementation that few machines need.
tests_unit_core_check_switch_ucontext_SOURCES = \
	daemon/core/switch.c \
	daemon/core/switch_ucontext.c \
	tests/unit/core/check_switch.c
tests_unit_core_check_switch_ucontext_CPPFLAGS = $(AM_CPPFLAGS) -DSWITCH_UCONTEXT=1
tests_unit_core_check_switch_ucontext_LDADD = libcommon.la $(CHECK_LIBS)
# The kernel is short of something when the test says so.
tests_unit_core_check_channel_LDFLAGS = \
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
