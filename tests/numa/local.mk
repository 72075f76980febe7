# SPDX-License-Identifier: MIT
# On machines with NUMA nodes, which qemu makes: see tests/numa/numa. These programs say something
# on such machines only; tests/check-numa is the short form that is part of `make check`.
#
#	make numa			two and three nodes
#	make numa NUMA_NODES=2

check_PROGRAMS += tests/check_numa tests/numa_pages tests/numa_steals
tests_numa_pages_SOURCES = tests/numa_pages.c tests/numa_pages.h
tests_numa_pages_LDADD =
tests_numa_steals_LDADD = libtopology.la $(HWLOC_LIBS) libcommon.la -lm

dist_noinst_SCRIPTS += tests/numa/guest tests/numa/numa
NUMA_NODES =

numa: all
	$(MAKE) $(AM_MAKEFLAGS) tests/check_numa$(EXEEXT) tests/numa_pages$(EXEEXT) \
		tests/numa_steals$(EXEEXT)
	$(srcdir)/tests/numa/numa . numa $(NUMA_NODES)

clean-numa:
	rm -rf numa
clean-local: clean-numa
.PHONY: numa clean-numa
