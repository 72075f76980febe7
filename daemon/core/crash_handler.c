/* SPDX-License-Identifier: MIT */
#include "daemon/core/crash_handler.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/fiber_head.h"
#include "daemon/core/hooks.h"
#include "daemon/core/fiber_stack.h"
#include "daemon/core/locate.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/host/symbols.h"
#include "shm/board.h"
#include "shm/futex.h"
#include "shm/ledger.h"
#include "shm/limits.h"

#define FAULT_STACK    65536u
#define FAULT_NOT_SAID (LIMIT_WORKERS + 1) /* not a worker's index: no job is blamed */
#define FAULT_PIECES   1024u		   /* maximum number of mapped file parts */
#define FAULT_LOOKS    10000u		   /* maximum number of checks for an exiting thread */
#define FAULT_LOOK_NS  100000

/* This process's pool: handlers and hooks get no argument. */
static struct pool *fault_pool;
static pthread_key_t fault_key; /* of threads that run tasks */
static bool fault_has_key;

struct fault_piece {
	const void *base;
	size_t size;
};

/* Parts of forkd, the C library, the loader, the vDSO and modules, which stay mapped. */
static struct fault_piece fault_pieces[FAULT_PIECES];
static _Atomic uint32_t fault_n_pieces;
static uintptr_t fault_page; /* bytes */

/* A thread of the pool. */
struct fault_thread {
	pid_t tid;
	int *tid_address;		 /* libc's, which the kernel clears; NULL: not replaced */
	const struct worker *worker;	 /* NULL: not a worker */
	struct fiber_head *const *fiber; /* the fiber that it runs; NULL: it runs none */
	struct fault_piece own;		 /* its stack */
	size_t guard;			 /* bytes below that which must not be touched */
	struct fault_thread *next;
	_Alignas(16) char stack[FAULT_STACK]; /* of handlers */
};

/* 1 as long as no thread has ended. When one ends, the kernel writes 0 and wakes the watch. */
static _Atomic uint32_t fault_alive;
static _Atomic bool fault_watches; /* false: threads may end */
static pthread_t fault_watch_thread;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault_thread *fault_threads; /* with the lock */

static _Thread_local struct fault_thread *fault_self; /* NULL: not the pool's, or unknown */

/* The worker and fiber on this thread. */
struct fault_who {
	const struct worker *worker;	/* of a fiber in a section: its last; or NULL */
	const struct fiber_head *fiber; /* or NULL */
};

/* Returns no worker in the child of a task that forks, also after vfork(), which shares memory. */
static struct fault_who fault_who(void)
{
	struct fault_who who = { NULL, NULL };

	if (!fault_pool || getpid() != fault_pool->pid)
		return who;
	who.worker = worker_self();
	who.fiber = who.worker ? who.worker->fiber.self : NULL;
	if (!who.worker && fault_self && fault_self->fiber)
		who.fiber = *fault_self->fiber;
	if (!who.worker && who.fiber)
		who.worker = who.fiber->worker;
	return who;
}

/* The row of the job that this worker or fiber runs. */
static uint32_t fault_row(struct fault_who who)
{
	if (who.fiber && who.fiber->blocking)
		return who.fiber->frame.job;
	/* Relaxed: this worker's own. */
	return load_relaxed(&fault_pool->arena->workers[who.worker->index].job);
}

/* True if the address is in a mapping of length size that begins at base. */
static bool fault_is_in(uint64_t address, const void *base, uint64_t size)
{
	return base && address - (uint64_t)(uintptr_t)base < size;
}

/* True if the address is in the segment of a client or tenant other than the job's. Plain reads: an
 * entry that changes right now is not one that this thread accesses. */
