/* SPDX-License-Identifier: MIT */
/*
 * child_command.h - a command of the user that forkctl runs and waits for
 *
 * The command gets the signals of the terminal, as under a shell: forkctl blocks them, and reads
 * them from a descriptor.
 */
#pragma once

#include <signal.h>
#include <stddef.h>

/* Blocks SIGCHLD and what may end forkctl. Returns a signalfd for them, which does not block, or
 * says why not and returns -1; then they may be blocked all the same. ret_old: the mask before. */
int forkctl_catch_signals(sigset_t *ret_old);

/* In the child: becomes the command with this mask, or ends with 127 if there is none such, or 126,
 * and a line. */
_Noreturn void forkctl_exec(char *const argv[], const sigset_t *mask);

/* The exit status for a wait status, as a shell reports it. */
int forkctl_exit_status(int status);

/* Creates a directory in $TMPDIR that only this user can enter. On failure prints the error, and
 * *ret is empty. Returns 0 or an exit code. */
int forkctl_make_folder(char *ret, size_t size);
