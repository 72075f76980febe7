# SPDX-License-Identifier: MIT
# Facts about the machine and about modules, for both processes.

libhost_la_SOURCES = \
	daemon/host/cgroup.c \
	daemon/host/cgroup.h \
	daemon/host/job_times.h \
	daemon/host/module.c \
	daemon/host/module.h \
	daemon/host/probe.h \
	daemon/host/sandbox.c \
	daemon/host/sandbox.h \
	daemon/host/symbols.c \
	daemon/host/symbols.h \
	daemon/host/topology.c \
	daemon/host/topology.h \
	daemon/host/topology_internal.h \
	daemon/host/topology_own.c \
	daemon/host/victims.c \
	daemon/host/victims.h

# Apart from libhost, which a program without hwloc can link.
libmachine_la_SOURCES = daemon/host/topology_hwloc.c