static bool fault_is_foreign(struct fault_who who, uint64_t address)
{
	const struct clients *all = &fault_pool->clients;
	uint32_t own = fault_row(who) / fault_pool->jobs_max;

	if (own >= fault_pool->clients_max)
		return false;
	for (uint32_t i = 0; i < fault_pool->clients_max; i++)
		if (i != own &&
		    fault_is_in(address, all->entries[i].segment, all->entries[i].segment_size))
			return true;
	for (uint32_t i = 0; i < LIMIT_TENANTS; i++)
		if (i != all->entries[own].tenant &&
		    fault_is_in(address, all->tenants[i].base, all->tenants[i].size))
			return true;
	return false;
}

/* The first thread to claim is blamed. Relaxed, here and below: the manager reads it after the end
 * of the process (ORDER ledger/row [L2]). */
static bool fault_claim(struct ledger_fault *fault, uint32_t worker)
{
	uint32_t nobody = 0;

	return atomic_compare_exchange_strong_explicit(&fault->worker, &nobody, worker + 1,
						       memory_order_relaxed, memory_order_relaxed);
}

#define fault_store(p, v) store_relaxed((p), (v))

/* The same for the task of this thread. If the fiber is in a section, its worker runs another job:
 * so the job is stored explicitly, before the worker. */
static bool fault_claim_for(struct pool *pool, struct fault_who who)
{
	struct ledger_fault *fault = &pool->arena->fault;
	uint32_t row;

	if (!who.fiber || !who.fiber->blocking)
		return fault_claim(fault, who.worker->index);
	if (!fault_claim(fault, FAULT_NOT_SAID))
		return false;
	row = who.fiber->frame.job;
	/* A wild write of a task may have changed it. */
	if (row / pool->jobs_max >= pool->clients_max)
		return true;
	fault_store(&fault->row, row + 1);
	fault_store(&fault->generation, ledger_row(pool->arena, row).generation);
	fault_store(&fault->worker, who.worker->index + 1);
	return true;
}

/* Stores the fiber's name for the report. Async-signal-safe. */
static void fault_name(struct ledger_fault *fault, const struct fiber_head *fiber)
{
	size_t n = strnlen(fiber->name, sizeof(fault->fiber) - 1);

	memcpy(fault->fiber, fiber->name, n);
	fault->fiber[n] = '\0';
}

/* Records a stack overflow. size: bytes of the stack. */
static void fault_overflows(struct ledger_fault *fault, uint64_t size)
{
	fault_store(&fault->reason, LEDGER_FAULT_STACK);
	fault_store(&fault->stack_size, size);
}

/* Checks whether the fault is a stack overflow. The fiber's data, which a wild write may have
 * changed, is read last: by then the job is blamed. */
static void fault_look_at_stack(const struct fiber_head *fiber, struct ledger_fault *fault,
				uint64_t address)
{
	const struct fault_thread *thread = fault_self;

	if (thread && thread->own.base &&
	    fault_is_in(address, (const char *)thread->own.base - thread->guard, thread->guard))
		fault_overflows(fault, thread->own.size);
	if (fiber && fiber_stack_guards(fiber->stack, address))
		fault_overflows(fault, fiber->stack->size);
	if (fiber)
		fault_name(fault, fiber);
}

/* On the thread that ends the pool. context: of its signal handler, or NULL. */
static void fault_locate(struct fault_who who, struct ledger_fault *fault, ucontext_t *context)
{
	locate_code(&fault->trace, context);
	if (!who.fiber)
		locate_task(who.worker, &fault->trace, fault->inner, sizeof(fault->inner));
}

/* ------------------------------------------------------------------------ unmapped memory */

/* True if all of its pages are mapped. msync(2) with MS_ASYNC has no other effect. */
static bool fault_is_mapped(const void *base, size_t size)
{
	uintptr_t page = (uintptr_t)base & ~(fault_page - 1);

	return !base || msync((void *)page, (uintptr_t)base + size - page, MS_ASYNC) == 0 ||
	       errno != ENOMEM;
}

