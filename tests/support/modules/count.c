/* SPDX-License-Identifier: MIT */
/* count.c - a task that records each of its runs, so that no run is lost */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <forkd/task.h>

#include "tests/support/fib.h"

/* One write at the end of the file: it is stored completely or not at all, even if others write. */
static int64_t count(const char *path, int64_t id)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	int64_t n = fd < 0 ? -errno : write(fd, &id, sizeof(id));

	if (fd >= 0)
		close(fd);
	return n == sizeof(id) ? 0 : n < 0 ? n : -EIO;
}

FK_TASK(int64_t, once, (struct fk_str, path, int64_t, id, int64_t, work), int64_t sum;)
FK_NO_LEAF(once)
{
	int64_t r = count(self->path.data, self->id);

	if (r < 0)
		FK_FAIL((int32_t)r);
	FK_CALL(sum, fib, self->work);
	FK_RETURN(self->id + self->sum);
}
FK_END(once)

/* Alternates between two workers. */
FK_TASK(int64_t, go, (int64_t, n), int64_t i;)
FK_NO_LEAF(go)
{
	for (self->i = 0; self->i < self->n; self->i++)
		FK_GO_TO_WORKER((uint32_t)(self->i % 2));
	FK_RETURN(self->i);
}
FK_END(go)

FK_EXPORT(once, 0,
	  "Appends id to a file, as 8 bytes, then forks; id + the Fibonacci number of work")
FK_EXPORT(go, 0, "Goes n times to and fro between workers 0 and 1; n")
FK_MODULE(count, "Runs that are counted")
