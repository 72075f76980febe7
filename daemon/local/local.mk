# SPDX-License-Identifier: MIT
# libforkpool: a pool in the user's own program, with the client library.

noinst_LTLIBRARIES += liblocal.la
liblocal_la_SOURCES = \
	daemon/local/local_client.c \
	daemon/local/local_pool.c \
	daemon/local/local_pool.h \
	daemon/local/observers.c \
	daemon/local/observers.h \
	daemon/local/parallel.c \
	daemon/local/program_tasks.c \
	daemon/local/program_tasks.h \
	daemon/local/sort.c
liblocal_la_CFLAGS = $(libengine_la_CFLAGS)

lib_LTLIBRARIES += libforkpool.la
libforkpool_la_SOURCES =
libforkpool_la_LIBADD = liblocal.la libclientcore.la libpool.la libhost.la libshm.la \
	libcommon.la $(LIBURING_LIBS) -ldl
# -z nodelete: dlclose() does not unmap the code that workers run.
libforkpool_la_LDFLAGS = -version-info 1:0:0 $(COMMON_LDFLAGS) -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/daemon/local/libforkpool.map
EXTRA_libforkpool_la_DEPENDENCIES = daemon/local/libforkpool.map
EXTRA_DIST += daemon/local/libforkpool.map
pkgconfig_DATA += daemon/local/forkd-pool.pc
