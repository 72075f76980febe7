# SPDX-License-Identifier: MIT
# A test program tests/unit/FOLDER/check_<unit>.c needs one line in UNIT_TESTS: its source is found by its
# name, and it is linked with all the convenience libraries and with what tests share
# (tests/support/libtests.la). More sources, other libraries: tests_unit_FOLDER_check_<unit>_SOURCES,
# tests_unit_FOLDER_check_<unit>_LDADD. A header of tests goes to noinst_HEADERS.

LDADD = tests/support/libtests.la $(DAEMON_LIBS) $(CLIENT_LIBS) libcommon.la $(CHECK_LIBS)

UNIT_TESTS = \
	tests/unit/core/check_account \
	tests/unit/sched/check_alarm \
	tests/unit/modules/check_algorithm \
	tests/unit/engine/check_alloc \
	tests/unit/modules/check_array \
	tests/unit/sched/check_aside \
	tests/unit/client/check_batch \
	tests/unit/core/check_bell \
	tests/unit/manager/check_budget \
	tests/unit/client/check_call \
	tests/unit/client/check_cancel_message \
	tests/unit/manager/check_ceiling \
	tests/unit/manager/check_cgroup \
	tests/unit/core/check_channel \
	tests/unit/modules/check_compress \
	tests/unit/client/check_connect \
	tests/unit/jobs/check_deadline \
	tests/unit/core/check_deque \
	tests/unit/jobs/check_drain \
	tests/unit/modules/check_each \
	tests/unit/client/check_error \
	tests/unit/client/check_events \
	tests/unit/sched/check_fair \
	tests/unit/sched/check_fair_claim \
	tests/unit/sched/check_fair_queue \
	tests/unit/sched/check_fair_short \
	tests/unit/fiber/check_fiber \
	tests/unit/fiber/check_fiber_block \
	tests/unit/fiber/check_fiber_counter \
	tests/unit/fiber/check_fiber_io \
	tests/unit/fiber/check_fiber_million \
	tests/unit/fiber/check_fiber_park \
	tests/unit/fiber/check_fiber_shared \
	tests/unit/core/check_fiber_stack \
	tests/unit/core/check_fiber_stack_guard \
	tests/unit/fiber/check_fiber_time \
	tests/unit/modules/check_flips \
	tests/unit/modules/check_fold \
	tests/unit/engine/check_forkmode \
	tests/unit/manager/check_greet \
	tests/unit/client/check_group \
	tests/unit/core/check_halt \
	tests/unit/jobs/check_hang \
	tests/unit/manager/check_hangup \
	tests/unit/modules/check_hash \
	tests/unit/client/check_heap \
	tests/unit/shm/check_histogram \
	tests/unit/modules/check_image \
	tests/unit/core/check_inbox \
	tests/unit/jobs/check_intake \
	tests/unit/jobs/check_intake_turn \
	tests/unit/shm/check_job \
	tests/unit/client/check_lasting \
	tests/unit/shm/check_layout \
	tests/unit/core/check_lazy \
	tests/unit/sched/check_lazy_pool \
	tests/unit/shm/check_ledger \
	tests/unit/manager/check_listener \
	tests/unit/common/check_log \
	tests/unit/manager/check_loop \
	tests/unit/client/check_many \
	tests/unit/modules/check_matmul \
	tests/unit/host/check_module \
	tests/unit/host/check_module_names \
	tests/unit/modules/check_modules \
	tests/unit/common/check_number \
	tests/unit/common/check_option_list \
	tests/unit/common/check_option_table \
	tests/unit/common/check_option_value \
	tests/unit/common/check_options \
	tests/unit/common/check_options_args \
	tests/unit/common/check_options_file \
	tests/unit/common/check_options_print \
	tests/unit/support/check_oracle \
	tests/unit/client/check_pack \
	tests/unit/manager/check_pages \
	tests/unit/sched/check_park \
	tests/unit/core/check_permit \
	tests/unit/engine/check_place \
	tests/unit/pool/check_pool \
	tests/unit/manager/check_poolproc \
	tests/unit/core/check_profile \
	tests/unit/client/check_publish \
	tests/unit/manager/check_pulse \
	tests/unit/manager/check_quarantine_memory \
	tests/unit/manager/check_quota \
	tests/unit/jobs/check_record \
	tests/unit/modules/check_records \
	tests/unit/manager/check_recover \
	tests/unit/shm/check_ref \
	tests/unit/core/check_registry \
	tests/unit/jobs/check_requeue \
	tests/unit/shm/check_ring \
	tests/unit/shm/check_ring_astray \
	tests/unit/manager/check_roster \
	tests/unit/modules/check_scan \
	tests/unit/modules/check_search \
	tests/unit/shm/check_segment \
	tests/unit/manager/check_session_line \
	tests/unit/shm/check_signature \
	tests/unit/pool/check_sleep \
	tests/unit/client/check_slots \
	tests/unit/client/check_spill \
	tests/unit/modules/check_sort \
	tests/unit/core/check_stack \
	tests/unit/core/check_stack_account \
	tests/unit/core/check_stack_arena \
	tests/unit/shm/check_stopwatch \
	tests/unit/manager/check_store \
	tests/unit/manager/check_store_inherit \
	tests/unit/engine/check_strand \
	tests/unit/engine/check_strand_full \
	tests/unit/jobs/check_strict \
	tests/unit/client/check_submit \
	tests/unit/core/check_switch \
	tests/unit/core/check_switch_ucontext \
	tests/unit/engine/check_task_api \
	tests/unit/manager/check_thread_states \
	tests/unit/forkctl/check_timeline \
	tests/unit/forkctl/check_top \
	tests/unit/forkctl/check_top_draw \
	tests/unit/host/check_topology \
	tests/unit/core/check_trace \
	tests/unit/manager/check_trial \
	tests/unit/engine/check_unwind \
	tests/unit/jobs/check_vacate \
	tests/unit/host/check_victims \
	tests/unit/client/check_wait \
	tests/unit/shm/check_wake

