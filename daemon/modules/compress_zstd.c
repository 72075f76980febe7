/* SPDX-License-Identifier: MIT */
/*
 * modules/compress_zstd.c - frames of Zstandard, by libzstd
 *
 * Each piece becomes a frame with its content's size and a checksum, as of zstd(1). Frames in
 * sequence form a zstd file (RFC 8878, 3). The headers of its blocks determine the end of a frame,
 * so frames are found without decompression.
 */
#include <errno.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "modules/compress.h"

#define PIECE	     (512u << 10)
#define HEADER_MAX   18u
#define BLOCK_HEADER 3u
#define CHECKSUM     4u
#define SKIPPABLE    0x184d2a50u /* and the 15 numbers after it */
#define WINDOW_LOG   27		 /* as zstd(1) without --long: 128 MiB */

static size_t bound(size_t n)
{
	return ZSTD_compressBound(n);
}

static void *packer_new(int level)
{
	ZSTD_CCtx *packer = ZSTD_createCCtx();

	if (packer &&
	    (ZSTD_isError(ZSTD_CCtx_setParameter(packer, ZSTD_c_compressionLevel, level)) ||
	     ZSTD_isError(ZSTD_CCtx_setParameter(packer, ZSTD_c_checksumFlag, 1)))) {
		ZSTD_freeCCtx(packer);
		return NULL;
	}
	return packer;
}

static void packer_free(void *packer)
{
	ZSTD_freeCCtx(packer);
}

static size_t pack(void *packer, const uint8_t *in, size_t n, uint8_t *out)
{
	size_t size = ZSTD_compress2(packer, out, bound(n), in, n);

	return ZSTD_isError(size) ? 0 : size;
}

static uint32_t load_le32(const uint8_t *bytes)
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

static bool look_at_skippable(const uint8_t *header, uint64_t n, struct compress_part *ret_part)
{
	uint64_t size = 8 + (uint64_t)load_le32(header + 4);

	if (size > n || size > COMPRESS_PART_MAX)
		return false;
	*ret_part = (struct compress_part){ .in = size };
	return true;
}

/* RFC 8878, 3.1.1. */
static bool look(const volatile uint8_t *in, uint64_t n, struct compress_part *ret_part)
{
	static const uint8_t size_bytes[] = { 0, 2, 4, 8 };
	static const uint8_t dictionary_bytes[] = { 0, 1, 2, 4 };
	uint8_t header[HEADER_MAX] = { 0 };
	uint64_t at = 5; /* behind the magic number and the descriptor */
	unsigned long long content;
	uint32_t block;
	bool single;

	for (uint32_t i = 0; i < HEADER_MAX && i < n; i++)
		header[i] = in[i];
	if (n >= 8 && (load_le32(header) & ~15u) == SKIPPABLE)
		return look_at_skippable(header, n, ret_part);
	if (load_le32(header) != ZSTD_MAGICNUMBER)
		return false;
	content = ZSTD_getFrameContentSize(header, n < HEADER_MAX ? (size_t)n : HEADER_MAX);
	/* The two values that mean no size are larger than all sizes. */
	if (content > COMPRESS_PART_MAX)
		return false;
	single = header[4] >> 5 & 1;
	at += dictionary_bytes[header[4] & 3] + size_bytes[header[4] >> 6];
	at += single ? header[4] >> 6 == 0 : 1; /* a short size, or the window */
	do {
		if (at + BLOCK_HEADER > n || at > COMPRESS_PART_MAX)
			return false;
		block = in[at] | (uint32_t)in[at + 1] << 8 | (uint32_t)in[at + 2] << 16;
		/* A block that repeats one byte has one byte. */
		at += BLOCK_HEADER + ((block >> 1 & 3) == 1 ? 1 : block >> 3);
	} while (!(block & 1));
	at += header[4] >> 2 & 1 ? CHECKSUM : 0;
	if (at > n || at > COMPRESS_PART_MAX)
		return false;
	*ret_part = (struct compress_part){ .in = at, .out = content };
	return true;
}

static int to_errno(size_t code)
{
	return ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation ? -ENOMEM : -EBADMSG;
}

static void *unpacker_new(void)
{
	return ZSTD_createDCtx();
}

static void unpacker_free(void *unpacker)
{
	ZSTD_freeDCtx(unpacker);
}

static int unpack(void *unpacker, const uint8_t *in, size_t n, uint8_t *out, size_t made)
{
	size_t size = ZSTD_decompressDCtx(unpacker, out, made, in, n);

	if (ZSTD_isError(size))
		return to_errno(size);
	return size == made ? 0 : -EBADMSG;
}

static void *stream_new(void)
{
	ZSTD_DCtx *stream = ZSTD_createDCtx();

	if (stream &&
	    ZSTD_isError(ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, WINDOW_LOG))) {
		ZSTD_freeDCtx(stream);
		return NULL;
	}
	return stream;
}

static int stream(void *stream, struct compress_span *in, struct compress_span *out)
{
	ZSTD_inBuffer from = { in->data, in->size, in->at };
	ZSTD_outBuffer to = { out->data, out->size, out->at };
	size_t left = ZSTD_decompressStream(stream, &to, &from);

	if (ZSTD_isError(left))
		return to_errno(left);
	in->at = from.pos;
	out->at = to.pos;
	return left == 0;
}

const struct compress_format compress_zstd = {
	.piece = PIECE,
	.default_level = ZSTD_CLEVEL_DEFAULT,
	.max_level = 19,
	.bound = bound,
	.packer_new = packer_new,
	.packer_free = packer_free,
	.pack = pack,
	.look = look,
	.unpacker_new = unpacker_new,
	.unpacker_free = unpacker_free,
	.unpack = unpack,
	.stream_new = stream_new,
	.stream_free = unpacker_free,
	.stream = stream,
};
