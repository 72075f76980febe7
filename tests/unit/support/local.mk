# SPDX-License-Identifier: MIT
# Tests of the units in tests/support.

PROGRAM_TESTS += \
	tests/unit/support/check_oracle
