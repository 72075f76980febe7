# SPDX-License-Identifier: MIT
# Tests of the units in client/forkctl.

PROGRAM_TESTS += \
	tests/unit/forkctl/check_timeline \
	tests/unit/forkctl/check_top \
	tests/unit/forkctl/check_top_draw

# What forkctl top is without a forkd and a terminal.
tests_unit_forkctl_check_top_SOURCES = tests/unit/forkctl/check_top.c tests/support/top_rig.h
tests_unit_forkctl_check_top_draw_SOURCES = tests/unit/forkctl/check_top_draw.c tests/support/top_rig.h
tests_unit_forkctl_check_timeline_CFLAGS = $(AM_CFLAGS) $(FORKCTL_CFLAGS)
tests_unit_forkctl_check_timeline_LDADD = $(LDADD) $(FORKCTL_LIBS)
tests_unit_forkctl_check_top_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_forkctl_check_top_LDADD = $(LDADD) $(FORKCTL_LIBS)
tests_unit_forkctl_check_top_draw_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_forkctl_check_top_draw_LDADD = $(LDADD) $(FORKCTL_LIBS)
