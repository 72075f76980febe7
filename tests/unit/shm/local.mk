# SPDX-License-Identifier: MIT
# Tests of the units in shm.

PROGRAM_TESTS += \
	tests/unit/shm/check_histogram \
	tests/unit/shm/check_job \
	tests/unit/shm/check_layout \
	tests/unit/shm/check_ledger \
	tests/unit/shm/check_ref \
	tests/unit/shm/check_ring \
	tests/unit/shm/check_ring_astray \
	tests/unit/shm/check_segment \
	tests/unit/shm/check_signature \
	tests/unit/shm/check_stopwatch \
	tests/unit/shm/check_wake

tests_unit_shm_check_layout_SOURCES = \
	tests/unit/shm/check_layout.c \
	tests/unit/shm/check_layout.h \
	tests/unit/shm/check_layout_ring.c \
	tests/unit/shm/check_layout_same.c
