/* SPDX-License-Identifier: MIT */
/* userns.h - the user namespace of forkd: which uids and gids it can tell apart */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define USERNS_NO_STRANGERS UINT32_MAX

/* The uid that is shown for all users outside the namespace; USERNS_NO_STRANGERS if it maps all. */
uint32_t userns_stranger(void);

/* The same for groups. */
uint32_t userns_strange_group(void);

/* True if a map, in the format of /proc/self/uid_map, leaves out no id. */
bool userns_is_whole(const char *map);