SCENARIOS = \
	tests/scenario/check_adopt \
	tests/scenario/check_adopt_drain \
	tests/scenario/check_adopt_sites \
	tests/scenario/check_ask \
	tests/scenario/check_blame \
	tests/scenario/check_board \
	tests/scenario/check_cancel \
	tests/scenario/check_cancel_kept \
	tests/scenario/check_chain \
	tests/scenario/check_child \
	tests/scenario/check_confine \
	tests/scenario/check_copies \
	tests/scenario/check_cpu_time \
	tests/scenario/check_cpus \
	tests/scenario/check_crash \
	tests/scenario/check_crash_report \
	tests/scenario/check_cut \
	tests/scenario/check_descriptors \
	tests/scenario/check_fiber_jobs \
	tests/scenario/check_freeze \
	tests/scenario/check_hanging \
	tests/scenario/check_hostile \
	tests/scenario/check_hostile_record \
	tests/scenario/check_hostile_rings \
	tests/scenario/check_inject \
	tests/scenario/check_isolation \
	tests/scenario/check_keeping \
	tests/scenario/check_keeping_roster \
	tests/scenario/check_kill \
	tests/scenario/check_latency \
	tests/scenario/check_making \
	tests/scenario/check_manager \
	tests/scenario/check_manager_killed \
	tests/scenario/check_memory \
	tests/scenario/check_parking \
	tests/scenario/check_passed \
	tests/scenario/check_planned \
	tests/scenario/check_promises \
	tests/scenario/check_quarantine \
	tests/scenario/check_reload \
	tests/scenario/check_reload_join \
	tests/scenario/check_reload_modules \
	tests/scenario/check_renew \
	tests/scenario/check_restart \
	tests/scenario/check_rights \
	tests/scenario/check_runas \
	tests/scenario/check_scenario \
	tests/scenario/check_service \
	tests/scenario/check_session \
	tests/scenario/check_settings \
	tests/scenario/check_stalled \
	tests/scenario/check_starved \
	tests/scenario/check_storm \
	tests/scenario/check_times \
	tests/scenario/check_tracing \
	tests/scenario/check_userns \
	tests/scenario/check_users \
	tests/soak/soak_starve \
	tests/soak/soak_stress

