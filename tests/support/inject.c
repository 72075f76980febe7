/* SPDX-License-Identifier: MIT */
/*
 * inject.c - the n-th system call of a kind fails in a process, as the test requests
 *
 * INVARIANTS
 *   I1. The filter's descriptor goes to the supervisor by sendmmsg(2), which is not in the table:
 *       no call waits for a supervisor that does not have the descriptor yet.
 *   I2. The armed call is stored last and cleared first, so the supervisor never reads half of it.
 *
 * If a peer dies: a watched process: its request is void. All of them: the supervisor ends. The
 * supervisor: the calls of the table fail with ENOSYS. The test: the supervisor dies with it.
 */
#include "tests/support/inject.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/util.h"

#if defined(__x86_64__)
#define INJECT_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define INJECT_ARCH AUDIT_ARCH_AARCH64
#else
#define INJECT_ARCH 0
#endif

/* Calls that the supervisor decides, except futex(2), and the call that marks the start of
 * main(). */
static const uint32_t inject_calls[] = {
	SYS_accept,
	SYS_accept4,
	SYS_clock_nanosleep,
	SYS_clone,
	SYS_clone3,
	SYS_connect,
	SYS_eventfd2,
	SYS_execve,
	SYS_fallocate,
	SYS_fchmod,
	SYS_fcntl,
	SYS_fstat,
	SYS_futex_waitv,
	SYS_ftruncate,
	SYS_getrandom,
	SYS_getsockopt,
	SYS_io_uring_enter,
	SYS_io_uring_setup,
	SYS_io_uring_register,
	SYS_ioctl,
	SYS_madvise,
	SYS_mbind,
	SYS_membarrier,
	SYS_memfd_create,
	SYS_mmap,
	SYS_mprotect,
	SYS_mremap,
	SYS_munmap,
	SYS_newfstatat,
	SYS_openat,
	SYS_pidfd_open,
	SYS_ppoll,
	SYS_prctl,
	SYS_pread64,
	SYS_prlimit64,
	SYS_pwrite64,
	SYS_read,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_rt_sigaction,
	SYS_sched_setaffinity,
	SYS_sendmsg,
	SYS_sendto,
	SYS_setsockopt,
	SYS_signalfd4,
	SYS_socket,
	SYS_socketpair,
	SYS_timer_create,
	SYS_timer_settime,
	SYS_waitid,
	SYS_write,
#ifdef SYS_poll
	SYS_poll,
#endif
};

static int inject_filter(void)
{
	struct sock_filter code[ARRAY_SIZE(inject_calls) * 2 + 16];
	struct sock_fprog program = { .filter = code };
	const uint32_t lower = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0;
	uint16_t n = 0;
	long r;

#define EMIT(...) (code[n++] = (struct sock_filter)__VA_ARGS__)
	EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
	EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, INJECT_ARCH, 1, 0));
	EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
	for (uint32_t i = 0; i < ARRAY_SIZE(inject_calls); i++) {
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, inject_calls[i], 0, 1));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
	}
	EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 1, 0));
	EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		      (uint32_t)offsetof(struct seccomp_data, args[1]) + lower));
	EMIT(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, (uint32_t)FUTEX_CMD_MASK));
	EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT, 1, 0));
	EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT_BITSET, 0, 1));
	EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
	EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
#undef EMIT
	program.len = n;
	if (!INJECT_ARCH)
		return -ENOSYS;
	/* Root does not need it, and stays privileged. */
	if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) < 0)
		return -errno;
	r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		    SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		    &program);
	return r < 0 ? -errno : (int)r;
}

/* ------------------------------------------------------------------------ the supervisor */

/* Start of main() (inject_arm()). */
static void inject_note(bool begun[2], enum inject_who who, const struct seccomp_notif *request)
{
	if (request->data.nr == SYS_execve)
		begun[who] = false;
	else if (request->data.nr == SYS_rt_sigaction && request->data.args[0] == SIGPIPE)
		begun[who] = true;
}

/* Returns the errno with which a call must fail, 0 for none. */
static int inject_verdict(struct inject_shared *shared, enum inject_who who, int call)
{
	if (atomic_load(&shared->who) != who)
		return 0;
	if (call == SYS_clock_nanosleep)
		atomic_fetch_add(&shared->naps, 1);
	if (atomic_load(&shared->call) != call)
		return 0;
	/* Below nth the difference wraps to a value above times. */
	return atomic_fetch_add(&shared->seen, 1) + 1 - atomic_load(&shared->nth) <
			       atomic_load(&shared->times)
		     ? atomic_load(&shared->error)
		     : 0;
}

