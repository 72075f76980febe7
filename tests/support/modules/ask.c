/* SPDX-License-Identifier: MIT */
/* ask.c - tasks that make system calls that tasks must not make */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <forkd/task.h>

/* Makes any system call; its result, or a negative errno. */
FK_TASK(int64_t, call, (int64_t, nr, int64_t, a, int64_t, b, int64_t, c, int64_t, d, int64_t, e),
	int64_t result;)
FK_NO_LEAF(call)
{
	self->result = syscall(self->nr, self->a, self->b, self->c, self->d, self->e, 0L);
	FK_RETURN(self->result < 0 ? -errno : self->result);
}
FK_END(call)

/* Writes to any descriptor; the number of bytes, or a negative errno. */
FK_LEAF_TASK(int64_t, write, (int64_t, fd, struct fk_buf, bytes))
{
	ssize_t n = write((int)fd, bytes.data, bytes.size);

	return n < 0 ? -errno : n;
}

/* Requests executable memory until the first byte is not 0. Returns how many passed the filter;
 * those fail with EBADF. */
FK_LEAF_TASK(int64_t, map, (struct fk_buf, gate))
{
	const volatile unsigned char *byte = gate.data;
	int64_t passed = 0;

	do
		passed +=
			mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, -1, 0) != MAP_FAILED ||
			errno != EPERM;
	while (!*byte);
	return passed;
}

static int wait_for_byte(struct dl_phdr_info *info, size_t size, void *byte)
{
	(void)info;
	(void)size;
	while (!*(const volatile unsigned char *)byte)
		continue;
	return 1;
}

/* Holds the lock of the loader until the first byte is not 0. */
FK_LEAF_TASK(int64_t, loader, (struct fk_buf, gate))
{
	return dl_iterate_phdr(wait_for_byte, (void *)(uintptr_t)gate.data);
}

/* The same by a call of 32-bit programs, which have other numbers; 1 if there is none. */
FK_LEAF_TASK(int64_t, foreign, (int64_t, nr))
{
	int64_t result = 1;

#ifdef __x86_64__
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(nr) : "memory", "r8", "r9", "r10", "r11");
	result = (int32_t)result;
#endif
	return result;
}

static void *same(void *argument)
{
	return argument;
}

/* Starts a thread, which returns n; or a negative errno. */
FK_LEAF_TASK(int64_t, thread, (int64_t, n))
{
	void *result = NULL;
	pthread_t thread;
	int r = pthread_create(&thread, NULL, same, (void *)(intptr_t)n);

	if (r == 0)
		r = pthread_join(thread, &result);
	return r ? -r : (int64_t)(intptr_t)result;
}

/* Limits the process to this many descriptors; 0 restores the old limit. Returns the error of
 * opening one more, or 0. Open descriptors stay open: one that another thread closes makes no
 * room. */
FK_LEAF_TASK(int64_t, descriptors, (int64_t, most))
{
	static rlim_t before;
	struct rlimit limit;
	int fd;

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	if (!before)
		before = limit.rlim_cur;
	limit.rlim_cur = most ? (rlim_t)most : before;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	fd = dup(STDERR_FILENO);
	return fd < 0 ? -errno : close(fd);
}

FK_EXPORT(call, 0, "A system call; what it returns, or a negative errno")
FK_EXPORT(foreign, 0, "A system call of 32-bit programs, without arguments")
FK_EXPORT(descriptors, 0, "Bounds the descriptors of the process")
FK_EXPORT(loader, FK_EXPORT_IN_PLACE, "Keeps the lock of the loader until a byte is set")
FK_EXPORT(map, FK_EXPORT_IN_PLACE, "Asks for executable memory until a byte is set")
FK_EXPORT(write, 0, "Writes into a descriptor; the number of bytes, or a negative errno")
FK_EXPORT(thread, 0, "Gives n back, by way of a thread")
FK_MODULE(ask, "Tasks that ask the kernel for things")
