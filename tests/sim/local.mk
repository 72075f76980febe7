# SPDX-License-Identifier: MIT
# The scale model: see tests/sim/sim.h; tests/sim/check_sim is a short form. `make sim` measures
# costs on this machine, compares the model with real runs, and simulates other machines. Tables and
# plots are in sim/ of the build tree. tests/sim/results has the summary of a complete run.
#
#   make sim SIM_FLAGS=--quick

if !TSAN
check_LTLIBRARIES += tests/sim/libsim.la
endif
tests_sim_libsim_la_SOURCES = \
	daemon/modules/uts_tree.c \
	daemon/modules/uts_tree.h \
	tests/bench/work.h \
	tests/sim/costs.c \
	tests/sim/costs.def \
	tests/sim/costs.h \
	tests/sim/dag.c \
	tests/sim/dag.h \
	tests/sim/machine.c \
	tests/sim/machine.h \
	tests/sim/sim.c \
	tests/sim/sim.h \
	tests/sim/state.h \
	tests/sim/strands.c \
	tests/sim/thieves.c \
	tests/sim/tree.c \
	tests/sim/tree.h
tests_sim_libsim_la_CFLAGS = $(AM_CFLAGS) $(NETTLE_CFLAGS)
SIM_LIBS = tests/sim/libsim.la $(MACHINE_LIBS) libcommon.la $(NETTLE_LIBS) -lm
SIM_FLAGS =

PROGRAM_TESTS += tests/sim/check_sim
tests_sim_check_sim_LDADD = $(SIM_LIBS) $(CHECK_LIBS)

EXTRA_PROGRAMS += tests/sim/sim_costs tests/sim/sim_run
tests_sim_sim_run_SOURCES = tests/sim/sim_run.c
tests_sim_sim_run_LDADD = $(SIM_LIBS)
tests_sim_sim_costs_SOURCES = \
	tests/sim/costs.def \
	tests/sim/costs.h \
	tests/sim/sim_costs.c

dist_noinst_SCRIPTS += tests/sim/simulate
EXTRA_DIST += tests/sim/results/summary.svg tests/sim/results/summary.txt
CLEANFILES += tests/sim/sim_costs$(EXEEXT) tests/sim/sim_run$(EXEEXT)

sim: all
	$(MAKE) $(AM_MAKEFLAGS) tests/sim/sim_run$(EXEEXT) tests/sim/sim_costs$(EXEEXT) \
		tests/bench/bench_forkd$(EXEEXT) $(BENCH_MODULES)
	$(PYTHON3) $(top_srcdir)/tests/sim/simulate --build . --out sim $(SIM_FLAGS)

clean-sim:
	rm -rf sim
clean-local: clean-sim
.PHONY: sim clean-sim
