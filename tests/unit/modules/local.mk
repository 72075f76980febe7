# SPDX-License-Identifier: MIT
# Tests of the units in daemon/modules.

PROGRAM_TESTS += \
	tests/unit/modules/check_algorithm \
	tests/unit/modules/check_array \
	tests/unit/modules/check_compress \
	tests/unit/modules/check_each \
	tests/unit/modules/check_flips \
	tests/unit/modules/check_fold \
	tests/unit/modules/check_hash \
	tests/unit/modules/check_image \
	tests/unit/modules/check_matmul \
	tests/unit/modules/check_modules \
	tests/unit/modules/check_records \
	tests/unit/modules/check_scan \
	tests/unit/modules/check_search \
	tests/unit/modules/check_sort

# Those of several files.
tests_unit_modules_check_compress_SOURCES = \
	daemon/modules/compress_gzip.c \
	daemon/modules/compress_zstd.c \
	tests/unit/modules/check_compress.c
tests_unit_modules_check_array_LDADD = $(LDADD) -lm
tests_unit_modules_check_compress_CFLAGS = $(AM_CFLAGS) $(ZSTD_CFLAGS) $(DEFLATE_CFLAGS) $(ZLIB_CFLAGS)
tests_unit_modules_check_compress_LDADD = $(LDADD) $(ZSTD_LIBS) $(DEFLATE_LIBS) $(ZLIB_LIBS)
tests_unit_modules_check_hash_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) $(NETTLE_CFLAGS)
tests_unit_modules_check_hash_LDADD = $(LDADD) $(NETTLE_LIBS)
tests_unit_modules_check_image_LDADD = $(LDADD) -lm
tests_unit_modules_check_modules_LDADD = $(LDADD) -lm
tests_unit_modules_check_scan_LDADD = $(LDADD) -lm
