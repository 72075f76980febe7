/* SPDX-License-Identifier: MIT */
/* isolation_processes.c - attempts on another process */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/support/isolation.h"

#define FDS 64 /* descriptors of each process that are tried */

static void try_file(const struct process *p, const char *file, int flags, bool wanted)
{
	_cleanup_close_ int fd = -1;
	char path[128];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)p->pid, file);
	fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	attempt(fd >= 0, wanted, "%s of the %s, %s", path, p->name,
		flags & O_ACCMODE ? "for writing" : "for reading");
}

static void try_link(const struct process *p, const char *file, bool wanted)
{
	char path[128], target[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)p->pid, file);
	attempt(readlink(path, target, sizeof(target)) >= 0, wanted, "%s of the %s", path, p->name);
}

void try_files(const struct process *p, bool wanted)
{
	static const char *const files[] = { "auxv", "environ", "maps", "mem", "pagemap", "smaps" };
	static const char *const directories[] = { "fd", "fdinfo", "map_files" };
	static const char *const links[] = { "cwd", "exe", "root", "ns/net" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		try_file(p, files[i], O_RDONLY, wanted);
	try_file(p, "mem", O_RDWR, wanted);
	try_file(p, "clear_refs", O_WRONLY, wanted);
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		try_file(p, directories[i], O_RDONLY | O_DIRECTORY, wanted);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		try_link(p, links[i], wanted);
	for (uint32_t i = 0; i < p->n_mappings; i++) {
		char file[64];

		(void)snprintf(file, sizeof(file), "map_files/%" PRIx64 "-%" PRIx64,
			       p->mappings[i].from, p->mappings[i].to);
		try_link(p, file, wanted);
		try_file(p, file, O_RDONLY, wanted);
		try_file(p, file, O_RDWR, wanted);
	}
}

/* Tries every descriptor number. */
void try_descriptors(const struct process *p)
{
	_cleanup_close_ int pidfd = pidfd_open(p->pid, 0);

	for (int i = 0; i < FDS; i++) {
		_cleanup_close_ int fd = -1;
		char file[32];

		(void)snprintf(file, sizeof(file), "fd/%d", i);
		try_file(p, file, O_RDONLY, false);
		try_file(p, file, O_RDWR, false);
		fd = pidfd >= 0 ? (int)syscall(SYS_pidfd_getfd, pidfd, i, 0) : -1;
		attempt(fd >= 0, false, "descriptor %d of the %s by pidfd_getfd", i, p->name);
	}
}

void try_memory(const struct process *p, bool wanted)
{
	char bytes[16];
	struct iovec own = { .iov_base = bytes, .iov_len = sizeof(bytes) };
	struct iovec theirs = { .iov_base = (void *)(uintptr_t)p->address,
				.iov_len = sizeof(bytes) };
	bool got = process_vm_readv(p->pid, &own, 1, &theirs, 1, 0) == (ssize_t)sizeof(bytes);

	attempt(got, wanted, "process_vm_readv of the %s", p->name);
	/* Writes the bytes that were read, if the read succeeded. */
	attempt(got && process_vm_writev(p->pid, &own, 1, &theirs, 1, 0) == (ssize_t)sizeof(bytes),
		wanted, "process_vm_writev of the %s", p->name);
	if (!got)
		attempt(process_vm_writev(p->pid, &own, 1, &theirs, 1, 0) >= 0, false,
			"process_vm_writev of the %s, unseen", p->name);
}

void try_control(const struct process *p, bool wanted)
{
	struct rlimit limit;
	cpu_set_t cpus;
	bool seized = ptrace(PTRACE_SEIZE, p->pid, NULL, NULL) == 0;

	attempt(seized, wanted, "ptrace of the %s", p->name);
	attempt(syscall(SYS_kcmp, getpid(), p->pid, KCMP_VM, 0, 0) >= 0, wanted, "kcmp with the %s",
		p->name);
	attempt(kill(p->pid, 0) == 0, wanted, "a signal to the %s", p->name);
	/* Root in a container may lack the capability for it. */
	if (!wanted)
		attempt(prlimit(p->pid, RLIMIT_NOFILE, NULL, &limit) == 0, wanted,
			"limits of the %s", p->name);
	attempt(sched_getaffinity(p->pid, sizeof(cpus), &cpus) == 0 &&
			sched_setaffinity(p->pid, sizeof(cpus), &cpus) == 0,
		wanted, "the CPUs of the %s", p->name);
	attempt(setpriority(PRIO_PROCESS, (id_t)p->pid, getpriority(PRIO_PROCESS, (id_t)p->pid)) ==
			0,
		wanted, "the nice value of the %s", p->name);
}