static bool fault_threads_are_whole(void)
{
	bool whole = true;

	/* A thread that holds the lock is starting or ending a thread. */
	if (pthread_mutex_trylock(&fault_lock) != 0)
		return true;
	for (const struct fault_thread *t = fault_threads; t && whole; t = t->next)
		whole = fault_is_mapped(t->own.base, t->own.size);
	pthread_mutex_unlock(&fault_lock);
	return whole;
}

/* False if memory that the pool needs is no longer mapped. Async-signal-safe. */
static bool fault_is_whole(const struct pool *pool)
{
	const struct clients *all = &pool->clients;
	bool whole = fault_is_mapped(pool, sizeof(*pool)) && fault_is_mapped(pool, pool->size) &&
		     fault_is_mapped(pool->arena, pool->arena_size) &&
		     fault_is_mapped(pool->board, pool->board_size);
	uint32_t n;

	/* ORDER fault/pieces [F1]: acquire, the pieces are complete. Pairs with
	 * fault_add_piece(). */
	n = atomic_load_explicit(&fault_n_pieces, memory_order_acquire);
	for (uint32_t i = 0; i < n && whole; i++)
		whole = fault_is_mapped(fault_pieces[i].base, fault_pieces[i].size);
	/* A segment that is being unmapped because its client ended is not in its entry any more
	 * (attach.c). */
	for (uint32_t i = 0; i < pool->clients_max && whole; i++) {
		const struct client_entry *client = &all->entries[i];
		const void *segment = client->segment;

		whole = fault_is_mapped(segment, client->segment_size) ||
			client->segment != segment;
	}
	for (uint32_t i = 0; i < LIMIT_TENANTS && whole; i++)
		whole = fault_is_mapped(all->tenants[i].base, all->tenants[i].size);
	return whole && fault_threads_are_whole();
}

static bool fault_contains(const struct dl_phdr_info *info, const void *address)
{
	uintptr_t at = (uintptr_t)address - info->dlpi_addr;

	for (uint32_t i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    at - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
			return true;
	return false;
}

/* True for objects that are never unloaded; a task may unload any other library. */
static bool fault_stays(const struct dl_phdr_info *info, const struct modules *modules)
{
	const uintptr_t known[] = { (uintptr_t)msync, getauxval(AT_BASE),
				    getauxval(AT_SYSINFO_EHDR) };
	bool stays = !info->dlpi_name[0];

	for (uint32_t i = 0; i < ARRAY_SIZE(known) && !stays; i++)
		stays = fault_contains(info, (const void *)known[i]);
	for (uint32_t i = 0; i < modules->n_tasks && !stays; i++)
		stays = modules->tasks[i].export && fault_contains(info, modules->tasks[i].export);
	return stays;
}

/* The first byte of a loaded object. */
static const void *fault_start_of(const struct dl_phdr_info *info)
{
	for (uint32_t i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			return (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return NULL;
}

/* Handlers may read the pieces while a module is loaded (module.c, JOINING). */
static void fault_add_piece(const void *base, size_t size)
{
	/* Relaxed: one thread adds. */
	uint32_t n = load_relaxed(&fault_n_pieces);

	for (uint32_t i = 0; i < n; i++)
		if (fault_pieces[i].base == base)
			return;
	if (n == FAULT_PIECES)
		return;
	fault_pieces[n] = (struct fault_piece){ base, size };
	/* ORDER fault/pieces [F1]: release, the piece is complete before it is counted. Pairs with
	 * fault_is_whole(). */
	atomic_store_explicit(&fault_n_pieces, n + 1, memory_order_release);
}

static int fault_add_object(struct dl_phdr_info *info, size_t size, void *modules)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;

	(void)size;
	symbols_add(fault_start_of(info), *name ? name : SYMBOLS_OWN, -1);
	if (!fault_stays(info, modules))
		return 0;
	for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_LOAD)
			fault_add_piece((const void *)(info->dlpi_addr + part->p_vaddr),
					part->p_memsz);
	}
	return 0;
}

/* ------------------------------------------------------------------------ blame */

