# SPDX-License-Identifier: MIT
# forkctl check: a module under every schedule.

libforkctl_la_SOURCES += \
	client/forkctl/check/check.c \
	client/forkctl/check/compare.c \
	client/forkctl/check/compare.h \
	client/forkctl/check/races.c \
	client/forkctl/check/races.h \
	client/forkctl/check/results.c \
	client/forkctl/check/results.h \
	client/forkctl/check/run.c \
	client/forkctl/check/run.h
