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
libforkpool_la_LDFLAGS = -version-info 1:0:0 -shared $(COMMON_LDFLAGS) -Wl,-z,nodelete \
	-Wl,--gc-sections \
	-Wl,--version-script=$(srcdir)/daemon/local/libforkpool.map
# libforkpool.a: one object, of which only the exported functions are global. A program can have
# functions of the same names as those within. libtool would not do that, so it makes no libforkpool.a.
poolarchivedir = $(libdir)
poolarchive_DATA = libforkpool.a
libforkpool.a: libforkpool.la
	$(AM_V_at)rm -f $@
	$(AM_V_AR)$(LD) -r --whole-archive -o daemon/local/libforkpool.o \
		$(addprefix .libs/,$(patsubst %.la,%.a,$(filter %.la,$(libforkpool_la_LIBADD)))) && \
		$(OBJCOPY) --localize-hidden -w -G 'fk_*' daemon/local/libforkpool.o && \
		$(AR) cr $@ daemon/local/libforkpool.o
CLEANFILES += libforkpool.a daemon/local/libforkpool.o
EXTRA_libforkpool_la_DEPENDENCIES = daemon/local/libforkpool.map
EXTRA_DIST += daemon/local/libforkpool.map
pkgconfig_DATA += daemon/local/forkd-pool.pc
