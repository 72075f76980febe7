/* SPDX-License-Identifier: MIT */
/*
 * sandbox.c - limits the system calls of the pool while it runs tasks
 *
 * Modules are trusted, but they have bugs, and their input comes from any client. An attacker that
 * controls a task controls the pool, and so the data of all tenants in it. This file protects all
 * other things: the manager, other processes, the kernel.
 *
 * 	sandbox =   off		nothing is removed: for debuggers, profilers and core files
 * 		    normal	what the table denies; files can be opened as forkd's user may
 * 		    strict	only what the table allows: no files at all
 *
 * INVARIANTS
 *   I1. The filter is set before the first worker is started, for all threads, including those of a
 *       module's constructor (TSYNC). Only forkd's own code and the constructors of modules run
 *       earlier; they may open, start and connect what tasks need. The poller's ring exists as well
 *       (io_poller.c): fibers' reads, writes and accepts by it pass no filter, so it allows only
 *       these. Accepting requires a listening socket, which a task cannot make.
 *   I2. The first matching row of the table decides; without one normal allows, strict denies.
 *   I3. A denied call fails with EPERM, and the job continues: the task must handle it. ENOSYS if
 *       libc has an alternative and should use it.
 *   I4. A pool started by root has no capabilities any more, and can get none; only threads of a
 *       module's constructor keep theirs. If its uid is still root's (runas.h), it can still write
 *       to most files.
 *   I5. With normal, the manager decides about new executable memory (gate.h), which the pool needs
 *       for modules that are added while it runs. With strict, and if the kernel or another filter
 *       does not let a second process decide, it is denied.
 *
 * COST
 *   Calls that are allowed with any arguments cost nothing: the kernel has a bitmap of them and
 *   does not run the filter. That includes futex(2) and all other calls that workers make
 *   frequently.
 *
 * LIMITATIONS
 *   A filter sees numbers, not paths: normal lets a task open /proc/self/mem, and so write to
 *   read-only memory. By their numbers it cannot distinguish the pool's threads, which its
 *   dispatcher binds when CPUs come and go (cpu_parking.c), from other processes: those of the same
 *   uid can be bound to another CPU, except the manager. With a sanitizer or on valgrind nothing is
 *   done: its runtime opens files, forks to detect leaks, and has pages that are writable and
 *   executable.
 */
#include "daemon/host/sandbox.h"

#include <asm/ioctls.h>
#include <asm/sockios.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/ioprio.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"
#include "common/options.h"
#include "common/util.h"
#include "common/valgrind.h"

/* Newer than the headers of Debian 12; kernels before 6.3 return EINVAL. */
#ifndef PR_SET_MDWE
#define PR_SET_MDWE		 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1UL
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#if defined(__x86_64__)
#define SANDBOX_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SANDBOX_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef SANDBOX_ARCH

/* Calls that some architectures do not have. */
#define SANDBOX_NO_CALL UINT32_MAX
#ifndef SYS_fork
#define SYS_fork SANDBOX_NO_CALL
#endif
#ifndef SYS_ioperm
#define SYS_ioperm SANDBOX_NO_CALL
#endif
#ifndef SYS_iopl
#define SYS_iopl SANDBOX_NO_CALL
#endif
#ifndef SYS_modify_ldt
#define SYS_modify_ldt SANDBOX_NO_CALL
#endif
#ifndef SYS_poll
#define SYS_poll SANDBOX_NO_CALL
#endif
#ifndef SYS_time
#define SYS_time SANDBOX_NO_CALL
#endif
#ifndef SYS_vfork
#define SYS_vfork SANDBOX_NO_CALL
#endif

/* When a row matches. Arguments are compared as the kernel uses these: their lower 32 bits. */
enum sandbox_condition {
	SANDBOX_ALWAYS,
	SANDBOX_EQUAL,
	SANDBOX_OTHER,
	SANDBOX_ANY_BIT,
	SANDBOX_OWN_PID, /* equal; the value is this process's pid */
	SANDBOX_MANAGER, /* equal; the value is the manager's pid */
};

