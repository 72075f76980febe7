/* SPDX-License-Identifier: MIT */
/*
 * modules/compress_gzip.c - gzip members that state their length, by libdeflate and zlib
 *
 * The output is BGZF (the SAM specification, 4.1), as of bgzip(1): members of at most 64 KiB whose
 * header has an extra field with their length, and an empty one at the end. Every reader of gzip
 * accepts it; readers that support the field work in parallel. libdeflate handles whole members,
 * twice as fast as zlib. It has no streams, so zlib handles members of other writers, which may
 * have any length.
 */
#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "modules/compress.h"

#define BLOCK	      0xff00u /* as bgzip has it: never more than 64 KiB, packed or not */
#define BLOCKS	      4u      /* of a piece */
#define HEADER	      18u
#define TRAILER	      8u
#define STORED	      5u /* bytes before what deflate cannot pack */
#define GZIP_WINDOW   (15 + 16)
#define BLOCK_LONGEST (1u << 16)

/* gzip, deflate, an extra field; no time, no flags, unknown system; 6 bytes of extra field: the
 * subfield BC of 2 bytes, which are the member's length minus 1. */
static const uint8_t header[HEADER] = { 0x1f, 0x8b, 8, 4,   0,	 0, 0, 0, 0,
					0xff, 6,    0, 'B', 'C', 2, 0, 0, 0 };

static const uint8_t end_of_file[] = { 0x1f, 0x8b, 8,  4, 0, 0, 0, 0, 0, 0xff, 6, 0, 'B', 'C',
				       2,    0,	   27, 0, 3, 0, 0, 0, 0, 0,    0, 0, 0,	  0 };

static size_t bound(size_t n)
{
	return n + (n + BLOCK - 1) / BLOCK * (HEADER + STORED + TRAILER);
}

static void *packer_new(int level)
{
	return libdeflate_alloc_compressor(level);
}

static void packer_free(void *packer)
{
	libdeflate_free_compressor(packer);
}

static void store_le(uint8_t *bytes, uint32_t value, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t load_le(const volatile uint8_t *bytes, uint32_t n)
{
	uint32_t value = 0;

	for (uint32_t i = 0; i < n; i++)
		value |= (uint32_t)bytes[i] << 8 * i;
	return value;
}

static size_t pack_block(void *packer, const uint8_t *in, size_t n, uint8_t *out)
{
	/* One byte less than if stored; otherwise it is stored. */
	size_t size = libdeflate_deflate_compress(packer, in, n, out + HEADER, n + STORED - 1);

	if (!size) {
		out[HEADER] = 1; /* the last block, stored */
		store_le(out + HEADER + 1, (uint32_t)n, 2);
		store_le(out + HEADER + 3, ~(uint32_t)n, 2);
		memcpy(out + HEADER + STORED, in, n);
		size = n + STORED;
	}
	memcpy(out, header, HEADER);
	store_le(out + HEADER - 2, (uint32_t)(HEADER + size + TRAILER - 1), 2);
	store_le(out + HEADER + size, libdeflate_crc32(0, in, n), 4);
	store_le(out + HEADER + size + 4, (uint32_t)n, 4);
	return HEADER + size + TRAILER;
}

static size_t pack(void *packer, const uint8_t *in, size_t n, uint8_t *out)
{
	size_t size = 0;

	for (size_t at = 0; at < n; at += BLOCK)
		size += pack_block(packer, in + at, n - at < BLOCK ? n - at : BLOCK, out + size);
	return size;
}

/* Only members with this extra field and no other: all writers of BGZF make these. */
static bool look(const volatile uint8_t *in, uint64_t n, struct compress_part *ret_part)
{
	uint32_t size, made;

	if (n < HEADER + TRAILER)
		return false;
	for (uint32_t i = 0; i < HEADER - 2; i++)
		if ((i < 4 || i > 9) && in[i] != header[i])
			return false;
	size = load_le(in + HEADER - 2, 2) + 1;
	if (size < HEADER + TRAILER || size > n)
		return false;
	made = load_le(in + size - 4, 4);
	if (made > BLOCK_LONGEST)
		return false;
	*ret_part = (struct compress_part){ .in = size, .out = made };
	return true;
}

static void *unpacker_new(void)
{
	return libdeflate_alloc_decompressor();
}

static void unpacker_free(void *unpacker)
{
	libdeflate_free_decompressor(unpacker);
}

static int unpack(void *unpacker, const uint8_t *in, size_t n, uint8_t *out, size_t made)
{
	while (n) {
		size_t read, written;

		if (libdeflate_gzip_decompress_ex(unpacker, in, n, out, made, &read, &written) !=
		    LIBDEFLATE_SUCCESS)
			return -EBADMSG;
		in += read;
		n -= read;
		out += written;
		made -= written;
	}
	return made ? -EBADMSG : 0;
}

struct stream {
	z_stream z;
	enum { INSIDE, BETWEEN, PADDING } state; /* zeros behind the last one are gzip(1)'s, too */
};

static void *stream_new(void)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (s && inflateInit2(&s->z, GZIP_WINDOW) != Z_OK) {
		free(s);
		return NULL;
	}
	return s;
}

static void stream_free(void *stream)
{
	struct stream *s = stream;

	if (s)
		(void)inflateEnd(&s->z);
	free(s);
}

static int inflate_on(struct stream *s, struct compress_span *in, struct compress_span *out)
{
	int code;

	s->z.next_in = in->data + in->at;
	s->z.avail_in = (uInt)(in->size - in->at);
	s->z.next_out = out->data + out->at;
	s->z.avail_out = (uInt)(out->size - out->at);
	code = inflate(&s->z, Z_NO_FLUSH);
	in->at = in->size - s->z.avail_in;
	out->at = out->size - s->z.avail_out;
	switch (code) {
	case Z_OK:
	case Z_BUF_ERROR: /* it wants more input */
		return 0;
	case Z_STREAM_END:
		s->state = BETWEEN;
		return inflateReset(&s->z) == Z_OK ? 1 : -EBADMSG;
	case Z_MEM_ERROR:
		return -ENOMEM;
	default:
		return -EBADMSG;
	}
}

static int stream(void *stream, struct compress_span *in, struct compress_span *out)
{
	struct stream *s = stream;

	if (in->at < in->size && s->state == BETWEEN)
		s->state = in->data[in->at] ? INSIDE : PADDING;
	if (s->state != PADDING)
		return inflate_on(s, in, out);
	for (; in->at < in->size; in->at++)
		if (in->data[in->at])
			return -EBADMSG;
	return 1;
}

const struct compress_format compress_gzip = {
	.piece = BLOCKS * BLOCK,
	.default_level = 6,
	.max_level = 12,
	.tail = end_of_file,
	.tail_size = sizeof(end_of_file),
	.bound = bound,
	.packer_new = packer_new,
	.packer_free = packer_free,
	.pack = pack,
	.look = look,
	.unpacker_new = unpacker_new,
	.unpacker_free = unpacker_free,
	.unpack = unpack,
	.stream_new = stream_new,
	.stream_free = stream_free,
	.stream = stream,
};
