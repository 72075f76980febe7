# SPDX-License-Identifier: MIT
# Fork, join and steal.

libengine_la_SOURCES += \
	daemon/engine/frame_alloc.c \
	daemon/engine/frame_alloc.h \
	daemon/engine/nested.c \
	daemon/engine/nested.h \
	daemon/engine/preempted.c \
	daemon/engine/preempted.h \
	daemon/engine/preempt_switch.c \
	daemon/engine/preempt_switch.h \
	daemon/engine/slow_path.c \
	daemon/engine/slow_path.h \
	daemon/engine/safepoint.c \
	daemon/engine/ownership.c \
	daemon/engine/engine_internal.h \
	daemon/engine/self_steal.c \
	daemon/engine/promote.c \
	daemon/engine/resume.c \
	daemon/engine/unwind.c \
	daemon/engine/task_failure.c
