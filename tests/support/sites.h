/* SPDX-License-Identifier: MIT */
/* sites.h - checks that the tests of a process's crash sites cover all of them */
#pragma once

#include <check.h>
#include <stdbool.h>

#include "common/crash_site.h"
#include "common/util.h"

#ifdef FK_CRASH_SITES

/* Fails the test if its table lacks a site of common/crash_site.def at which a process of this kind
 * can die. */
#define SITES_CHECK(kind, rows)                                                                    \
	do {                                                                                       \
		for (int site = CRASH_NONE + 1; site < CRASH_SITES; site++) {                      \
			bool tried = crash_rows[site].process != (kind);                           \
                                                                                                   \
			for (size_t row = 0; row < ARRAY_SIZE(rows); row++)                        \
				tried |= (int)(rows)[row].site == site;                            \
			ck_assert_msg(tried, "no test dies at %s: %s", crash_rows[site].name,      \
				      crash_rows[site].between);                                   \
		}                                                                                  \
	} while (0)

#endif
