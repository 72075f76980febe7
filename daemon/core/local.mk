# SPDX-License-Identifier: MIT
# The pool's state and its plain data structures; it decides nothing.

libengine_la_SOURCES += \
	daemon/core/account.h \
	daemon/core/attend.h \
	daemon/core/bell.c \
	daemon/core/bell.h \
	daemon/core/channel.c \
	daemon/core/channel.h \
	daemon/core/deque.h \
	daemon/core/fault.c \
	daemon/core/fault.h \
	daemon/core/fiber_head.h \
	daemon/core/fiber_stack.c \
	daemon/core/fiber_stack.h \
	daemon/core/fork_mode.c \
	daemon/core/fork_mode.h \
	daemon/core/halt.c \
	daemon/core/halt.h \
	daemon/core/hooks.h \
	daemon/core/inbox.c \
	daemon/core/inbox.h \
	daemon/core/join.h \
	daemon/core/lazy.h \
	daemon/core/locate.c \
	daemon/core/locate.h \
	daemon/core/mapping.c \
	daemon/core/mapping.h \
	daemon/core/mark.h \
	daemon/core/permit.c \
	daemon/core/permit.h \
	daemon/core/placement.c \
	daemon/core/placement.h \
	daemon/core/policy.h \
	daemon/core/pool_settings.c \
	daemon/core/pool_settings.h \
	daemon/core/pool_state.h \
	daemon/core/profile.c \
	daemon/core/profile.h \
	daemon/core/registry.c \
	daemon/core/registry.h \
	daemon/core/sample.c \
	daemon/core/sample.h \
	daemon/core/spin.h \
	daemon/core/stack.c \
	daemon/core/stack.h \
	daemon/core/stop.c \
	daemon/core/stop.h \
	daemon/core/summons.c \
	daemon/core/summons.h \
	daemon/core/switch.c \
	daemon/core/switch.h \
	daemon/core/trace.c \
	daemon/core/trace.h \
	daemon/core/verdict.c \
	daemon/core/verdict.h \
	daemon/core/verdict_word.h \
	daemon/core/vheap.h \
	daemon/core/wakeup.c \
	daemon/core/wakeup.h \
	daemon/core/worker.c \
	daemon/core/worker.h \
	daemon/core/worker_state.h
if SWITCH_X86_64
libengine_la_SOURCES += daemon/core/switch_x86_64.S
endif
if SWITCH_AARCH64
libengine_la_SOURCES += daemon/core/switch_aarch64.S
endif
if SWITCH_UCONTEXT
libengine_la_SOURCES += daemon/core/switch_ucontext.c
endif
