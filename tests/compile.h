/* SPDX-License-Identifier: MIT */
/*
 * tests/compile.h - snippets of modules that the compiler is to take, or to refuse
 *
 * With the compiler that this tree was configured with ($CC), as a module's author would call it.
 */
#ifndef TESTS_COMPILE_H
#define TESTS_COMPILE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* The words of the last compile(). */
static char compile_message[65536];

/* Compiles a module of this text, which includes <forkd/HEADER>. Returns the compiler's status. */
static inline int compile(const char *header, const char *text)
{
	const char *cc = getenv("CC"), *top = getenv("top_srcdir");
	char path[] = "/tmp/forkd-compile.XXXXXX";
	char command[4096];
	size_t size;
	FILE *f;
	int fd = mkstemp(path);
	int status;

	ck_assert_int_ge(fd, 0);
	f = fdopen(fd, "w");
	ck_assert_ptr_nonnull(f);
	fprintf(f, "#include <forkd/%s>\n%s\nFK_MODULE(snippet, \"A snippet\")\n", header, text);
	ck_assert_int_eq(fclose(f), 0);
	/* C's own messages, whatever language the tester speaks. */
	size = (size_t)snprintf(command, sizeof(command),
				"LC_ALL=C %s -std=gnu11 -O1 -fPIC -Wall -Wextra -I'%s/daemon' -x c "
				"-c -o /dev/null %s 2>&1",
				cc ? cc : "cc", top ? top : ".", path);
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

/* The compiler takes it without a word. */
static inline void compile_taken(const char *header, const char *text)
{
	int status = compile(header, text);

	ck_assert_msg(status == 0 && !compile_message[0], "%s", compile_message);
}

/* It does not, and one of these stands in what it says, each compiler's own. */
static inline void compile_refused(const char *header, const char *text, const char *gcc,
				   const char *clang)
{
	ck_assert_msg(compile(header, text) != 0, "compiled, but must not: %s", text);
	ck_assert_msg(strstr(compile_message, gcc) || strstr(compile_message, clang),
		      "refused, but for: %s", compile_message);
}

#endif
