/* SPDX-License-Identifier: MIT */
/*
 * symbols.h - the loaded objects, and names of functions in them, for signal handlers
 *
 * A table of the objects that stay loaded. dladdr(3) is of no use in a handler, as it takes the
 * loader's lock; nor does it know static functions, which most of a module's are. So the file of a
 * module is mapped when the module is loaded, and its .symtab is read in the handler.
 *
 * Threads: symbols_add(): the pool's main thread, which is the channel's. The rest: any thread,
 * signal handlers too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/backtrace.h"

#define SYMBOLS_OWN	"forkd" /* the name of the program itself */
#define SYMBOLS_UNKNOWN "??"	/* of an object that is not in the table */

/*
 * Enters the loaded object that has this address; one that is in the table already stays as it is.
 * name: of its file, for reports. fd: its file, which may be closed afterwards; -1: its functions
 * have no names. Objects that the table has no room for have no names either.
 */
void symbols_add(const void *address, const char *name, int fd);

/* The object and function of an address in code. The address itself, and false, if it is in no
 * object of the table. Async-signal-safe. */
bool symbols_find(uintptr_t address, struct backtrace_place *ret_place);

/* True if size bytes from this address on are in one object of the table. Async-signal-safe. */
bool symbols_contain(const void *address, uint64_t size);
