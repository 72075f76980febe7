# SPDX-License-Identifier: MIT
# The closed programs around the lock-free headers, and their mutants. The script builds them
# itself, with $(CC), in a separate directory.

SCRIPT_TESTS += tests/model/run

EXTRA_DIST += \
	tests/model/abort_word.c \
	tests/model/cpu_account.c \
	tests/model/deque.c \
	tests/model/drop.h \
	tests/model/explore.c \
	tests/model/explore.h \
	tests/model/expose.c \
	tests/model/fiber.c \
	tests/model/group.c \
	tests/model/job.c \
	tests/model/join_counter.c \
	tests/model/lazy_policy.c \
	tests/model/leave.c \
	tests/model/model.h \
	tests/model/request_word.c \
	tests/model/ring.c \
	tests/model/roots.c \
	tests/model/run.h \
	tests/model/settings.c \
	tests/model/slice_timer.c \
	tests/model/slot_stack.c \
	tests/model/summary.c \
	tests/model/trace.c \
	tests/model/wake.c \
	tests/model/watch.c

model-local:
	top_srcdir='$(abs_top_srcdir)' CC='$(CC)' $(srcdir)/tests/model/run --long

MODEL_TARGETS += model-local
