/* SPDX-License-Identifier: MIT */
/*
 * modules/compress.h - what the module compress wants of a format
 *
 * The libraries see memory of the module alone, never a client's: modules/compress.c copies what
 * they read and what they have written.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A frame of zstd, or a member of gzip, is unpacked by a leaf if it is no larger than that. */
#define COMPRESS_PART_MAX (1u << 20)

/* How long a frame or member is, with all that belongs to it, and what comes out of it. */
struct compress_part {
	uint64_t in;
	uint64_t out;
};

/* What a stream reads, or writes: like ZSTD_inBuffer and ZSTD_outBuffer. */
struct compress_span {
	uint8_t *data;
	size_t size;
	size_t at;
};

struct compress_format {
	/* Compression: pieces of this many bytes, each separate. */
	size_t piece;
	int default_level;
	int max_level;
	/* The end of the output. */
	const void *tail;
	size_t tail_size;
	/* How many bytes n bytes become at most, n at most a piece. */
	size_t (*bound)(size_t n);
	void *(*packer_new)(int level);
	void (*packer_free)(void *packer);
	/* Packs n bytes, at most a piece, and returns how many they have become; 0: failed. */
	size_t (*pack)(void *packer, const uint8_t *in, size_t n, uint8_t *out);

	/* Unpacking. The first frame or member of n bytes, which may change at any time: false if
	 * its sizes cannot be told, or are above COMPRESS_PART_MAX; only a stream can tell then
	 * whether it is one. */
	bool (*look)(const volatile uint8_t *in, uint64_t n, struct compress_part *ret_part);
	void *(*unpacker_new)(void);
	void (*unpacker_free)(void *unpacker);
	/* Unpacks whole frames or members to exactly `made` bytes. 0 or a negative errno. */
	int (*unpack)(void *unpacker, const uint8_t *in, size_t n, uint8_t *out, size_t made);

	/* Unpacks, from the beginning, whatever the format allows. 1: a frame or member has ended,
	 * and all of it was written; 0: not complete; or a negative errno. */
	void *(*stream_new)(void);
	void (*stream_free)(void *stream);
	int (*stream)(void *stream, struct compress_span *in, struct compress_span *out);
};

extern const struct compress_format compress_zstd;
extern const struct compress_format compress_gzip;
