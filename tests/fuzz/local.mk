# SPDX-License-Identifier: MIT
# Fuzz targets: tests/fuzz/fuzz.h. Each is built twice. The test tests/fuzz/replay_NAME runs it with
# the inputs of tests/fuzz/corpus/NAME. `make fuzz` runs it with libFuzzer of clang; its sources are
# built again with coverage, sanitizers and crash sites.
#
#   make fuzz FUZZ_SECONDS=600		each target for this CPU time in seconds (60)
#   make fuzz FUZZ_RUNS=500000		or for this number of inputs
#   make fuzz-ring			one alone
#
# A finding is stored as fuzz/NAME-crash-...: tests/fuzz/replay_NAME FILE repeats it. The fix adds
# it to the corpus, under a descriptive name.

# The longest one first.
FUZZERS = pool args conf forkctl greet module payload record ring signature

# Functions that a target replaces.
FUZZ_WRAP_args = -Wl,--wrap=options_file_open,--wrap=options_dir_read,--wrap=fclose,--wrap=getpwnam,--wrap=getgrnam
FUZZ_WRAP_conf = -Wl,--wrap=getpwnam,--wrap=getgrnam
FUZZ_CMP = __sanitizer_cov_trace_cmp
FUZZ_CONST_CMP = __sanitizer_cov_trace_const_cmp
FUZZ_WRAP_pool = -Wl,--wrap=segment_map,--wrap=segment_unmap,--wrap=layout_withhold \
	-Wl,--wrap=fair_init \
	-Wl,--wrap=$(FUZZ_CMP)1,--wrap=$(FUZZ_CMP)2,--wrap=$(FUZZ_CMP)4,--wrap=$(FUZZ_CMP)8 \
	-Wl,--wrap=$(FUZZ_CONST_CMP)1,--wrap=$(FUZZ_CONST_CMP)2 \
	-Wl,--wrap=$(FUZZ_CONST_CMP)4,--wrap=$(FUZZ_CONST_CMP)8
FUZZ_WRAP_record = -Wl,--wrap=stack_lump_take,--wrap=stack_lump_put
# Renames forkctl's main().
FUZZ_MAIN = -Dmain=forkctl_main -Wno-missing-prototypes

# ------------------------------------------------------------------------ as tests

if !TSAN
check_LTLIBRARIES += tests/fuzz/libreplay.la
endif
tests_fuzz_libreplay_la_SOURCES = tests/fuzz/fuzz.h tests/fuzz/replay.c
REPLAY_LIBS = tests/fuzz/libreplay.la $(LDADD)

PROGRAM_TESTS += \
	tests/fuzz/replay_args \
	tests/fuzz/replay_conf \
	tests/fuzz/replay_forkctl \
	tests/fuzz/replay_greet \
	tests/fuzz/replay_module \
	tests/fuzz/replay_payload \
	tests/fuzz/replay_pool \
	tests/fuzz/replay_record \
	tests/fuzz/replay_ring \
	tests/fuzz/replay_signature

tests_fuzz_replay_args_SOURCES = tests/fuzz/fuzz_args.c tests/fuzz/fuzz_options.h
tests_fuzz_replay_args_LDADD = $(REPLAY_LIBS)
tests_fuzz_replay_args_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_WRAP_args)
tests_fuzz_replay_conf_SOURCES = tests/fuzz/fuzz_conf.c tests/fuzz/fuzz_options.h
tests_fuzz_replay_conf_LDADD = $(REPLAY_LIBS)
tests_fuzz_replay_conf_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_WRAP_conf)
tests_fuzz_replay_forkctl_SOURCES = tests/fuzz/fuzz_forkctl.c $(forkctl_SOURCES)
tests_fuzz_replay_forkctl_LDADD = $(REPLAY_LIBS) $(FORKCTL_LIBS)
tests_fuzz_replay_forkctl_CFLAGS = $(AM_CFLAGS) $(FORKCTL_CFLAGS) $(FUZZ_MAIN)
tests_fuzz_replay_greet_SOURCES = tests/fuzz/fuzz_greet.c
tests_fuzz_replay_greet_LDADD = $(REPLAY_LIBS)
tests_fuzz_replay_module_SOURCES = tests/fuzz/fuzz_module.c
tests_fuzz_replay_module_LDADD = $(REPLAY_LIBS)
tests_fuzz_replay_payload_SOURCES = tests/fuzz/fuzz_payload.c
tests_fuzz_replay_payload_LDADD = libgearmanpayload.la $(REPLAY_LIBS) $(JANSSON_LIBS)
# pool has small rings, which are full soon and quickly searched; these sources depend on the size.
FUZZ_RINGS = -DRING_SLOTS=16u
tests_fuzz_replay_pool_SOURCES = \
	daemon/jobs/ring_drain.c \
	daemon/jobs/job_batches.c \
	daemon/jobs/membership.c \
	daemon/core/clients.c \
	daemon/jobs/attach.c \
	daemon/jobs/queue_recovery.c \
	tests/fuzz/fuzz_pool.c \
	tests/fuzz/pool_rig.h \
	tests/fuzz/pool_true.h
tests_fuzz_replay_pool_CPPFLAGS = $(AM_CPPFLAGS) $(FUZZ_RINGS)
tests_fuzz_replay_pool_LDADD = $(REPLAY_LIBS)
tests_fuzz_replay_pool_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_WRAP_pool)
tests_fuzz_replay_record_SOURCES = tests/fuzz/fuzz_record.c
tests_fuzz_replay_record_LDADD = $(REPLAY_LIBS)
tests_fuzz_replay_record_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_WRAP_record)
tests_fuzz_replay_ring_SOURCES = tests/fuzz/fuzz_ring.c
tests_fuzz_replay_ring_LDADD = $(REPLAY_LIBS)
tests_fuzz_replay_signature_SOURCES = tests/fuzz/fuzz_signature.c
tests_fuzz_replay_signature_LDADD = $(REPLAY_LIBS)