struct sandbox_row {
	uint32_t call;
	uint32_t verdict;
	enum sandbox_condition condition;
	uint32_t argument;
	uint32_t value;
};

#define ALLOW  SECCOMP_RET_ALLOW
#define GATE   SECCOMP_RET_USER_NOTIF /* DENY without a gate: I5 */
#define DENY   (SECCOMP_RET_ERRNO | EPERM)
#define ABSENT (SECCOMP_RET_ERRNO | ENOSYS)

#define IF_EQUAL(argument, value)   SANDBOX_EQUAL, argument, value
#define IF_OTHER(argument, value)   SANDBOX_OTHER, argument, value
#define IF_ANY_BIT(argument, value) SANDBOX_ANY_BIT, argument, value
#define IF_OWN_PID(argument)	    SANDBOX_OWN_PID, argument, 0
#define IF_MANAGER(argument)	    SANDBOX_MANAGER, argument, 0

/* argument: the signal. SIGCONT would make a hanging task look as if it had been stopped:
 * hang_detector.c. */
#define DENY_STOPS(call, argument)                                                                 \
	{ call, DENY, IF_EQUAL(argument, SIGSTOP) }, { call, DENY, IF_EQUAL(argument, SIGTSTP) },  \
		{ call, DENY, IF_EQUAL(argument, SIGTTIN) },                                       \
		{ call, DENY, IF_EQUAL(argument, SIGTTOU) },                                       \
	{                                                                                          \
		call, DENY, IF_EQUAL(argument, SIGCONT)                                            \
	}

