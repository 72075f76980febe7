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

/* Blocks SIGCHLD and the signals that may end forkctl. Returns a non-blocking signalfd for them. On
 * failure prints the error and returns -1; they may be blocked then. ret_old: the old mask. */
int forkctl_catch_signals(sigset_t *ret_old);

/* In the child: executes the command with this mask. On failure prints the error, and exits with
 * 127 if there is no such command, otherwise 126. */
_Noreturn void forkctl_exec(char *const argv[], const sigset_t *mask);

/* Converts a wait status to an exit status, as a shell does. */
int forkctl_exit_status(int status);

/* Creates a directory in $TMPDIR that only this user can enter. On failure prints the error, and
 * *ret is empty. Returns 0 or an exit code. */
int forkctl_make_directory(char *ret, size_t size);

/* True if the argument of a command is the file of a module, and not a name. */
int forkctl_is_module_file(const char *word);

/* Creates a directory with links to n files of modules, a module-dir for a private forkd. Prints
 * errors. Returns 0 or an exit code; *ret is empty, or forkctl_unlink_modules() must remove it. */
int forkctl_link_modules(int n, char *const files[], char *ret, size_t size);
void forkctl_unlink_modules(int n, const char *directory);
