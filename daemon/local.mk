# SPDX-License-Identifier: MIT
# libmanager and libpool: the two halves of forkd, everything but main.c, so that tests can link
# them. The pool's way of a fork has no stack protector, like the modules.

noinst_LTLIBRARIES += libmanager.la libpool.la libtopology.la

libmanager_la_SOURCES = \
	daemon/adopt.c \
	daemon/adopt.h \
	daemon/budget.c \
	daemon/budget.h \
	daemon/ceiling.c \
	daemon/ceiling.h \
	daemon/cgroup.c \
	daemon/cgroup.h \
	daemon/fronts.c \
	daemon/fronts.h \
	daemon/gate.c \
	daemon/gate.h \
	daemon/greet.c \
	daemon/greet.h \
	daemon/hangup.c \
	daemon/hangup.h \
	daemon/listener.c \
	daemon/listener.h \
	daemon/loop.c \
	daemon/loop.h \
	daemon/loop_fault.c \
	daemon/loop_fault.h \
	daemon/manager.c \
	daemon/manager.h \
	daemon/manager_end.c \
	daemon/manager_internal.h \
	daemon/manager_pool.c \
	daemon/manager_reload.c \
	daemon/manager_status.c \
	daemon/notify.c \
	daemon/notify.h \
	daemon/offspring.c \
	daemon/offspring.h \
	daemon/pages.c \
	daemon/pages.h \
	daemon/poolproc.c \
	daemon/poolproc.h \
	daemon/postmortem.c \
	daemon/postmortem.h \
	daemon/pulse.c \
	daemon/pulse.h \
	daemon/quarantine.c \
	daemon/quarantine.h \
	daemon/quota.c \
	daemon/quota.h \
	daemon/recover.c \
	daemon/recover.h \
	daemon/rehearse.c \
	daemon/rehearse.h \
	daemon/rights.c \
	daemon/rights.h \
	daemon/roster.c \
	daemon/roster.h \
	daemon/runas.c \
	daemon/runas.h \
	daemon/segments.c \
	daemon/segments.h \
	daemon/session.c \
	daemon/session.h \
	daemon/session_adopt.c \
	daemon/session_ask.c \
	daemon/session_end.c \
	daemon/session_internal.h \
	daemon/session_line.c \
	daemon/session_peer.c \
	daemon/session_table.c \
	daemon/session_table.h \
	daemon/session_trace.c \
	daemon/settings.c \
	daemon/settings.h \
	daemon/store.c \
	daemon/store.h \
	daemon/tenants.c \
	daemon/tenants.h \
	daemon/times.h \
	daemon/thread_states.c \
	daemon/thread_states.h \
	daemon/trial.c \
	daemon/trial.h \
	daemon/userns.c \
	daemon/userns.h
libmanager_la_CFLAGS = $(AM_CFLAGS) $(LIBURING_CFLAGS) $(LIBSYSTEMD_CFLAGS) $(HWLOC_CFLAGS)

