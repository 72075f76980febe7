/* SPDX-License-Identifier: MIT */
#include "tests/unit/shm/check_layout.h"

#include "shm/layout.h"

const uint64_t layout_hash_same = LAYOUT_HASH;
