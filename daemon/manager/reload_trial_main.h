/* SPDX-License-Identifier: MIT */
/* reload_trial_main.h - the process that makes the dry run of a reload */
#ifndef DAEMON_MANAGER_RELOAD_TRIAL_MAIN_H
#define DAEMON_MANAGER_RELOAD_TRIAL_MAIN_H

struct options;

/*
 * Checks the options as a start would, loads all modules as a pool would, and says at fd what there
 * is, for reload_trial.c. options: as files and command line have them; what is auto is settled
 * here. Returns the exit status of the process; what is wrong has been logged.
 */
int reload_trial_main(struct options *options, int fd);

#endif
