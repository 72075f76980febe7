# SPDX-License-Identifier: MIT
# The programs of `make bench`. They are not automake programs, but have their own rules: they have
# the same flags for any CFLAGS, hardening and sanitizers of the tree, and a plain `make` needs no
# C++ compiler. Three of them have another compiler or one other flag. A peer whose package is
# missing is not built, and the driver names it.
#
#   make bench BENCH_FLAGS=--quick

BENCH_CPPFLAGS = -D_GNU_SOURCE -I$(top_srcdir) -I$(top_srcdir)/daemon $(NETTLE_CFLAGS)
BENCH_CFLAGS = -g -O3 -Wall -Wextra -pthread
BENCH_C = -std=gnu11 $(BENCH_CPPFLAGS) $(BENCH_CFLAGS)
BENCH_CC = $(CC) $(BENCH_C)
BENCH_CXX = $(CXX) -std=gnu++17 $(BENCH_CPPFLAGS) $(BENCH_CFLAGS)
PEER_LIBS = $(BENCH_COMMON) $(NETTLE_LIBS) -lm
BENCH_FLAGS =

BENCH_H = \
	tests/bench/blocks.h \
	tests/bench/fiber_forkd.h \
	tests/bench/fiber_work.h \
	tests/bench/figures.h \
	tests/bench/kernel.h \
	tests/bench/peer.h \
	tests/bench/peer_run.h \
	tests/bench/work.h \
	daemon/modules/uts_tree.h

COMPOSE_H = \
	tests/bench/compose.h \
	tests/bench/compose_shared.h \
	tests/bench/work.h

# The members of bench_compose: these files, and one side each.
COMPOSE_COMMON = \
	tests/bench/compose_futex.o \
	tests/bench/compose_leaf.o \
	tests/bench/compose_member.o

BENCH_DEQUE_H = \
	daemon/core/deque.h \
	tests/bench/bulk.h \
	tests/bench/chase_lev.h

# Kernels of the Barcelona OpenMP Tasks Suite: tests/bench/bots/KERNEL_LIBRARY.
BOTS = \
	tests/bench/bots/sparselu \
	tests/bench/bots/strassen \
	tests/bench/bots/health \
	tests/bench/bots/floorplan
BOTS_SERIAL = $(BOTS:=_serial)
BOTS_FORKD = $(BOTS:=_forkd)
BOTS_FORKDXX = $(BOTS:=_forkdxx)
BOTS_LIBOMP = $(BOTS:=_libomp)
BOTS_LIBGOMP = $(BOTS:=_libgomp)
BOTS_COMMON = $(BOTS:=_work.o) tests/bench/bots/main.o

BENCH_COMMON = \
	tests/bench/figures.o \
	tests/bench/kernel.o \
	tests/bench/peer.o \
	tests/bench/peer_loops.o \
	tests/bench/peer_steps.o \
	tests/bench/uts_tree.o

BENCH_BUILT = \
	tests/bench/bench_deque \
	tests/bench/bench_forkd \
	tests/bench/bench_cancel \
	tests/bench/bench_compose \
	tests/bench/bench_hidden \
	tests/bench/bench_io \
	tests/bench/bench_jobs \
	tests/bench/bench_latency \
	tests/bench/bench_sleep \
	tests/bench/bench_steals \
	tests/bench/bench_switch \
	$(BOTS_FORKD) \
	$(BOTS_SERIAL) \
	tests/bench/compose_forkd \
	tests/bench/compose_local \
	tests/bench/control_pingpong \
	tests/bench/peer_local \
	tests/bench/peer_serial \
	tests/bench/peer_serial_noinline \
	tests/bench/peer_serial_call \
	tests/bench/peer_threads

if HAVE_CXX
BENCH_BUILT += $(BOTS_FORKDXX)
endif
if HAVE_TBB
BENCH_BUILT += tests/bench/compose_tbb tests/bench/peer_tbb
endif
if HAVE_BOOST_FIBER
BENCH_BUILT += tests/bench/peer_boost
endif
if HAVE_LIBOMP
BENCH_BUILT += $(BOTS_LIBOMP) tests/bench/compose_libomp tests/bench/peer_libomp
endif
if HAVE_LIBGOMP
BENCH_BUILT += $(BOTS_LIBGOMP) tests/bench/compose_libgomp tests/bench/peer_libgomp
endif

