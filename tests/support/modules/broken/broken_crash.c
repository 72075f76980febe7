/* SPDX-License-Identifier: MIT */
/* broken_crash.c - whoever loads it dies */
#include <stdlib.h>

__attribute__((constructor)) static void die(void)
{
	abort();
}
