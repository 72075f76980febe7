/* SPDX-License-Identifier: MIT */
/*
 * task_api: what task.h promises that the compiler catches is caught, by the compiler that this
 * tree was configured with ($CC), and the message names what is wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/check_unit.h"

static char message[65536];

/* Compiles a module of this text. Returns the compiler's status; its words are in message. */
static int compile(const char *text)
{
	const char *cc = getenv("CC"), *top = getenv("top_srcdir");
	char path[] = "/tmp/check_task_api.XXXXXX";
	char command[4096];
	size_t size;
	FILE *f;
	int fd = mkstemp(path);
	int status;

	ck_assert_int_ge(fd, 0);
	f = fdopen(fd, "w");
	ck_assert_ptr_nonnull(f);
	fprintf(f, "#include <forkd/task.h>\n%s\nFK_MODULE(snippet, \"A snippet\")\n", text);
	ck_assert_int_eq(fclose(f), 0);
	/* C's own messages, whatever language the tester speaks. */
	size = (size_t)snprintf(command, sizeof(command),
				"LC_ALL=C %s -std=gnu11 -O1 -fPIC -Wall -Wextra -I'%s/daemon' -x c "
				"-c -o /dev/null %s 2>&1",
				cc ? cc : "cc", top ? top : ".", path);
	ck_assert_uint_lt(size, sizeof(command));
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	size = fread(message, 1, sizeof(message) - 1, f);
	message[size] = '\0';
	status = pclose(f);
	remove(path);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* One of these stands in the message, each compiler's own. */
static void refused(const char *text, const char *gcc, const char *clang)
{
	ck_assert_msg(compile(text) != 0, "compiled, but must not");
	ck_assert_msg(strstr(message, gcc) || strstr(message, clang), "refused, but for: %s",
		      message);
}

#define LEAF "{ if (n < 2) FK_LEAF(n); }\n"
#define FIB  "FK_TASK(int64_t, fib, (int64_t, n), int64_t x; int64_t y;)\n" LEAF "FK_BODY(fib) {"
#define END  "} FK_END(fib) FK_EXPORT(fib, \"n:i64 -> i64\", 0, \"A task\")"

/* Without this, everything below could be refused for a reason of its own. */
START_TEST(a_task_that_is_right_compiles_without_a_word)
{
	int status = compile(FIB "FK_FORK(x, fib, self->n - 1); FK_CALL(y, fib, self->n - 2);"
				 "FK_JOIN(); FK_RETURN(self->x + self->y);" END);

	ck_assert_msg(status == 0 && !message[0], "%s", message);
}
END_TEST

START_TEST(loops_and_conditions_around_forks_are_fine)
{
	int status = compile(FIB "for (self->y = 0; self->y < 3; self->y++) {"
				 "if (self->n & 1) FK_FORK(x, fib, self->n - 1);"
				 "else FK_CALL(x, fib, self->n - 1); FK_JOIN(); }"
				 "FK_RETURN(self->x);" END);

	ck_assert_msg(status == 0 && !message[0], "%s", message);
}
END_TEST

START_TEST(an_argument_is_not_in_scope_in_the_body)
{
	refused(FIB "FK_FORK(x, fib, n - 1); FK_JOIN(); FK_RETURN(self->x);" END, "'n' undeclared",
		"undeclared identifier 'n'");
}
END_TEST

START_TEST(the_destination_of_a_fork_is_a_member_of_the_frame)
{
	refused(FIB "int64_t z; FK_FORK(z, fib, self->n - 1); FK_JOIN(); FK_RETURN(z);" END,
		"no member named 'z'", "no member named 'z'");
}
END_TEST

START_TEST(a_fork_within_a_switch_of_the_authors_is_an_error)
{
	refused(FIB "switch ((int)self->n) { case 7: FK_FORK(x, fib, self->n - 1); }"
		    "FK_JOIN(); FK_RETURN(self->x);" END,
		"changes value from", "overflow converting case value to switch condition type");
}
END_TEST

START_TEST(a_switch_of_64_bits_takes_no_fork_either)
{
	refused(FIB "switch (self->n) { case 7: FK_FORK(x, fib, self->n - 1); }"
		    "FK_JOIN(); FK_RETURN(self->x);" END,
		"changes value from", "overflow converting case value to switch condition type");
}
END_TEST

START_TEST(a_join_within_a_switch_of_the_authors_is_an_error)
{
	refused(FIB "FK_FORK(x, fib, self->n - 1); switch ((int)self->n) { case 7: FK_JOIN(); }"
		    "FK_RETURN(self->x);" END,
		"changes value from", "overflow converting case value to switch condition type");
}
END_TEST

START_TEST(a_local_of_an_alignment_above_8_is_an_error)
{
	refused("FK_TASK(int64_t, wide, (int64_t, n), _Alignas(16) int64_t x;)\n" LEAF
		"FK_BODY(wide) { FK_RETURN(self->n); } FK_END(wide)",
		"wide: arguments and locals of an alignment above 8 are not supported",
		"wide: arguments and locals of an alignment above 8 are not supported");
}
END_TEST

START_TEST(an_argument_of_an_alignment_above_8_is_an_error)
{
	refused("struct wide { _Alignas(32) int64_t x; };\n"
		"FK_TASK(int64_t, wide, (struct wide, w), )\n{ FK_LEAF(w.x); }"
		"FK_BODY(wide) { FK_RETURN(self->w.x); } FK_END(wide)",
		"wide: arguments and locals of an alignment above 8 are not supported",
		"wide: arguments and locals of an alignment above 8 are not supported");
}
END_TEST

START_TEST(a_result_of_alignment_1_is_an_error)
{
	refused("FK_TASK(bool, yes, (int64_t, n), )\n{ FK_LEAF(n > 0); }"
		"FK_BODY(yes) { FK_RETURN(true); } FK_END(yes)",
		"yes: a result needs an alignment of at least 2 (use int)",
		"yes: a result needs an alignment of at least 2 (use int)");
}
END_TEST

START_TEST(a_task_that_was_declared_nowhere_cannot_be_forked)
{
	refused(FIB "FK_FORK(x, fob, self->n - 1); FK_JOIN(); FK_RETURN(self->x);" END, "fob__ret",
		"fob__ret");
}
END_TEST

START_TEST(parameters_without_a_type_each_are_an_error)
{
	ck_assert_int_ne(compile("FK_TASK(int64_t, odd, (int64_t, n, int64_t), )\n{ FK_LEAF(n); }"
				 "FK_BODY(odd) { FK_RETURN(0); } FK_END(odd)"),
			 0);
	ck_assert_msg(strstr(message, "FK_EACH_odd"), "%s", message);
}
END_TEST

CHECK_MAIN("task_api", a_task_that_is_right_compiles_without_a_word,
	   loops_and_conditions_around_forks_are_fine, an_argument_is_not_in_scope_in_the_body,
	   the_destination_of_a_fork_is_a_member_of_the_frame,
	   a_fork_within_a_switch_of_the_authors_is_an_error,
	   a_switch_of_64_bits_takes_no_fork_either,
	   a_join_within_a_switch_of_the_authors_is_an_error,
	   a_local_of_an_alignment_above_8_is_an_error,
	   an_argument_of_an_alignment_above_8_is_an_error, a_result_of_alignment_1_is_an_error,
	   a_task_that_was_declared_nowhere_cannot_be_forked,
	   parameters_without_a_type_each_are_an_error)