# Shared by the programs that start a forkd and are its clients.
EXTRA_LTLIBRARIES += tests/bench/libbench.la
tests_bench_libbench_la_SOURCES = \
	tests/bench/bench_pool.c \
	tests/bench/bench_pool.h \
	tests/bench/figures.c \
	tests/bench/figures.h
BENCH_CLIENT_LIBS = tests/bench/libbench.la $(CLIENT_LIBS) libcommon.la

# forkd's side is a client with the tree's own flags: it only submits. Daemon and modules are those
# of this build; counted/ has some modules again, with counts of forks.
EXTRA_PROGRAMS += tests/bench/bench_forkd
tests_bench_bench_forkd_SOURCES = \
	daemon/modules/uts_tree.c \
	daemon/modules/uts_tree.h \
	tests/bench/bench_forkd.c \
	tests/bench/blocks.h \
	tests/bench/kernel.c \
	tests/bench/kernel.h \
	tests/bench/peer.c \
	tests/bench/peer.h \
	tests/bench/peer_loops.c \
	tests/bench/peer_run.h \
	tests/bench/peer_steps.c \
	tests/bench/work.h
tests_bench_bench_forkd_CFLAGS = $(AM_CFLAGS) $(NETTLE_CFLAGS)
tests_bench_bench_forkd_LDADD = $(BENCH_CLIENT_LIBS) $(NETTLE_LIBS) -lm

# The same tasks in the program itself, with the flags of modules.
EXTRA_PROGRAMS += tests/bench/peer_local
tests_bench_peer_local_SOURCES = \
	daemon/modules/uts_tree.c \
	tests/bench/figures.c \
	tests/bench/kernel.c \
	tests/bench/peer.c \
	tests/bench/peer_local.c \
	tests/bench/peer_loops.c \
	tests/bench/peer_steps.c
tests_bench_peer_local_CFLAGS = $(MODULE_CFLAGS) $(NETTLE_CFLAGS)
tests_bench_peer_local_LDADD = libforkpool.la $(NETTLE_LIBS) -lm

EXTRA_PROGRAMS += \
	tests/bench/bench_cancel \
	tests/bench/bench_hidden \
	tests/bench/bench_io \
	tests/bench/bench_jobs \
	tests/bench/bench_latency \
	tests/bench/bench_steals
tests_bench_bench_cancel_LDADD = $(BENCH_CLIENT_LIBS)
tests_bench_bench_hidden_LDADD = $(BENCH_CLIENT_LIBS)
tests_bench_bench_io_SOURCES = tests/bench/bench_io.c tests/bench/io_work.h
tests_bench_bench_io_LDADD = $(BENCH_CLIENT_LIBS)
tests_bench_bench_jobs_LDADD = $(BENCH_CLIENT_LIBS)
tests_bench_bench_latency_LDADD = $(BENCH_CLIENT_LIBS)
tests_bench_bench_steals_LDADD = $(BENCH_CLIENT_LIBS)

# Through a Gearman server: the gateway of this build, and a worker with libgearman.
if HAVE_GEARMAN
BENCH_BUILT += tests/bench/bench_gearman
EXTRA_PROGRAMS += tests/bench/bench_gearman
tests_bench_bench_gearman_SOURCES = \
	tests/bench/bench_gearman.c \
	tests/bench/usage.c \
	tests/bench/usage.h \
	tests/gearman/protocol.c \
	tests/gearman/protocol.h
tests_bench_bench_gearman_CFLAGS = $(AM_CFLAGS) $(GEARMAN_CFLAGS)
tests_bench_bench_gearman_LDADD = libgearmangateway.la libgearmanpayload.la $(BENCH_CLIENT_LIBS) $(GEARMAN_LIBS)
endif

