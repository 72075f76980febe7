/* SPDX-License-Identifier: MIT */
/* crash.c - tasks that misbehave, each in another way */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <forkd/task.h>

#include "shm/job.h"
#include "tests/support/faults.h"

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* An unmapped address; volatile, so that the compiler does not know it. */
static volatile uintptr_t nowhere = 8;

FK_TASK(fk_void, segv, (), )
FK_NO_LEAF(segv)
{
	*(volatile int *)nowhere = 1;
	FK_RETURN();
}
FK_END(segv)

FK_LEAF_TASK(int64_t, maybe, (int64_t, bad))
{
	if (bad)
		*(volatile int *)nowhere = 1;
	return bad;
}

FK_LEAF_TASK(int64_t, forever, (int64_t, ignored))
{
	while (sched_yield() == 0)
		;
	return ignored;
}

/* The continuation crashes. Its worker is in the child, so a thief has it. */
FK_TASK(fk_void, stolen_segv, (), int64_t x;)
FK_NO_LEAF(stolen_segv)
{
	FK_FORK(x, forever, 0);
	*(volatile int *)nowhere = 1;
	FK_JOIN();
	FK_RETURN();
}
FK_END(stolen_segv)

/* Writes at the end of a 256 KiB frame that begins at the end of the C stack. */
FK_LEAF_TASK(fk_void, step_over, ())
{
	pthread_attr_t attr;
	size_t size;
	void *end;

	if (pthread_getattr_np(pthread_self(), &attr) == 0 &&
	    pthread_attr_getstack(&attr, &end, &size) == 0)
		*((volatile char *)end - 256 * 1024) = 1;
}

FK_LEAF_TASK(fk_void, abort, ())
{
	abort();
}

/* Calls itself n deep, on frames, and then crashes. */
FK_TASK(int64_t, deep, (int64_t, n), int64_t below;)
{
	if (n <= 0)
		abort();
}
FK_BODY(deep)
{
	FK_CALL(below, deep, self->n - 1);
	FK_RETURN(self->below + 1);
}
FK_END(deep)

FK_LEAF_TASK(fk_void, exit, ())
{
	_exit(3);
}

/* Other ways to end a process, or one of its threads. */
FK_LEAF_TASK(fk_void, exit_c99, ())
{
	_Exit(4);
}

FK_LEAF_TASK(fk_void, exit_hooks, ())
{
	exit(5);
}

FK_LEAF_TASK(fk_void, exit_quick, ())
{
	quick_exit(6);
}

FK_LEAF_TASK(fk_void, exit_thread, ())
{
	pthread_exit(NULL);
}

/* Bypasses the C library. */
FK_LEAF_TASK(fk_void, vanish, ())
{
	syscall(SYS_exit, 0);
}

FK_LEAF_TASK(fk_void, raise, (int64_t, signo))
{
	raise((int)signo);
}

/* Is never reached; volatile, so that the compiler does not know it. */
static volatile int64_t bottom = -1;

static __attribute__((noinline)) int64_t descend(int64_t depth)
{
	volatile char frame[256];

	frame[depth & 255] = (char)depth;
	return depth == bottom ? 0 : descend(depth + 1) + frame[depth & 255];
}

FK_LEAF_TASK(int64_t, recurse, (int64_t, depth))
{
	return descend(depth);
}

/* Keeps its worker busy without a fork. */
FK_LEAF_TASK(int64_t, hang, (int64_t, ms))
{
	int64_t end = now_ns() + ms * 1000000;
	int64_t looks = 0;

	while (now_ns() < end)
		looks++;
	return looks;
}

/* Keeps its worker busy in one leaf until its client opens the gate. */
FK_LEAF_TASK(int64_t, hold, (struct fk_buf, gate))
{
	const volatile unsigned char *gate_byte = gate.data;
	int64_t looks = 0;

	do
		looks++;
	while (!*gate_byte);
	return looks;
}

FK_LEAF_TASK(int64_t, tick, (int64_t, i))
{
	return i & 1;
}

#define SPIN_BATCH 64

/* Keeps its worker busy, and forks all the time. */
FK_TASK(int64_t, spin, (int64_t, ms), int64_t end; int64_t forks; int64_t part[SPIN_BATCH];
	int32_t i;)
FK_NO_LEAF(spin)
{
	self->end = now_ns() + self->ms * 1000000;
	self->forks = 0;
	while (now_ns() < self->end) {
		for (self->i = 0; self->i < SPIN_BATCH; self->i++)
			FK_FORK(part[self->i], tick, self->i);
		FK_JOIN();
		self->forks += SPIN_BATCH;
	}
	FK_RETURN(self->forks);
}
FK_END(spin)

