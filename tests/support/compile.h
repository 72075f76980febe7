/* SPDX-License-Identifier: MIT */
/*
 * compile.h - compiles snippets of modules that the compiler must accept or refuse
 *
 * Calls the compiler as a module author does. Messages are in the C locale.
 */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Messages of the last compile(). */
static char compile_message[65536];

/* The compiler that this tree was configured with. */
static inline const char *compile_cc(void)
{
	const char *cc = getenv("CC");

	return cc ? cc : "cc";
}

/* Returns a compiler of each family. $CC, which configured this tree, is one of them. The other one
 * may be missing. */
static inline const char *compile_family(bool clang)
{
	const char *cc = compile_cc();

	if (!strstr(cc, "clang") == !clang)
		return cc;
	if (clang)
		return system("command -v clang >/dev/null") ? NULL : "clang";
	return system("command -v gcc >/dev/null") ? NULL : "gcc";
}

/* Flags for a module, up to the name of the include directory. */
#define COMPILE_FLAGS "-O1 -Wall -Wextra -I"

/* Compiles a text with the headers of top_srcdir/DIRECTORY. Returns the compiler's status. */
static inline int compile_text(const char *cc, const char *flags, const char *directory,
			       const char *text)
{
	const char *top = getenv("top_srcdir");
	char path[] = "/tmp/forkd-compile.XXXXXX";
	char command[4096];
	size_t size;
	FILE *f;
	int fd = mkstemp(path);
	int status;

	ck_assert_int_ge(fd, 0);
	f = fdopen(fd, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
	size = (size_t)snprintf(
		command, sizeof(command),
		"LC_ALL=C %s -std=gnu11 -fPIC %s '%s/%s' -x c -c -o /dev/null %s 2>&1", cc, flags,
		top ? top : ".", directory, path);
	ck_assert_uint_lt(size, sizeof(command));
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	size = fread(compile_message, 1, sizeof(compile_message) - 1, f);
	compile_message[size] = '\0';
	status = pclose(f);
	remove(path);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Compiles this text as a module that includes <forkd/HEADER>. */
static inline int compile(const char *cc, const char *flags, const char *header, const char *text)
{
	char module[4096];
	int size = snprintf(module, sizeof(module),
			    "#include <forkd/%s>\n%s\nFK_MODULE(snippet, \"A snippet\")\n", header,
			    text);

	ck_assert_int_lt(size, (int)sizeof(module));
	return compile_text(cc, flags, "daemon", module);
}

/* Checks that the compiler accepts the text without a message. */
static inline void compile_taken(const char *cc, const char *flags, const char *header,
				 const char *text)
{
	int status = compile(cc, flags, header, text);

	ck_assert_msg(status == 0 && !compile_message[0], "%s %s: %s", cc, flags, compile_message);
}

/* Checks that the compiler refuses the text with this message. */
static inline void compile_refused(const char *cc, const char *flags, const char *header,
				   const char *text, const char *message)
{
	ck_assert_msg(compile(cc, flags, header, text) != 0, "%s %s: compiled, but must not: %s",
		      cc, flags, text);
	ck_assert_msg(strstr(compile_message, message), "%s %s: \"%s\" is not in: %s", cc, flags,
		      message, compile_message);
}