# Several processes at the same time. The side of forkd is a client with the flags of the tree.
EXTRA_PROGRAMS += tests/bench/bench_compose tests/bench/compose_forkd tests/bench/compose_local
tests_bench_bench_compose_SOURCES = \
	tests/bench/bench_compose.c \
	tests/bench/compose.h \
	tests/bench/compose_shared.h \
	tests/bench/usage.c \
	tests/bench/usage.h \
	tests/bench/work.h
tests_bench_bench_compose_LDADD = $(BENCH_CLIENT_LIBS)
tests_bench_compose_forkd_SOURCES = \
	tests/bench/compose.h \
	tests/bench/compose_forkd.c \
	tests/bench/compose_member.c \
	tests/bench/compose_shared.h
tests_bench_compose_forkd_LDADD = $(CLIENT_LIBS) libcommon.la
tests_bench_compose_local_SOURCES = tests/bench/compose.h tests/bench/compose_local.c
tests_bench_compose_local_LDADD = $(COMPOSE_COMMON) libforkpool.la

# The cost of a sleep and of a wake, by tenants and workers: the workers' code is compiled in.
EXTRA_PROGRAMS += tests/bench/bench_sleep
tests_bench_bench_sleep_CFLAGS = $(libpool_la_CFLAGS)

# The instructions of a fork: fib in a pool inside one process, under callgrind.
EXTRA_PROGRAMS += tests/bench/forkpath_rig

forkpath: all
	$(MAKE) $(AM_MAKEFLAGS) tests/bench/forkpath_rig$(EXEEXT)
	$(PYTHON3) $(top_srcdir)/tests/bench/forkpath --build . --source $(top_srcdir) \
		--flags '-include config.h $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(MODULE_CFLAGS)' \
		--text forkpath.txt
.PHONY: forkpath

# Modules of the benchmarks. They have their own directory, because tests/support/modules has broken
# ones.
BENCH_MODULES = \
	tests/bench/modules/busy.la \
	tests/bench/modules/deep.la \
	tests/bench/modules/fibers.la \
	tests/bench/modules/flat.la \
	tests/bench/modules/hidden.la \
	tests/bench/modules/io.la \
	tests/bench/modules/leaf.la \
	tests/bench/modules/loop.la \
	tests/bench/modules/matmul.la \
	tests/bench/modules/msort.la \
	tests/bench/modules/null.la \
	tests/bench/modules/steps.la \
	tests/bench/modules/counted/fib.la \
	tests/bench/modules/counted/flat.la
EXTRA_LTLIBRARIES += $(BENCH_MODULES)

tests/bench/modules/%.la: AM_CFLAGS = $(MODULE_CFLAGS)
tests_bench_modules_busy_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_bench_modules_deep_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_bench_modules_fibers_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_bench_modules_flat_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_bench_modules_hidden_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_bench_modules_io_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_bench_modules_leaf_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_bench_modules_matmul_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_bench_modules_msort_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_bench_modules_null_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_bench_modules_steps_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_bench_modules_counted_fib_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_bench_modules_counted_flat_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)

tests_bench_modules_deep_la_SOURCES = tests/support/modules/deep.c
tests_bench_modules_fibers_la_SOURCES = tests/bench/modules/fibers.c tests/bench/kernel.c tests/bench/kernel.h \
	tests/bench/fiber_forkd.h tests/bench/fiber_work.h
tests_bench_modules_fibers_la_CFLAGS = $(MODULE_CFLAGS)
tests_bench_modules_flat_la_SOURCES = tests/support/modules/flat.c
tests_bench_modules_io_la_SOURCES = tests/bench/modules/io.c tests/bench/io_work.h
tests_bench_modules_leaf_la_SOURCES = tests/bench/forkpath_leaf.c tests/bench/blocks.h
tests_bench_modules_leaf_la_CFLAGS = $(MODULE_CFLAGS)