libpool_la_SOURCES = \
	daemon/account.h \
	daemon/alarm.c \
	daemon/alarm.h \
	daemon/alloc.c \
	daemon/alloc.h \
	daemon/allowance.c \
	daemon/allowance.h \
	daemon/aside.c \
	daemon/aside.h \
	daemon/attend.h \
	daemon/bell.c \
	daemon/bell.h \
	daemon/channel.c \
	daemon/channel.h \
	daemon/confine.c \
	daemon/confine.h \
	daemon/deadline.c \
	daemon/deadline.h \
	daemon/deque.h \
	daemon/dispatcher.c \
	daemon/dispatcher.h \
	daemon/drain.c \
	daemon/drain.h \
	daemon/fair.c \
	daemon/fair.h \
	daemon/fair_claim.c \
	daemon/fairq.c \
	daemon/fairq.h \
	daemon/fault.c \
	daemon/fault.h \
	daemon/fiber.c \
	daemon/fiber.h \
	daemon/fiber_berth.c \
	daemon/fiber_berth.h \
	daemon/fiber_block.c \
	daemon/fiber_call.c \
	daemon/fiber_counter.h \
	daemon/fiber_family.c \
	daemon/fiber_io.c \
	daemon/fiber_local.c \
	daemon/fiber_memory.c \
	daemon/fiber_memory.h \
	daemon/fiber_park.h \
	daemon/fiber_stack.c \
	daemon/fiber_stack.h \
	daemon/fiber_time.c \
	daemon/fiber_wait.c \
	daemon/halt.c \
	daemon/halt.h \
	daemon/hang.c \
	daemon/hang.h \
	daemon/inbox.c \
	daemon/inbox.h \
	daemon/intake.c \
	daemon/intake.h \
	daemon/intake_turn.c \
	daemon/join.h \
	daemon/layout.c \
	daemon/layout.h \
	daemon/lazy.h \
	daemon/locate.c \
	daemon/locate.h \
	daemon/module.c \
	daemon/mark.h \
	daemon/module.h \
	daemon/park.c \
	daemon/park.h \
	daemon/permit.c \
	daemon/permit.h \
	daemon/policy.h \
	daemon/poller.c \
	daemon/poller.h \
	daemon/pool.c \
	daemon/pool.h \
	daemon/probe.h \
	daemon/profile.c \
	daemon/profile.h \
	daemon/record.c \
	daemon/record.h \
	daemon/registry.c \
	daemon/registry.h \
	daemon/requeue.c \
	daemon/requeue.h \
	daemon/root.c \
	daemon/root.h \
	daemon/sample.c \
	daemon/sample.h \
	daemon/shake.c \
	daemon/shake.h \
	daemon/spin.h \
	daemon/stack.c \
	daemon/stack.h \
	daemon/starved.c \
	daemon/starved.h \
	daemon/strand.c \
	daemon/strand.h \
	daemon/strand_attend.c \
	daemon/strand_hold.c \
	daemon/strand_internal.h \
	daemon/strand_kept.c \
	daemon/strand_part.c \
	daemon/strand_unwind.c \
	daemon/switch.c \
	daemon/switch.h \
	daemon/symbols.c \
	daemon/symbols.h \
	daemon/trace.c \
	daemon/trace.h \
	daemon/trim.c \
	daemon/trim.h \
	daemon/vacate.c \
	daemon/vacate.h \
	daemon/verdict.c \
	daemon/verdict.h \
	daemon/verdict_word.h \
	daemon/vheap.h \
	daemon/vtime.c \
	daemon/vtime.h \
	daemon/worker.c \
	daemon/worker.h \
	daemon/worker_internal.h \
	daemon/worker_wake.c
if SWITCH_X86_64
libpool_la_SOURCES += daemon/switch_x86_64.S
endif
if SWITCH_AARCH64
libpool_la_SOURCES += daemon/switch_aarch64.S
endif
if SWITCH_UCONTEXT
libpool_la_SOURCES += daemon/switch_ucontext.c
endif
libpool_la_CFLAGS = -O3 $(COMMON_CFLAGS) -fno-stack-protector $(LIBURING_CFLAGS) $(HWLOC_CFLAGS)

# Both processes look at the machine through the same unit.
libtopology_la_SOURCES = \
	daemon/topology.c \
	daemon/topology.h \
	daemon/victims.c \
	daemon/victims.h
libtopology_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)

sbin_PROGRAMS += forkd
forkd_SOURCES = daemon/main.c
forkd_LDFLAGS = $(COMMON_LDFLAGS) $(PIE_LDFLAGS) $(FK_RT_LDFLAGS)
forkd_LDADD = $(DAEMON_LIBS)

MANAGER_LIBS = libmanager.la $(LIBURING_LIBS) $(LIBSYSTEMD_LIBS)
POOL_LIBS = libpool.la $(LIBURING_LIBS) $(HWLOC_LIBS) -ldl
DAEMON_LIBS = $(MANAGER_LIBS) $(POOL_LIBS) libtopology.la $(OPTIONS_LIBS) libshm.la libcommon.la

# The modules are built in a folder of their own, daemon/modules/.libs, which a forkd that runs
# from the build tree takes as its module-dir.
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

daemon_modules_uts_la_SOURCES = daemon/modules/uts.c daemon/modules/uts_tree.c daemon/modules/uts_tree.h
daemon_modules_uts_la_CFLAGS = $(MODULE_CFLAGS) $(NETTLE_CFLAGS)
daemon_modules_uts_la_LDFLAGS = $(MODULE_LDFLAGS)
daemon_modules_uts_la_LIBADD = $(NETTLE_LIBS) -lm

# An installed module is its .so alone.
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
	daemon/forkd/algorithm/fold.h \
	daemon/forkd/algorithm/invoke.h \
	daemon/forkd/algorithm/scan.h \
	daemon/forkd/algorithm/sort.h

pkgconfig_DATA += daemon/forkd-module.pc
