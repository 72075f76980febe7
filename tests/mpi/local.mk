# SPDX-License-Identifier: MIT
# The programs of contrib/mpi.
SCRIPT_TESTS += tests/mpi/check-mpi
EXTRA_DIST += tests/mpi/lsan.supp
