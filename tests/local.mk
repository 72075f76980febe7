# SPDX-License-Identifier: MIT
# A test program tests/check_<unit>.c needs one line in UNIT_TESTS: its source is found by its
# name, and it is linked with all the convenience libraries and with what tests share
# (tests/libtests.la). More sources, other libraries: tests_check_<unit>_SOURCES,
# tests_check_<unit>_LDADD. A header of tests goes to noinst_HEADERS.

LDADD = tests/libtests.la $(DAEMON_LIBS) $(CLIENT_LIBS) libcommon.la $(CHECK_LIBS)

UNIT_TESTS = \
	tests/check_account \
	tests/check_alarm \
	tests/check_algorithm \
	tests/check_alloc \
	tests/check_array \
	tests/check_aside \
	tests/check_batch \
	tests/check_bell \
	tests/check_budget \
	tests/check_call \
	tests/check_cancel_message \
	tests/check_ceiling \
	tests/check_cgroup \
	tests/check_channel \
	tests/check_compress \
	tests/check_connect \
	tests/check_deadline \
	tests/check_deque \
	tests/check_drain \
	tests/check_each \
	tests/check_error \
	tests/check_events \
	tests/check_fair \
	tests/check_fair_claim \
	tests/check_fair_queue \
	tests/check_fair_short \
	tests/check_fiber \
	tests/check_fiber_block \
	tests/check_fiber_counter \
	tests/check_fiber_io \
	tests/check_fiber_million \
	tests/check_fiber_park \
	tests/check_fiber_shared \
	tests/check_fiber_stack \
	tests/check_fiber_stack_guard \
	tests/check_fiber_time \
	tests/check_flips \
	tests/check_fold \
	tests/check_forkmode \
	tests/check_greet \
	tests/check_group \
	tests/check_halt \
	tests/check_hang \
	tests/check_hangup \
	tests/check_hash \
	tests/check_heap \
	tests/check_histogram \
	tests/check_image \
	tests/check_inbox \
	tests/check_intake \
	tests/check_intake_turn \
	tests/check_job \
	tests/check_lasting \
	tests/check_layout \
	tests/check_lazy \
	tests/check_lazy_pool \
	tests/check_ledger \
	tests/check_listener \
	tests/check_log \
	tests/check_loop \
	tests/check_many \
	tests/check_matmul \
	tests/check_module \
	tests/check_module_names \
	tests/check_modules \
	tests/check_number \
	tests/check_option_list \
	tests/check_option_table \
	tests/check_option_value \
	tests/check_options \
	tests/check_options_args \
	tests/check_options_file \
	tests/check_options_print \
	tests/check_oracle \
	tests/check_pack \
	tests/check_pages \
	tests/check_park \
	tests/check_permit \
	tests/check_place \
	tests/check_pool \
	tests/check_poolproc \
	tests/check_profile \
	tests/check_publish \
	tests/check_pulse \
	tests/check_quarantine_memory \
	tests/check_quota \
	tests/check_record \
	tests/check_records \
	tests/check_recover \
	tests/check_ref \
	tests/check_registry \
	tests/check_requeue \
	tests/check_ring \
	tests/check_ring_astray \
	tests/check_roster \
	tests/check_scan \
	tests/check_search \
	tests/check_segment \
	tests/check_session_line \
	tests/check_signature \
	tests/check_sleep \
	tests/check_slots \
	tests/check_spill \
	tests/check_sort \
	tests/check_stack \
	tests/check_stack_account \
	tests/check_stack_arena \
	tests/check_stopwatch \
	tests/check_store \
	tests/check_store_inherit \
	tests/check_strand \
	tests/check_strand_full \
	tests/check_strict \
	tests/check_submit \
	tests/check_switch \
	tests/check_switch_ucontext \
	tests/check_task_api \
	tests/check_thread_states \
	tests/check_timeline \
	tests/check_top \
	tests/check_top_draw \
	tests/check_topology \
	tests/check_trace \
	tests/check_trial \
	tests/check_unwind \
	tests/check_vacate \
	tests/check_victims \
	tests/check_wait \
	tests/check_wake