# The leaf of all sides of bench_compose, with the same machine code. By an option of the linker:
# libtool warns about an object that it did not make.
tests_bench_modules_loop_la_LDFLAGS = \
	$(TEST_MODULE_LDFLAGS) \
	-Wl,tests/bench/compose_leaf.o
tests_bench_modules_loop_la_DEPENDENCIES = tests/bench/compose_leaf.o

tests_bench_modules_matmul_la_SOURCES = tests/bench/modules/matmul.c tests/bench/kernel.c tests/bench/kernel.h
tests_bench_modules_matmul_la_CFLAGS = $(MODULE_CFLAGS)
tests_bench_modules_null_la_SOURCES = tests/support/modules/null.c
tests_bench_modules_steps_la_SOURCES = tests/bench/modules/steps.c tests/bench/kernel.c tests/bench/kernel.h \
	tests/bench/fiber_forkd.h tests/bench/fiber_work.h
tests_bench_modules_steps_la_CFLAGS = $(MODULE_CFLAGS)
tests_bench_modules_counted_fib_la_SOURCES = daemon/modules/fib.c
tests_bench_modules_counted_fib_la_CPPFLAGS = $(AM_CPPFLAGS) -DFK_COUNT_FORKS
tests_bench_modules_counted_flat_la_SOURCES = tests/support/modules/flat.c
tests_bench_modules_counted_flat_la_CPPFLAGS = $(AM_CPPFLAGS) -DFK_COUNT_FORKS

dist_noinst_SCRIPTS += tests/bench/bench tests/bench/forkpath tests/bench/loaded tests/bench/modules-bench
BENCH_DRIVER = \
	tests/bench/driver/__init__.py \
	tests/bench/driver/alone.py \
	tests/bench/driver/bots.py \
	tests/bench/driver/compose.py \
	tests/bench/driver/deques.py \
	tests/bench/driver/fibers.py \
	tests/bench/driver/forkd.py \
	tests/bench/driver/gearman.py \
	tests/bench/driver/growth.py \
	tests/bench/driver/latency.py \
	tests/bench/driver/local.py \
	tests/bench/driver/pipes.py \
	tests/bench/driver/plot.py \
	tests/bench/driver/programs.py \
	tests/bench/driver/sleeps.py \
	tests/bench/driver/suite.py \
	tests/bench/driver/switches.py \
	tests/bench/driver/table.py
EXTRA_DIST += \
	$(BENCH_DRIVER) \
	$(BENCH_H) \
	$(COMPOSE_H) \
	daemon/modules/uts_tree.c \
	$(BOTS:=.c) \
	$(BOTS:=_forkd.c) \
	$(BOTS:=_forkd.cc) \
	$(BOTS:=_omp.c) \
	$(BOTS:=_work.c) \
	tests/bench/bots/bots.h \
	tests/bench/bots/main.c \
	tests/bench/bench_deque.c \
	tests/bench/bench_switch.c \
	tests/bench/bulk.h \
	tests/bench/chase_lev.h \
	tests/bench/compose_leaf.c \
	tests/bench/compose_omp.c \
	tests/bench/compose_tbb.cc \
	tests/bench/control_pingpong.c \
	tests/bench/forkpath_leaf.c \
	tests/bench/forkpath_serial.c \
	tests/bench/kernel.c \
	tests/bench/peer.c \
	tests/bench/peer_boost.cc \
	tests/bench/peer_loops.c \
	tests/bench/peer_omp.c \
	tests/bench/peer_serial.c \
	tests/bench/peer_steps.c \
	tests/bench/peer_tbb.cc \
	tests/bench/peer_threads.c
