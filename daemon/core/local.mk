# SPDX-License-Identifier: MIT
# The pool's state and its plain data structures; it decides nothing.

libengine_la_SOURCES += \
	daemon/core/cpu_account.h \
	daemon/core/request_word.h \
	daemon/core/bell.c \
	daemon/core/bell.h \
	daemon/core/manager_channel.c \
	daemon/core/manager_channel.h \
	daemon/core/deque.h \
	daemon/core/fiber_head.h \
	daemon/core/fiber_stack.c \
	daemon/core/fiber_stack.h \
	daemon/core/fork_mode.c \
	daemon/core/fork_mode.h \
	daemon/core/shutdown.c \
	daemon/core/shutdown.h \
	daemon/core/hooks.h \
	daemon/core/mailbox.c \
	daemon/core/mailbox.h \
	daemon/core/join_counter.h \
	daemon/core/lazy_policy.h \
	daemon/core/mapping.c \
	daemon/core/mapping.h \
	daemon/core/mark.h \
	daemon/core/task_permission.c \
	daemon/core/task_permission.h \
	daemon/core/placement.c \
	daemon/core/placement.h \
	daemon/core/steal_policy.h \
	daemon/core/pool_settings.c \
	daemon/core/pool_settings.h \
	daemon/core/pool_state.h \
	daemon/core/work_span.c \
	daemon/core/work_span.h \
	daemon/core/clients.c \
	daemon/core/clients.h \
	daemon/core/spin_policy.h \
	daemon/core/stacklet.c \
	daemon/core/stacklet.h \
	daemon/core/stop.c \
	daemon/core/stop.h \
	daemon/core/preempt_request.c \
	daemon/core/preempt_request.h \
	daemon/core/context_switch.c \
	daemon/core/context_switch.h \
	daemon/core/trace.c \
	daemon/core/trace.h \
	daemon/core/job_abort.c \
	daemon/core/job_abort.h \
	daemon/core/abort_word.h \
	daemon/core/vheap.h \
	daemon/core/wakeup.c \
	daemon/core/wakeup.h \
	daemon/core/worker.c \
	daemon/core/worker.h \
	daemon/core/worker_state.h
libprocess_la_SOURCES += \
	daemon/core/crash_handler.c \
	daemon/core/crash_handler.h \
	daemon/core/locate.c \
	daemon/core/locate.h \
	daemon/core/sample.c \
	daemon/core/sample.h
if SWITCH_X86_64
libengine_la_SOURCES += daemon/core/context_switch_x86_64.S
endif
if SWITCH_AARCH64
libengine_la_SOURCES += daemon/core/context_switch_aarch64.S
endif
if SWITCH_UCONTEXT
libengine_la_SOURCES += daemon/core/context_switch_ucontext.c
endif
