# SPDX-License-Identifier: MIT
# Each directory of tests lists its own in its local.mk: PROGRAM_TESTS and SCRIPT_TESTS, sorted by
# name. tests/tiers has the tiers of contrib/check that run each. The name of a program determines
# its source. A program is linked with all convenience libraries and with tests/support/libtests.la,
# unless its DIRECTORY_check_UNIT_SOURCES and _LDADD differ.

LDADD = tests/support/libtests.la liblocal.la libgearmanpayload.la $(DAEMON_LIBS) $(CLIENT_LIBS) \
	libcommon.la $(JANSSON_LIBS) $(CHECK_LIBS)

PROGRAM_TESTS =
SCRIPT_TESTS =

# Phony targets that take long and are never part of check. The local.mk of a directory adds its own.
BENCH_TARGETS =
SOAK_TARGETS =
FUZZ_TARGETS =
MODEL_TARGETS =

include tests/support/local.mk
include tests/source/local.mk
include tests/cli/local.mk
include tests/gearman/local.mk
include tests/unit/client/local.mk
include tests/unit/common/local.mk
include tests/unit/core/local.mk
include tests/unit/engine/local.mk
include tests/unit/fiber/local.mk
include tests/unit/forkctl/local.mk
include tests/unit/gearman/local.mk
include tests/unit/host/local.mk
include tests/unit/jobs/local.mk
include tests/unit/local/local.mk
include tests/unit/manager/local.mk
include tests/unit/modules/local.mk
include tests/unit/pool/local.mk
include tests/unit/sched/local.mk
include tests/unit/shm/local.mk
include tests/unit/support/local.mk
include tests/scenario/local.mk
include tests/soak/local.mk
include tests/bench/local.mk
include tests/fuzz/local.mk
include tests/model/local.mk
include tests/mpi/local.mk
include tests/numa/local.mk
include tests/sim/local.mk

dist_check_SCRIPTS += $(SCRIPT_TESTS)
check_PROGRAMS += $(PROGRAM_TESTS)
TESTS += $(SCRIPT_TESTS) $(PROGRAM_TESTS)
$(check_PROGRAMS): private LIBTOOL = $(SHELL) $(srcdir)/tests/support/link
dist_noinst_SCRIPTS += tests/support/link

# The tests of one tier, longest first, and the programs that they need:
#
#	make check TESTS="$(make -s tier-tests TIER=asan)" \
#		check_PROGRAMS="$(make -s tier-programs TIER=asan)"
#
# With CHECK_ALSO=check-sources the compiler also reads the sources of the other programs. It generates
# no code for them.
TIER =
TIER_LIST = sort -k 2,2nr $(srcdir)/tests/tiers | awk -v tier='$(TIER)'
TIER_RUNS = $(shell $(TIER_LIST) '{ for (i = 3; i <= NF; i++) if ($$i == tier) print $$1 }')
TIER_NEEDS = $(shell $(TIER_LIST) '{ for (i = 3; i <= NF; i++) if ($$i == "(" tier ")") print $$1 }')
TIER_LACKS = $(filter-out $(TIER_RUNS) $(TIER_NEEDS),$(PROGRAM_TESTS))
tier-tests:
	@echo $(filter $(TESTS),$(TIER_RUNS))
tier-programs:
	@echo $(filter-out $(TIER_LACKS),$(check_PROGRAMS))
check-sources:
	$(MAKE) $(AM_MAKEFLAGS) CFLAGS=-fsyntax-only \
		$(foreach program,$(TIER_LACKS),$($(subst /,_,$(program))_OBJECTS))
CHECK_ALSO =
check-local: $(CHECK_ALSO)
EXTRA_DIST += tests/README.md tests/tiers
.PHONY: check-sources tier-programs tier-tests

# No test hangs forever: after TEST_TIME seconds it is killed and fails. In a debugger:
# make check LOG_COMPILER= AM_LOG_FLAGS= TESTS=...
TEST_TIME = 600
LOG_COMPILER = $(srcdir)/tests/support/limited
AM_LOG_FLAGS = $(TEST_TIME)
dist_noinst_SCRIPTS += tests/support/limited
CLEANFILES += cpu.log

# The environment of a test: directories, and the multiplier of libcheck's time limits.
AM_TESTS_ENVIRONMENT = \
	top_srcdir='$(abs_top_srcdir)'; export top_srcdir; \
	top_builddir='$(abs_top_builddir)'; export top_builddir; \
	CC='$(CC)'; export CC; \
	FK_README_CFLAGS='$(SANITIZER_CFLAGS)'; export FK_README_CFLAGS; \
	CLANG_FORMAT='$(CLANG_FORMAT)'; export CLANG_FORMAT; \
	ASAN_OPTIONS="detect_stack_use_after_return=0:$${ASAN_OPTIONS}"; export ASAN_OPTIONS; \
	UBSAN_OPTIONS="print_stacktrace=1:$${UBSAN_OPTIONS}"; export UBSAN_OPTIONS; \
	TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:$${TSAN_OPTIONS}"; \
	TSAN_OPTIONS="suppressions=$(abs_top_srcdir)/tests/support/tsan.supp:$${TSAN_OPTIONS}"; \
	export TSAN_OPTIONS; \
	CK_TIMEOUT_MULTIPLIER="$${CK_TIMEOUT_MULTIPLIER:-1}"; export CK_TIMEOUT_MULTIPLIER;

# The service in a booted systemd.
check_PROGRAMS += tests/systemd/calls
EXTRA_DIST += tests/systemd/inside tests/systemd/run

# The Debian packages, built, installed, used, upgraded and purged: some minutes, only as root.
EXTRA_DIST += tests/debian/inside tests/debian/run
deb-test:
	$(srcdir)/tests/debian/run $(srcdir) .
.PHONY: deb-test

bench: all $(BENCH_TARGETS)
soak: all $(SOAK_TARGETS)
fuzz: all $(FUZZ_TARGETS)
model: all $(MODEL_TARGETS)
.PHONY: bench soak fuzz model $(BENCH_TARGETS) $(SOAK_TARGETS) $(FUZZ_TARGETS) $(MODEL_TARGETS)

# Formats every C file as tests/source/check-style requires.
format:
	cd $(srcdir) && find common shm client daemon tests contrib -name '*.[ch]' -type f \
		-exec $(CLANG_FORMAT) -i {} +
.PHONY: format
