/* SPDX-License-Identifier: MIT */
/* mark.c - a task that records each of its runs */
#include <fcntl.h>
#include <unistd.h>

#include <forkd/task.h>

/* A string has a NUL after its last byte. */
static int64_t mark(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	int64_t n = fd < 0 ? 0 : write(fd, "x", 1);

	if (fd >= 0)
		close(fd);
	return n;
}

/* Records its run. If stay is set, it runs until the pool ends. */
FK_LEAF_TASK(int64_t, leave, (struct fk_str, path, int64_t, stay))
{
	volatile int64_t left = stay;
	int64_t n = mark(path.data);

	while (left)
		(void)pause();
	return n;
}

FK_EXPORT(leave, 0,
	  "Appends a byte to a file, and does not end if stay is not 0; how many bytes that were")
FK_MODULE(mark, "A mark for each run")