CLEANFILES += $(BENCH_COMMON) $(BOTS_COMMON) $(COMPOSE_COMMON) $(BENCH_BUILT) $(EXTRA_LTLIBRARIES) $(EXTRA_PROGRAMS) \
	bench.json bench.txt bench-modules.txt bench-report/report.html bench-report/*.svg \
	bench-report/composability.* bench-report/compose/* forkpath.txt

BENCH_DIR = @mkdir -p tests/bench

tests/bench/uts_tree.o: daemon/modules/uts_tree.c $(BENCH_H)
	$(BENCH_DIR)
	$(AM_V_CC)$(BENCH_CC) -c -o $@ $<

tests/bench/figures.o tests/bench/kernel.o tests/bench/peer.o tests/bench/peer_loops.o \
tests/bench/peer_steps.o: %.o: %.c $(BENCH_H)
	$(BENCH_DIR)
	$(AM_V_CC)$(BENCH_CC) -c -o $@ $<

tests/bench/compose_futex.o: shm/futex.c shm/futex.h
	$(BENCH_DIR)
	$(AM_V_CC)$(BENCH_CC) -c -o $@ $<

tests/bench/compose_leaf.o: tests/bench/compose_leaf.c $(COMPOSE_H)
	$(BENCH_DIR)
	$(AM_V_CC)$(BENCH_CC) -fPIC -c -o $@ $<

tests/bench/compose_member.o: tests/bench/compose_member.c $(COMPOSE_H)
	$(BENCH_DIR)
	$(AM_V_CC)$(BENCH_CC) -c -o $@ $<

tests/bench/bench_deque: tests/bench/bench_deque.c $(BENCH_DEQUE_H)
	$(BENCH_DIR)
	$(AM_V_CCLD)$(BENCH_CC) -o $@ $<

# The choice of configure, from config.h.
BENCH_SWITCH = \
	daemon/core/context_switch.c \
	daemon/core/context_switch.h \
	daemon/core/$(SWITCH_IMPLEMENTATION)
BENCH_SWITCH_CPPFLAGS = -include config.h
BENCH_SWITCH_LIBS =
if HAVE_FCONTEXT
BENCH_SWITCH_CPPFLAGS += -DHAVE_FCONTEXT
BENCH_SWITCH_LIBS += $(FCONTEXT_LIBS)
endif
tests/bench/bench_switch: tests/bench/bench_switch.c $(BENCH_SWITCH) tests/bench/figures.h
	$(BENCH_DIR)
	$(AM_V_CCLD)$(BENCH_CC) $(BENCH_SWITCH_CPPFLAGS) -o $@ $(filter %.c %.S,$^) $(BENCH_SWITCH_LIBS)

tests/bench/control_pingpong: tests/bench/control_pingpong.c tests/bench/figures.c tests/bench/figures.h
	$(BENCH_DIR)
	$(AM_V_CCLD)$(BENCH_CC) -o $@ $(filter %.c,$^)

tests/bench/peer_serial: tests/bench/peer_serial.c $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(BENCH_CC) -DPEER_NAME='"serial"' -o $@ $< $(PEER_LIBS)

tests/bench/peer_serial_noinline: tests/bench/peer_serial.c $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(BENCH_CC) -fno-inline -DPEER_NAME='"serial-noinline"' -o $@ $< $(PEER_LIBS)

tests/bench/peer_serial_call: tests/bench/peer_serial.c $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(BENCH_CC) -fno-inline -fno-optimize-sibling-calls \
		-DPEER_NAME='"serial-call"' -o $@ $< $(PEER_LIBS)

tests/bench/peer_tbb: tests/bench/peer_tbb.cc $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(BENCH_CXX) -o $@ $< -ltbb $(PEER_LIBS)

tests/bench/peer_boost: tests/bench/peer_boost.cc $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(BENCH_CXX) -o $@ $< $(BOOST_FIBER_LIBS) $(PEER_LIBS)

tests/bench/peer_threads: tests/bench/peer_threads.c $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(BENCH_CC) -o $@ $< $(PEER_LIBS)

tests/bench/peer_libomp: tests/bench/peer_omp.c $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(CLANG) $(BENCH_C) -fopenmp=libomp \
		-DPEER_NAME='"libomp"' -o $@ $< $(PEER_LIBS)

tests/bench/peer_libgomp: tests/bench/peer_omp.c $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(GCC_OPENMP) $(BENCH_C) -fopenmp \
		-DPEER_NAME='"libgomp"' -o $@ $< $(PEER_LIBS)

tests/bench/compose_tbb: tests/bench/compose_tbb.cc $(COMPOSE_H) $(COMPOSE_COMMON)
	$(AM_V_CCLD)$(BENCH_CXX) -o $@ $< $(COMPOSE_COMMON) -ltbb

tests/bench/compose_libomp: tests/bench/compose_omp.c $(COMPOSE_H) $(COMPOSE_COMMON)
	$(AM_V_CCLD)$(CLANG) $(BENCH_C) -fopenmp=libomp -o $@ $< $(COMPOSE_COMMON)

tests/bench/compose_libgomp: tests/bench/compose_omp.c $(COMPOSE_H) $(COMPOSE_COMMON)
	$(AM_V_CCLD)$(GCC_OPENMP) $(BENCH_C) -fopenmp -o $@ $< $(COMPOSE_COMMON)

# Functions begin at a cache line: their loops are aligned in the same way in all programs.
$(BOTS_COMMON): %.o: %.c tests/bench/bots/bots.h
	@$(MKDIR_P) tests/bench/bots
	$(AM_V_CC)$(BENCH_CC) -falign-functions=64 -c -o $@ $<

BOTS_LINK = -o $@ $^ -lm
$(BOTS_SERIAL): %_serial: %.c %_work.o tests/bench/bots/main.o
	$(AM_V_CCLD)$(BENCH_CC) $(BOTS_LINK)

BOTS_FORKD_LINK = -I$(top_srcdir)/client -o $@ $(filter-out %.la,$^) \
	-L.libs -lforkpool -Wl,-rpath,$(abs_top_builddir)/.libs -lm
$(BOTS_FORKD): %_forkd: %_forkd.c %_work.o tests/bench/bots/main.o libforkpool.la
	$(AM_V_CCLD)$(BENCH_CC) $(BOTS_FORKD_LINK)

$(BOTS_FORKDXX): %_forkdxx: %_forkd.cc %_work.o tests/bench/bots/main.o libforkpool.la
	$(AM_V_CCLD)$(BENCH_CXX) $(BOTS_FORKD_LINK)

$(BOTS_LIBOMP): %_libomp: %_omp.c %_work.o tests/bench/bots/main.o
	$(AM_V_CCLD)$(CLANG) $(BENCH_C) -fopenmp=libomp $(BOTS_LINK)

$(BOTS_LIBGOMP): %_libgomp: %_omp.c %_work.o tests/bench/bots/main.o
	$(AM_V_CCLD)$(GCC_OPENMP) $(BENCH_C) -fopenmp $(BOTS_LINK)

bench-programs: $(BENCH_BUILT) $(BENCH_MODULES)

# A second make: otherwise two of them would build the libraries at the same time with -j.
bench-run: all
	$(MAKE) $(AM_MAKEFLAGS) bench-programs
	$(PYTHON3) $(top_srcdir)/tests/bench/bench --dir tests/bench --json bench.json \
		--text bench.txt --report bench-report $(BENCH_FLAGS)

# Only composability, with long runs: the picture of contrib/guide/benchmarks.md, and its table in
# composability.md.
COMPOSE_REPORT = bench-report/compose
bench-compose: all
	$(MAKE) $(AM_MAKEFLAGS) bench-programs
	$(MKDIR_P) $(COMPOSE_REPORT)
	$(PYTHON3) $(top_srcdir)/tests/bench/bench --dir tests/bench --only compose --runs 5 \
		--json $(COMPOSE_REPORT)/bench.json --text $(COMPOSE_REPORT)/bench.txt \
		--report $(COMPOSE_REPORT) $(BENCH_FLAGS)
	cp $(COMPOSE_REPORT)/composability.svg $(top_srcdir)/contrib/guide/composability.svg

# The shipped modules, compared with the usual tools.
bench-modules: all
	$(PYTHON3) $(top_srcdir)/tests/bench/modules-bench --build . --text bench-modules.txt \
		$(BENCH_FLAGS)

BENCH_TARGETS += bench-run
.PHONY: bench-compose bench-modules bench-programs bench-run
