/* SPDX-License-Identifier: MIT */
/* rights.h - what the option tasks says, beside the tasks that there are */
#ifndef DAEMON_MANAGER_RIGHTS_H
#define DAEMON_MANAGER_RIGHTS_H

struct board;
struct options;

/* Warns of each pattern that fits no task of any module, and says where it stands. The manager's
 * thread; when the pool is ready. */
void rights_look(const struct options *options, const struct board *board);

#endif
