/* SPDX-License-Identifier: MIT */
/* needed.c - not a module: the library that the module needs calls */
#include <stdint.h>

__attribute__((visibility("default"))) int64_t needed(int64_t n);
int64_t needed(int64_t n)
{
	return n + 1;
}
