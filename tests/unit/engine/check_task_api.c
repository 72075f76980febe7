/* SPDX-License-Identifier: MIT */
/* task_api: gcc and clang refuse the mistakes that task.h promises to detect, and the message names
 * the mistake. tests/support/mistakes.def has the mistakes, one test each. */
#include <string.h>

#include "tests/support/check_unit.h"
#include "tests/support/compile.h"

#define LEAF	 "{ if (n < 2) FK_LEAF(n); }\n"
#define FIB	 "FK_TASK(int64_t, fib, (int64_t, n), int64_t x; int64_t y;)\n" LEAF "FK_BODY(fib) {"
#define END	 "} FK_END(fib) FK_EXPORT(fib, 0, \"A task\")"
#define FIB_DONE FIB "FK_FORK(x, fib, self->n - 1); FK_JOIN(); FK_RETURN(self->x);" END
#define FIBER	 "FK_FIBER_TASK(int64_t, calls, (int64_t, n)) {"
/* What follows a first block of this name. */
#define REST "FK_BODY(leaf) { FK_FAIL(1); } FK_END(leaf)" UNUSED(leaf)

/* A task that never forks, and is exported. */
#define LEAVES(result, params, block)	"FK_LEAF_TASK(" result ", t, (" params "))\n{ " block " }\n"
#define EXPORTED(result, params, block) LEAVES(result, params, block) "FK_EXPORT(t, 0, \"A task\")"
#define TWO				"struct two { int64_t n; double x; };\n"
#define RESULTS(type, value, results)                                                              \
	LEAVES(type, "int64_t, n", "return (" type "){ " value " };")                              \
	"FK_EXPORT_RESULTS(t, (" results "), 0, \"A task\")"

#define EIGHT                                                                                      \
	"int64_t, a, int64_t, b, int64_t, c, int64_t, d, int64_t, e, int64_t, f, int64_t, g, "     \
	"int64_t, h"
#define TWELVE EIGHT ", int64_t, i, int64_t, j, int64_t, k, int64_t, l"
/* A task of this name, and one whose signature has 84 letters plus the name. */
#define NAMED(name)                                                                                \
	"FK_LEAF_TASK(int64_t, " name ", (int64_t, n))\n{ return n; }\n"                           \
	"FK_EXPORT(" name ", 0, \"A task\")"
#define SIGNED(name)                                                                               \
	LEAVES("int64_t",                                                                          \
	       "int64_t, twenty_letters_in_it, int64_t, twenty_letters_in_me, int64_t, " name,     \
	       "return twenty_letters_in_it + twenty_letters_in_me + " name ";")                   \
	"FK_EXPORT_RESULTS(t, (int64_t, twenty_letters_in_us), 0, \"A task\")"

/* gcc and clang print a message of task.h unchanged. */
#define BOTH(message) message, message
#define NO_ARGUMENT                                                                                \
	BOTH("FK_EXPORT(t): an argument is no int64_t, double, struct fk_str, fk_buf or "          \
	     "fk_iobuf: give it one of these types")
#define NO_RESULT                                                                                  \
	BOTH("FK_EXPORT(t): its result is no int64_t, double or fk_void: export a struct of "      \
	     "int64_t and double by FK_EXPORT_RESULTS(t, (type, member, ...), flags, help), or "   \
	     "change the type")
#define TOO_MANY_RESULTS                                                                           \
	BOTH("FK_EXPORT_RESULTS(t): a task has 8 results at most: write the rest into an "         \
	     "fk_iobuf")

/* For a task that the text neither exports nor forks. */
#define UNUSED(task) "\nextern const void *use; const void *use = &" #task "__task;"

/* As in the guide, and with the fewest warnings: no optimization, headers of the system. */
static const char *const flags[] = { "-O2 -Wall -Wextra -I", "-O0 -isystem" };

static void check_mistake(const char *header, const char *wrong, const char *right, const char *gcc,
			  const char *clang)
{
	for (int family = 0; family < 2; family++) {
		const char *cc = compile_family(family), *message = family ? clang : gcc;

		for (size_t i = 0; cc && i < sizeof(flags) / sizeof(flags[0]); i++) {
			compile_refused(cc, flags[i], header, wrong, message);
			compile_taken(cc, flags[i], header, right);
		}
		if (cc)
			compile_taken(cc, "-Og -Wall -Wextra -I", header, right);
	}
}

#define MISTAKE(name, ...)                                                                         \
	START_TEST(name)                                                                           \
	{                                                                                          \
		check_mistake(__VA_ARGS__);                                                        \
	}                                                                                          \
	END_TEST
#include "tests/support/mistakes.def"
#undef MISTAKE

START_TEST(guide_shows_the_messages_of_each_mistake)
{
	static const char *const messages[] = {
#define MISTAKE(name, header, wrong, right, ...) __VA_ARGS__,
#include "tests/support/mistakes.def"
#undef MISTAKE
	};
	const char *top = getenv("top_srcdir"), *table;
	static char guide[1 << 20];
	char path[4096];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/contrib/guide/module.md", top ? top : ".");
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	guide[fread(guide, 1, sizeof(guide) - 1, f)] = '\0';
	ck_assert_int_eq(fclose(f), 0);
	table = strstr(guide, "| mistake | message | remedy |");
	ck_assert_ptr_nonnull(table);
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
		ck_assert_msg(strstr(table, messages[i]), "%s does not show: %s", path,
			      messages[i]);
}
END_TEST

static void check_taken(const char *header, const char *text)
{
	check_mistake(header, "#error nothing", text, "nothing", "nothing");
}

START_TEST(correct_task_compiles_without_a_message)
{
	check_taken("task.h", FIB "FK_FORK(x, fib, self->n - 1);"
				  "FK_CALL(y, fib, self->n - 2);"
				  "FK_JOIN(); FK_RETURN(self->x + self->y);" END);
}
END_TEST

