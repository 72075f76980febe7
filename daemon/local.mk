# SPDX-License-Identifier: MIT
# The two halves of forkd, libmanager and libpool, and libhost, which both use: everything except
# main.c, so that tests can link them. libengine (core, engine, fiber) is the part of libpool that
# must not need the rest. libprocess is the part for the machine's pool, which is a process of its
# own: a pool in a program (daemon/local) does not have it. libmachine is the part of daemon/host
# that needs hwloc. Each directory lists its sources; contrib/guide/architecture.md has the rules of
# use. The fork path of the pool has no stack protector, like the modules.

noinst_LTLIBRARIES += \
	libengine.la libhost.la libmachine.la libmanager.la libpool.la libprocess.la

libmachine_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
libmanager_la_CFLAGS = $(AM_CFLAGS) $(LIBURING_CFLAGS) $(LIBSYSTEMD_CFLAGS) $(HWLOC_CFLAGS)
libengine_la_SOURCES =
libengine_la_CFLAGS = -O3 $(COMMON_CFLAGS) -fno-stack-protector $(LIBURING_CFLAGS)
libpool_la_SOURCES =
libpool_la_CFLAGS = $(libengine_la_CFLAGS)
libpool_la_LIBADD = libengine.la
libprocess_la_SOURCES =
libprocess_la_CFLAGS = $(libengine_la_CFLAGS)

include daemon/host/local.mk
include daemon/core/local.mk
include daemon/engine/local.mk
include daemon/fiber/local.mk
include daemon/sched/local.mk
include daemon/jobs/local.mk
include daemon/pool/local.mk
include daemon/local/local.mk
include daemon/manager/local.mk

sbin_PROGRAMS += forkd
forkd_SOURCES = daemon/main.c
# Only modules call these: without -u the linker leaves their files in the library.
forkd_LDFLAGS = $(COMMON_LDFLAGS) $(PIE_LDFLAGS) $(FK_RT_LDFLAGS) \
	-Wl,-u,fk_rt_counter_wait -Wl,-u,fk_rt_fiber_run -Wl,-u,fk_rt_fiber_spawn
forkd_LDADD = $(DAEMON_LIBS)

MANAGER_LIBS = libmanager.la $(LIBURING_LIBS) $(LIBSYSTEMD_LIBS)
POOL_LIBS = libprocess.la libpool.la $(LIBURING_LIBS) -ldl
# Reads the machine by hwloc.
MACHINE_LIBS = libmachine.la libhost.la $(HWLOC_LIBS)
DAEMON_LIBS = $(MANAGER_LIBS) $(POOL_LIBS) $(MACHINE_LIBS) $(OPTIONS_LIBS) libshm.la libcommon.la

# The modules are built in daemon/modules/.libs, the module-dir of a forkd that runs from the build
# tree.
module_LTLIBRARIES += \
	daemon/modules/array.la \
	daemon/modules/compress.la \
	daemon/modules/fib.la \
	daemon/modules/hash.la \
	daemon/modules/image.la \
	daemon/modules/integrate.la \
	daemon/modules/matmul.la \
	daemon/modules/nqueens.la \
	daemon/modules/search.la \
	daemon/modules/sort.la \
	daemon/modules/uts.la

daemon_modules_array_la_SOURCES = daemon/modules/array.c daemon/modules/array.h
daemon_modules_array_la_CFLAGS = $(MODULE_CFLAGS)
daemon_modules_array_la_LDFLAGS = $(MODULE_LDFLAGS)
daemon_modules_array_la_LIBADD = -lm

daemon_modules_compress_la_SOURCES = \
	daemon/modules/compress.c \
	daemon/modules/compress.h \
	daemon/modules/compress_gzip.c \
	daemon/modules/compress_zstd.c \
	daemon/modules/spare.h
daemon_modules_compress_la_CFLAGS = $(MODULE_CFLAGS) $(ZSTD_CFLAGS) $(DEFLATE_CFLAGS) $(ZLIB_CFLAGS)
daemon_modules_compress_la_LDFLAGS = $(MODULE_LDFLAGS)
daemon_modules_compress_la_LIBADD = $(ZSTD_LIBS) $(DEFLATE_LIBS) $(ZLIB_LIBS)

