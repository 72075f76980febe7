/* SPDX-License-Identifier: MIT */
/* arguments.h - the arguments of a task: from the words of a command line to values */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <forkd/client.h>

#include "shm/signature.h"

/* The data of an argument that begins with @: the contents of a file, or zeros. */
struct forkctl_file {
	char *data; /* NULL: zeros */
	size_t size;
	int err;  /* negative errno if it cannot be read or is not a size */
	int open; /* "@:": the module computes the size (output_size.h) */
};

/* Reads a whole file; "-" is standard input. The caller frees the data. Returns 0 or a negative
 * errno. */
int forkctl_read_file(const char *path, struct forkctl_file *ret_file);

/* Words of a command line before their types are known. Files of words that begin with @ have been
 * read; "@:64M" is a size. Freed by forkctl_args_fini(). */
struct forkctl_args {
	char *const *words;
	uint32_t n;
	struct forkctl_file files[SIGNATURE_MAX_ARGS];
};

/* Fails if there are too many words. words must stay valid. Returns 0 or an exit code. */
int forkctl_args_init(struct forkctl_args *args, char *const *words, uint32_t n);
void forkctl_args_fini(struct forkctl_args *args);

/* Returns the maximum heap size that the arguments need, bytes. */
uint64_t forkctl_args_heap(const struct forkctl_args *args);

/* Finds a task. list: the command that lists all tasks, for the message. Prints errors. Returns 0
 * or an exit code. */
int forkctl_find(fk_client *client, const char *name, const char *list, const fk_task **ret_task);

/* Makes the values of a task's arguments. Buffers get memory for their files from the client's
 * heap, or from malloc() if client is NULL. Prints errors. Returns 0 or an exit code; on failure
 * memory that was allocated is not freed. */
int forkctl_values(const struct forkctl_args *args, fk_client *client, const fk_task *task,
		   union fk_value *values);

/* Copies the files into the buffers of these values. Must be called before each call, because tasks
 * change iobufs. */
void forkctl_fill(const struct forkctl_args *args, const fk_task *task, union fk_value *values);

/* Parses a 64-bit integer, decimal or hexadecimal after 0x; or a number. The whole text must be one
 * number. Returns 0 or -EINVAL. */
int forkctl_parse_i64(const char *text, int64_t *ret);
int forkctl_parse_f64(const char *text, double *ret);