/* Waits for a child. Returns its signal; 0 if it has ended in another way. */
static int64_t signal_of(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* Forks a child that returns into the worker as if it were the pool. */
FK_LEAF_TASK(int64_t, fork, (int64_t, ignored))
{
	pid_t child = fork();

	return child > 0 ? signal_of(child) : 0;
}

/* Forks a child that writes into its frame, which is in the pool's arena. */
FK_TASK(int64_t, fork_frame, (int64_t, signo), int32_t child;)
FK_NO_LEAF(fork_frame)
{
	self->child = fork();
	if (self->child == 0) {
		self->signo = 0;
		_exit(0);
	}
	FK_RETURN(signal_of(self->child));
}
FK_END(fork_frame)

/* Creates a child on this memory (vfork), which ends. */
static __attribute__((noinline)) pid_t fork_and_set(int64_t *word, int64_t n)
{
	pid_t child = vfork();

	if (child == 0) {
		*word = n;
		_exit(0);
	}
	return child;
}

FK_TASK(int64_t, fork_shared, (int64_t, n), int64_t left;)
FK_NO_LEAF(fork_shared)
{
	(void)signal_of(fork_and_set(&self->left, self->n));
	FK_RETURN(self->left);
}
FK_END(fork_shared)

/* Forks a child that outlives the job. Returns its pid. */
FK_LEAF_TASK(int64_t, fork_stray, (int64_t, ignored))
{
	pid_t child = fork();

	while (child == 0)
		pause();
	return child;
}

/* Returns the address of a client's segment; NULL if it is not mapped. */
static struct client_segment *segment_of(int64_t client)
{
	FILE *f = fopen("/proc/self/maps", "re");
	struct client_segment *segment = NULL;
	char line[4400];
	uint64_t base;

	while (f && !segment && fgets(line, sizeof(line), f)) {
		if (!strstr(line, "memfd:forkd-client") || sscanf(line, "%" SCNx64, &base) != 1)
			continue;
		segment = (struct client_segment *)(uintptr_t)base;
		if (segment->client != (uint64_t)client)
			segment = NULL;
	}
	if (f)
		(void)fclose(f);
	return segment;
}

FK_TASK(int64_t, hole, (int64_t, client), struct client_segment *segment; int file;)
FK_NO_LEAF(hole)
{
	self->segment = segment_of(self->client);
	self->file = memfd_create("hole", MFD_CLOEXEC);
	if (!self->segment || self->file < 0 ||
	    mmap(self->segment, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, self->file,
		 0) == MAP_FAILED)
		FK_RETURN(-1);
	FK_RETURN(*(volatile uint32_t *)&self->segment->client);
}
FK_END(hole)

static void (*volatile no_function)(void);

typedef int64_t spoil_function(int64_t how);

/* Returns this function in a copy of the module, which is loaded now; NULL on failure. */
static spoil_function *load_copy(spoil_function *function)
{
	Dl_info own, copy;
	char path[64];
	void *handle;
	int from, to;

	if (!dladdr((void *)(uintptr_t)function, &own))
		return NULL;
	from = open(own.dli_fname, O_RDONLY | O_CLOEXEC);
	to = memfd_create("copy", MFD_CLOEXEC);
	while (sendfile(to, from, NULL, 1 << 20) > 0)
		;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", to);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle || !dladdr(dlsym(handle, "fk_module"), &copy))
		return NULL;
	return (spoil_function *)((uintptr_t)function - (uintptr_t)own.dli_fbase +
				  (uintptr_t)copy.dli_fbase);
}

/* Static, and not made by a macro of forkd. */
static __attribute__((noinline)) int64_t spoil(int64_t how)
{
	char bytes[64] = "";

	switch (how) {
	case FAULT_FUNCTION:
		*(volatile int *)nowhere = 1;
		break;
	case FAULT_CALL:
		no_function();
		break;
	case FAULT_COPY:
		memcpy((void *)nowhere, bytes, nowhere * 8);
		break;
	case FAULT_STACK:
		return descend(how);
	case FAULT_LOADED:
		how += load_copy(spoil)(FAULT_FUNCTION);
		break;
	default:
		exit(7);
	}
	return how;
}

FK_TASK(int64_t, row, (int64_t, how), int64_t left;)
{
	if (how == FAULT_FIRST_BLOCK)
		*(volatile int *)nowhere = 1;
}
FK_BODY(row)
{
	FK_CALL(left, tick, 0);
	FK_RETURN(spoil(self->how) + self->left);
}
FK_END(row)

/* Its grandchildren fault. */
FK_TASK(int64_t, rows, (int64_t, how, int64_t, n), int64_t first; int64_t rest;)
FK_NO_LEAF(rows)
{
	if (self->n == 0) {
		FK_CALL(first, row, self->how);
		FK_RETURN(self->first);
	}
	FK_FORK(first, tick, self->n);
	FK_CALL(rest, rows, self->how, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->first + self->rest);
}
FK_END(rows)

FK_TASK(int64_t, picture, (int64_t, how), int64_t left;)
FK_NO_LEAF(picture)
{
	FK_CALL(left, rows, self->how, 3);
	FK_RETURN(self->left);
}
FK_END(picture)

FK_FINE_TASK(int64_t, pixel, (int64_t, n), int64_t left; int64_t right;)
{
	if (n > 100)
		FK_LEAF(n);
}
FK_BODY(pixel)
{
	if (self->n == 0)
		FK_RETURN(spoil(FAULT_FUNCTION));
	FK_FORK(left, pixel, self->n - 1);
	FK_CALL(right, pixel, 101);
	FK_JOIN();
	FK_RETURN(self->left + self->right);
}
FK_END(pixel)

FK_TASK(int64_t, pixels, (int64_t, n), int64_t left;)
FK_NO_LEAF(pixels)
{
	FK_CALL(left, pixel, self->n);
	FK_RETURN(self->left);
}
FK_END(pixels)

/* Overwrites the worker, so that a crash report cannot find the newest frame. */
FK_TASK(int64_t, blind, (int64_t, word), int64_t left;)
FK_NO_LEAF(blind)
{
	FK_CALL(left, tick, 1);
	fk_w->current = (uintptr_t)self->word;
	fk_w->sp = (char *)(uintptr_t)self->word;
	fk_w->child = (const struct fk_task *)(uintptr_t)self->word;
	FK_RETURN(spoil(FAULT_FUNCTION) + self->left);
}
FK_END(blind)

/* Fills the C stack from here with a word, except for the part of libc at its end. */
static __attribute__((noinline, no_sanitize("address"))) void smash(uintptr_t word)
{
	volatile uintptr_t *here = __builtin_frame_address(0);

	for (int i = 0; i < 32; i++)
		here[i] = word;
	*(volatile int *)nowhere = 1;
}

FK_LEAF_TASK(fk_void, smash_stack, (int64_t, word))
{
	smash((uintptr_t)word);
}

FK_EXPORT(blind, 0, "Writes a word over what its worker knows, and faults")
FK_EXPORT(smash_stack, 0, "Writes a word all over its C stack, and faults")
FK_EXPORT(picture, 0, "Has a child whose child faults, in a way of six")
FK_EXPORT(pixels, 0, "Has a fine-grained descendant that faults, n levels deep")
FK_EXPORT(segv, 0, "Writes where nothing is")
FK_EXPORT(maybe, 0, "Writes where nothing is, unless bad is 0")
FK_EXPORT(stolen_segv, 0, "Writes where nothing is, once a thief has it; of 2 workers")
FK_EXPORT(step_over, 0, "Writes 256 KiB below its C stack")
FK_EXPORT(abort, 0, "Calls abort()")
FK_EXPORT(deep, 0, "Calls abort() at the given depth")
FK_EXPORT(exit, 0, "Ends the process with status 3")
FK_EXPORT(exit_c99, 0, "Ends the process with status 4, by _Exit()")
FK_EXPORT(exit_hooks, 0, "Ends the process with status 5, by exit()")
FK_EXPORT(exit_quick, 0, "Ends the process, by quick_exit()")
FK_EXPORT(exit_thread, 0, "Ends its thread")
FK_EXPORT(vanish, 0, "Ends its thread by a system call")
FK_EXPORT(raise, 0, "Raises a signal for its thread")
FK_EXPORT(recurse, 0, "Calls itself without end, on the C stack")
FK_EXPORT(hole, 0, "Reads a client's segment where it has no pages")
FK_EXPORT(fork, 0, "Forks a child that returns into the worker; the signal that ends it")
FK_EXPORT(fork_frame, 0, "Forks a child that writes into its frame; the signal that ends it")
FK_EXPORT(fork_shared, 0, "A child by vfork() that sets what this returns")
FK_EXPORT(fork_stray, 0, "Forks a child that stays; its pid")
FK_EXPORT(hang, 0, "Busy for so long in one leaf; how often it looked at the clock")
FK_EXPORT(hold, FK_EXPORT_IN_PLACE,
	  "Busy in one leaf until the first byte is not 0; how often it looked there")
FK_EXPORT(spin, 0, "Busy for so long with forks; how many there were")
FK_MODULE(crash, "Tasks that misbehave")
