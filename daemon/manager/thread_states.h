/* SPDX-License-Identifier: MIT */
/* thread_states.h - states of the threads of a process, by the kernel (/proc) */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct thread_states {
	bool asleep; /* all sleep, and none waits for a CPU or a disk */
	bool killed; /* SIGKILL is pending for one, and no core file is written */
	bool dumps;  /* the process writes a core file */
	bool traced; /* a debugger traces one (ptrace(2)), or valgrind runs */
};

/* The present states. All false if the kernel does not show them. */
struct thread_states thread_states_look(pid_t pid);

/* True if a signal has stopped the whole process, a child of ours (job control, not a debugger). */
bool thread_states_stopped(pid_t pid);
