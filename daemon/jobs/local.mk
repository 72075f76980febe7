# SPDX-License-Identifier: MIT
# A job's way: ring, queue, run, outcome.

libpool_la_SOURCES += \
	daemon/jobs/abort.c \
	daemon/jobs/abort.h \
	daemon/jobs/attach.c \
	daemon/jobs/attach.h \
	daemon/jobs/deadline.c \
	daemon/jobs/deadline.h \
	daemon/jobs/drain.c \
	daemon/jobs/drain.h \
	daemon/jobs/hang.c \
	daemon/jobs/hang.h \
	daemon/jobs/intake.c \
	daemon/jobs/intake.h \
	daemon/jobs/intake_turn.c \
	daemon/jobs/job_cancel.c \
	daemon/jobs/job_cancel.h \
	daemon/jobs/job_end.c \
	daemon/jobs/job_end.h \
	daemon/jobs/job_hold.c \
	daemon/jobs/job_hold.h \
	daemon/jobs/membership.c \
	daemon/jobs/membership.h \
	daemon/jobs/pending.c \
	daemon/jobs/pending.h \
	daemon/jobs/placed_jobs.c \
	daemon/jobs/placed_jobs.h \
	daemon/jobs/record.c \
	daemon/jobs/record.h \
	daemon/jobs/requeue.c \
	daemon/jobs/requeue.h \
	daemon/jobs/root.c \
	daemon/jobs/root.h \
	daemon/jobs/starved.c \
	daemon/jobs/starved.h \
	daemon/jobs/vacate.c \
	daemon/jobs/vacate.h
