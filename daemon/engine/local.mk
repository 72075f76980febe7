# SPDX-License-Identifier: MIT
# Fork, join and steal.

libengine_la_SOURCES += \
	daemon/engine/alloc.c \
	daemon/engine/alloc.h \
	daemon/engine/aside.c \
	daemon/engine/aside.h \
	daemon/engine/preempt_switch.c \
	daemon/engine/preempt_switch.h \
	daemon/engine/strand.c \
	daemon/engine/strand.h \
	daemon/engine/strand_attend.c \
	daemon/engine/strand_hold.c \
	daemon/engine/strand_internal.h \
	daemon/engine/strand_kept.c \
	daemon/engine/strand_part.c \
	daemon/engine/strand_run.c \
	daemon/engine/strand_unwind.c \
	daemon/engine/task_failure.c
