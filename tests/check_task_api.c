/* SPDX-License-Identifier: MIT */
/*
 * task_api: what task.h promises that the compiler catches is caught, by the compiler that this
 * tree was configured with ($CC), and the message names what is wrong.
 */
#include "tests/check_unit.h"
#include "tests/compile.h"

static void refused(const char *text, const char *gcc, const char *clang)
{
	compile_refused("task.h", text, gcc, clang);
}

#define LEAF "{ if (n < 2) FK_LEAF(n); }\n"
#define FIB  "FK_TASK(int64_t, fib, (int64_t, n), int64_t x; int64_t y;)\n" LEAF "FK_BODY(fib) {"
#define END  "} FK_END(fib) FK_EXPORT(fib, \"n:i64 -> i64\", 0, \"A task\")"

/* Without this, everything below could be refused for a reason of its own. */
START_TEST(a_task_that_is_right_compiles_without_a_word)
{
	compile_taken("task.h", FIB "FK_FORK(x, fib, self->n - 1);"
				    "FK_CALL(y, fib, self->n - 2);"
				    "FK_JOIN(); FK_RETURN(self->x + self->y);" END);
}
END_TEST

START_TEST(loops_and_conditions_around_forks_are_fine)
{
	compile_taken("task.h", FIB "for (self->y = 0; self->y < 3; self->y++) {"
				    "if (self->n & 1) FK_FORK(x, fib, self->n - 1);"
				    "else FK_CALL(x, fib, self->n - 1); FK_JOIN(); }"
				    "FK_RETURN(self->x);" END);
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
	refused("FK_TASK(int64_t, odd, (int64_t, n, int64_t), )\n{ FK_LEAF(n); }"
		"FK_BODY(odd) { FK_RETURN(0); } FK_END(odd)",
		"FK_EACH_odd", "FK_EACH_odd");
}
END_TEST

/* ------------------------------------------------------------------------ fibers */

#define FIBER "FK_FIBER_TASK(int64_t, calls, (int64_t, n)) {"

START_TEST(a_fiber_that_is_right_compiles_without_a_word)
{
	compile_taken("fiber.h", FIB
		      "FK_FORK(x, fib, self->n - 1); FK_JOIN(); FK_RETURN(self->x);" END
		      "static void part(void *arg) { (void)arg; }" FIBER
		      "struct fk_counter all = FK_COUNTER; int64_t x = 0;"
		      "if (fk_fiber_spawn(part, NULL, &all) < 0 || fk_counter_wait(&all, 0) < 0)"
		      "return 0;"
		      "switch (n) { case 1: return FK_FIBER_CALL(&x, fib, n); } return x; }"
		      "FK_FIBER_TASK(fk_void, none, ()) { return (fk_void){}; }"
		      "FK_EXPORT(calls, \"n:i64 -> i64\", 0, \"A task\")"
		      "FK_EXPORT(none, \"\", 0, \"A task\")");
}
END_TEST

START_TEST(a_fiber_calls_with_as_many_arguments_as_there_are)
{
	compile_refused("fiber.h",
			FIB "FK_FORK(x, fib, self->n - 1); FK_JOIN(); FK_RETURN(self->x);" END FIBER
			    "int64_t x = 0; (void)FK_FIBER_CALL(&x, fib, n, n); return x; }",
			"too many arguments to function", "too many arguments to function");
}
END_TEST

START_TEST(a_fiber_does_not_fork)
{
	compile_refused("fiber.h",
			FIB "FK_FORK(x, fib, self->n - 1); FK_JOIN(); FK_RETURN(self->x);" END FIBER
			    "int64_t x = 0; FK_FORK(x, fib, n); FK_JOIN(); return x; }",
			"'self' undeclared", "undeclared identifier 'self'");
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
	   parameters_without_a_type_each_are_an_error,
	   a_fiber_that_is_right_compiles_without_a_word,
	   a_fiber_calls_with_as_many_arguments_as_there_are, a_fiber_does_not_fork)
