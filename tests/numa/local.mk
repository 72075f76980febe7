# SPDX-License-Identifier: MIT
# On machines with NUMA nodes, made by qemu: see tests/numa/numa. These programs have results only
# on such machines; tests/cli/check-numa is the short form in `make check`.
#
#	make numa			two and three nodes
#	make numa NUMA_NODES=2

check_PROGRAMS += tests/numa/check_numa tests/numa/numa_pages tests/numa/numa_steals
tests_numa_numa_pages_SOURCES = tests/numa/numa_pages.c tests/numa/numa_pages.h
tests_numa_numa_pages_LDADD =
tests_numa_numa_steals_LDADD = $(MACHINE_LIBS) libcommon.la -lm

dist_noinst_SCRIPTS += tests/numa/guest tests/numa/numa
NUMA_NODES =

numa: all
	$(MAKE) $(AM_MAKEFLAGS) tests/numa/check_numa$(EXEEXT) tests/numa/numa_pages$(EXEEXT) \
		tests/numa/numa_steals$(EXEEXT)
	$(srcdir)/tests/numa/numa . numa $(NUMA_NODES)

clean-numa:
	rm -rf numa
clean-local: clean-numa
.PHONY: numa clean-numa
