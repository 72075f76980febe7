# SPDX-License-Identifier: MIT
# The command forkctl.

libforkctl_la_SOURCES += \
	client/forkctl/common.c \
	client/forkctl/common.h \
	client/forkctl/forkctl.h \
	client/forkctl/forkctl_call.c \
	client/forkctl/forkctl_clients.c \
	client/forkctl/forkctl_command.c \
	client/forkctl/forkctl_command.h \
	client/forkctl/forkctl_config.c \
	client/forkctl/forkctl_control.c \
	client/forkctl/forkctl_control.h \
	client/forkctl/forkctl_crashes.c \
	client/forkctl/forkctl_data.c \
	client/forkctl/forkctl_data.h \
	client/forkctl/forkctl_http.c \
	client/forkctl/forkctl_jobs.c \
	client/forkctl/forkctl_limits.c \
	client/forkctl/forkctl_load.c \
	client/forkctl/forkctl_metrics.c \
	client/forkctl/forkctl_modules.c \
	client/forkctl/forkctl_option.c \
	client/forkctl/forkctl_option.h \
	client/forkctl/forkctl_profile.c \
	client/forkctl/forkctl_progress.c \
	client/forkctl/forkctl_progress.h \
	client/forkctl/forkctl_quarantine.c \
	client/forkctl/forkctl_reload.c \
	client/forkctl/forkctl_room.c \
	client/forkctl/forkctl_room.h \
	client/forkctl/forkctl_rows.c \
	client/forkctl/forkctl_rows.h \
	client/forkctl/forkctl_say.c \
	client/forkctl/forkctl_session.c \
	client/forkctl/forkctl_set.c \
	client/forkctl/forkctl_stat.c \
	client/forkctl/forkctl_stat.h \
	client/forkctl/forkctl_status.c \
	client/forkctl/forkctl_tasks.c \
	client/forkctl/forkctl_times.c \
	client/forkctl/forkctl_times.h \
	client/forkctl/forkctl_topo.c \
	client/forkctl/forkctl_value.c \
	client/forkctl/forkctl_value.h \
	client/forkctl/forkctl_watch.c
