# SPDX-License-Identifier: MIT
# What both processes know of the machine and of modules.

libhost_la_SOURCES = \
	daemon/host/sandbox.c \
	daemon/host/sandbox.h \
	daemon/host/job_times.h \
	daemon/host/module.c \
	daemon/host/module.h \
	daemon/host/probe.h \
	daemon/host/symbols.c \
	daemon/host/symbols.h \
	daemon/host/topology.c \
	daemon/host/topology.h \
	daemon/host/victims.c \
	daemon/host/victims.h