static void inject_answer(struct inject_shared *shared, int listener, bool begun[2])
{
	struct seccomp_notif request = { 0 };
	struct seccomp_notif_resp answer = { 0 };
	enum inject_who who;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
		return; /* the process has died */
	who = (int32_t)request.pid == atomic_load(&shared->first) ? INJECT_FIRST : INJECT_OTHERS;
	inject_note(begun, who, &request);
	answer.id = request.id;
	if (begun[who])
		answer.error = -inject_verdict(shared, who, request.data.nr);
	if (!answer.error)
		answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

static _Noreturn void inject_supervise(struct inject_shared *shared, int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	bool begun[2] = { true, true };

	while (listener >= 0 && (poll(&p, 1, -1) >= 0 || errno == EINTR)) {
		if (p.revents & POLLIN)
			inject_answer(shared, listener, begun);
		else if (p.revents)
			break;
	}
	_exit(0);
}

/* ------------------------------------------------------------------------ a descriptor */

union inject_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static int inject_send(int fd, int descriptor)
{
	union inject_control control = { 0 };
	char byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct mmsghdr message = { .msg_hdr = { .msg_iov = &iov,
						.msg_iovlen = 1,
						.msg_control = &control,
						.msg_controllen = sizeof(control) } };
	struct cmsghdr *c = &control.align;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &descriptor, sizeof(descriptor));
	return sendmmsg(fd, &message, 1, 0) == 1 ? 0 : -errno;
}

static int inject_receive(int fd)
{
	union inject_control control = { 0 };
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	int descriptor = -1;

	if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
		memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(descriptor));
	return descriptor;
}

/* ------------------------------------------------------------------------ the test's side */

/* Also called by inject_lacks(), before libcheck runs a test. */
static void inject_must(bool done, const char *what)
{
	if (done)
		return;
	perror(what);
	abort();
}

void inject_begin(struct inject *i)
{
	i->shared = mmap(NULL, sizeof(*i->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	inject_must(i->shared != MAP_FAILED, "mmap");
	atomic_store(&i->shared->call, -1);
	inject_must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, i->ends) == 0,
		    "socketpair");
	(void)fflush(NULL);
	i->supervisor = fork();
	inject_must(i->supervisor >= 0, "fork");
	if (i->supervisor == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)close(i->ends[0]);
		inject_supervise(i->shared, inject_receive(i->ends[1]));
	}
	i->ends[1] = safe_close(i->ends[1]);
}

int inject_enter(struct inject *i)
{
	_cleanup_close_ int listener = -1;

	atomic_store(&i->shared->first, (int32_t)getpid());
	listener = inject_filter();
	return listener < 0 ? listener : inject_send(i->ends[0], listener);
}

/* A call that the filter does not watch never fails. */
static bool is_watched(long call)
{
	if (call == SYS_futex)
		return true;
	for (uint32_t i = 0; i < ARRAY_SIZE(inject_calls); i++)
		if (inject_calls[i] == call)
			return true;
	return false;
}

void inject_arm(struct inject *i, enum inject_who who, long call, int error, uint64_t nth,
		uint64_t times)
{
	struct inject_shared *shared = i->shared;

	inject_must(call < 0 || is_watched(call), "inject_calls");
	atomic_store(&shared->call, -1);
	atomic_store(&shared->who, who);
	atomic_store(&shared->error, error);
	atomic_store(&shared->nth, nth);
	atomic_store(&shared->times, times);
	atomic_store(&shared->seen, 0);
	atomic_store(&shared->naps, 0);
	atomic_store(&shared->call, (int32_t)call);
}

uint64_t inject_disarm(struct inject *i)
{
	uint64_t seen, nth = atomic_load(&i->shared->nth);

	atomic_store(&i->shared->call, -1);
	seen = atomic_load(&i->shared->seen);
	return seen < nth ? 0 : min(seen - nth + 1, atomic_load(&i->shared->times));
}

uint64_t inject_naps(const struct inject *i)
{
	return atomic_load(&i->shared->naps);
}

void inject_end(struct inject *i)
{
	i->ends[0] = safe_close(i->ends[0]);
	inject_must(waitpid(i->supervisor, NULL, 0) == i->supervisor, "waitpid");
	(void)munmap(i->shared, sizeof(*i->shared));
}

/* ------------------------------------------------------------------------ a try */

/* In a child. Returns 0, or the errno that says why this is not possible. */
static int inject_try(struct inject *i)
{
	int r = inject_enter(i);

	if (r < 0)
		return -r;
	inject_arm(i, INJECT_FIRST, SYS_ftruncate, EDOM, 2, 2);
	for (uint32_t n = 1; n <= 4; n++)
		if (ftruncate(-1, 0) == 0 || errno != (n == 2 || n == 3 ? EDOM : EBADF))
			return ENOSYS;
	return inject_disarm(i) == 2 ? 0 : ENOSYS;
}

const char *inject_lacks(void)
{
	struct inject i;
	int status;
	pid_t pid;

	inject_begin(&i);
	pid = fork();
	inject_must(pid >= 0, "fork");
	if (pid == 0)
		_exit(inject_try(&i));
	inject_must(waitpid(pid, &status, 0) == pid, "waitpid");
	inject_end(&i);
	if (WIFEXITED(status))
		return WEXITSTATUS(status) ? strerrordesc_np(WEXITSTATUS(status)) : NULL;
	return "seccomp(2) with a listener ends the process";
}
