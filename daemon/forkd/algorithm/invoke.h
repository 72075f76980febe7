/* SPDX-License-Identifier: MIT */
/*
 * forkd/algorithm/invoke.h - different tasks side by side
 *
 * For authors of tasks, by <forkd/algorithm.h>, which has the essay.
 */
#ifndef FORKD_ALGORITHM_INVOKE_H
#define FORKD_ALGORITHM_INVOKE_H

#include <forkd/task.h>

/*
 * Runs up to eight tasks in parallel, and waits for them and for all other forked children. For the
 * second block of a task.
 * Each argument is (member, task, args ...), with the arguments of FK_FORK(). For a task of type
 * fk_void, void replaces the member. All tasks except the last one are forked, and the last one is
 * called. Local variables lose their values.
 */
#define FK_INVOKE(...)                                                                             \
	do {                                                                                       \
		FK_INVOKE_N(__VA_ARGS__)(__VA_ARGS__) FK_JOIN();                                   \
	} while (0)

#define FK_INVOKE_PICK(_1, _2, _3, _4, _5, _6, _7, _8, N, ...) FK_INVOKE_##N
#define FK_INVOKE_N(...)				       FK_INVOKE_PICK(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define FK_INVOKE_1(a)					       FK_INVOKE_LAST a
#define FK_INVOKE_2(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_1(__VA_ARGS__)
#define FK_INVOKE_3(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_2(__VA_ARGS__)
#define FK_INVOKE_4(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_3(__VA_ARGS__)
#define FK_INVOKE_5(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_4(__VA_ARGS__)
#define FK_INVOKE_6(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_5(__VA_ARGS__)
#define FK_INVOKE_7(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_6(__VA_ARGS__)
#define FK_INVOKE_8(a, ...)				       FK_INVOKE_FORK a FK_INVOKE_7(__VA_ARGS__)

/* `void` in the place of the member chooses the other macro. */
#define FK_INVOKE_IS_void	    ~, _VOID
#define FK_INVOKE_SECOND(a, b, ...) b
#define FK_INVOKE_KIND(...)	    FK_INVOKE_SECOND(__VA_ARGS__, _VALUE, ~)
#define FK_INVOKE_PASTE(a, b)	    FK_INVOKE_PASTE_(a, b)
#define FK_INVOKE_PASTE_(a, b)	    a##b
#define FK_INVOKE_FORK(member, ...)                                                                \
	FK_INVOKE_PASTE(FK_INVOKE_FORK, FK_INVOKE_KIND(FK_INVOKE_IS_##member))(member, __VA_ARGS__);
#define FK_INVOKE_LAST(member, ...)                                                                \
	FK_INVOKE_PASTE(FK_INVOKE_CALL, FK_INVOKE_KIND(FK_INVOKE_IS_##member))(member, __VA_ARGS__);
#define FK_INVOKE_FORK_VALUE(member, ...) FK_FORK(member, __VA_ARGS__)
#define FK_INVOKE_FORK_VOID(member, ...)  FK_FORK_VOID(__VA_ARGS__)
#define FK_INVOKE_CALL_VALUE(member, ...) FK_CALL(member, __VA_ARGS__)
#define FK_INVOKE_CALL_VOID(member, ...)  FK_CALL_VOID(__VA_ARGS__)

#endif
