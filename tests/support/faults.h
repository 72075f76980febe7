/* SPDX-License-Identifier: MIT */
/* faults.h - the ways to fault that a child in tests/support/modules/crash.c has */
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
