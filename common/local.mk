# SPDX-License-Identifier: MIT
# libcommon: for programs and the daemon. The headers without a .c are for the libraries too.
# liboptions is separate because it needs hwloc and inih, which forkctl does not use.

noinst_LTLIBRARIES += libcommon.la liboptions.la

libcommon_la_SOURCES = \
	common/cleanup.h \
	common/clock.h \
	common/crash_site.c \
	common/crash_site.def \
	common/crash_site.h \
	common/list.h \
	common/log.c \
	common/log.h \
	common/log_journal.c \
	common/log_journal.h \
	common/low_latency.c \
	common/low_latency.h \
	common/number.c \
	common/number.h \
	common/option_table.c \
	common/option_table.h \
	common/relaxed.h \
	common/sanitizer.h \
	common/sparse.h \
	common/stale_socket.h \
	common/text.h \
	common/util.h \
	common/valgrind.h

liboptions_la_SOURCES = \
	common/option_list.c \
	common/option_list.h \
	common/option_value.c \
	common/option_value.h \
	common/options.c \
	common/options.def \
	common/options.h \
	common/options_args.c \
	common/options_args.h \
	common/options_dir.c \
	common/options_dir.h \
	common/options_file.c \
	common/options_file.h \
	common/options_print.c \
	common/options_print.h
liboptions_la_CFLAGS = $(AM_CFLAGS) $(INIH_CFLAGS) $(HWLOC_CFLAGS)
OPTIONS_LIBS = liboptions.la libcommon.la $(INIH_LIBS) $(HWLOC_LIBS)

# Prints the rows of the man page of forkd.conf and forkd, in mdoc.
noinst_PROGRAMS += common/options-man
common_options_man_SOURCES = common/options_man.c
common_options_man_LDADD = $(OPTIONS_LIBS)
