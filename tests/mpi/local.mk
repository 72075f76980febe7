# SPDX-License-Identifier: MIT
# Work stealing between ranks, with a model of MPI; and the programs of contrib/mpi.
if HAVE_MPI
PROGRAM_TESTS += tests/mpi/check_bulk_steal
endif
tests_mpi_check_bulk_steal_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_mpi_check_bulk_steal_LDADD = libcommon.la $(MPI_LIBS) $(CHECK_LIBS)
SCRIPT_TESTS += tests/mpi/check-mpi
EXTRA_DIST += tests/mpi/lsan.supp
