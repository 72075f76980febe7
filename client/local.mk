# SPDX-License-Identifier: MIT
# libclientcore: the client's code, linked as it is into forkctl and the tests.
# libforkclient: the same as the installed shared library, with only fk_* exported.

noinst_LTLIBRARIES += libclientcore.la
libclientcore_la_SOURCES = \
	client/batch.c \
	client/cancel.c \
	client/client.c \
	client/client.h \
	client/connect.c \
	client/connect.h \
	client/error.c \
	client/events.c \
	client/events.h \
	client/group.c \
	client/heap.c \
	client/heap.h \
	client/lasting.h \
	client/many.c \
	client/pack.c \
	client/publish.c \
	client/publish.h \
	client/slot_stack.h \
	client/slots.c \
	client/slots.h \
	client/spill.c \
	client/spill.h \
	client/submit.c \
	client/submit.h \
	client/wait.c

CLIENT_LIBS = libclientcore.la libshm.la

lib_LTLIBRARIES += libforkclient.la
libforkclient_la_SOURCES =
if CRASH_SITES
libforkclient_la_SOURCES += common/crash.c
endif
libforkclient_la_LIBADD = $(CLIENT_LIBS)
# libforkclient.so.1: the first number that programs rely on. It changes (N:0:0) when a function or
# a type that they use goes or becomes another one: tests/check-abi says so.
libforkclient_la_LDFLAGS = -version-info 1:0:0 $(COMMON_LDFLAGS) \
	-Wl,--version-script=$(srcdir)/client/libforkclient.map
EXTRA_libforkclient_la_DEPENDENCIES = client/libforkclient.map
EXTRA_DIST += client/libforkclient.map

# What tests/check-abi compares: the library once more, with all that a debugger can be told of it,
# whatever CFLAGS says. Libabigail tells public types by the name of their header, and there is a
# client.h of our own: the public one goes by the name of abi.h.
client/abi.so: $(libclientcore_la_SOURCES) $(libshm_la_SOURCES) \
		client/forkd/client.h client/libforkclient.map
	$(AM_V_at)cp $(srcdir)/client/forkd/client.h client/abi.h
	$(AM_V_CCLD)$(CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) -U_FORTIFY_SOURCE $(COMMON_CFLAGS) \
		-fPIC -g -fdebug-prefix-map=$(srcdir)/client/forkd/client.h=client/abi.h -shared \
		-Wl,--version-script=$(srcdir)/client/libforkclient.map -o $@ $(filter %.c,$^)
CLEANFILES += client/abi.h client/abi.so
# What this makes of it is the library that programs rely on from then on.
abi: client/abi.so
	abidw --header-file client/abi.h --drop-private-types --exported-interfaces-only \
		--drop-undefined-syms --no-corpus-path --no-comp-dir-path --no-show-locs \
		--out-file $(srcdir)/client/libforkclient.abi client/abi.so
.PHONY: abi
EXTRA_DIST += client/libforkclient.abi

forkdinclude_HEADERS += client/forkd/client.h client/forkd/client.hpp
pkgconfig_DATA += client/forkd-client.pc

# forkctl without its main(), as tests link it.
noinst_LTLIBRARIES += libforkctl.la
libforkctl_la_SOURCES = \
	client/forkctl.h \
	client/forkctl_call.c \
	client/forkctl_case.c \
	client/forkctl_case.h \
	client/forkctl_check.c \
	client/forkctl_clients.c \
	client/forkctl_command.c \
	client/forkctl_command.h \
	client/forkctl_compare.c \
	client/forkctl_compare.h \
	client/forkctl_config.c \
	client/forkctl_control.c \
	client/forkctl_control.h \
	client/forkctl_crashes.c \
	client/forkctl_data.c \
	client/forkctl_data.h \
	client/forkctl_http.c \
	client/forkctl_jobs.c \
	client/forkctl_limits.c \
	client/forkctl_load.c \
	client/forkctl_metrics.c \
	client/forkctl_modules.c \
	client/forkctl_option.c \
	client/forkctl_option.h \
	client/forkctl_profile.c \
	client/forkctl_progress.c \
	client/forkctl_progress.h \
	client/forkctl_quarantine.c \
	client/forkctl_races.c \
	client/forkctl_races.h \
	client/forkctl_record.c \
	client/forkctl_record.h \
	client/forkctl_reload.c \
	client/forkctl_room.c \
	client/forkctl_room.h \
	client/forkctl_rows.c \
	client/forkctl_rows.h \
	client/forkctl_run.c \
	client/forkctl_run.h \
	client/forkctl_say.c \
	client/forkctl_session.c \
	client/forkctl_set.c \
	client/forkctl_stat.c \
	client/forkctl_stat.h \
	client/forkctl_status.c \
	client/forkctl_tasks.c \
	client/forkctl_timeline.c \
	client/forkctl_timeline.h \
	client/forkctl_timeline_internal.h \
	client/forkctl_timeline_write.c \
	client/forkctl_times.c \
	client/forkctl_times.h \
	client/forkctl_top.c \
	client/forkctl_top.h \
	client/forkctl_top_draw.c \
	client/forkctl_top_keys.c \
	client/forkctl_top_model.c \
	client/forkctl_top_screen.c \
	client/forkctl_top_text.c \
	client/forkctl_top_view.c \
	client/forkctl_topo.c \
	client/forkctl_trace.c \
	client/forkctl_value.c \
	client/forkctl_value.h \
	client/forkctl_watch.c
libforkctl_la_CPPFLAGS = $(AM_CPPFLAGS) -DFK_SBINDIR='"$(sbindir)"'
FORKCTL_CFLAGS = $(HWLOC_CFLAGS) $(JANSSON_CFLAGS) $(NCURSES_CFLAGS)
FORKCTL_LIBS = libforkctl.la $(CLIENT_LIBS) libcommon.la $(FORKCTL_SYSTEM_LIBS)
FORKCTL_SYSTEM_LIBS = $(HWLOC_LIBS) $(JANSSON_LIBS) $(NCURSES_LIBS)
libforkctl_la_CFLAGS = $(AM_CFLAGS) $(FORKCTL_CFLAGS)

bin_PROGRAMS += forkctl
forkctl_SOURCES = client/forkctl.c
forkctl_CFLAGS = $(AM_CFLAGS) $(FORKCTL_CFLAGS)
forkctl_LDADD = $(FORKCTL_LIBS)
