/* SPDX-License-Identifier: MIT */
/* forks.c - its constructor forks a child that exits as programs do: data in the buffers of stdio
 * is written by each process. Before that it calls the function of the test at $FORKS_CALL. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <forkd/task.h>

static void __attribute__((constructor)) begin(void)
{
	const char *text = getenv("FORKS_CALL");
	void (*call)(void) = NULL;
	pid_t pid;

	if (text && sscanf(text, "%p", (void **)&call) == 1)
		call();
	pid = fork();
	/* Like exit(), but a sanitizer does not look for leaks. */
	if (pid == 0) {
		(void)fflush(NULL);
		_exit(0);
	}
	(void)waitpid(pid, NULL, 0);
}

FK_LEAF_TASK(int64_t, next, (int64_t, n))
{
	return n + 1;
}

FK_EXPORT(next, 0, "The next number")
FK_MODULE(forks, "A task of a module that forks when it is loaded")
