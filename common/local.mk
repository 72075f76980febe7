# SPDX-License-Identifier: MIT
# libcommon: for programs and the daemon. The headers without a .c are for the libraries too.
# liboptions is apart because it needs hwloc and inih, which forkctl has no use for.

noinst_LTLIBRARIES += libcommon.la liboptions.la

libcommon_la_SOURCES = \
	common/cleanup.h \
	common/clock.h \
	common/log.c \
	common/log.h \
	common/util.h

liboptions_la_SOURCES = \
	common/options.c \
	common/options.def \
	common/options.h
liboptions_la_CFLAGS = $(AM_CFLAGS) $(INIH_CFLAGS) $(HWLOC_CFLAGS)
OPTIONS_LIBS = liboptions.la $(INIH_LIBS) $(HWLOC_LIBS)

# Prints the rows of the man page of forkd.conf and forkd, in mdoc.
noinst_PROGRAMS += common/options-man
common_options_man_SOURCES = common/options_man.c
common_options_man_LDADD = $(OPTIONS_LIBS) libcommon.la
