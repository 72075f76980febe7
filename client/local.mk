# SPDX-License-Identifier: MIT
# libclientcore: the code of the client library, linked into forkctl and the tests. libforkclient:
# the same as an installed shared library that exports only fk_*.

noinst_LTLIBRARIES += libclientcore.la
include client/lib/local.mk

CLIENT_LIBS = libclientcore.la libshm.la

lib_LTLIBRARIES += libforkclient.la
libforkclient_la_SOURCES =
if CRASH_SITES
libforkclient_la_SOURCES += common/crash_site.c
endif
libforkclient_la_LIBADD = $(CLIENT_LIBS)
# libforkclient.so.1: the version of the ABI. It changes (N:0:0) when a function or a type of the
# ABI is removed or changed: tests/source/check-abi detects that.
libforkclient_la_LDFLAGS = -version-info 1:0:0 $(COMMON_LDFLAGS) \
	-Wl,--version-script=$(srcdir)/client/lib/libforkclient.map
EXTRA_libforkclient_la_DEPENDENCIES = client/lib/libforkclient.map
EXTRA_DIST += client/lib/libforkclient.map

# Libraries for tests/source/check-abi, with full debug information for any CFLAGS. Libabigail
# identifies public types by the name of their header. There are other headers of the same name, so
# the public one is used as abi.h. The second library has only what libforkpool adds.
ABI_SO = client/abi.so daemon/local/abi.so
client/abi.so: $(libclientcore_la_SOURCES) $(libshm_la_SOURCES) client/lib/libforkclient.map \
		client/forkd/client.h
daemon/local/abi.so: $(liblocal_la_SOURCES) daemon/local/libforkpool.map client/forkd/pool.h
$(ABI_SO):
	$(AM_V_at)cp $(lastword $^) $(@:.so=.h)
	$(AM_V_CCLD)$(CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) -U_FORTIFY_SOURCE $(COMMON_CFLAGS) \
		-fPIC -g -fdebug-prefix-map=$(lastword $^)=$(@:.so=.h) -shared \
		-Wl,--version-script=$(filter %.map,$^) -o $@ $(filter %.c,$^)
CLEANFILES += $(ABI_SO) $(ABI_SO:.so=.h)
# Updates the reference ABI, which later versions must keep.
ABIDW = abidw --drop-private-types --exported-interfaces-only --drop-undefined-syms \
	--no-corpus-path --no-comp-dir-path --no-show-locs
abi: $(ABI_SO)
	$(ABIDW) --header-file client/abi.h --out-file $(srcdir)/client/lib/libforkclient.abi client/abi.so
	$(ABIDW) --header-file daemon/local/abi.h --out-file $(srcdir)/daemon/local/libforkpool.abi \
		daemon/local/abi.so
.PHONY: abi
EXTRA_DIST += client/lib/libforkclient.abi daemon/local/libforkpool.abi

forkdinclude_HEADERS += client/forkd/client.h client/forkd/client.hpp client/forkd/pool.h \
	client/forkd/pool.hpp
pkgconfig_DATA += client/lib/forkd-client.pc

# forkctl without its main(), as tests link it.
noinst_LTLIBRARIES += libforkctl.la
libforkctl_la_SOURCES =
include client/forkctl/local.mk
include client/forkctl/check/local.mk
include client/forkctl/top/local.mk
include client/forkctl/trace/local.mk
libforkctl_la_CPPFLAGS = $(AM_CPPFLAGS) -DFK_SBINDIR='"$(sbindir)"'
FORKCTL_CFLAGS = $(HWLOC_CFLAGS) $(JANSSON_CFLAGS) $(NCURSES_CFLAGS)
FORKCTL_LIBS = libforkctl.la $(CLIENT_LIBS) libcommon.la $(FORKCTL_SYSTEM_LIBS)
FORKCTL_SYSTEM_LIBS = $(HWLOC_LIBS) $(JANSSON_LIBS) $(NCURSES_LIBS)
libforkctl_la_CFLAGS = $(AM_CFLAGS) $(FORKCTL_CFLAGS)

bin_PROGRAMS += forkctl
forkctl_SOURCES = client/forkctl/forkctl.c
forkctl_CFLAGS = $(AM_CFLAGS) $(FORKCTL_CFLAGS)
forkctl_LDADD = $(FORKCTL_LIBS)
