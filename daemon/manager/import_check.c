/* SPDX-License-Identifier: MIT */
#include "daemon/manager/import_check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "shm/limits.h"

#define IMPORT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define IMPORT_PAGE  UINT64_C(4096)

struct import_process {
	struct list_link link;
	struct import_processes *all;
	struct import_check *check; /* NULL: its request has ended */
	struct loop_source source;
	uint32_t uid;
	pid_t pid;
	int pidfd;
	int socket;
};

/* ------------------------------------------------------------------------ the file (I1) */

static __attribute__((format(printf, 3, 4))) int import_say(struct proto_error *error, int code,
							    const char *format, ...)
{
	va_list ap;

	*error = (struct proto_error){ .head = { PROTO_MAGIC, PROTO_ERROR }, .code = code };
	va_start(ap, format);
	(void)vsnprintf(error->text, sizeof(error->text), format, ap);
	va_end(ap);
	return code;
}

/* Returns the bytes of dirty pages in a mapping of this process: such a page was written, so the
 * kernel keeps it. The last field of the mapping in smaps that is summed is Private_Dirty. */
static uint64_t import_dirty(const void *base)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/smaps", "re");
	char line[256], head[32];
	bool found = false;
	uint64_t kib, sum = 0;

	(void)snprintf(head, sizeof(head), "%08" PRIxPTR "-", (uintptr_t)base);
	while (f && fgets(line, sizeof(line), f)) {
		found |= strncmp(line, head, strlen(head)) == 0;
		if (!found)
			continue;
		if (sscanf(line, "Shared_Dirty: %" SCNu64, &kib) == 1)
			sum += kib << 10;
		if (sscanf(line, "Private_Dirty: %" SCNu64, &kib) == 1)
			return sum + (kib << 10);
	}
	return 0;
}

/* True if each page of the range exists and was written. */
static bool import_is_written(int fd, uint64_t offset, uint64_t size)
{
	uint64_t dirty = 0;
	void *base;

	/* MAP_POPULATE would make the pages of a hole. */
	if (lseek(fd, (off_t)offset, SEEK_HOLE) < (off_t)(offset + size))
		return false;
	base = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, (off_t)offset);
	if (base == MAP_FAILED)
		return false;
	dirty = import_dirty(base);
	(void)munmap(base, size);
	return dirty >= align_up(size, IMPORT_PAGE);
}

int import_check_file(int fd, uint64_t offset, uint64_t size, struct proto_error *ret_error)
{
	/* First: no other call here may be made on a file of an unknown kind. */
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC || fstat(fd, &st) < 0 ||
	    !S_ISREG(st.st_mode))
		return import_say(ret_error, -ENOTSUP,
				  "import: not a memfd of ordinary pages: use memfd_create(2) with "
				  "MFD_ALLOW_SEALING and without MFD_HUGETLB");
	if ((seals & IMPORT_SEALS) != IMPORT_SEALS ||
	    !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))
		return import_say(ret_error, -ETXTBSY,
				  "import: the memfd can still change: seal it with F_SEAL_SHRINK, "
				  "F_SEAL_GROW, and F_SEAL_WRITE or F_SEAL_FUTURE_WRITE");
	/* Its last close() frees all of it. */
	if ((uint64_t)st.st_size > LIMIT_IMPORT)
		return import_say(ret_error, -EFBIG,
				  "import: the memfd has %jd bytes, and may have %" PRIu64
				  ": use several",
				  (intmax_t)st.st_size, LIMIT_IMPORT);
	if (offset > (uint64_t)st.st_size || size > (uint64_t)st.st_size - offset)
		return import_say(ret_error, -EINVAL,
				  "import: offset and size are beyond the end of the memfd, which "
				  "has %jd bytes",
				  (intmax_t)st.st_size);
	if (!import_is_written(fd, offset, size))
		return import_say(
			ret_error, -ENODATA,
			"import: pages of the memfd were never written: write them, zeros "
			"as well, before it is sealed");
	return 0;
}

/* ------------------------------------------------------------------------ the process */

/* Closes all descriptors from 3 on except two. */
static void import_close_others(int a, int b)
{
	unsigned int low = (unsigned int)min(a, b), high = (unsigned int)max(a, b);

	if (low > 3)
		(void)close_range(3, low - 1, 0);
	if (high > low + 1)
		(void)close_range(low + 1, high - 1, 0);
	(void)close_range(high + 1, ~0u, 0);
}