daemon_modules_fib_la_SOURCES = daemon/modules/fib.c
daemon_modules_fib_la_CFLAGS = $(MODULE_CFLAGS)
daemon_modules_fib_la_LDFLAGS = $(MODULE_LDFLAGS)

daemon_modules_hash_la_SOURCES = daemon/modules/hash.c
daemon_modules_hash_la_CFLAGS = $(MODULE_CFLAGS) $(XXHASH_CFLAGS) $(NETTLE_CFLAGS)
daemon_modules_hash_la_LDFLAGS = $(MODULE_LDFLAGS)
daemon_modules_hash_la_LIBADD = $(NETTLE_LIBS)

daemon_modules_image_la_SOURCES = daemon/modules/image.c daemon/modules/spare.h
daemon_modules_image_la_CFLAGS = $(MODULE_CFLAGS)
daemon_modules_image_la_LDFLAGS = $(MODULE_LDFLAGS)
daemon_modules_image_la_LIBADD = -lm

daemon_modules_integrate_la_SOURCES = daemon/modules/integrate.c
daemon_modules_integrate_la_CFLAGS = $(MODULE_CFLAGS)
daemon_modules_integrate_la_LDFLAGS = $(MODULE_LDFLAGS)
daemon_modules_integrate_la_LIBADD = -lm

daemon_modules_matmul_la_SOURCES = daemon/modules/matmul.c daemon/modules/spare.h
daemon_modules_matmul_la_CFLAGS = $(MODULE_CFLAGS)
daemon_modules_matmul_la_LDFLAGS = $(MODULE_LDFLAGS)

daemon_modules_nqueens_la_SOURCES = daemon/modules/nqueens.c
daemon_modules_nqueens_la_CFLAGS = $(MODULE_CFLAGS)
daemon_modules_nqueens_la_LDFLAGS = $(MODULE_LDFLAGS)

daemon_modules_search_la_SOURCES = daemon/modules/search.c daemon/modules/spare.h
daemon_modules_search_la_CFLAGS = $(MODULE_CFLAGS)
daemon_modules_search_la_LDFLAGS = $(MODULE_LDFLAGS)

daemon_modules_sort_la_SOURCES = daemon/modules/sort.c daemon/modules/array.h
daemon_modules_sort_la_CFLAGS = $(MODULE_CFLAGS)
daemon_modules_sort_la_LDFLAGS = $(MODULE_LDFLAGS)

daemon_modules_uts_la_SOURCES = \
	daemon/modules/uts.c \
	daemon/modules/uts_range.h \
	daemon/modules/uts_tree.c \
	daemon/modules/uts_tree.h
daemon_modules_uts_la_CFLAGS = $(MODULE_CFLAGS) $(NETTLE_CFLAGS)
daemon_modules_uts_la_LDFLAGS = $(MODULE_LDFLAGS)
daemon_modules_uts_la_LIBADD = $(NETTLE_LIBS) -lm

# Only the .so of a module is installed.
install-data-hook:
	rm -f $(patsubst %,'$(DESTDIR)$(moduledir)/%',$(notdir $(module_LTLIBRARIES)))
uninstall-hook:
	rm -f $(patsubst %,'$(DESTDIR)$(moduledir)/%',$(notdir $(module_LTLIBRARIES:.la=.so)))

forkdinclude_HEADERS += \
	daemon/forkd/algorithm.h \
	daemon/forkd/fiber.h \
	daemon/forkd/frame.h \
	daemon/forkd/races.h \
	daemon/forkd/races_main.h \
	daemon/forkd/task.h

forkdalgorithmdir = $(forkdincludedir)/algorithm
forkdalgorithm_HEADERS = \
	daemon/forkd/algorithm/base.h \
	daemon/forkd/algorithm/each.h \
	daemon/forkd/algorithm/export.h \
	daemon/forkd/algorithm/fold.h \
	daemon/forkd/algorithm/invoke.h \
	daemon/forkd/algorithm/scan.h \
	daemon/forkd/algorithm/sort.h

pkgconfig_DATA += daemon/forkd-module.pc