SCENARIOS = \
	tests/check_adopt \
	tests/check_adopt_drain \
	tests/check_adopt_sites \
	tests/check_ask \
	tests/check_blame \
	tests/check_board \
	tests/check_cancel \
	tests/check_cancel_kept \
	tests/check_chain \
	tests/check_child \
	tests/check_confine \
	tests/check_copies \
	tests/check_cpu_time \
	tests/check_cpus \
	tests/check_crash \
	tests/check_crash_report \
	tests/check_cut \
	tests/check_descriptors \
	tests/check_fiber_jobs \
	tests/check_freeze \
	tests/check_hanging \
	tests/check_hostile \
	tests/check_hostile_record \
	tests/check_hostile_rings \
	tests/check_inject \
	tests/check_isolation \
	tests/check_keeping \
	tests/check_keeping_roster \
	tests/check_kill \
	tests/check_latency \
	tests/check_making \
	tests/check_manager \
	tests/check_manager_killed \
	tests/check_memory \
	tests/check_parking \
	tests/check_passed \
	tests/check_planned \
	tests/check_promises \
	tests/check_quarantine \
	tests/check_reload \
	tests/check_reload_join \
	tests/check_reload_modules \
	tests/check_renew \
	tests/check_restart \
	tests/check_rights \
	tests/check_runas \
	tests/check_scenario \
	tests/check_service \
	tests/check_session \
	tests/check_settings \
	tests/check_stalled \
	tests/check_starved \
	tests/check_storm \
	tests/check_times \
	tests/check_tracing \
	tests/check_userns \
	tests/check_users \
	tests/soak_starve \
	tests/soak_stress

if CRASH_SITES
SCENARIOS += tests/check_client_sites tests/check_last_steps tests/check_pool_sites
endif

SCRIPT_TESTS = \
	tests/check-abi \
	tests/check-backtrace \
	tests/check-badinput \
	tests/check-bench \
	tests/check-call \
	tests/check-commands \
	tests/check-completion \
	tests/check-cpp \
	tests/check-debian \
	tests/check-docs \
	tests/check-documented \
	tests/check-forkctl-check \
	tests/check-forkctl-json \
	tests/check-guides \
	tests/check-numa \
	tests/check-manuals \
	tests/check-metrics \
	tests/check-probes \
	tests/check-readme \
	tests/check-orders \
	tests/check-python \
	tests/check-races \
	tests/check-shipped \
	tests/check-sites \
	tests/check-style \
	tests/check-top \
	tests/check-unit \
	tests/check-valgrind

# The part of TESTS that the tsan tier runs: what has its threads in one process.
# check_modules has too, and is left out: every module in every mode takes minutes there. The first
# nine take longest: no single one is left in the end.
TSAN_TESTS = \
	tests/check_alloc \
	tests/check_unwind \
	tests/check_sort \
	tests/check_each \
	tests/check_ring \
	tests/check_stack \
	tests/check_place \
	tests/check_scan \
	tests/check_job \
	tests/check_alarm \
	tests/check_algorithm \
	tests/check_array \
	tests/check_aside \
	tests/check_batch \
	tests/check_bell \
	tests/check_cancel_message \
	tests/check_channel \
	tests/check_connect \
	tests/check_deadline \
	tests/check_deque \
	tests/check_drain \
	tests/check_error \
	tests/check_events \
	tests/check_fiber \
	tests/check_fiber_block \
	tests/check_fiber_counter \
	tests/check_fiber_io \
	tests/check_fiber_park \
	tests/check_fiber_shared \
	tests/check_fiber_stack \
	tests/check_fiber_stack_guard \
	tests/check_fiber_time \
	tests/check_fold \
	tests/check_forkmode \
	tests/check_group \
	tests/check_halt \
	tests/check_heap \
	tests/check_intake \
	tests/check_intake_turn \
	tests/check_lazy \
	tests/check_lazy_pool \
	tests/check_log \
	tests/check_many \
	tests/check_number \
	tests/check_option_list \
	tests/check_option_table \
	tests/check_option_value \
	tests/check_options \
	tests/check_options_args \
	tests/check_options_file \
	tests/check_options_print \
	tests/check_park \
	tests/check_permit \
	tests/check_pool \
	tests/check_profile \
	tests/check_publish \
	tests/check_record \
	tests/check_registry \
	tests/check_requeue \
	tests/check_ring_astray \
	tests/check_sleep \
	tests/check_slots \
	tests/check_spill \
	tests/check_stack_account \
	tests/check_stack_arena \
	tests/check_strand \
	tests/check_strand_full \
	tests/check_strict \
	tests/check_submit \
	tests/check_switch \
	tests/check_switch_ucontext \
	tests/check_trace \
	tests/check_vacate \
	tests/check_wait \
	tests/check_wake

