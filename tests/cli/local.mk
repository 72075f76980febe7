# SPDX-License-Identifier: MIT
# Scripts that compare the output of programs.

SCRIPT_TESTS += \
	tests/cli/check-backtrace \
	tests/cli/check-badinput \
	tests/cli/check-bench \
	tests/cli/check-call \
	tests/cli/check-commands \
	tests/cli/check-cpp \
	tests/cli/check-forkctl-check \
	tests/cli/check-forkctl-json \
	tests/cli/check-guides \
	tests/cli/check-lists \
	tests/cli/check-manuals \
	tests/cli/check-metrics \
	tests/cli/check-numa \
	tests/cli/check-python \
	tests/cli/check-races \
	tests/cli/check-readme \
	tests/cli/check-shipped \
	tests/cli/check-top \
	tests/cli/check-valgrind

# Sources for tests/cli/check-cpp and tests/cli/check-python.
EXTRA_DIST += \
	tests/cpp/client.cc \
	tests/cpp/pool.cc \
	tests/python/rig.py \
	tests/python/test_calls.py \
	tests/python/test_memory.py