if CRASH_SITES
SCENARIOS += tests/scenario/check_client_sites tests/scenario/check_last_steps tests/scenario/check_pool_sites
endif

SCRIPT_TESTS = \
	tests/source/check-abi \
	tests/cli/check-backtrace \
	tests/cli/check-badinput \
	tests/cli/check-bench \
	tests/cli/check-call \
	tests/cli/check-commands \
	tests/source/check-completion \
	tests/cli/check-cpp \
	tests/source/check-debian \
	tests/source/check-docs \
	tests/source/check-documented \
	tests/cli/check-forkctl-check \
	tests/cli/check-forkctl-json \
	tests/cli/check-guides \
	tests/cli/check-numa \
	tests/cli/check-manuals \
	tests/cli/check-metrics \
	tests/source/check-probes \
	tests/cli/check-readme \
	tests/source/check-orders \
	tests/cli/check-python \
	tests/cli/check-races \
	tests/cli/check-shipped \
	tests/source/check-sites \
	tests/source/check-style \
	tests/cli/check-top \
	tests/source/check-unit \
	tests/cli/check-valgrind

# The part of TESTS that the tsan tier runs: what has its threads in one process.
# check_modules has too, and is left out: every module in every mode takes minutes there. The first
# nine take longest: no single one is left in the end.
TSAN_TESTS = \
	tests/unit/engine/check_alloc \
	tests/unit/engine/check_unwind \
	tests/unit/modules/check_sort \
	tests/unit/modules/check_each \
	tests/unit/shm/check_ring \
	tests/unit/core/check_stack \
	tests/unit/engine/check_place \
	tests/unit/modules/check_scan \
	tests/unit/shm/check_job \
	tests/unit/sched/check_alarm \
	tests/unit/modules/check_algorithm \
	tests/unit/modules/check_array \
	tests/unit/sched/check_aside \
	tests/unit/client/check_batch \
	tests/unit/core/check_bell \
	tests/unit/client/check_cancel_message \
	tests/unit/core/check_channel \
	tests/unit/client/check_connect \
	tests/unit/jobs/check_deadline \
	tests/unit/core/check_deque \
	tests/unit/jobs/check_drain \
	tests/unit/client/check_error \
	tests/unit/client/check_events \
	tests/unit/fiber/check_fiber \
	tests/unit/fiber/check_fiber_block \
	tests/unit/fiber/check_fiber_counter \
	tests/unit/fiber/check_fiber_io \
	tests/unit/fiber/check_fiber_park \
	tests/unit/fiber/check_fiber_shared \
	tests/unit/core/check_fiber_stack \
	tests/unit/core/check_fiber_stack_guard \
	tests/unit/fiber/check_fiber_time \
	tests/unit/modules/check_fold \
	tests/unit/engine/check_forkmode \
	tests/unit/client/check_group \
	tests/unit/core/check_halt \
	tests/unit/client/check_heap \
	tests/unit/jobs/check_intake \
	tests/unit/jobs/check_intake_turn \
	tests/unit/core/check_lazy \
	tests/unit/sched/check_lazy_pool \
	tests/unit/common/check_log \
	tests/unit/client/check_many \
	tests/unit/common/check_number \
	tests/unit/common/check_option_list \
	tests/unit/common/check_option_table \
	tests/unit/common/check_option_value \
	tests/unit/common/check_options \
	tests/unit/common/check_options_args \
	tests/unit/common/check_options_file \
	tests/unit/common/check_options_print \
	tests/unit/sched/check_park \
	tests/unit/core/check_permit \
	tests/unit/pool/check_pool \
	tests/unit/core/check_profile \
	tests/unit/client/check_publish \
	tests/unit/jobs/check_record \
	tests/unit/core/check_registry \
	tests/unit/jobs/check_requeue \
	tests/unit/shm/check_ring_astray \
	tests/unit/pool/check_sleep \
	tests/unit/client/check_slots \
	tests/unit/client/check_spill \
	tests/unit/core/check_stack_account \
	tests/unit/core/check_stack_arena \
	tests/unit/engine/check_strand \
	tests/unit/engine/check_strand_full \
	tests/unit/jobs/check_strict \
	tests/unit/client/check_submit \
	tests/unit/core/check_switch \
	tests/unit/core/check_switch_ucontext \
	tests/unit/core/check_trace \
	tests/unit/jobs/check_vacate \
	tests/unit/client/check_wait \
	tests/unit/shm/check_wake