# What takes longest comes first, so that no single one is left in the end.
dist_check_SCRIPTS += $(SCRIPT_TESTS)
if TSAN
check_PROGRAMS += $(TSAN_TESTS)
TESTS += $(TSAN_TESTS)
else
check_PROGRAMS += $(UNIT_TESTS) $(SCENARIOS) tests/backtrace_rig
TESTS += $(SCRIPT_TESTS) $(SCENARIOS) $(UNIT_TESTS)
endif
$(check_PROGRAMS): private LIBTOOL = $(SHELL) $(srcdir)/tests/link
dist_noinst_SCRIPTS += tests/link

# Those that take long and say nothing new under another compiler or a sanitizer. contrib/check runs
# the rest there: `make check TESTS="$(make -s short-tests)"`.
LONG_TESTS = \
	tests/check-bench \
	tests/check-guides \
	tests/check-numa \
	tests/check-python \
	tests/check-races \
	tests/check_hanging \
	tests/check_inject \
	tests/check_parking \
	tests/check_sim \
	tests/model/run \
	tests/soak_starve \
	tests/soak_stress
# Those that look at the sources alone, or at what --help says.
TEXT_TESTS = \
	tests/check-abi \
	tests/check-completion \
	tests/check-debian \
	tests/check-documented \
	tests/check-orders \
	tests/check-style
short-tests:
	@echo $(filter-out $(LONG_TESTS) $(TEXT_TESTS),$(TESTS))
# And of these those that have a compiler at work: another one says nothing new of what the other
# scripts look at, what programs print and other programs read.
COMPILING_TESTS = \
	tests/check-cpp \
	tests/check-manuals \
	tests/check-readme
clang-tests:
	@echo $(COMPILING_TESTS) \
		$(filter-out $(LONG_TESTS) $(TEXT_TESTS) $(SCRIPT_TESTS),$(TESTS))

# What the tarball has to show for itself, and no other tier: that all is in it that tests read, in
# a tree that nobody may write to, and that the service that is built from it does its work; and, as
# no other tier is built as users build forkd, that jobs fork and join there, too. `make distcheck`
# alone runs everything.
DIST_TESTS = \
	$(SCRIPT_TESTS) \
	$(REPLAYS) \
	tests/check_blame \
	tests/check_chain \
	tests/check_child \
	tests/check_confine \
	tests/check_copies \
	tests/check_cpus \
	tests/check_crash \
	tests/check_deque \
	tests/check_fair_queue \
	tests/check_group \
	tests/check_hostile \
	tests/check_isolation \
	tests/check_lazy_pool \
	tests/check_manager \
	tests/check_module \
	tests/check_park \
	tests/check_quarantine \
	tests/check_ring \
	tests/check_ring_astray \
	tests/check_scenario \
	tests/check_service \
	tests/check_session \
	tests/check_settings \
	tests/check_sleep \
	tests/check_stack \
	tests/check_strand \
	tests/check_strand_full \
	tests/check_task_api \
	tests/check_topology \
	tests/check_users \
	tests/check_victims \
	tests/check_wake
