/* SPDX-License-Identifier: MIT */
/* The layout hash of files compiled separately, see check_layout.c. */
#pragma once

#include <stdint.h>

extern const uint64_t layout_hash_same;
extern const uint64_t layout_hash_of_smaller_rings;