/* Returns true if the job was blamed. */
static bool fault_blame_for(struct fault_who who, int signo, uint64_t address)
{
	struct ledger_fault *fault = who.worker ? &fault_pool->arena->fault : NULL;

	/* A task has unmapped it; this thread is only the first to fault. */
	if (fault && !fault_is_whole(fault_pool))
		return false;
	/* A client has punched a hole in its segment, and no page can be allocated. Workers read
	 * rings and records of all clients while they have a job. */
	if (fault && signo == SIGBUS && fault_is_foreign(who, address))
		return false;
	if (!fault || !fault_claim_for(fault_pool, who))
		return false;
	fault_store(&fault->signo, (uint32_t)signo);
	fault_store(&fault->address, address);
	fault_look_at_stack(who.fiber, fault, address);
	return true;
}

/* The calling thread is ending the pool. */
static void fault_blame(int signo, uint64_t address, ucontext_t *context)
{
	struct fault_who who = fault_who();

	if (fault_blame_for(who, signo, address))
		fault_locate(who, &fault_pool->arena->fault, context);
}

/* ------------------------------------------------------------------------ signals */

/* True for signals that the kernel sends for an action of the thread itself. */
static bool fault_is_of_thread(int signo)
{
	return signo == SIGSEGV || signo == SIGBUS || signo == SIGILL || signo == SIGFPE ||
	       signo == SIGTRAP || signo == SIGSYS;
}

/* True if this thread caused the signal: the kernel sent it for an action of the thread, or the
 * thread sent it to itself, as abort() and raise() do. Otherwise it was sent to the process and the
 * kernel picked any thread: an operator's kill(2), systemd's watchdog, an alarm(2), or a task that
 * signals the pool's pid. */
static bool fault_is_own(const siginfo_t *info)
{
	if (info->si_code > 0)
		return fault_is_of_thread(info->si_signo);
	return info->si_code == SI_TKILL && info->si_pid == getpid();
}

/* Async-signal-safe: uses atomics, then restores the default action. */
static void fault_on_signal(int signo, siginfo_t *info, void *context)
{
	if (fault_is_own(info))
		fault_blame(signo, info->si_code > 0 ? (uint64_t)(uintptr_t)info->si_addr : 0,
			    context);
	signal(signo, SIG_DFL);
	raise(signo);
}

/* True if the default action of the signal ends the process. */
static bool fault_ends(int signo)
{
	switch (signo) {
	case SIGCHLD:
	case SIGCONT:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
	case SIGURG:
	case SIGWINCH:
		return false;
	default:
		return true;
	}
}

static void fault_catch_signals(void)
{
	struct sigaction action = { .sa_sigaction = fault_on_signal,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND };
	struct sigaction before;
	sigset_t set;

	sigfillset(&action.sa_mask);
	/* A module may install handlers, but not for the signals that report its own faults. */
	for (int signo = 1; signo <= SIGRTMAX; signo++)
		if (fault_ends(signo) && sigaction(signo, NULL, &before) == 0 &&
		    (before.sa_handler == SIG_DFL || fault_is_of_thread(signo)))
			sigaction(signo, &action, NULL);
	/* A write beyond RLIMIT_FSIZE then fails instead of ending the process. */
	signal(SIGXFSZ, SIG_IGN);
	/* The manager decides when this process ends. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* ------------------------------------------------------------------------ other ways out */

static void __attribute__((noreturn)) fault_leave(int status)
{
	fault_blame(0, 0, NULL);
	for (;;)
		syscall(SYS_exit_group, status);
}

/* Override the C library's: calls of modules are resolved to these. */
void __attribute__((visibility("default"))) _exit(int status)
{
	fault_leave(status);
}

void __attribute__((visibility("default"))) _Exit(int status)
{
	fault_leave(status);
}

/* A task called exit(): leave before other hooks run concurrently with the other workers. */
static void fault_on_exit(int status, void *ignored)
{
	(void)ignored;
	if (fault_who().worker)
		fault_leave(status);
}

static void fault_on_quick_exit(void)
{
	if (fault_who().worker)
		fault_leave(EXIT_FAILURE);
}

/* A task called pthread_exit(): a pool cannot continue without one of its workers. */
static void fault_on_thread_exit(void *ignored)
{
	(void)ignored;
	fault_leave(EXIT_FAILURE);
}

/* In the child of a task that forks: the child is not a pool, and dies with its parent. */
static void fault_on_fork(void)
{
	struct pool *pool = fault_pool;

	fault_pool = NULL;
	if (!pool)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != pool->pid)
		_exit(EXIT_FAILURE);
	close(pool->channel.fd);
}

