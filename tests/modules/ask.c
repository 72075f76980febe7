/* SPDX-License-Identifier: MIT */
/* tests/modules/ask.c - tasks that ask the kernel for what tasks should not */
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <forkd/task.h>

/* Any system call; its result, or a negative errno. */
FK_TASK(int64_t, call, (int64_t, nr, int64_t, a, int64_t, b, int64_t, c, int64_t, d, int64_t, e),
	int64_t result;)
FK_NO_LEAF(call)
{
	self->result = syscall(self->nr, self->a, self->b, self->c, self->d, self->e, 0L);
	FK_RETURN(self->result < 0 ? -errno : self->result);
}
FK_END(call)

/* The same by the way of 32-bit programs, whose numbers are others; 1 where there is none. */
FK_TASK(int64_t, foreign, (int64_t, nr))
{
	int64_t result = 1;

#ifdef __x86_64__
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(nr) : "memory", "r8", "r9", "r10", "r11");
	result = (int32_t)result;
#else
	(void)nr;
#endif
	FK_LEAF(result);
}
FK_NO_BODY(foreign)
FK_END(foreign)

static void *same(void *argument)
{
	return argument;
}

/* A thread of the task's own, which gives n back; or a negative errno. */
FK_TASK(int64_t, thread, (int64_t, n))
{
	void *result = NULL;
	pthread_t thread;
	int r = pthread_create(&thread, NULL, same, (void *)(intptr_t)n);

	if (r == 0)
		r = pthread_join(thread, &result);
	FK_LEAF(r ? -r : (int64_t)(intptr_t)result);
}
FK_NO_BODY(thread)
FK_END(thread)

/* Takes all descriptors, until the process has this many; 0: gives them back. The error of the last
 * one that it did not get. */
FK_TASK(int64_t, descriptors, (int64_t, most))
{
	static int first = -1, last;
	struct rlimit limit;
	int fd;

	if (!most) {
		for (fd = first; fd >= 0 && fd <= last; fd++)
			(void)close(fd);
		FK_LEAF(0);
	}
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)most;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	first = last = dup(STDERR_FILENO);
	while ((fd = dup(STDERR_FILENO)) >= 0)
		last = fd;
	FK_LEAF(-errno);
}
FK_NO_BODY(descriptors)
FK_END(descriptors)

FK_EXPORT(call, "nr:i64, a:i64, b:i64, c:i64, d:i64, e:i64 -> i64", 0,
	  "A system call; what it returns, or a negative errno")
FK_EXPORT(foreign, "nr:i64 -> i64", 0, "A system call of 32-bit programs, without arguments")
FK_EXPORT(descriptors, "most:i64 -> i64", 0, "Uses up all descriptors, or gives them back")
FK_EXPORT(thread, "n:i64 -> i64", 0, "Gives n back, by way of a thread")
FK_MODULE(ask, "Tasks that ask the kernel for things")
