# SPDX-License-Identifier: MIT
# forkctl check: a module under every schedule.

libforkctl_la_SOURCES += \
	client/forkctl/check/forkctl_case.c \
	client/forkctl/check/forkctl_case.h \
	client/forkctl/check/forkctl_check.c \
	client/forkctl/check/forkctl_compare.c \
	client/forkctl/check/forkctl_compare.h \
	client/forkctl/check/forkctl_races.c \
	client/forkctl/check/forkctl_races.h \
	client/forkctl/check/forkctl_record.c \
	client/forkctl/check/forkctl_record.h \
	client/forkctl/check/forkctl_run.c \
	client/forkctl/check/forkctl_run.h
