/* SPDX-License-Identifier: MIT */
/* userns.h - the user namespace that forkd runs in: which uids and gids it can tell apart */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define USERNS_NO_STRANGERS UINT32_MAX

/* The uid that all users seem to have whom the namespace does not know; USERNS_NO_STRANGERS if it
 * knows all. */
uint32_t userns_stranger(void);

/* The same of groups. */
uint32_t userns_strange_group(void);

/* True if there is no id that a map, as /proc/self/uid_map has it, leaves out. */
bool userns_is_whole(const char *map);
