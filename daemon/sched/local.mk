# SPDX-License-Identifier: MIT
# The next job, and the workers that sleep and are woken.

libpool_la_SOURCES += \
	daemon/sched/slice_timer.c \
	daemon/sched/slice_timer.h \
	daemon/sched/fair_queue.c \
	daemon/sched/fair_queue.h \
	daemon/sched/preemption.c \
	daemon/sched/job_queues.c \
	daemon/sched/job_queues.h \
	daemon/sched/job_switch.c \
	daemon/sched/job_switch.h \
	daemon/sched/cpu_parking.c \
	daemon/sched/cpu_parking.h \
	daemon/sched/virtual_time.c \
	daemon/sched/virtual_time.h \
	daemon/sched/wake.c \
	daemon/sched/wake.h
