# SPDX-License-Identifier: MIT
# Programs with MPI between processes and a pool of forkd within each: contrib/mpi/README.md.
if HAVE_MPI
noinst_PROGRAMS += contrib/mpi/mpi_matmul contrib/mpi/mpi_uts
noinst_LTLIBRARIES += contrib/mpi/explore.la
endif
MPI_LINK = $(COMMON_LDFLAGS) $(PIE_LDFLAGS) -no-install
contrib_mpi_mpi_matmul_SOURCES = contrib/mpi/mpi_matmul.c contrib/mpi/rank.c contrib/mpi/rank.h
contrib_mpi_mpi_matmul_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) \
	-DMATMUL_MODULE='"$(abs_top_builddir)/daemon/modules/.libs/matmul.so"'
contrib_mpi_mpi_matmul_LDFLAGS = $(MPI_LINK)
contrib_mpi_mpi_matmul_LDADD = libforkpool.la $(MPI_LIBS)
contrib_mpi_mpi_uts_SOURCES = \
	contrib/mpi/bulk_steal.c \
	contrib/mpi/bulk_steal.h \
	contrib/mpi/explore.h \
	contrib/mpi/mpi_uts.c \
	contrib/mpi/rank.c \
	contrib/mpi/rank.h \
	daemon/modules/uts_tree.c \
	daemon/modules/uts_tree.h
contrib_mpi_mpi_uts_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) $(NETTLE_CFLAGS) \
	-DEXPLORE_MODULE='"$(abs_top_builddir)/contrib/mpi/.libs/explore.so"'
contrib_mpi_mpi_uts_LDFLAGS = $(MPI_LINK)
contrib_mpi_mpi_uts_LDADD = libforkpool.la $(MPI_LIBS) $(NETTLE_LIBS) -lm

# noinst_LTLIBRARIES have no .so without -rpath.
contrib_mpi_explore_la_SOURCES = \
	contrib/mpi/explore.c \
	contrib/mpi/explore.h \
	daemon/modules/uts_range.h \
	daemon/modules/uts_tree.c \
	daemon/modules/uts_tree.h
contrib_mpi_explore_la_CFLAGS = $(MODULE_CFLAGS) $(NETTLE_CFLAGS)
contrib_mpi_explore_la_LDFLAGS = $(MODULE_LDFLAGS) -rpath $(moduledir)
contrib_mpi_explore_la_LIBADD = $(NETTLE_LIBS) -lm
dist_noinst_SCRIPTS += contrib/mpi/measure
EXTRA_DIST += contrib/mpi/README.md
