# SPDX-License-Identifier: MIT
# Modules for the tests. They are built in tests/modules/.libs, which a forkd that a test starts
# takes as its module-dir; broken_* must be refused by its loader. -rpath makes libtool build shared
# objects of what is never installed.

TEST_MODULE_LDFLAGS = $(MODULE_LDFLAGS) -rpath '$(moduledir)'

check_LTLIBRARIES += \
	tests/modules/broken_abi.la \
	tests/modules/broken_signature.la \
	tests/modules/broken_size.la \
	tests/modules/broken_symbol.la \
	tests/modules/bytes.la \
	tests/modules/crash.la \
	tests/modules/deep.la \
	tests/modules/flat.la \
	tests/modules/null.la

tests_modules_broken_abi_la_SOURCES = tests/modules/broken_abi.c
tests_modules_broken_abi_la_CFLAGS = $(MODULE_CFLAGS)
tests_modules_broken_abi_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)

tests_modules_broken_signature_la_SOURCES = tests/modules/broken_signature.c
tests_modules_broken_signature_la_CFLAGS = $(MODULE_CFLAGS)
tests_modules_broken_signature_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)

tests_modules_broken_size_la_SOURCES = tests/modules/broken_size.c
tests_modules_broken_size_la_CFLAGS = $(MODULE_CFLAGS)
tests_modules_broken_size_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)

tests_modules_broken_symbol_la_SOURCES = tests/modules/broken_symbol.c
tests_modules_broken_symbol_la_CFLAGS = $(MODULE_CFLAGS)
tests_modules_broken_symbol_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)

tests_modules_bytes_la_SOURCES = tests/modules/bytes.c
tests_modules_bytes_la_CFLAGS = $(MODULE_CFLAGS)
tests_modules_bytes_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)

tests_modules_crash_la_SOURCES = tests/modules/crash.c
tests_modules_crash_la_CFLAGS = $(MODULE_CFLAGS)
tests_modules_crash_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)

tests_modules_deep_la_SOURCES = tests/modules/deep.c
tests_modules_deep_la_CFLAGS = $(MODULE_CFLAGS)
tests_modules_deep_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)

tests_modules_flat_la_SOURCES = tests/modules/flat.c
tests_modules_flat_la_CFLAGS = $(MODULE_CFLAGS)
tests_modules_flat_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)

tests_modules_null_la_SOURCES = tests/modules/null.c
tests_modules_null_la_CFLAGS = $(MODULE_CFLAGS)
tests_modules_null_la_LDFLAGS = $(TEST_MODULE_LDFLAGS)
