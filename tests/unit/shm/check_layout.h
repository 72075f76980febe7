/* SPDX-License-Identifier: MIT */
/* What the layout hash is in programs that were compiled apart, see check_layout.c. */
#pragma once

#include <stdint.h>

extern const uint64_t layout_hash_same;
extern const uint64_t layout_hash_of_smaller_rings;