# What takes longest comes first, so that no single one is left in the end.
dist_check_SCRIPTS += $(SCRIPT_TESTS)
if TSAN
check_PROGRAMS += $(TSAN_TESTS)
TESTS += $(TSAN_TESTS)
else
check_PROGRAMS += $(UNIT_TESTS) $(SCENARIOS) tests/support/backtrace_rig
TESTS += $(SCRIPT_TESTS) $(SCENARIOS) $(UNIT_TESTS)
endif
$(check_PROGRAMS): private LIBTOOL = $(SHELL) $(srcdir)/tests/support/link
dist_noinst_SCRIPTS += tests/support/link

# Those that take long and say nothing new under another compiler or a sanitizer. contrib/check runs
# the rest there: `make check TESTS="$(make -s short-tests)"`.
LONG_TESTS = \
	tests/cli/check-bench \
	tests/cli/check-guides \
	tests/cli/check-numa \
	tests/cli/check-python \
	tests/cli/check-races \
	tests/scenario/check_hanging \
	tests/scenario/check_inject \
	tests/scenario/check_parking \
	tests/sim/check_sim \
	tests/model/run \
	tests/soak/soak_starve \
	tests/soak/soak_stress
# Those that look at the sources alone, or at what --help says.
TEXT_TESTS = \
	tests/source/check-abi \
	tests/source/check-completion \
	tests/source/check-debian \
	tests/source/check-documented \
	tests/source/check-orders \
	tests/source/check-style
short-tests:
	@echo $(filter-out $(LONG_TESTS) $(TEXT_TESTS),$(TESTS))
# And of these those that have a compiler at work: another one says nothing new of what the other
# scripts look at, what programs print and other programs read.
COMPILING_TESTS = \
	tests/cli/check-cpp \
	tests/cli/check-manuals \
	tests/cli/check-readme
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
	tests/scenario/check_blame \
	tests/scenario/check_chain \
	tests/scenario/check_child \
	tests/scenario/check_confine \
	tests/scenario/check_copies \
	tests/scenario/check_cpus \
	tests/scenario/check_crash \
	tests/unit/core/check_deque \
	tests/unit/sched/check_fair_queue \
	tests/unit/client/check_group \
	tests/scenario/check_hostile \
	tests/scenario/check_isolation \
	tests/unit/sched/check_lazy_pool \
	tests/scenario/check_manager \
	tests/unit/host/check_module \
	tests/unit/sched/check_park \
	tests/scenario/check_quarantine \
	tests/unit/shm/check_ring \
	tests/unit/shm/check_ring_astray \
	tests/scenario/check_scenario \
	tests/scenario/check_service \
	tests/scenario/check_session \
	tests/scenario/check_settings \
	tests/unit/pool/check_sleep \
	tests/unit/core/check_stack \
	tests/unit/engine/check_strand \
	tests/unit/engine/check_strand_full \
	tests/unit/engine/check_task_api \
	tests/unit/host/check_topology \
	tests/scenario/check_users \
	tests/unit/host/check_victims \
	tests/unit/shm/check_wake
