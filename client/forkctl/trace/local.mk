# SPDX-License-Identifier: MIT
# forkctl trace: a timeline of jobs and workers.

libforkctl_la_SOURCES += \
	client/forkctl/trace/forkctl_timeline.c \
	client/forkctl/trace/forkctl_timeline.h \
	client/forkctl/trace/forkctl_timeline_internal.h \
	client/forkctl/trace/forkctl_timeline_write.c \
	client/forkctl/trace/forkctl_trace.c