static const struct sandbox_row sandbox_rows[] = {
	/* Memory. Executable memory is mapped before. */
	{ SYS_mmap, GATE, IF_ANY_BIT(2, PROT_EXEC) },
	{ SYS_mmap, ALLOW },
	{ SYS_mprotect, DENY, IF_ANY_BIT(2, PROT_EXEC) },
	{ SYS_mprotect, ALLOW },
	{ SYS_pkey_mprotect, DENY, IF_ANY_BIT(2, PROT_EXEC) },
	{ SYS_shmat, DENY, IF_ANY_BIT(2, SHM_EXEC) },
	{ SYS_personality, DENY }, /* one personality makes readable memory executable */
	{ SYS_userfaultfd, DENY },
	{ SYS_brk, ALLOW },
	{ SYS_get_mempolicy, ALLOW },
	{ SYS_madvise, ALLOW },
	{ SYS_mbind, ALLOW },
	{ SYS_membarrier, ALLOW },
	{ SYS_mincore, ALLOW },
	{ SYS_mlock, ALLOW },
	{ SYS_mremap, ALLOW },
	{ SYS_msync, ALLOW },
	{ SYS_munlock, ALLOW },
	{ SYS_munmap, ALLOW },
	{ SYS_set_mempolicy, ALLOW },

	/* Processes: threads only. */
	{ SYS_clone, ALLOW, IF_ANY_BIT(0, CLONE_THREAD) },
	{ SYS_clone, DENY },
	{ SYS_clone3, ABSENT }, /* a filter cannot see its flags; libc then uses clone */
	{ SYS_fork, DENY },
	{ SYS_vfork, DENY },
	{ SYS_execve, DENY },
	{ SYS_execveat, DENY },
	{ SYS_setns, DENY },
	{ SYS_unshare, DENY },
	{ SYS_exit, ALLOW },
	{ SYS_exit_group, ALLOW },
	{ SYS_rseq, ALLOW },
	{ SYS_set_robust_list, ALLOW },
	{ SYS_set_tid_address, ALLOW },

	/* Nothing that stops the pool. A task's timer still can (daemon/manager/pool_watchdog.h,
	 * I4). */
	DENY_STOPS(SYS_kill, 1),
	DENY_STOPS(SYS_tgkill, 2),
	DENY_STOPS(SYS_rt_sigqueueinfo, 1),
	DENY_STOPS(SYS_rt_tgsigqueueinfo, 2),
	/* Other processes, including the manager, which has the same uid. */
	{ SYS_kill, ALLOW, IF_OWN_PID(0) },
	{ SYS_kill, DENY },
	{ SYS_tgkill, ALLOW, IF_OWN_PID(0) },
	{ SYS_tgkill, DENY },
	{ SYS_rt_sigqueueinfo, ALLOW, IF_OWN_PID(0) },
	{ SYS_rt_sigqueueinfo, DENY },
	{ SYS_rt_tgsigqueueinfo, ALLOW, IF_OWN_PID(0) },
	{ SYS_rt_tgsigqueueinfo, DENY },
	{ SYS_prlimit64, ALLOW, IF_EQUAL(0, 0) },
	{ SYS_prlimit64, ALLOW, IF_OWN_PID(0) },
	{ SYS_prlimit64, DENY },
	{ SYS_sched_setaffinity, DENY, IF_MANAGER(0) },
	{ SYS_sched_setattr, DENY, IF_OTHER(0, 0) },
	{ SYS_sched_setparam, DENY, IF_OTHER(0, 0) },
	{ SYS_sched_setscheduler, DENY, IF_OTHER(0, 0) },
	/* Neither process groups nor users. */
	{ SYS_setpriority, DENY, IF_EQUAL(0, PRIO_PGRP) },
	{ SYS_setpriority, DENY, IF_EQUAL(0, PRIO_USER) },
	{ SYS_setpriority, DENY, IF_OTHER(1, 0) },
	{ SYS_ioprio_set, DENY, IF_EQUAL(0, IOPRIO_WHO_PGRP) },
	{ SYS_ioprio_set, DENY, IF_EQUAL(0, IOPRIO_WHO_USER) },
	{ SYS_ioprio_set, DENY, IF_OTHER(1, 0) },
	/* The process at a socket's other end would send the signal by writing there. */
	{ SYS_fcntl, DENY, IF_EQUAL(1, F_SETOWN) },
	{ SYS_fcntl, DENY, IF_EQUAL(1, F_SETOWN_EX) },
	{ SYS_fcntl, DENY, IF_EQUAL(1, F_SETSIG) },
	{ SYS_ioctl, DENY, IF_EQUAL(1, FIOSETOWN) },
	{ SYS_ioctl, DENY, IF_EQUAL(1, SIOCSPGRP) },
	{ SYS_tkill, DENY },
	{ SYS_pidfd_send_signal, DENY },
	{ SYS_pidfd_getfd, DENY },
	{ SYS_kcmp, DENY },
	{ SYS_migrate_pages, DENY },
	{ SYS_move_pages, DENY },
	{ SYS_process_madvise, DENY },
	{ SYS_process_vm_readv, DENY },
	{ SYS_process_vm_writev, DENY },
	{ SYS_ptrace, DENY },

	/* Attributes of the process, such as PR_SET_PDEATHSIG and PR_SET_DUMPABLE, must not change,
	 * and no task may restrict its worker. */
	{ SYS_prctl, ALLOW, IF_EQUAL(0, PR_SET_NAME) },
	{ SYS_prctl, ALLOW, IF_EQUAL(0, PR_GET_NAME) },
	{ SYS_prctl, ALLOW, IF_EQUAL(0, PR_SET_TIMERSLACK) },
	{ SYS_prctl, ALLOW, IF_EQUAL(0, PR_GET_TIMERSLACK) },
	{ SYS_prctl, ALLOW, IF_EQUAL(0, PR_GET_DUMPABLE) },
	{ SYS_prctl, ALLOW, IF_EQUAL(0, PR_GET_TID_ADDRESS) }, /* daemon/core/crash_handler.c */
	{ SYS_prctl, ALLOW, IF_EQUAL(0, PR_SET_VMA) },
	{ SYS_prctl, DENY },
	{ SYS_seccomp, DENY },
	{ SYS_landlock_restrict_self, DENY },

	/* Connections, and other ways out; the channel exists already. */
	{ SYS_accept, DENY },
	{ SYS_accept4, DENY },
	{ SYS_bind, DENY },
	{ SYS_connect, DENY },
	{ SYS_listen, DENY },
	{ SYS_socket, DENY },
	{ SYS_socketpair, DENY },
	{ SYS_io_uring_setup, DENY },
	{ SYS_ioctl, DENY, IF_EQUAL(1, TIOCSTI) }, /* simulates input on forkd's terminal */
	{ SYS_ioctl, DENY, IF_EQUAL(1, TIOCLINUX) },
	{ SYS_recvmsg, ALLOW },
	{ SYS_sendmsg, ALLOW },
	{ SYS_sendto, ALLOW }, /* the log's socket */
	{ SYS_shutdown, ALLOW },

	/* The system; most of these also require capabilities. */
	{ SYS_acct, DENY },
	{ SYS_add_key, DENY },
	{ SYS_adjtimex, DENY },
	{ SYS_bpf, DENY },
	{ SYS_chroot, DENY },
	{ SYS_clock_adjtime, DENY },
	{ SYS_clock_settime, DENY },
	{ SYS_delete_module, DENY },
	{ SYS_fanotify_init, DENY },
	{ SYS_finit_module, DENY },
	{ SYS_fsconfig, DENY },
	{ SYS_fsmount, DENY },
	{ SYS_fsopen, DENY },
	{ SYS_fspick, DENY },
	{ SYS_init_module, DENY },
	{ SYS_ioperm, DENY },
	{ SYS_iopl, DENY },
	{ SYS_kexec_file_load, DENY },
	{ SYS_kexec_load, DENY },
	{ SYS_keyctl, DENY },
	{ SYS_modify_ldt, DENY },
	{ SYS_mount, DENY },
	{ SYS_mount_setattr, DENY },
	{ SYS_move_mount, DENY },
	{ SYS_open_by_handle_at, DENY },
	{ SYS_open_tree, DENY },
	{ SYS_perf_event_open, DENY },
	{ SYS_pivot_root, DENY },
	{ SYS_quotactl, DENY },
	{ SYS_reboot, DENY },
	{ SYS_request_key, DENY },
	{ SYS_setdomainname, DENY },
	{ SYS_sethostname, DENY },
	{ SYS_settimeofday, DENY },
	{ SYS_swapoff, DENY },
	{ SYS_swapon, DENY },
	{ SYS_syslog, DENY },
	{ SYS_umount2, DENY },
	{ SYS_vhangup, DENY },

	/* Open files: stdio and the channel, and briefly a segment that is being mapped. */
	{ SYS_close, ALLOW },
	{ SYS_fcntl, ALLOW },
	{ SYS_fstat, ALLOW },
	{ SYS_newfstatat, ALLOW, IF_ANY_BIT(3, AT_EMPTY_PATH) }, /* libc's fstat() */
	{ SYS_lseek, ALLOW },
	{ SYS_poll, ALLOW },
	{ SYS_ppoll, ALLOW },
	{ SYS_pread64, ALLOW },
	{ SYS_preadv2, ALLOW },
	{ SYS_pwrite64, ALLOW },
	{ SYS_pwritev2, ALLOW }, /* the log's pipe */
	{ SYS_read, ALLOW },
	{ SYS_readv, ALLOW },
	{ SYS_write, ALLOW },
	{ SYS_writev, ALLOW },

	/* Waiting, signals, time, and the thread's own attributes. */
	{ SYS_clock_getres, ALLOW },
	{ SYS_clock_gettime, ALLOW },
	{ SYS_clock_nanosleep, ALLOW },
	{ SYS_futex, ALLOW },
	{ SYS_futex_waitv, ALLOW },
	{ SYS_io_uring_enter, ALLOW }, /* the poller's */
	{ SYS_getcpu, ALLOW },
	{ SYS_getegid, ALLOW },
	{ SYS_geteuid, ALLOW },
	{ SYS_getgid, ALLOW },
	{ SYS_getpid, ALLOW },
	{ SYS_getppid, ALLOW },
	{ SYS_getrandom, ALLOW },
	{ SYS_getrlimit, ALLOW },
	{ SYS_getrusage, ALLOW },
	{ SYS_gettid, ALLOW },
	{ SYS_gettimeofday, ALLOW },
	{ SYS_getuid, ALLOW },
	{ SYS_nanosleep, ALLOW },
	{ SYS_restart_syscall, ALLOW },
	{ SYS_rt_sigaction, ALLOW },
	{ SYS_rt_sigpending, ALLOW },
	{ SYS_rt_sigprocmask, ALLOW },
	{ SYS_rt_sigreturn, ALLOW },
	{ SYS_rt_sigsuspend, ALLOW },
	{ SYS_rt_sigtimedwait, ALLOW },
	{ SYS_sched_getaffinity, ALLOW },
	{ SYS_sched_getattr, ALLOW },
	{ SYS_sched_getparam, ALLOW },
	{ SYS_sched_getscheduler, ALLOW },
	{ SYS_sched_setaffinity, ALLOW },
	{ SYS_sched_setattr, ALLOW },
	{ SYS_sched_yield, ALLOW },
	{ SYS_sigaltstack, ALLOW },
	{ SYS_sysinfo, ALLOW },
	{ SYS_time, ALLOW },
	{ SYS_timer_create, ALLOW }, /* daemon/sched/slice_timer.h */
	{ SYS_timer_delete, ALLOW },
	{ SYS_timer_settime, ALLOW },
	{ SYS_times, ALLOW },
	{ SYS_uname, ALLOW },
};