START_TEST(task_that_never_forks_compiles_without_a_message)
{
	check_taken(
		"task.h",
		"struct two { int64_t n; double x; };\n"
		"FK_LEAF_TASK(int64_t, next, (int64_t, n)) { if (n < 0) FK_LEAF_FAIL(-1); n++;"
		"return n; }"
		"FK_LEAF_TASK(fk_void, none, ()) { }"
		"FK_LEAF_TASK(fk_void, some, (int64_t, n)) { if (n) return; FK_LEAF_FAIL(-1); }"
		"FK_FINE_LEAF_TASK(struct two, two, (int64_t, n)) { if (!n) FK_LEAF_FAIL(-1);"
		"return (struct two){ n, 1 }; }"
		"FK_TASK(int64_t, all, (int64_t, n), int64_t x; struct two two;) FK_NO_LEAF(all) {"
		"FK_FORK(x, next, self->n); FK_FORK_VOID(none); FK_FORK_VOID(some, 1);"
		"FK_CALL(two, two, 1); FK_JOIN(); FK_RETURN(self->x + self->two.n); } FK_END(all)"
		"FK_EXPORT(all, 0, \"A task\") FK_EXPORT(next, 0, \"A task\")"
		"FK_EXPORT(none, 0, \"A task\")");
}
END_TEST

START_TEST(loops_and_conditions_around_forks_are_fine)
{
	check_taken("task.h", FIB "for (self->y = 0; self->y < 3; self->y++) {"
				  "if (self->n & 1) FK_FORK(x, fib, self->n - 1);"
				  "else FK_CALL(x, fib, self->n - 1); FK_JOIN(); }"
				  "FK_RETURN(self->x);" END);
}
END_TEST

START_TEST(correct_fiber_compiles_without_a_message)
{
	check_taken("fiber.h", FIB_DONE
		    "static void part(void *arg) { (void)arg; }" FIBER
		    "struct fk_counter all = FK_COUNTER; int64_t x = 0;"
		    "if (fk_fiber_spawn(part, NULL, &all) < 0 || fk_counter_wait(&all, 0) < 0)"
		    "return 0;"
		    "switch (n) { case 1: return FK_FIBER_CALL(&x, fib, n); } return x; }"
		    "FK_FIBER_TASK(fk_void, none, ()) { return (fk_void){}; }"
		    "FK_EXPORT(calls, 0, \"A task\")"
		    "FK_EXPORT(none, 0, \"A task\")");
}
END_TEST

/* Of locals whose address is not taken. Compiled as in the guides, with each optimization level
 * that gcc needs for it; clang needs none. */
START_TEST(compiler_warns_of_a_local_used_across_a_fork)
{
	static const char *const of_gcc[] = { "-O3 -Wall -I", "-O1 -Wall -isystem" };
	static const char *const of_clang[] = { "-O3 -Wall -I", "-O0 -isystem" };
	static const struct {
		const char *body, *gcc, *clang;
	} rows[] = {
		{ FIB "int64_t m = self->n - 1; FK_FORK(x, fib, m); FK_CALL(y, fib, m - 1);"
		      "FK_JOIN(); FK_RETURN(self->x);" END,
		  "'m' may be used uninitialized", "variable 'm' may be uninitialized" },
		{ FIB "for (int i = 0; i < 4; i++) FK_FORK(x, fib, self->n - i);"
		      "FK_JOIN(); FK_RETURN(self->x);" END,
		  "'i' may be used uninitialized", "variable 'i' may be uninitialized" },
		{ FIB "double half = (double)self->n / 2; FK_FORK(x, fib, self->n - 1); FK_JOIN();"
		      "FK_RETURN((int64_t)half + self->x);" END,
		  "'half' may be used uninitialized", "variable 'half' may be uninitialized" },
	};

	ck_assert_int_eq(system("grep -q '^Cflags:.* -Wall' \"${top_builddir:-.}\""
				"/daemon/forkd-module.pc"),
			 0);
	for (int family = 0; family < 2; family++) {
		const char *cc = compile_family(family);

		for (size_t i = 0; cc && i < sizeof(rows) / sizeof(rows[0]); i++) {
			const char *message = family ? rows[i].clang : rows[i].gcc;

			for (size_t k = 0; k < 2; k++) {
				ck_assert_int_eq(compile(cc, family ? of_clang[k] : of_gcc[k],
							 "task.h", rows[i].body),
						 0);
				ck_assert_msg(strstr(compile_message, message),
					      "%s: \"%s\" is not in: %s", cc, message,
					      compile_message);
			}
		}
		if (cc)
			compile_taken(cc, family ? of_clang[0] : of_gcc[0], "task.h", FIB_DONE);
	}
}
END_TEST

/* A compiler that inlines it into a body assumes that loops there rarely run. */
START_TEST(first_block_of_a_task_is_a_function_that_is_not_cold)
{
	const char *top = getenv("top_srcdir");
	char command[8192];

	for (int family = 0; family < 2; family++) {
		const char *cc = compile_family(family);

		for (int level = 2; cc && level <= 3; level++) {
			(void)snprintf(command, sizeof(command),
				       "top='%s' && o=$(mktemp) && trap 'rm -f $o' EXIT &&"
				       "%s -std=gnu11 -O%d -fPIC -I$top -I$top/daemon -c -o $o "
				       "$top/tests/bench/forkpath_leaf.c &&"
				       "objdump -t $o | grep -q ' F \\.text\t.* block__leaf'",
				       top ? top : ".", cc, level);
			ck_assert_msg(system(command) == 0, "%s", command);
		}
	}
}
END_TEST

int main(void)
{
	return check_unit_main("task_api");
}