/* Ends the process and blames a job: this job of a row, which the worker was running, is to end and
 * has made no progress for held_ns. The dispatcher. */
static void __attribute__((noreturn))
fault_hang(struct pool *pool, uint32_t worker, uint32_t row, uint32_t generation, uint64_t held_ns)
{
	struct ledger_fault *fault = &pool->arena->fault;

	if (fault_claim(fault, worker)) {
		fault_store(&fault->signo, SIGKILL);
		fault_store(&fault->row, row + 1);
		fault_store(&fault->generation, generation);
		fault_store(&fault->held_ns, held_ns);
		fault_store(&fault->reason, LEDGER_FAULT_HANG);
	}
	for (;;)
		kill(pool->pid, SIGKILL);
}

/* Ends the process and blames the job of a fiber that the worker has just run: it has written below
 * its stack, which has no guard page. */
static void __attribute__((noreturn))
fault_overflow(struct worker *w, const struct fiber_head *fiber)
{
	struct ledger_fault *fault = &w->pool->arena->fault;

	if (fault_claim_for(w->pool, (struct fault_who){ w, fiber })) {
		fault_store(&fault->signo, SIGSEGV);
		fault_store(&fault->address, (uint64_t)(uintptr_t)fiber->stack->low);
		fault_overflows(fault, fiber->stack->size);
		fault_name(fault, fiber);
	}
	for (;;)
		kill(w->pool->pid, SIGKILL);
}

const struct crash_hooks crash_handler = {
	.begin_thread = fault_begin_thread,
	.end_thread = fault_end_thread,
	.hang = fault_hang,
	.overflow = fault_overflow,
};

/* ------------------------------------------------------------------------ threads that end */

/* Returns a thread that has ended; NULL if there is none. */
static struct fault_thread *fault_ended(pid_t pid)
{
	struct fault_thread *thread;

	pthread_mutex_lock(&fault_lock);
	thread = fault_threads;
	while (thread && !(syscall(SYS_tgkill, pid, thread->tid, 0) < 0 && errno == ESRCH))
		thread = thread->next;
	pthread_mutex_unlock(&fault_lock);
	return thread;
}

/* A thread has ended, or is still exiting: blames its job and ends the process. */
static void __attribute__((noreturn)) fault_lose(struct pool *pool)
{
	const struct timespec rest = { .tv_nsec = FAULT_LOOK_NS };
	struct fault_thread *thread = NULL;
	struct fault_who who = { NULL, NULL };

	for (uint32_t looks = 0; !thread && looks < FAULT_LOOKS; looks++) {
		thread = fault_ended(pool->pid);
		if (!thread)
			(void)nanosleep(&rest, NULL);
	}
	if (thread) {
		who.worker = thread->worker;
		who.fiber = thread->fiber ? *thread->fiber : NULL;
		if (!who.worker && who.fiber)
			who.worker = who.fiber->worker;
	}
	(void)fault_blame_for(who, 0, 0);
	for (;;)
		syscall(SYS_exit_group, EXIT_FAILURE);
}

static void *fault_watch(void *arg)
{
	pthread_setname_np(pthread_self(), "forkd-watch");
	/* Relaxed: the kernel writes this word, and it publishes no other data; fault_end() wakes
	 * after its own store. */
	while (load_relaxed(&fault_alive))
		(void)futex_wait(&fault_alive, 1, 0);
	if (load_relaxed(&fault_watches))
		fault_lose(arg);
	return NULL;
}