dist-tests:
	@echo $(filter-out $(LONG_TESTS) $(TEXT_TESTS),$(DIST_TESTS))
# Of the other programs the compiler reads the sources there and makes nothing of them: the tarball
# has them, and their headers. What comes out of a compiler is seen in the other tiers. A debugger runs
# two of them (tests/cli/check-backtrace).
SCRIPTS_NEED = tests/unit/fiber/check_fiber tests/unit/fiber/check_fiber_block
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
	tests/scenario/check_child \
	tests/unit/modules/check_compress \
	tests/scenario/check_crash \
	tests/unit/core/check_deque \
	tests/unit/sched/check_lazy_pool \
	tests/scenario/check_manager \
	tests/unit/host/check_module \
	tests/unit/shm/check_ring \
	tests/scenario/check_scenario \
	tests/scenario/check_service \
	tests/scenario/check_session \
	tests/unit/pool/check_sleep \
	tests/unit/core/check_stack \
	tests/unit/engine/check_task_api \
	tests/unit/host/check_topology
package-tests:
	@echo $(PACKAGE_TESTS)
.PHONY: check-sources clang-tests dist-programs dist-tests package-tests short-tests

# No test hangs for ever: after TEST_TIME seconds it is killed and has failed. In a debugger:
# make check LOG_COMPILER= AM_LOG_FLAGS= TESTS=...
TEST_TIME = 600
LOG_COMPILER = $(srcdir)/tests/support/limited
AM_LOG_FLAGS = $(TEST_TIME)
dist_noinst_SCRIPTS += tests/support/limited
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
	TSAN_OPTIONS="suppressions=$(abs_top_srcdir)/tests/support/tsan.supp:$${TSAN_OPTIONS}"; \
	export TSAN_OPTIONS; \
	CK_TIMEOUT_MULTIPLIER="$${CK_TIMEOUT_MULTIPLIER:-1}"; export CK_TIMEOUT_MULTIPLIER;

# What tests share, each part by its header: a program gets what it uses of it.
check_LTLIBRARIES += tests/support/libtests.la
tests_support_libtests_la_SOURCES = \
	tests/support/counts.c \
	tests/support/counts.h \
	tests/support/daemon.c \
	tests/support/daemon.h \
	tests/support/daemon_end.c \
	tests/support/daemon_proc.c \
	tests/support/fake.c \
	tests/support/fake.h \
	tests/support/fdstore.c \
	tests/support/fdstore.h \
	tests/support/hostile.c \
	tests/support/hostile.h \
	tests/support/kept.c \
	tests/support/kept.h \
	tests/support/oracle.c \
	tests/support/oracle.h \
	tests/support/rig.c \
	tests/support/rig.h \
	tests/support/service.c \
	tests/support/service.h \
	tests/support/stub.c \
	tests/support/stub.h

# What tests/cli/check-cpp compiles, and tests/cli/check-python runs.
EXTRA_DIST += \
	tests/cpp/client.cc \
	tests/python/rig.py \
	tests/python/test_calls.py \
	tests/python/test_memory.py

# Those of several files.
tests_unit_modules_check_compress_SOURCES = \
	daemon/modules/compress_gzip.c \
	daemon/modules/compress_zstd.c \
	tests/unit/modules/check_compress.c
tests_scenario_check_inject_SOURCES = \
	tests/scenario/check_inject.c \
	tests/support/inject.c \
	tests/support/inject.h \
	tests/support/inject_runs.h \
	tests/support/visitor.c \
	tests/support/visitor.h
tests_scenario_check_isolation_SOURCES = \
	tests/scenario/check_isolation.c \
	tests/support/isolation.h \
	tests/support/isolation_processes.c \
	tests/support/isolation_segments.c
