/* SPDX-License-Identifier: MIT */
#include "common/valgrind.h"

#include <dlfcn.h>

static bool valgrind_found;

/* dlsym() takes the loader's lock, and a task may hang while it holds this lock. So the program
 * looks before it has threads. Each tool of valgrind preloads a library that has this function. */
__attribute__((constructor)) static void valgrind_look(void)
{
	valgrind_found = dlsym(RTLD_DEFAULT, "_vgnU_freeres");
}

bool on_valgrind(void)
{
	return valgrind_found;
}
