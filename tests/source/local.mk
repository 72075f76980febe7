# SPDX-License-Identifier: MIT
# Scripts that read the sources.

SCRIPT_TESTS += \
	tests/source/check-abi \
	tests/source/check-completion \
	tests/source/check-debian \
	tests/source/check-docs \
	tests/source/check-documented \
	tests/source/check-layers \
	tests/source/check-orders \
	tests/source/check-probes \
	tests/source/check-prose \
	tests/source/check-sites \
	tests/source/check-style \
	tests/source/check-unit

EXTRA_DIST += tests/source/prose-limits tests/source/sentences.awk
