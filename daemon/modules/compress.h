/* SPDX-License-Identifier: MIT */
/*
 * modules/compress.h - the interface between the module compress and a format
 *
 * The libraries access only memory of the module, never that of a client: modules/compress.c
 * copies.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A leaf decompresses a frame or member of at most this size. */
#define COMPRESS_PART_MAX (1u << 20)

/* The size of a frame or member, overhead included, and of its contents. */
struct compress_part {
	uint64_t in;
	uint64_t out;
};

/* Input or output of a stream: like ZSTD_inBuffer and ZSTD_outBuffer. */
struct compress_span {
	uint8_t *data;
	size_t size;
	size_t at;
};

struct compress_format {
	/* Compression: the size of a piece. */
	size_t piece;
	int default_level;
	int max_level;
	/* The end of the output. */
	const void *tail;
	size_t tail_size;
	/* Returns the maximum compressed size of n bytes, n at most a piece. */
	size_t (*bound)(size_t n);
	void *(*packer_new)(int level);
	void (*packer_free)(void *packer);
	/* Compresses n bytes, at most a piece. Returns their compressed size; 0: failed. */
	size_t (*pack)(void *packer, const uint8_t *in, size_t n, uint8_t *out);

	/* Decompression. Sets the sizes of the first frame or member of n bytes, which may change
	 * at any time. False if they are unknown or above COMPRESS_PART_MAX: then only a stream can
	 * determine whether it is one. */
	bool (*look)(const volatile uint8_t *in, uint64_t n, struct compress_part *ret_part);
	void *(*unpacker_new)(void);
	void (*unpacker_free)(void *unpacker);
	/* Decompresses whole frames or members to exactly `made` bytes. 0 or a negative errno. */
	int (*unpack)(void *unpacker, const uint8_t *in, size_t n, uint8_t *out, size_t made);

	/* Decompresses, from the beginning, anything that the format allows. 1: a frame or member
	 * has ended, and all of it was written; 0: not complete; or a negative errno. */
	void *(*stream_new)(void);
	void (*stream_free)(void *stream);
	int (*stream)(void *stream, struct compress_span *in, struct compress_span *out);
};

extern const struct compress_format compress_zstd;
extern const struct compress_format compress_gzip;
