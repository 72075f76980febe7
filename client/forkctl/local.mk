# SPDX-License-Identifier: MIT
# The command forkctl.

libforkctl_la_SOURCES += \
	client/forkctl/arguments.c \
	client/forkctl/arguments.h \
	client/forkctl/board_rows.c \
	client/forkctl/board_rows.h \
	client/forkctl/call.c \
	client/forkctl/call_limits.c \
	client/forkctl/cancel.c \
	client/forkctl/case.c \
	client/forkctl/case.h \
	client/forkctl/child_command.c \
	client/forkctl/child_command.h \
	client/forkctl/clients.c \
	client/forkctl/common.c \
	client/forkctl/common.h \
	client/forkctl/config.c \
	client/forkctl/control.c \
	client/forkctl/control.h \
	client/forkctl/counters.c \
	client/forkctl/counters.h \
	client/forkctl/counters_openmetrics.c \
	client/forkctl/counters_watch.c \
	client/forkctl/crashes.c \
	client/forkctl/forkctl.h \
	client/forkctl/http.c \
	client/forkctl/job_times.c \
	client/forkctl/job_times.h \
	client/forkctl/jobs.c \
	client/forkctl/listing.c \
	client/forkctl/listing.h \
	client/forkctl/messages.c \
	client/forkctl/modules.c \
	client/forkctl/modules_load.c \
	client/forkctl/openmetrics.c \
	client/forkctl/openmetrics.h \
	client/forkctl/options.c \
	client/forkctl/options.h \
	client/forkctl/output.c \
	client/forkctl/output.h \
	client/forkctl/output_size.c \
	client/forkctl/output_size.h \
	client/forkctl/profile.c \
	client/forkctl/progress.c \
	client/forkctl/progress.h \
	client/forkctl/quarantine.c \
	client/forkctl/reload.c \
	client/forkctl/session.c \
	client/forkctl/set.c \
	client/forkctl/status.c \
	client/forkctl/tasks.c \
	client/forkctl/topo.c