dist-tests:
	@echo $(filter-out $(LONG_TESTS) $(TEXT_TESTS),$(DIST_TESTS))
# Of the other programs the compiler reads the sources there and makes nothing of them: the tarball
# has them, and their headers. What comes out of a compiler is seen in the other tiers. A debugger runs
# two of them (tests/check-backtrace).
SCRIPTS_NEED = tests/check_fiber tests/check_fiber_block
READ_IN_DIST = $(filter-out $(DIST_TESTS) $(SCRIPTS_NEED),$(UNIT_TESTS) $(SCENARIOS))
dist-programs:
	@echo $(filter-out $(READ_IN_DIST),$(check_PROGRAMS))
check-sources:
	$(MAKE) $(AM_MAKEFLAGS) CFLAGS=-fsyntax-only \
		$(foreach program,$(READ_IN_DIST),$($(subst /,_,$(program))_OBJECTS))
# make distcheck TESTS="$(make -s dist-tests)" check_PROGRAMS="$(make -s dist-programs)" \
#	CHECK_ALSO=check-sources
CHECK_ALSO =
check-local: $(CHECK_ALSO)

# What a distribution's package has to show when it is built, by whoever builds it, without root, a
# network or other tools, and soon (debian/rules): that what its compiler and its flags have made
# forks, joins, loads modules, serves and goes on after a crash. Only these are built.
PACKAGE_TESTS = \
	tests/check_child \
	tests/check_compress \
	tests/check_crash \
	tests/check_deque \
	tests/check_lazy_pool \
	tests/check_manager \
	tests/check_module \
	tests/check_ring \
	tests/check_scenario \
	tests/check_service \
	tests/check_session \
	tests/check_sleep \
	tests/check_stack \
	tests/check_task_api \
	tests/check_topology
package-tests:
	@echo $(PACKAGE_TESTS)
.PHONY: check-sources clang-tests dist-programs dist-tests package-tests short-tests

# No test hangs for ever: after TEST_TIME seconds it is killed and has failed. In a debugger:
# make check LOG_COMPILER= AM_LOG_FLAGS= TESTS=...
TEST_TIME = 600
LOG_COMPILER = $(srcdir)/tests/limited
AM_LOG_FLAGS = $(TEST_TIME)
dist_noinst_SCRIPTS += tests/limited
CLEANFILES += cpu.log

# What a test may use: where things are, and the multiplier of libcheck's time limits.
AM_TESTS_ENVIRONMENT = \
	top_srcdir='$(abs_top_srcdir)'; export top_srcdir; \
	top_builddir='$(abs_top_builddir)'; export top_builddir; \
	CC='$(CC)'; export CC; \
	FK_README_CFLAGS='$(SANITIZER_CFLAGS)'; export FK_README_CFLAGS; \
	CLANG_FORMAT='$(CLANG_FORMAT)'; export CLANG_FORMAT; \
	ASAN_OPTIONS="detect_stack_use_after_return=0:$${ASAN_OPTIONS}"; export ASAN_OPTIONS; \
	UBSAN_OPTIONS="print_stacktrace=1:$${UBSAN_OPTIONS}"; export UBSAN_OPTIONS; \
	TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:$${TSAN_OPTIONS}"; \
	TSAN_OPTIONS="suppressions=$(abs_top_srcdir)/tests/tsan.supp:$${TSAN_OPTIONS}"; \
	export TSAN_OPTIONS; \
	CK_TIMEOUT_MULTIPLIER="$${CK_TIMEOUT_MULTIPLIER:-1}"; export CK_TIMEOUT_MULTIPLIER;

