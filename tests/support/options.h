/* SPDX-License-Identifier: MIT */
/* options.h - what the tests of options share: one of them all, and the last error */
#ifndef TESTS_OPTIONS_H
#define TESTS_OPTIONS_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"
#include "common/options_print.h"

static struct options o;
static struct options_error error;

#define ck_assert_error(part) ck_assert_msg(strstr(error.text, part), "message: %s", error.text)

static inline void init(void)
{
	ck_assert_int_eq(options_init(&o), 0);
}

static inline int set(const char *name, const char *value)
{
	error.text[0] = '\0';
	return options_set(&o, name, value, "here", &error);
}

/* As a forkd.conf; to be freed. */
static inline char *printed(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(f);
	options_print(&o, f);
	ck_assert_int_eq(fclose(f), 0);
	return text;
}

#endif
