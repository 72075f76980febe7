/* SPDX-License-Identifier: MIT */
/*
 * symbols.h - loaded objects and names of their functions, for signal handlers
 *
 * A table of the objects that stay loaded. dladdr(3) cannot be used in a handler because it takes
 * the loader's lock. It does not know static functions either, which most functions of a module
 * are. So the file of a module is mapped when the module is loaded, and its .symtab is read in the
 * handler.
 *
 * Threads: symbols_add(): the pool's main thread, which is the channel's. The rest: any thread,
 * signal handlers too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/backtrace.h"

#define SYMBOLS_OWN	"forkd" /* the name of the program itself */
#define SYMBOLS_UNKNOWN "??"	/* for objects that are not in the table */

/* Adds the loaded object that contains this address, unless it is in the table. name: of its file,
 * for reports. fd: its file, which may be closed afterwards; -1: its functions have no names.
 * Objects beyond the table's capacity have no names either. */
void symbols_add(const void *address, const char *name, int fd);

/* Finds the object and function of a code address. False, with the address itself, if it is in no
 * object of the table. Async-signal-safe. */
bool symbols_find(uintptr_t address, struct backtrace_place *ret_place);

/* True if size bytes from this address on are in one object of the table. Async-signal-safe. */
bool symbols_contain(const void *address, uint64_t size);
