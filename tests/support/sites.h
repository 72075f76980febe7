/* SPDX-License-Identifier: MIT */
/* sites.h - whether the tests of a process's crash sites know all of them */
#ifndef TESTS_SITES_H
#define TESTS_SITES_H

#include <check.h>
#include <stdbool.h>

#include "common/crash_site.h"

#ifdef FK_CRASH_SITES

/* Fails the test if somebody of this kind does not die at one of its sites of
 * common/crash_site.def. is_tried: of a site, whether somebody does. */
static inline void sites_check(enum crash_process process, bool (*is_tried)(enum crash_site site))
{
	for (int site = CRASH_NONE + 1; site < CRASH_SITES; site++)
		ck_assert_msg(
			crash_rows[site].process != process || is_tried((enum crash_site)site),
			"nobody dies at %s: %s", crash_rows[site].name, crash_rows[site].between);
}

#endif

#endif