# What tests share, each part by its header: a program gets what it uses of it.
check_LTLIBRARIES += tests/libtests.la
tests_libtests_la_SOURCES = \
	tests/counts.c \
	tests/counts.h \
	tests/daemon.c \
	tests/daemon.h \
	tests/daemon_end.c \
	tests/daemon_proc.c \
	tests/fake.c \
	tests/fake.h \
	tests/fdstore.c \
	tests/fdstore.h \
	tests/hostile.c \
	tests/hostile.h \
	tests/kept.c \
	tests/kept.h \
	tests/oracle.c \
	tests/oracle.h \
	tests/rig.c \
	tests/rig.h \
	tests/service.c \
	tests/service.h \
	tests/stub.c \
	tests/stub.h

# What tests/check-cpp compiles, and tests/check-python runs.
EXTRA_DIST += \
	tests/cpp/client.cc \
	tests/python/rig.py \
	tests/python/test_calls.py \
	tests/python/test_memory.py

# Those of several files.
tests_check_compress_SOURCES = \
	daemon/modules/compress_gzip.c \
	daemon/modules/compress_zstd.c \
	tests/check_compress.c
tests_check_inject_SOURCES = \
	tests/check_inject.c \
	tests/inject.c \
	tests/inject.h \
	tests/inject_runs.h \
	tests/visitor.c \
	tests/visitor.h
tests_check_isolation_SOURCES = \
	tests/check_isolation.c \
	tests/isolation.h \
	tests/isolation_processes.c \
	tests/isolation_segments.c
tests_check_layout_SOURCES = \
	tests/check_layout.c \
	tests/check_layout.h \
	tests/check_layout_ring.c \
	tests/check_layout_same.c
# The frame pointer has to be found again, too.
tests_backtrace_rig_CFLAGS = $(AM_CFLAGS) -fno-omit-frame-pointer
# Once more, with the implementation that few machines need.
tests_check_switch_ucontext_SOURCES = \
	daemon/switch.c \
	daemon/switch_ucontext.c \
	tests/check_switch.c
tests_check_switch_ucontext_CPPFLAGS = $(AM_CPPFLAGS) -DSWITCH_UCONTEXT=1
tests_check_switch_ucontext_LDADD = libcommon.la $(CHECK_LIBS)
# What forkctl top is without a forkd and a terminal.
tests_check_top_SOURCES = tests/check_top.c tests/top_rig.h
tests_check_top_draw_SOURCES = tests/check_top_draw.c tests/top_rig.h
tests_soak_stress_SOURCES = \
	tests/maze.h \
	tests/soak.h \
	tests/soak_arrays.c \
	tests/soak_jobs.c \
	tests/soak_jobs.h \
	tests/soak_modules.c \
	tests/soak_stress.c \
	tests/soak_torment.c \
	tests/soak_torment.h

tests_check_array_LDADD = $(LDADD) -lm
tests_check_compress_CFLAGS = $(AM_CFLAGS) $(ZSTD_CFLAGS) $(DEFLATE_CFLAGS) $(ZLIB_CFLAGS)
tests_check_compress_LDADD = $(LDADD) $(ZSTD_LIBS) $(DEFLATE_LIBS) $(ZLIB_LIBS)
tests_check_hash_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) $(NETTLE_CFLAGS)
tests_check_hash_LDADD = $(LDADD) $(NETTLE_LIBS)
tests_check_image_LDADD = $(LDADD) -lm
tests_check_modules_LDADD = $(LDADD) -lm
tests_check_scan_LDADD = $(LDADD) -lm
tests_check_sleep_CFLAGS = $(libpool_la_CFLAGS)
tests_check_timeline_CFLAGS = $(AM_CFLAGS) $(FORKCTL_CFLAGS)
tests_check_timeline_LDADD = $(LDADD) $(FORKCTL_LIBS)
tests_check_top_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_check_top_LDADD = $(LDADD) $(FORKCTL_LIBS)
tests_check_top_draw_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_check_top_draw_LDADD = $(LDADD) $(FORKCTL_LIBS)
tests_check_victims_LDADD = $(LDADD) -lm
tests_soak_stress_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) $(NETTLE_CFLAGS)
tests_soak_stress_LDADD = $(LDADD) $(NETTLE_LIBS) -lm

