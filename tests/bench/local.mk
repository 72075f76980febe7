# SPDX-License-Identifier: MIT
# The programs of `make bench`. They are built by rules of their own, not as automake programs:
# three of them differ from the others in the compiler or in one flag, all must have the same
# flags whatever CFLAGS, hardening and sanitizers the tree is built with, and a plain `make` must
# not need a C++ compiler. A peer whose package is missing is not built, and the driver names it.
#
#   make bench BENCH_FLAGS=--quick

BENCH_CPPFLAGS = -D_GNU_SOURCE -I$(top_srcdir)/daemon $(NETTLE_CFLAGS)
BENCH_CFLAGS = -g -O3 -Wall -Wextra -pthread
BENCH_CC = $(CC) -std=gnu11 $(BENCH_CPPFLAGS) $(BENCH_CFLAGS)
BENCH_LIBS = $(NETTLE_LIBS) -lm
BENCH_FLAGS =

BENCH_H = \
	tests/bench/peer.h \
	tests/bench/work.h \
	daemon/modules/uts_tree.h

BENCH_COMMON = tests/bench/peer.o tests/bench/uts_tree.o

BENCH_BUILT = \
	tests/bench/bench_forkd \
	tests/bench/control_pingpong \
	tests/bench/peer_serial \
	tests/bench/peer_serial_noinline \
	tests/bench/peer_serial_call

if HAVE_TBB
BENCH_BUILT += tests/bench/peer_tbb
endif
if HAVE_LIBOMP
BENCH_BUILT += tests/bench/peer_libomp
endif
if HAVE_LIBGOMP
BENCH_BUILT += tests/bench/peer_libgomp
endif

# forkd's side is a client like any other, in the tree's own flags: it only submits. The daemon it
# starts is the one of this build, so is every module; counted/ has some of them once more, with
# forks counted.
EXTRA_PROGRAMS += tests/bench/bench_forkd
tests_bench_bench_forkd_SOURCES = \
	daemon/modules/uts_tree.c \
	daemon/modules/uts_tree.h \
	tests/bench/bench_forkd.c \
	tests/bench/bench_pool.c \
	tests/bench/bench_pool.h \
	tests/bench/peer.c \
	tests/bench/peer.h \
	tests/bench/work.h
tests_bench_bench_forkd_CFLAGS = $(AM_CFLAGS) $(NETTLE_CFLAGS)
tests_bench_bench_forkd_LDADD = $(CLIENT_LIBS) $(NETTLE_LIBS) -lm

EXTRA_LTLIBRARIES += tests/modules/counted/fib.la tests/modules/counted/flat.la
tests_modules_counted_fib_la_SOURCES = daemon/modules/fib.c
tests_modules_counted_fib_la_CPPFLAGS = $(AM_CPPFLAGS) -DFK_COUNT_FORKS
tests_modules_counted_fib_la_CFLAGS = $(MODULE_CFLAGS)
tests_modules_counted_fib_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_counted_flat_la_SOURCES = tests/modules/flat.c
tests_modules_counted_flat_la_CPPFLAGS = $(AM_CPPFLAGS) -DFK_COUNT_FORKS
tests_modules_counted_flat_la_CFLAGS = $(MODULE_CFLAGS)
tests_modules_counted_flat_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)

BENCH_MODULES = \
	tests/modules/deep.la \
	tests/modules/flat.la \
	tests/modules/null.la \
	tests/modules/counted/fib.la \
	tests/modules/counted/flat.la

dist_noinst_SCRIPTS += tests/bench/bench
EXTRA_DIST += \
	$(BENCH_H) \
	daemon/modules/uts_tree.c \
	tests/bench/control_pingpong.c \
	tests/bench/peer.c \
	tests/bench/peer_omp.c \
	tests/bench/peer_serial.c \
	tests/bench/peer_tbb.cc
CLEANFILES += $(BENCH_COMMON) $(BENCH_BUILT) $(EXTRA_LTLIBRARIES) bench.json bench.txt

BENCH_DIR = @mkdir -p tests/bench

tests/bench/uts_tree.o: daemon/modules/uts_tree.c $(BENCH_H)
	$(BENCH_DIR)
	$(AM_V_CC)$(BENCH_CC) -c -o $@ $(top_srcdir)/daemon/modules/uts_tree.c

tests/bench/peer.o: tests/bench/peer.c $(BENCH_H)
	$(BENCH_DIR)
	$(AM_V_CC)$(BENCH_CC) -c -o $@ $(top_srcdir)/tests/bench/peer.c

tests/bench/control_pingpong: tests/bench/control_pingpong.c
	$(BENCH_DIR)
	$(AM_V_CCLD)$(BENCH_CC) -o $@ $(top_srcdir)/tests/bench/control_pingpong.c

tests/bench/peer_serial: tests/bench/peer_serial.c $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(BENCH_CC) -DPEER_NAME='"serial"' \
		-o $@ $(top_srcdir)/tests/bench/peer_serial.c $(BENCH_COMMON) $(BENCH_LIBS)

tests/bench/peer_serial_noinline: tests/bench/peer_serial.c $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(BENCH_CC) -fno-inline -DPEER_NAME='"serial-noinline"' \
		-o $@ $(top_srcdir)/tests/bench/peer_serial.c $(BENCH_COMMON) $(BENCH_LIBS)

tests/bench/peer_serial_call: tests/bench/peer_serial.c $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(BENCH_CC) -fno-inline -fno-optimize-sibling-calls \
		-DPEER_NAME='"serial-call"' \
		-o $@ $(top_srcdir)/tests/bench/peer_serial.c $(BENCH_COMMON) $(BENCH_LIBS)

tests/bench/peer_tbb: tests/bench/peer_tbb.cc $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(CXX) -std=gnu++17 $(BENCH_CPPFLAGS) $(BENCH_CFLAGS) \
		-o $@ $(top_srcdir)/tests/bench/peer_tbb.cc $(BENCH_COMMON) -ltbb $(BENCH_LIBS)

tests/bench/peer_libomp: tests/bench/peer_omp.c $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(CLANG) -std=gnu11 $(BENCH_CPPFLAGS) $(BENCH_CFLAGS) -fopenmp=libomp \
		-DPEER_NAME='"libomp"' \
		-o $@ $(top_srcdir)/tests/bench/peer_omp.c $(BENCH_COMMON) $(BENCH_LIBS)

tests/bench/peer_libgomp: tests/bench/peer_omp.c $(BENCH_H) $(BENCH_COMMON)
	$(AM_V_CCLD)$(GCC_OPENMP) -std=gnu11 $(BENCH_CPPFLAGS) $(BENCH_CFLAGS) -fopenmp \
		-DPEER_NAME='"libgomp"' \
		-o $@ $(top_srcdir)/tests/bench/peer_omp.c $(BENCH_COMMON) $(BENCH_LIBS)

bench-programs: $(BENCH_BUILT) $(BENCH_MODULES)

# A second make, or two of them would build the libraries at the same time under -j.
bench-run: all
	$(MAKE) $(AM_MAKEFLAGS) bench-programs
	$(PYTHON3) $(top_srcdir)/tests/bench/bench --dir tests/bench --json bench.json \
		--text bench.txt $(BENCH_FLAGS)

BENCH_TARGETS += bench-run
.PHONY: bench-programs bench-run