/* Stores the bounds of this thread's stack, or zeros if they are unknown. */
static void fault_measure_stack(struct fault_thread *thread)
{
	pthread_attr_t attr;
	void *base;

	thread->own = (struct fault_piece){ NULL, 0 };
	thread->guard = 0;
	if (pthread_getattr_np(pthread_self(), &attr) != 0)
		return;
	if (pthread_attr_getstack(&attr, &base, &thread->own.size) == 0)
		thread->own.base = base;
	(void)pthread_attr_getguardsize(&attr, &thread->guard);
	pthread_attr_destroy(&attr);
}

struct fault_thread *fault_begin_thread(const struct worker *worker,
					struct fiber_head *const *fiber)
{
	struct fault_thread *thread = malloc(sizeof(*thread));

	/* Tests start blocking threads without fault_begin(). */
	if (fault_has_key)
		pthread_setspecific(fault_key, &fault_key);
	if (!thread)
		return NULL;
	thread->tid = (pid_t)syscall(SYS_gettid);
	fault_measure_stack(thread);
	thread->tid_address = NULL;
	thread->worker = worker;
	thread->fiber = fiber;
	fault_self = thread;
	sigaltstack(&(stack_t){ .ss_sp = thread->stack, .ss_size = FAULT_STACK }, NULL);
	pthread_mutex_lock(&fault_lock);
	thread->next = fault_threads;
	fault_threads = thread;
	pthread_mutex_unlock(&fault_lock);
	/* Relaxed: constant since before there were threads. */
	if (load_relaxed(&fault_watches) && prctl(PR_GET_TID_ADDRESS, &thread->tid_address) == 0)
		(void)syscall(SYS_set_tid_address, &fault_alive);
	return thread;
}

void fault_end_thread(struct fault_thread *thread)
{
	struct fault_thread **at = &fault_threads;

	if (fault_has_key)
		pthread_setspecific(fault_key, NULL);
	if (!thread)
		return;
	if (thread->tid_address)
		(void)syscall(SYS_set_tid_address, thread->tid_address);
	pthread_mutex_lock(&fault_lock);
	while (*at != thread)
		at = &(*at)->next;
	*at = thread->next;
	pthread_mutex_unlock(&fault_lock);
	sigaltstack(&(stack_t){ .ss_flags = SS_DISABLE }, NULL);
	fault_self = NULL;
	free(thread);
}

/* ------------------------------------------------------------------------ begin and end */

/* Without the watch, the end of a thread is not detected. */
static int fault_begin_watch(struct pool *pool)
{
	sigset_t all, before;
	int r;

	store_relaxed(&fault_alive, 1);
	store_relaxed(&fault_watches, true);
	/* This thread handles no signals that are sent to the process. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&fault_watch_thread, NULL, fault_watch, pool);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0)
		store_relaxed(&fault_watches, false);
	return r;
}

void fault_know_objects(struct pool *pool)
{
	(void)dl_iterate_phdr(fault_add_object, &pool->modules);
}

int fault_begin(struct pool *pool)
{
	fault_pool = pool;
	fault_page = (uintptr_t)sysconf(_SC_PAGESIZE);
	fault_know_objects(pool);
	fault_catch_signals();
	on_exit(fault_on_exit, NULL);
	at_quick_exit(fault_on_quick_exit);
	pthread_atfork(NULL, NULL, fault_on_fork);
	fault_has_key = pthread_key_create(&fault_key, fault_on_thread_exit) == 0;
	return fault_begin_watch(pool);
}

void fault_end(void)
{
	fault_pool = NULL;
	/* Relaxed: fault_watch(). */
	if (!atomic_exchange_explicit(&fault_watches, false, memory_order_relaxed))
		return;
	store_relaxed(&fault_alive, 0);
	(void)futex_wake(&fault_alive, 1);
	pthread_join(fault_watch_thread, NULL);
}
