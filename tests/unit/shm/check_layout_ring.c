/* SPDX-License-Identifier: MIT */
#define RING_SLOTS 512u

#include "tests/unit/shm/check_layout.h"

#include "shm/layout.h"

const uint64_t layout_hash_of_smaller_rings = LAYOUT_HASH;