tests_unit_shm_check_layout_SOURCES = \
	tests/unit/shm/check_layout.c \
	tests/unit/shm/check_layout.h \
	tests/unit/shm/check_layout_ring.c \
	tests/unit/shm/check_layout_same.c
# The frame pointer has to be found again, too.
tests_support_backtrace_rig_CFLAGS = $(AM_CFLAGS) -fno-omit-frame-pointer
# Once more, with the implementation that few machines need.
tests_unit_core_check_switch_ucontext_SOURCES = \
	daemon/core/switch.c \
	daemon/core/switch_ucontext.c \
	tests/unit/core/check_switch.c
tests_unit_core_check_switch_ucontext_CPPFLAGS = $(AM_CPPFLAGS) -DSWITCH_UCONTEXT=1
tests_unit_core_check_switch_ucontext_LDADD = libcommon.la $(CHECK_LIBS)
# What forkctl top is without a forkd and a terminal.
tests_unit_forkctl_check_top_SOURCES = tests/unit/forkctl/check_top.c tests/support/top_rig.h
tests_unit_forkctl_check_top_draw_SOURCES = tests/unit/forkctl/check_top_draw.c tests/support/top_rig.h
tests_soak_soak_stress_SOURCES = \
	tests/support/maze.h \
	tests/soak/soak.h \
	tests/soak/soak_arrays.c \
	tests/soak/soak_jobs.c \
	tests/soak/soak_jobs.h \
	tests/soak/soak_modules.c \
	tests/soak/soak_stress.c \
	tests/soak/soak_torment.c \
	tests/soak/soak_torment.h

tests_unit_modules_check_array_LDADD = $(LDADD) -lm
tests_unit_modules_check_compress_CFLAGS = $(AM_CFLAGS) $(ZSTD_CFLAGS) $(DEFLATE_CFLAGS) $(ZLIB_CFLAGS)
tests_unit_modules_check_compress_LDADD = $(LDADD) $(ZSTD_LIBS) $(DEFLATE_LIBS) $(ZLIB_LIBS)
tests_unit_modules_check_hash_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) $(NETTLE_CFLAGS)
tests_unit_modules_check_hash_LDADD = $(LDADD) $(NETTLE_LIBS)
tests_unit_modules_check_image_LDADD = $(LDADD) -lm
tests_unit_modules_check_modules_LDADD = $(LDADD) -lm
tests_unit_modules_check_scan_LDADD = $(LDADD) -lm
tests_unit_pool_check_sleep_CFLAGS = $(libpool_la_CFLAGS)
tests_unit_forkctl_check_timeline_CFLAGS = $(AM_CFLAGS) $(FORKCTL_CFLAGS)
tests_unit_forkctl_check_timeline_LDADD = $(LDADD) $(FORKCTL_LIBS)
tests_unit_forkctl_check_top_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_forkctl_check_top_LDADD = $(LDADD) $(FORKCTL_LIBS)
tests_unit_forkctl_check_top_draw_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_forkctl_check_top_draw_LDADD = $(LDADD) $(FORKCTL_LIBS)
tests_unit_host_check_victims_LDADD = $(LDADD) -lm
tests_soak_soak_stress_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) $(NETTLE_CFLAGS)
tests_soak_soak_stress_LDADD = $(LDADD) $(NETTLE_LIBS) -lm

# The kernel is short of something when the test says so.
tests_unit_core_check_channel_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=nanosleep \
	-Wl,--wrap=proto_recv_short \
	-Wl,--wrap=proto_send
tests_unit_fiber_check_fiber_block_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_create
FIBER_STACK_WRAPS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=madvise \
	-Wl,--wrap=mincore \
	-Wl,--wrap=mmap \
	-Wl,--wrap=mprotect \
	-Wl,--wrap=sysconf
