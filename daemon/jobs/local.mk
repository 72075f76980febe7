# SPDX-License-Identifier: MIT
# The path of a job: ring, queue, run, outcome.

libpool_la_SOURCES += \
	daemon/jobs/abort.c \
	daemon/jobs/abort.h \
	daemon/jobs/attach.c \
	daemon/jobs/attach.h \
	daemon/jobs/cpu_limit.c \
	daemon/jobs/cpu_limit.h \
	daemon/jobs/deadline.c \
	daemon/jobs/deadline.h \
	daemon/jobs/ring_drain.c \
	daemon/jobs/ring_drain.h \
	daemon/jobs/hang_detector.c \
	daemon/jobs/hang_detector.h \
	daemon/jobs/job_batches.c \
	daemon/jobs/job_batches.h \
	daemon/jobs/time_slice.c \
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
	daemon/jobs/import.c \
	daemon/jobs/import.h \
	daemon/jobs/job_input.c \
	daemon/jobs/job_input.h \
	daemon/jobs/job_local.c \
	daemon/jobs/job_local.h \
	daemon/jobs/queue_recovery.c \
	daemon/jobs/queue_recovery.h \
	daemon/jobs/job.c \
	daemon/jobs/job.h \
	daemon/jobs/starved.c \
	daemon/jobs/starved.h \
	daemon/jobs/tenant_unmap.c \
	daemon/jobs/tenant_unmap.h
