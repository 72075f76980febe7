# SPDX-License-Identifier: MIT
# Modules for the tests. They are built in tests/modules/.libs, which a forkd that a test starts
# takes as its module-dir; those that its loader must refuse, in tests/modules/broken/.libs. -rpath
# makes libtool build shared objects of what is never installed.

TEST_MODULE_LDFLAGS = $(MODULE_LDFLAGS) -rpath '$(moduledir)'

# Each is made of the source of its own name, with the flags of this folder.
tests/modules/%.la: AM_CFLAGS = $(MODULE_CFLAGS)

if !TSAN
check_LTLIBRARIES += \
	tests/modules/broken/broken_abi.la \
	tests/modules/broken/broken_crash.la \
	tests/modules/broken/broken_signature.la \
	tests/modules/broken/broken_size.la \
	tests/modules/broken/broken_small.la \
	tests/modules/broken/broken_symbol.la \
	tests/modules/broken/broken_undefined.la \
	tests/modules/ask.la \
	tests/modules/bytes.la \
	tests/modules/count.la \
	tests/modules/crash.la \
	tests/modules/deep.la \
	tests/modules/fiber.la \
	tests/modules/flat.la \
	tests/modules/hog.la \
	tests/modules/hang.la \
	tests/modules/later/forks.la \
	tests/modules/later/join000.la \
	tests/modules/later/needed.la \
	tests/modules/later/needs.la \
	tests/modules/later/null.la \
	tests/modules/later/slow.la \
	tests/modules/mark.la \
	tests/modules/null.la \
	tests/modules/spin.la \
	tests/modules/stall.la \
	tests/modules/wild.la \
	tests/modules/wrong/slow.la \
	tests/modules/wrong/time.la \
	tests/modules/wrong/wrong.la
endif

tests_modules_broken_broken_abi_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_broken_broken_crash_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_broken_broken_signature_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_broken_broken_size_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_broken_broken_small_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_broken_broken_symbol_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_broken_broken_undefined_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_ask_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_bytes_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_count_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_crash_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_deep_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_fiber_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_flat_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_hog_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_hang_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_later_forks_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_later_join000_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_later_needed_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_later_needs_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_later_null_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_later_slow_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_mark_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_null_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_spin_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_stall_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_wild_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_wrong_slow_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_wrong_time_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_modules_wrong_wrong_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
