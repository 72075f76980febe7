/* SPDX-License-Identifier: MIT */
/*
 * shm/signature.h - typed signatures of tasks: "n:i64, data:buf -> sum:i64"
 *
 * Used by the pool when it loads a module and when it copies arguments in, and by clients when they
 * pack them. A signature is [name:type, ...] -> [[name:]type, ...]; types are
 *	i64    int64_t, 8 bytes
 *	f64    double, 8 bytes
 *	str    text: a reference into the heap; the task sees it NUL-terminated
 *	buf    bytes the task reads: a reference into the heap
 *	iobuf  bytes the task changes in place: a reference into the heap
 * Results are i64 or f64. All are packed in order: 8 bytes a number, 16 bytes
 * (struct job_ref) a reference.
 */
#pragma once

#include <stdint.h>

enum signature_type {
	SIGNATURE_I64,
	SIGNATURE_F64,
	SIGNATURE_STR,
	SIGNATURE_BUF,
	SIGNATURE_IOBUF,
};

#define SIGNATURE_MAX_ARGS    12u
#define SIGNATURE_MAX_RESULTS 8u
#define SIGNATURE_NAME	      24u

struct signature_item {
	char name[SIGNATURE_NAME]; /* empty if the signature names none */
	uint8_t type;		   /* enum signature_type */
	uint8_t reserved[3];
	uint32_t offset; /* bytes into the packed arguments or results */
};

struct signature {
	uint32_t n_args;
	uint32_t n_results;
	uint32_t args_size;    /* bytes, packed */
	uint32_t results_size; /* bytes, packed */
	struct signature_item args[SIGNATURE_MAX_ARGS];
	struct signature_item results[SIGNATURE_MAX_RESULTS];
};

/*
 * Parses a signature.
 * text: NUL-terminated. Sets *ret_error, if not NULL, to the position of an error in the text.
 * Returns 0, or -EINVAL (syntax), -E2BIG (too many, or past LIMIT_ARGS and LIMIT_RESULT).
 */
int signature_parse(const char *text, struct signature *ret_signature, const char **ret_error);

/* Returns the word of a type in signatures. */
const char *signature_type_name(enum signature_type type);

/* True for the types that refer to the heap; true for those of them that are buffers. */
int signature_is_reference(enum signature_type type);
int signature_is_buffer(enum signature_type type);

/* Returns a hash (FNV-1a, 64 bits) of a task's name and signature; both ends compare it. */
uint64_t signature_hash(const char *name, const char *text);
