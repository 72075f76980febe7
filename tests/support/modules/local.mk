# SPDX-License-Identifier: MIT
# Modules for the tests. They are built in tests/support/modules/.libs, the module-dir of a forkd
# that a test starts. Modules that its loader must refuse are in tests/support/modules/broken/.libs.
# With -rpath libtool builds shared objects, although they are not installed.

TEST_MODULE_LDFLAGS = $(MODULE_LDFLAGS) -rpath '$(moduledir)'

# Each has one source of the same name, and the flags of this directory.
tests/support/modules/%.la: AM_CFLAGS = $(MODULE_CFLAGS)

if !TSAN
check_LTLIBRARIES += \
	tests/support/modules/broken/broken_abi.la \
	tests/support/modules/broken/broken_crash.la \
	tests/support/modules/broken/broken_signature.la \
	tests/support/modules/broken/broken_size.la \
	tests/support/modules/broken/broken_small.la \
	tests/support/modules/broken/broken_symbol.la \
	tests/support/modules/broken/broken_undefined.la \
	tests/support/modules/ask.la \
	tests/support/modules/bytes.la \
	tests/support/modules/count.la \
	tests/support/modules/crash.la \
	tests/support/modules/deep.la \
	tests/support/modules/fiber.la \
	tests/support/modules/flat.la \
	tests/support/modules/hog.la \
	tests/support/modules/hang.la \
	tests/support/modules/later/forks.la \
	tests/support/modules/later/join000.la \
	tests/support/modules/later/needed.la \
	tests/support/modules/later/needs.la \
	tests/support/modules/later/null.la \
	tests/support/modules/later/slow.la \
	tests/support/modules/later/test.la \
	tests/support/modules/mark.la \
	tests/support/modules/null.la \
	tests/support/modules/spin.la \
	tests/support/modules/stall.la \
	tests/support/modules/wild.la \
	tests/support/modules/wrong/slow.la \
	tests/support/modules/wrong/time.la \
	tests/support/modules/wrong/wrong.la
endif

tests_support_modules_broken_broken_abi_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_broken_broken_crash_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_broken_broken_signature_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_broken_broken_size_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_broken_broken_small_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_broken_broken_symbol_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_broken_broken_undefined_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_ask_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_bytes_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_count_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_crash_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_deep_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_fiber_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_flat_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_hog_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_hang_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_later_forks_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_later_join000_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_later_needed_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_later_needs_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_later_null_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_later_slow_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_later_test_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_mark_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_null_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_spin_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_stall_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_wild_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_wrong_slow_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_wrong_time_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
tests_support_modules_wrong_wrong_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