# The kernel is short of something when the test says so.
tests_check_channel_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=nanosleep \
	-Wl,--wrap=proto_recv_short \
	-Wl,--wrap=proto_send
tests_check_fiber_block_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_create
FIBER_STACK_WRAPS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=madvise \
	-Wl,--wrap=mincore \
	-Wl,--wrap=mmap \
	-Wl,--wrap=mprotect \
	-Wl,--wrap=sysconf
tests_check_fiber_stack_LDFLAGS = $(FIBER_STACK_WRAPS)
tests_check_fiber_stack_guard_LDFLAGS = $(FIBER_STACK_WRAPS)
tests_check_fiber_time_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
tests_check_fiber_io_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
tests_check_keeping_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=listener_open -Wl,--wrap=poolproc_init
tests_check_lazy_pool_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=strdup
tests_check_loop_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=io_uring_submit_and_wait \
	-Wl,--wrap=nanosleep
tests_check_manager_killed_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=proto_send
tests_check_poolproc_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=execv \
	-Wl,--wrap=nanosleep \
	-Wl,--wrap=open_memstream \
	-Wl,--wrap=proto_recv_plain \
	-Wl,--wrap=proto_recv_short \
	-Wl,--wrap=proto_send \
	-Wl,--wrap=waitid
tests_check_session_line_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=clock_gettime \
	-Wl,--wrap=session_take
tests_check_store_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=loop_poll \
	-Wl,--wrap=loop_timer \
	-Wl,--wrap=nanosleep \
	-Wl,--wrap=sendmsg
# A trial that is killed has ended then.
tests_check_trial_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=kill

# It says that a worker cannot be pinned.
tests_check_park_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_setaffinity_np

# There is no memory for a job that is spilled.
tests_check_spill_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc -Wl,--wrap=tsearch

# The kernel unmaps what was there, and has no memory then.
tests_check_vacate_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mremap

# The service in a booted systemd.
check_PROGRAMS += tests/systemd/calls
EXTRA_DIST += tests/systemd/inside tests/systemd/run

# The Debian packages, built, installed, used, upgraded and purged: some minutes, and by root alone.
EXTRA_DIST += tests/debian/inside tests/debian/run
deb-test:
	$(srcdir)/tests/debian/run $(srcdir) .
.PHONY: deb-test

EXTRA_DIST += tests/alerts.yml tests/completion.zsh tests/mistakes.def tests/races.c tests/trace.py tests/tsan.supp

# Machines that are not here.
EXTRA_DIST += \
	tests/topologies/asymmetric.xml \
	tests/topologies/fast.xml \
	tests/topologies/memoryless.xml \
	tests/topologies/restricted.xml \
	tests/topologies/ring.xml

noinst_HEADERS = \
	tests/adopt_rig.h \
	tests/algorithm.h \
	tests/check_unit.h \
	tests/compile.h \
	tests/control_group.h \
	tests/counted.h \
	tests/counted_fail.h \
	tests/entries.h \
	tests/fair_clock.h \
	tests/faults.h \
	tests/fib.h \
	tests/fiber_rig.h \
	tests/fiber_stack_rig.h \
	tests/fiber_tasks_ends.h \
	tests/fiber_tasks_errors.h \
	tests/fiber_tasks_own.h \
	tests/fiber_tasks_steals.h \
	tests/fiber_tasks_trees.h \
	tests/fiber_tasks_waits.h \
	tests/intake_rig.h \
	tests/jobs.h \
	tests/keeping.h \
	tests/machines.h \
	tests/modes.h \
	tests/modules/maps.h \
	tests/options.h \
	tests/other_user.h \
	tests/passed.h \
	tests/quiet.h \
	tests/refuse.h \
	tests/reload_rig.h \
	tests/requests.h \
	tests/ring_rig.h \
	tests/shipped.h \
	tests/short_of_memory.h \
	tests/sites.h \
	tests/sleep_steps.h \
	tests/stack_room.h \
	tests/store_rig.h \
	tests/strand_tasks.h \
	tests/tasks.h \
	tests/unwind_tasks.h