tests_unit_core_check_fiber_stack_LDFLAGS = $(FIBER_STACK_WRAPS)
tests_unit_core_check_fiber_stack_guard_LDFLAGS = $(FIBER_STACK_WRAPS)
tests_unit_fiber_check_fiber_time_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
tests_unit_fiber_check_fiber_io_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
tests_scenario_check_keeping_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=listener_open -Wl,--wrap=poolproc_init
tests_unit_sched_check_lazy_pool_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=strdup
tests_unit_manager_check_loop_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=io_uring_submit_and_wait \
	-Wl,--wrap=nanosleep
tests_scenario_check_manager_killed_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=proto_send
tests_unit_manager_check_poolproc_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=execv \
	-Wl,--wrap=nanosleep \
	-Wl,--wrap=open_memstream \
	-Wl,--wrap=proto_recv_plain \
	-Wl,--wrap=proto_recv_short \
	-Wl,--wrap=proto_send \
	-Wl,--wrap=waitid
tests_unit_manager_check_session_line_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=clock_gettime \
	-Wl,--wrap=session_take
tests_unit_manager_check_store_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=loop_poll \
	-Wl,--wrap=loop_timer \
	-Wl,--wrap=nanosleep \
	-Wl,--wrap=sendmsg
# A trial that is killed has ended then.
tests_unit_manager_check_trial_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=kill

# It says that a worker cannot be pinned.
tests_unit_sched_check_park_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_setaffinity_np

# There is no memory for a job that is spilled.
tests_unit_client_check_spill_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc -Wl,--wrap=tsearch

# The kernel unmaps what was there, and has no memory then.
tests_unit_jobs_check_vacate_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mremap

# The service in a booted systemd.
check_PROGRAMS += tests/systemd/calls
EXTRA_DIST += tests/systemd/inside tests/systemd/run

# The Debian packages, built, installed, used, upgraded and purged: some minutes, and by root alone.
EXTRA_DIST += tests/debian/inside tests/debian/run
deb-test:
	$(srcdir)/tests/debian/run $(srcdir) .
.PHONY: deb-test

EXTRA_DIST += tests/support/alerts.yml tests/support/completion.zsh tests/support/mistakes.def tests/support/races.c tests/support/trace.py tests/support/tsan.supp

# Machines that are not here.
EXTRA_DIST += \
	tests/support/topologies/asymmetric.xml \
	tests/support/topologies/fast.xml \
	tests/support/topologies/memoryless.xml \
	tests/support/topologies/restricted.xml \
	tests/support/topologies/ring.xml

noinst_HEADERS = \
	tests/support/adopt_rig.h \
	tests/support/algorithm.h \
	tests/support/check_unit.h \
	tests/support/compile.h \
	tests/support/control_group.h \
	tests/support/counted.h \
	tests/support/counted_fail.h \
	tests/support/entries.h \
	tests/support/fair_clock.h \
	tests/support/faults.h \
	tests/support/fib.h \
	tests/support/fiber_rig.h \
	tests/support/fiber_stack_rig.h \
	tests/support/fiber_tasks_ends.h \
	tests/support/fiber_tasks_errors.h \
	tests/support/fiber_tasks_own.h \
	tests/support/fiber_tasks_steals.h \
	tests/support/fiber_tasks_trees.h \
	tests/support/fiber_tasks_waits.h \
	tests/support/intake_rig.h \
	tests/support/jobs.h \
	tests/support/keeping.h \
	tests/support/machines.h \
	tests/support/modes.h \
	tests/support/modules/maps.h \
	tests/support/options.h \
	tests/support/other_user.h \
	tests/support/passed.h \
	tests/support/quiet.h \
	tests/support/refuse.h \
	tests/support/reload_rig.h \
	tests/support/requests.h \
	tests/support/ring_rig.h \
	tests/support/shipped.h \
	tests/support/short_of_memory.h \
	tests/support/sites.h \
	tests/support/sleep_steps.h \
	tests/support/stack_room.h \
	tests/support/store_rig.h \
	tests/support/strand_tasks.h \
	tests/support/tasks.h \
	tests/support/unwind_tasks.h

