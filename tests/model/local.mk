# SPDX-License-Identifier: MIT
# The closed programs around the lock-free headers, and their mutants. The script builds them
# itself, with $(CC), in a directory of its own.

SCRIPT_TESTS += tests/model/run

EXTRA_DIST += \
	tests/model/account.c \
	tests/model/alarm.c \
	tests/model/attend.c \
	tests/model/deque.c \
	tests/model/drop.h \
	tests/model/explore.c \
	tests/model/explore.h \
	tests/model/expose.c \
	tests/model/fiber.c \
	tests/model/group.c \
	tests/model/job.c \
	tests/model/join.c \
	tests/model/lazy.c \
	tests/model/leave.c \
	tests/model/model.h \
	tests/model/ring.c \
	tests/model/roots.c \
	tests/model/run.h \
	tests/model/settings.c \
	tests/model/slots.c \
	tests/model/summary.c \
	tests/model/trace.c \
	tests/model/verdict.c \
	tests/model/wake.c \
	tests/model/watch.c

model-local:
	top_srcdir='$(abs_top_srcdir)' CC='$(CC)' $(srcdir)/tests/model/run --long

MODEL_TARGETS += model-local
