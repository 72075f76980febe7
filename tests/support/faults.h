/* SPDX-License-Identifier: MIT */
/* faults.h - the kinds of faults of a child in tests/support/modules/crash.c */
#pragma once

enum {
	FAULT_FUNCTION,
	FAULT_CALL,
	FAULT_FIRST_BLOCK,
	FAULT_COPY,
	FAULT_EXIT,
	FAULT_STACK,
	FAULT_LOADED,
};