#define SANDBOX_ROW_MAX 5 /* maximum number of instructions of a row */
#define SANDBOX_EXTRA	8 /* before the first and after the last one */

struct sandbox_program {
	struct sock_filter code[ARRAY_SIZE(sandbox_rows) * SANDBOX_ROW_MAX + SANDBOX_EXTRA];
	uint16_t n;
};

static void sandbox_emit(struct sandbox_program *p, struct sock_filter instruction)
{
	p->code[p->n++] = instruction;
}

static void sandbox_load(struct sandbox_program *p, uint32_t offset)
{
	sandbox_emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

/* Skips the next n instructions if the comparison with the loaded value fails. */
static void sandbox_unless(struct sandbox_program *p, uint16_t comparison, uint32_t value,
			   uint8_t n)
{
	sandbox_emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | comparison | BPF_K, value, 0, n));
}

/* Skips the next instruction if the loaded argument does not meet the condition. */
static void sandbox_unless_fits(struct sandbox_program *p, const struct sandbox_row *row)
{
	switch (row->condition) {
	case SANDBOX_OTHER:
		sandbox_emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, row->value,
							     1, 0));
		break;
	case SANDBOX_ANY_BIT:
		sandbox_unless(p, BPF_JSET, row->value, 1);
		break;
	case SANDBOX_OWN_PID:
		sandbox_unless(p, BPF_JEQ, (uint32_t)getpid(), 1);
		break;
	case SANDBOX_MANAGER:
		sandbox_unless(p, BPF_JEQ, (uint32_t)getppid(), 1);
		break;
	case SANDBOX_ALWAYS:
	case SANDBOX_EQUAL:
		sandbox_unless(p, BPF_JEQ, row->value, 1);
		break;
	}
}

