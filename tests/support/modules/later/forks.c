/* SPDX-License-Identifier: MIT */
/* forks.c - its constructor has a child that ends as programs do: what stands
 * in the buffers of stdio is written by each */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <forkd/task.h>

static void __attribute__((constructor)) begin(void)
{
	pid_t pid = fork();

	/* As by exit(), but that a sanitizer would look for leaks then. */
	if (pid == 0) {
		(void)fflush(NULL);
		_exit(0);
	}
	(void)waitpid(pid, NULL, 0);
}

FK_TASK(int64_t, next, (int64_t, n))
{
	FK_LEAF(n + 1);
}
FK_NO_BODY(next)
FK_END(next)

FK_EXPORT(next, 0, "The next number")
FK_MODULE(forks, "A task of a module that forks when it is loaded")
