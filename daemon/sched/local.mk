# SPDX-License-Identifier: MIT
# Whose turn it is, which worker sleeps and which is woken.

libpool_la_SOURCES += \
	daemon/sched/alarm.c \
	daemon/sched/alarm.h \
	daemon/sched/fair.c \
	daemon/sched/fair.h \
	daemon/sched/fair_claim.c \
	daemon/sched/fairq.c \
	daemon/sched/fairq.h \
	daemon/sched/job_switch.c \
	daemon/sched/job_switch.h \
	daemon/sched/park.c \
	daemon/sched/park.h \
	daemon/sched/vtime.c \
	daemon/sched/vtime.h \
	daemon/sched/wake.c \
	daemon/sched/wake.h
