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
	client/many.c \
	client/pack.c \
	client/publish.c \
	client/publish.h \
	client/slots.c \
	client/slots.h \
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
libforkclient_la_LDFLAGS = -version-info 0:0:0 $(COMMON_LDFLAGS) \
	-Wl,--version-script=$(srcdir)/client/libforkclient.map
EXTRA_libforkclient_la_DEPENDENCIES = client/libforkclient.map
EXTRA_DIST += client/libforkclient.map

forkdinclude_HEADERS += client/forkd/client.h client/forkd/client.hpp
pkgconfig_DATA += client/forkd-client.pc

bin_PROGRAMS += forkctl
forkctl_SOURCES = \
	client/forkctl.c \
	client/forkctl.h \
	client/forkctl_call.c \
	client/forkctl_case.c \
	client/forkctl_case.h \
	client/forkctl_check.c \
	client/forkctl_compare.c \
	client/forkctl_compare.h \
	client/forkctl_control.c \
	client/forkctl_control.h \
	client/forkctl_crashes.c \
	client/forkctl_limits.c \
	client/forkctl_modules.c \
	client/forkctl_option.c \
	client/forkctl_option.h \
	client/forkctl_profile.c \
	client/forkctl_quarantine.c \
	client/forkctl_record.c \
	client/forkctl_record.h \
	client/forkctl_reload.c \
	client/forkctl_run.c \
	client/forkctl_run.h \
	client/forkctl_session.c \
	client/forkctl_set.c \
	client/forkctl_stat.c \
	client/forkctl_status.c \
	client/forkctl_tasks.c \
	client/forkctl_value.c \
	client/forkctl_value.h
forkctl_CPPFLAGS = $(AM_CPPFLAGS) -DFK_SBINDIR='"$(sbindir)"'
forkctl_LDADD = $(CLIENT_LIBS) libcommon.la