EXTRA_DIST += tests/fuzz/corpus tests/fuzz/uncovered

# ------------------------------------------------------------------------ with libFuzzer

FUZZ_MACROS = -U_FORTIFY_SOURCE -DFK_CRASH_SITES=1 $(FUZZ_RINGS)
FUZZ_CPP = $(AM_CPPFLAGS) $(FUZZ_MACROS)
FUZZ_CC = -O1 $(BASE_CFLAGS) $(WARN_CFLAGS) $(INIH_CFLAGS) $(HWLOC_CFLAGS) \
	$(JANSSON_CFLAGS) \
	$(NCURSES_CFLAGS) \
	-fsanitize=fuzzer-no-link,$(FUZZ_SANITIZERS) -fno-sanitize-recover=undefined \
	-fsanitize-coverage-ignorelist=$(srcdir)/tests/fuzz/uncovered -fno-omit-frame-pointer
FUZZ_LINKING = -pthread -fsanitize=fuzzer,$(FUZZ_SANITIZERS)
FUZZ_SYSTEM_LIBS = $(INIH_LIBS) $(LIBURING_LIBS) $(HWLOC_LIBS) $(JANSSON_LIBS) $(NCURSES_LIBS) -ldl -lm
FUZZ_LIBS = tests/fuzz/libfuzzed.la $(FUZZ_SYSTEM_LIBS)

EXTRA_LTLIBRARIES += tests/fuzz/libfuzzed.la
tests_fuzz_libfuzzed_la_SOURCES = \
	$(libclientcore_la_SOURCES) \
	$(libcommon_la_SOURCES) \
	$(libforkctl_la_SOURCES) \
	$(libgearmanpayload_la_SOURCES) \
	$(liboptions_la_SOURCES) \
	$(forkctl_SOURCES) \
	$(libengine_la_SOURCES) \
	$(libpool_la_SOURCES) \
	$(libprocess_la_SOURCES) \
	$(libshm_la_SOURCES) \
	$(libhost_la_SOURCES) \
	$(libmachine_la_SOURCES) \
	daemon/manager/admission.c \
	daemon/manager/admission.h \
	daemon/manager/job_recovery.c \
	daemon/manager/job_recovery.h
tests_fuzz_libfuzzed_la_CPPFLAGS = $(FUZZ_CPP)
tests_fuzz_libfuzzed_la_CFLAGS = $(FUZZ_CC) -DFK_SBINDIR='"$(sbindir)"' $(FUZZ_MAIN)

# All other sources that a target includes are in the library, too.
if HAVE_LIBFUZZER
$(FUZZERS:%=tests/fuzz/fuzz_%): tests/fuzz/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/fuzz.h \
		tests/fuzz/fuzz_options.h tests/fuzz/libfuzzed.la
	$(AM_V_CCLD)$(LIBTOOL) $(AM_V_lt) --tag=CC --mode=link $(CC) $(DEFS) $(DEFAULT_INCLUDES) \
		$(FUZZ_CPP) $(CPPFLAGS) $(FUZZ_CC) $(CFLAGS) $(FUZZ_LINKING) $(FUZZ_WRAP_$*) \
		-o $@ $< $(FUZZ_LIBS)
tests/fuzz/fuzz_pool: tests/fuzz/pool_rig.h tests/fuzz/pool_true.h

fuzz-programs: $(FUZZERS:%=tests/fuzz/fuzz_%)
FUZZ_TARGETS += $(FUZZERS:%=fuzz-%)
$(FUZZERS:%=fuzz-%): fuzz-%: tests/fuzz/fuzz_%
	top_srcdir='$(abs_top_srcdir)' $(srcdir)/tests/fuzz/run $*

# Mistakes that the targets must find: FUZZ_MUTANTS="ring pool" selects targets.
fuzz-mutants: tests/fuzz/libfuzzed.la
	top_srcdir='$(abs_top_srcdir)' FUZZ_COMPILE='$(CC) -include config.h' \
		FUZZ_FLAGS='$(DEFAULT_INCLUDES) -I$(srcdir) $(FUZZ_MACROS) $(FUZZ_CC) $(CFLAGS)' \
		FUZZ_LINK='$(CC) $(FUZZ_LINKING)' FUZZ_LIBS='$(FUZZ_SYSTEM_LIBS)' \
		FUZZ_WRAP_args='$(FUZZ_WRAP_args)' FUZZ_WRAP_conf='$(FUZZ_WRAP_conf)' \
		FUZZ_WRAP_pool='$(FUZZ_WRAP_pool)' FUZZ_WRAP_record='$(FUZZ_WRAP_record)' \
		$(srcdir)/tests/fuzz/mutants $(FUZZ_MUTANTS)
else
fuzz-programs:
FUZZ_TARGETS += fuzz-missing
fuzz-missing fuzz-mutants:
	@echo 'make fuzz needs libFuzzer: configure with CC=clang and without --enable-sanitizer'
	@exit 1
endif

CLEANFILES += $(FUZZERS:%=tests/fuzz/fuzz_%) tests/fuzz/libfuzzed.la
dist_noinst_SCRIPTS += tests/fuzz/mutants tests/fuzz/run

clean-fuzz:
	rm -rf fuzz
clean-local: clean-fuzz
.PHONY: clean-fuzz fuzz-mutants fuzz-programs
