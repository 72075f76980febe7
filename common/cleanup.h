/* SPDX-License-Identifier: MIT */
/*
 * Releases what a variable owns when the variable goes out of scope.
 *
 * Put _cleanup_free_, _cleanup_close_, ... before a local variable that is initialised (NULL, -1 or
 * a value). To pass ownership on, take the value out of the variable with steal_ptr() or
 * steal_fd(). Not for tasks: a frame may be left and resumed on another worker, and a cleanup
 * attribute runs on the C stack on which the scope ends. errno survives every cleanup.
 */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

/* DEFINE_CLEANUP(struct ring *, ring_free) defines ring_freep() for _cleanup_(ring_freep). */
#define DEFINE_CLEANUP(type, func)                                                                 \
	static inline void func##p(type *p)                                                        \
	{                                                                                          \
		if (*p)                                                                            \
			func(*p);                                                                  \
	}                                                                                          \
	struct cleanup_swallow_semicolon

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

/* Closes @fd unless it is negative; errno does not change. Returns -1, to be assigned. */
static inline int safe_close(int fd)
{
	if (fd >= 0) {
		int saved = errno;

		(void)close(fd);
		errno = saved;
	}
	return -1;
}

static inline void cleanup_close(int *fd)
{
	(void)safe_close(*fd);
}

static inline void cleanup_fclose(FILE **f)
{
	int saved = errno;

	if (*f)
		(void)fclose(*f);
	errno = saved;
}

static inline void cleanup_closedir(DIR **d)
{
	int saved = errno;

	if (*d)
		(void)closedir(*d);
	errno = saved;
}

#define _cleanup_free_	   _cleanup_(cleanup_free)
#define _cleanup_close_	   _cleanup_(cleanup_close)
#define _cleanup_fclose_   _cleanup_(cleanup_fclose)
#define _cleanup_closedir_ _cleanup_(cleanup_closedir)

/* Takes the descriptor out of *@fd, which no longer owns it. */
static inline int steal_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

/* Takes the pointer out of the variable @p, which no longer owns it. */
#define steal_ptr(p)                                                                               \
	({                                                                                         \
		__typeof__(p) *steal_p = &(p);                                                     \
		__typeof__(p) steal_v = *steal_p;                                                  \
		*steal_p = NULL;                                                                   \
		steal_v;                                                                           \
	})
