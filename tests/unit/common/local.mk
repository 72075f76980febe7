# SPDX-License-Identifier: MIT
# Tests of the units in common.

PROGRAM_TESTS += \
	tests/unit/common/check_list \
	tests/unit/common/check_log \
	tests/unit/common/check_number \
	tests/unit/common/check_option_list \
	tests/unit/common/check_option_table \
	tests/unit/common/check_option_value \
	tests/unit/common/check_options \
	tests/unit/common/check_options_args \
	tests/unit/common/check_options_dir \
	tests/unit/common/check_options_file \
	tests/unit/common/check_options_print
