# SPDX-License-Identifier: MIT
# Code and data that tests share. A header of tests goes to noinst_HEADERS.

# Shared code of tests, each part by its header: a program links the parts that it uses.
check_LTLIBRARIES += tests/support/libtests.la
tests_support_libtests_la_SOURCES = \
	tests/support/counts.c \
	tests/support/counts.h \
	tests/support/daemon.c \
	tests/support/daemon.h \
	tests/support/daemon_end.c \
	tests/support/daemon_proc.c \
	tests/support/fake.c \
	tests/support/fake.h \
	tests/support/fake_cluster.c \
	tests/support/fake_cluster.h \
	tests/support/systemd_stub.c \
	tests/support/systemd_stub.h \
	tests/support/hostile.c \
	tests/support/hostile.h \
	tests/support/kept.c \
	tests/support/kept.h \
	tests/support/local.c \
	tests/support/local.h \
	tests/support/oracle.c \
	tests/support/oracle.h \
	tests/support/rig.c \
	tests/support/rig.h \
	tests/support/service.c \
	tests/support/service.h \
	tests/support/stub.c \
	tests/support/stub.h \
	tests/support/stub_server.c \
	tests/support/stub_server.h

check_PROGRAMS += tests/support/backtrace_rig
# The frame pointer must be found, too.
tests_support_backtrace_rig_CFLAGS = $(AM_CFLAGS) -fno-omit-frame-pointer

EXTRA_DIST += \
	tests/support/alerts.yml \
	tests/support/completion.zsh \
	tests/support/mistakes.def \
	tests/support/races.c \
	tests/support/trace.py \
	tests/support/tsan.supp \
	tests/support/verdict.sh

# Synthetic machines.
EXTRA_DIST += \
	tests/support/topologies/asymmetric.xml \
	tests/support/topologies/fast.xml \
	tests/support/topologies/memoryless.xml \
	tests/support/topologies/restricted.xml \
	tests/support/topologies/ring.xml

noinst_HEADERS = \
	tests/support/takeover_rig.h \
	tests/support/algorithm.h \
	tests/support/check_unit.h \
	tests/support/compile.h \
	tests/support/control_group.h \
	tests/support/counted.h \
	tests/support/counted_fail.h \
	tests/support/entries.h \
	tests/support/fair_clock.h \
	tests/support/faults.h \
	tests/support/fib.h \
	tests/support/fiber_rig.h \
	tests/support/fiber_stack_rig.h \
	tests/support/fiber_tasks_ends.h \
	tests/support/fiber_tasks_errors.h \
	tests/support/fiber_tasks_own.h \
	tests/support/fiber_tasks_steals.h \
	tests/support/fiber_tasks_trees.h \
	tests/support/fiber_tasks_waits.h \
	tests/support/fiber_tree.h \
	tests/support/intake_rig.h \
	tests/support/jobs.h \
	tests/support/keeping.h \
	tests/support/machines.h \
	tests/support/modes.h \
	tests/support/modules/maps.h \
	tests/support/options.h \
	tests/support/other_user.h \
	tests/support/passed.h \
	tests/support/sealed.h \
	tests/support/quiet.h \
	tests/support/refuse.h \
	tests/support/reload_rig.h \
	tests/support/requests.h \
	tests/support/ring_rig.h \
	tests/support/shipped.h \
	tests/support/short_of_memory.h \
	tests/support/sites.h \
	tests/support/sleep_steps.h \
	tests/support/stack_room.h \
	tests/support/fdstore_rig.h \
	tests/support/strand_tasks.h \
	tests/support/system_root.h \
	tests/support/tasks.h \
	tests/support/threads.h \
	tests/support/unwind_tasks.h

include tests/support/modules/local.mk