# The long ones, never part of check. Whoever has something for one adds a phony target to its
# list.
BENCH_TARGETS =
SOAK_TARGETS =
FUZZ_TARGETS =
MODEL_TARGETS =

include tests/modules/local.mk
include tests/bench/local.mk
include tests/fuzz/local.mk
include tests/model/local.mk
include tests/numa/local.mk
include tests/sim/local.mk

# The scenarios that do more of the same if there is time.
SOAK_TESTS = tests/check_promises

soak-local:
	SOAK=1 CK_TIMEOUT_MULTIPLIER=4 $(MAKE) $(AM_MAKEFLAGS) check TEST_TIME=7200 \
		TESTS='$(SOAK_TESTS)'

# An hour of stress, or SOAK_SECONDS; a few seconds of it are part of check.
soak-stress:
	SOAK_SECONDS="$${SOAK_SECONDS:-3600}" $(MAKE) $(AM_MAKEFLAGS) check TEST_TIME=100000 \
		TESTS=tests/soak_stress

# The same with jobs of fibers and frames alone.
soak-fibers:
	SOAK_FIBERS=1 SOAK_SECONDS="$${SOAK_SECONDS:-3600}" $(MAKE) $(AM_MAKEFLAGS) check \
		TEST_TIME=100000 TESTS=tests/soak_stress

# A million fibers that wait, of each kind: some five GB of memory. The log has what each cost.
soak-million:
	FIBERS="$${FIBERS:-1000000}" CK_TIMEOUT_MULTIPLIER=4 $(MAKE) $(AM_MAKEFLAGS) check \
		TESTS=tests/check_fiber_million
	sed -n '/fibers parked/p' tests/check_fiber_million.log

# Five minutes with a tenth of a CPU; a few seconds of it are part of check.
soak-starve:
	SOAK_SECONDS="$${SOAK_SECONDS:-300}" CK_TIMEOUT_MULTIPLIER=20 $(MAKE) $(AM_MAKEFLAGS) \
		check TEST_TIME=100000 TESTS=tests/soak_starve
	sed -n '/nobody blamed/p' tests/soak_starve.log

# Clients killed at random, a quarter of an hour of it; the log has how soon that was noticed.
soak-kill:
	KILLS="$${KILLS:-100000}" CK_TIMEOUT_MULTIPLIER=20 $(MAKE) $(AM_MAKEFLAGS) check \
		TEST_TIME=11000 TESTS=tests/check_kill
	sed -n '/deaths noticed\|clients killed\|were counted/p' tests/check_kill.log

# Every call fails, in its turn, in every way: hours. INJECT="pool restart mmap": only those.
inject: all
	INJECT_ALL=1 $(MAKE) $(AM_MAKEFLAGS) check TEST_TIME=20000 TESTS=tests/check_inject
	sed -n '/ runs: /p' tests/check_inject.log
.PHONY: inject

SOAK_TARGETS += soak-local soak-stress soak-fibers soak-million soak-starve soak-kill

bench: all $(BENCH_TARGETS)
soak: all $(SOAK_TARGETS)
fuzz: all $(FUZZ_TARGETS)
model: all $(MODEL_TARGETS)
.PHONY: bench soak fuzz model $(BENCH_TARGETS) $(SOAK_TARGETS) $(FUZZ_TARGETS) $(MODEL_TARGETS)

# Put every C file into the form that tests/check-style asks for.
format:
	cd $(srcdir) && find common shm client daemon tests contrib -name '*.[ch]' -type f \
		-exec $(CLANG_FORMAT) -i {} +
.PHONY: format
