/* SPDX-License-Identifier: MIT */
/*
 * options.h - shared by the tests of options: one set of options, and the last error
 *
 * Each test begins with the defaults.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/options.h"
#include "common/options_file.h"
#include "common/options_print.h"
#include "tests/support/check_unit.h"

#undef CHECK_SETUP
#undef CHECK_TEARDOWN
#define CHECK_SETUP    init
#define CHECK_TEARDOWN fini

static struct options o;
static struct options_error error;

#define ck_assert_error(part) ck_assert_msg(strstr(error.text, part), "message: %s", error.text)

/* The call must return this code, with a message that has this part. */
#define FAILS(call, code, part)                                                                    \
	do {                                                                                       \
		ck_assert_int_eq(call, code);                                                      \
		ck_assert_error(part);                                                             \
	} while (0)

static inline void fini(void)
{
	options_fini(&o);
}

/* Resets to the defaults. */
static inline void init(void)
{
	fini();
	ck_assert_int_eq(options_init(&o), 0);
}

static inline int set(const char *name, const char *value)
{
	error.text[0] = '\0';
	return options_set(&o, name, value, "here", &error);
}

/* Calls options_file_read() on some bytes, and on a text. */
static inline int read_bytes(const char *bytes, size_t size)
{
	_cleanup_fclose_ FILE *f = fmemopen((void *)(uintptr_t)bytes, size, "r");

	ck_assert_ptr_nonnull(f);
	error.text[0] = '\0';
	return options_file_read(&o, f, "forkd.conf", &error);
}

static inline int read_text(const char *text)
{
	return read_bytes(text, strlen(text));
}

/* Returns the options as a forkd.conf; the caller frees it. */
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
