# SPDX-License-Identifier: MIT
# forkctl trace: a timeline of jobs and workers.

libforkctl_la_SOURCES += \
	client/forkctl/trace/timeline.c \
	client/forkctl/trace/timeline.h \
	client/forkctl/trace/timeline_internal.h \
	client/forkctl/trace/timeline_write.c \
	client/forkctl/trace/trace.c