static void sandbox_return(struct sandbox_program *p, uint32_t verdict)
{
	sandbox_emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

/* Before and after it the call's number is the loaded value. */
static void sandbox_add(struct sandbox_program *p, const struct sandbox_row *row, bool has_gate)
{
	const uint32_t lower = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0;
	uint32_t verdict = row->verdict == GATE && !has_gate ? DENY : row->verdict;

	if (row->call == SANDBOX_NO_CALL)
		return;
	if (row->condition == SANDBOX_ALWAYS) {
		sandbox_unless(p, BPF_JEQ, row->call, 1);
		sandbox_return(p, verdict);
		return;
	}
	sandbox_unless(p, BPF_JEQ, row->call, 4);
	sandbox_load(p, (uint32_t)offsetof(struct seccomp_data, args) + row->argument * 8 + lower);
	sandbox_unless_fits(p, row);
	sandbox_return(p, verdict);
	sandbox_load(p, offsetof(struct seccomp_data, nr));
}

/* Returns 0, the gate's descriptor (above 0), or a negative errno. */
static int sandbox_calls(bool strict, bool has_gate)
{
	unsigned int flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
	struct sandbox_program p = { .n = 0 };
	struct sock_fprog program;
	long r;

	/* Other architectures use the numbers for other calls. */
	sandbox_load(&p, offsetof(struct seccomp_data, arch));
	sandbox_emit(&p,
		     (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SANDBOX_ARCH, 1, 0));
	sandbox_return(&p, DENY);
	sandbox_load(&p, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
	sandbox_unless(&p, BPF_JGE, 0x40000000, 1); /* x32 calls */
	sandbox_return(&p, DENY);
#endif
	for (uint32_t i = 0; i < ARRAY_SIZE(sandbox_rows); i++)
		sandbox_add(&p, &sandbox_rows[i], has_gate);
	sandbox_return(&p, strict ? DENY : ALLOW);
	program = (struct sock_fprog){ .len = p.n, .filter = p.code };
	if (has_gate)
		flags |= SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
	/* All tasks are in one address space: slower loads would not protect tenants from each
	 * other. */
	r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	if (has_gate)
		return r < 0 ? -errno : (int)r;
	if (r > 0)
		return -EBUSY; /* a thread has its own filter */
	return r < 0 ? -errno : 0;
}

#else

static int sandbox_calls(bool strict, bool has_gate)
{
	(void)strict;
	(void)has_gate;
	return -ENOSYS;
}

#endif

int sandbox_bound(void)
{
	for (unsigned long i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++)
		if (prctl(PR_CAPBSET_DROP, i) < 0 && errno != EPERM)
			return -errno;
	return 0;
}

/* I4. For this thread, and those that it starts from now on. */
static int sandbox_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	uint32_t any = 0;

	if (sandbox_bound() < 0 ||
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0UL, 0UL, 0UL) < 0 ||
	    syscall(SYS_capget, &header, sets) < 0)
		return -errno;
	for (uint32_t i = 0; i < ARRAY_SIZE(sets); i++) {
		any |= sets[i].effective | sets[i].permitted | sets[i].inheritable;
		sets[i] = (struct __user_cap_data_struct){ 0 };
	}
	/* The unit's filter may forbid the call; a process without capabilities need not make
	 * it. */
	return any && syscall(SYS_capset, &header, sets) < 0 ? -errno : 0;
}

