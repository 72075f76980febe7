/* SPDX-License-Identifier: MIT */
/* thread_states.h - what the kernel says about the threads of a process (/proc) */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct thread_states {
	bool asleep; /* each of them sleeps, and waits neither for a CPU nor for a disk */
	bool killed; /* one has SIGKILL to take, and the process writes no core file */
	bool dumps;  /* the process writes a core file */
	bool traced; /* a debugger has one (ptrace(2)), or it is a child on valgrind */
};

/* As of now. All is false if the kernel does not show it. */
struct thread_states thread_states_look(pid_t pid);

/* True if a signal has stopped the whole process, a child of ours (job control, not a debugger). */
bool thread_states_stopped(pid_t pid);
