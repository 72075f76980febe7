# SPDX-License-Identifier: MIT
# Real processes with a real gearmand.

SCRIPT_TESTS += tests/gearman/check-faults