void sandbox_hide(uint32_t mode)
{
#ifndef FK_SANITIZE
	if (mode != OPTIONS_SANDBOX_OFF)
		(void)prctl(PR_SET_DUMPABLE, 0UL);
#else
	(void)mode;
	/* LeakSanitizer traces its own process, also after a change of user. */
	(void)prctl(PR_SET_DUMPABLE, 1UL);
#endif
}

int sandbox_thread(uint32_t mode)
{
#ifdef FK_SANITIZE
	mode = OPTIONS_SANDBOX_OFF;
#endif
	return mode == OPTIONS_SANDBOX_OFF ? 0 : sandbox_capabilities();
}

int sandbox_pool(uint32_t mode, int *ret_gate)
{
	bool strict = mode == OPTIONS_SANDBOX_STRICT;
	int r;

	if (ret_gate)
		*ret_gate = -1;
	if (mode == OPTIONS_SANDBOX_OFF)
		return 0;
#ifdef FK_SANITIZE
	log_notice("built with a sanitizer: tasks are not sandboxed");
	return 0;
#endif
	if (on_valgrind()) {
		log_notice("under valgrind: tasks are not sandboxed");
		return 0;
	}
	r = sandbox_capabilities();
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) < 0)
		return -errno;
	(void)prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0UL, 0UL, 0UL);
	if (ret_gate && !strict) {
		r = sandbox_calls(false, true);
		if (r >= 0) {
			*ret_gate = r;
			return 0;
		}
		log_notice("no module can be loaded while jobs run: the kernel has no "
			   "SECCOMP_RET_USER_NOTIF for the pool: %s",
			   strerror(-r));
	}
	return sandbox_calls(strict, false);
}