# The long ones, never part of check. Whoever has something for one adds a phony target to its
# list.
BENCH_TARGETS =
SOAK_TARGETS =
FUZZ_TARGETS =
MODEL_TARGETS =

include tests/support/modules/local.mk
include tests/bench/local.mk
include tests/fuzz/local.mk
include tests/model/local.mk
include tests/numa/local.mk
include tests/sim/local.mk

# The scenarios that do more of the same if there is time.
SOAK_TESTS = tests/scenario/check_promises

soak-local:
	SOAK=1 CK_TIMEOUT_MULTIPLIER=4 $(MAKE) $(AM_MAKEFLAGS) check TEST_TIME=7200 \
		TESTS='$(SOAK_TESTS)'

# An hour of stress, or SOAK_SECONDS; a few seconds of it are part of check.
soak-stress:
	SOAK_SECONDS="$${SOAK_SECONDS:-3600}" $(MAKE) $(AM_MAKEFLAGS) check TEST_TIME=100000 \
		TESTS=tests/soak/soak_stress

# The same with jobs of fibers and frames alone.
soak-fibers:
	SOAK_FIBERS=1 SOAK_SECONDS="$${SOAK_SECONDS:-3600}" $(MAKE) $(AM_MAKEFLAGS) check \
		TEST_TIME=100000 TESTS=tests/soak/soak_stress

# A million fibers that wait, of each kind: some five GB of memory. The log has what each cost.
soak-million:
	FIBERS="$${FIBERS:-1000000}" CK_TIMEOUT_MULTIPLIER=4 $(MAKE) $(AM_MAKEFLAGS) check \
		TESTS=tests/unit/fiber/check_fiber_million
	sed -n '/fibers parked/p' tests/unit/fiber/check_fiber_million.log

# Five minutes with a tenth of a CPU; a few seconds of it are part of check.
soak-starve:
	SOAK_SECONDS="$${SOAK_SECONDS:-300}" CK_TIMEOUT_MULTIPLIER=20 $(MAKE) $(AM_MAKEFLAGS) \
		check TEST_TIME=100000 TESTS=tests/soak/soak_starve
	sed -n '/nobody blamed/p' tests/soak/soak_starve.log

# Clients killed at random, a quarter of an hour of it; the log has how soon that was noticed.
soak-kill:
	KILLS="$${KILLS:-100000}" CK_TIMEOUT_MULTIPLIER=20 $(MAKE) $(AM_MAKEFLAGS) check \
		TEST_TIME=11000 TESTS=tests/scenario/check_kill
	sed -n '/deaths noticed\|clients killed\|were counted/p' tests/scenario/check_kill.log

# Every call fails, in its turn, in every way: hours. INJECT="pool restart mmap": only those.
inject: all
	INJECT_ALL=1 $(MAKE) $(AM_MAKEFLAGS) check TEST_TIME=20000 TESTS=tests/scenario/check_inject
	sed -n '/ runs: /p' tests/scenario/check_inject.log
.PHONY: inject

SOAK_TARGETS += soak-local soak-stress soak-fibers soak-million soak-starve soak-kill

bench: all $(BENCH_TARGETS)
soak: all $(SOAK_TARGETS)
fuzz: all $(FUZZ_TARGETS)
model: all $(MODEL_TARGETS)
.PHONY: bench soak fuzz model $(BENCH_TARGETS) $(SOAK_TARGETS) $(FUZZ_TARGETS) $(MODEL_TARGETS)

# Put every C file into the form that tests/source/check-style asks for.
format:
	cd $(srcdir) && find common shm client daemon tests contrib -name '*.[ch]' -type f \
		-exec $(CLANG_FORMAT) -i {} +
.PHONY: format