static _Noreturn void import_run(pid_t manager, int client, int socket, uint64_t offset,
				 uint64_t size)
{
	struct proto_error error = { .head = { PROTO_MAGIC, PROTO_ERROR } };
	union proto_message message;
	int fds[PROTO_MAX_FDS], r;
	uint32_t n = 0;
	char go;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != manager)
		_exit(1);
	import_close_others(client, socket);
	(void)prctl(PR_SET_NAME, "forkd-import");
	if (recv(socket, &go, 1, 0) != 1)
		_exit(1);
	/* The manager's receives do not block, and the socket is the same. */
	while (poll(&(struct pollfd){ .fd = client, .events = POLLIN }, 1, -1) < 0)
		;
	r = proto_recv(client, &message, fds, &n, 0);
	if (r != (int)sizeof(message.head) || message.head.type != PROTO_IMPORT_FILE || n != 1)
		r = import_say(&error, -EBADMSG,
			       "import: not a message with one descriptor: use fk_import()");
	else
		r = import_check_file(fds[0], offset, size, &error);
	(void)proto_send(socket, &error, sizeof(error), fds, r == 0 ? 1 : 0);
	_exit(0);
}

/* ------------------------------------------------------------------------ the manager */

bool import_check_is_busy(const struct import_processes *all, uint32_t uid)
{
	const struct import_process *p;

	list_for_each (p, &all->list, link)
		if (p->uid == uid)
			return true;
	return false;
}

static void import_free(struct import_process *p)
{
	loop_forget(p->all->loop, &p->source);
	list_remove(&p->link);
	(void)safe_close(p->pidfd);
	(void)safe_close(p->socket);
	free(p);
}

/* Reads what a process that has ended has sent. Returns the file, or -1 and the error. */
static int import_result(const struct import_process *p, struct proto_error *ret_error)
{
	union proto_message message;
	int fds[PROTO_MAX_FDS];
	uint32_t n = 0;
	int r = proto_recv_short(p->socket, &message, fds, &n, MSG_DONTWAIT);

	if (r == (int)sizeof(message.error) && message.error.code) {
		*ret_error = message.error;
		return -1;
	}
	if (r == (int)sizeof(message.error) && n == 1)
		return fds[0];
	if (r > 0)
		(void)import_say(ret_error, -EMFILE,
				 "import: forkd has no descriptors left: try again later, or raise "
				 "LimitNOFILE of forkd.service");
	else
		(void)import_say(ret_error, -EIO,
				 "import: the process that checks the memfd was killed: try again");
	return -1;
}

static void import_on_end(struct loop_source *source, int result)
{
	struct import_process *p = container_of(source, struct import_process, source);
	struct import_processes *all = p->all;
	struct import_check *check = p->check;
	struct proto_error error;
	uint32_t uid = p->uid;
	int fd;

	(void)result;
	/* A poll that lacked memory may report no end. */
	if (waitpid(p->pid, NULL, WNOHANG) == 0 &&
	    loop_poll_later(all->loop, &p->source, p->pidfd, POLLIN) == 0)
		return;
	fd = import_result(p, &error);
	import_free(p);
	if (check) {
		check->process = NULL;
		check->call(check, fd, &error);
	} else if (fd >= 0) {
		(void)loop_close(all->loop, fd);
	}
	all->ended(all, uid);
}

/* Returns 0, or a negative errno without a child. */
static int import_fork(struct import_process *p, int client, uint64_t offset, uint64_t size)
{
	_cleanup_close_ int theirs = -1;
	pid_t manager = getpid();
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	p->socket = pair[0];
	theirs = pair[1];
	p->pid = fork();
	if (p->pid == 0)
		import_run(manager, client, theirs, offset, size);
	if (p->pid < 0)
		return -errno;
	p->pidfd = pidfd_open(p->pid, 0);
	r = p->pidfd < 0 ? -errno : loop_poll(p->all->loop, &p->source, p->pidfd, POLLIN);
	if (r == 0 && send(p->socket, "", 1, MSG_NOSIGNAL) < 0)
		r = -errno;
	if (r < 0) {
		/* It has received nothing from the client yet, so it ends at once. */
		(void)kill(p->pid, SIGKILL);
		(void)waitpid(p->pid, NULL, 0);
	}
	return r;
}

int import_check_start(struct import_processes *all, struct import_check *check, uint32_t uid,
		       int fd, uint64_t offset, uint64_t size)
{
	struct import_process *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	*p = (struct import_process){
		.all = all,
		.check = check,
		.source = { .call = import_on_end },
		.uid = uid,
		.pidfd = -1,
		.socket = -1,
	};
	list_add(&all->list, &p->link);
	r = import_fork(p, fd, offset, size);
	if (r < 0)
		import_free(p);
	else
		check->process = p;
	return r;
}

void import_check_forget(struct import_check *check)
{
	struct import_process *p = check->process;

	if (!p)
		return;
	p->check = NULL;
	check->process = NULL;
	(void)kill(p->pid, SIGKILL); /* not reaped yet, so the pid is its own */
}

void import_check_fini(struct import_processes *all)
{
	struct import_process *p;

	list_for_each (p, &all->list, link) {
		if (p->check)
			import_check_forget(p->check);
		/* If it has not ended yet, init reaps it. */
		(void)waitpid(p->pid, NULL, WNOHANG);
		import_free(p);
	}
}
