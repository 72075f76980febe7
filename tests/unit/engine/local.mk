# SPDX-License-Identifier: MIT
# Tests of the units in daemon/engine.

PROGRAM_TESTS += \
	tests/unit/engine/check_frame_alloc \
	tests/unit/engine/check_preempted \
	tests/unit/engine/check_debug_steals \
	tests/unit/engine/check_engine \
	tests/unit/engine/check_forkmode \
	tests/unit/engine/check_nested \
	tests/unit/engine/check_place \
	tests/unit/engine/check_slow_path \
	tests/unit/engine/check_strand_full \
	tests/unit/engine/check_task_api \
	tests/unit/engine/check_unwind

tests_unit_engine_check_engine_LDADD = \
	libengine.la $(MACHINE_LIBS) libshm.la libcommon.la $(LIBURING_LIBS) -ldl $(CHECK_LIBS)
