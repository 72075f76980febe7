# SPDX-License-Identifier: MIT
# The structures that two processes share. Linked into all programs.

noinst_LTLIBRARIES += libshm.la
libshm_la_SOURCES = \
	shm/backtrace.c \
	shm/backtrace.h \
	shm/board.c \
	shm/board.h \
	shm/counters.def \
	shm/fence.h \
	shm/futex.c \
	shm/futex.h \
	shm/group.h \
	shm/histogram.c \
	shm/histogram.h \
	shm/job.h \
	shm/job_list.c \
	shm/job_list.h \
	shm/layout.h \
	shm/ledger.h \
	shm/limits.h \
	shm/proto.c \
	shm/proto.h \
	shm/ref.h \
	shm/ring.h \
	shm/segment.c \
	shm/segment.h \
	shm/signature.c \
	shm/signature.h \
	shm/stopwatch.h \
	shm/tenant.h \
	shm/times.def \
	shm/trace.h \
	shm/wake.h \
	shm/watch.h
