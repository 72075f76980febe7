/* SPDX-License-Identifier: MIT */
/*
 * modules/compress.c - compresses and decompresses buffers in parallel, with zstd or gzip
 *
 * The data is compressed in pieces of one size. Each piece becomes one zstd frame or some gzip
 * members; in sequence they form a file that zstd(1) and gzip(1) read. The position of a piece
 * depends on the sizes of all pieces before it. So the outputs of all leaves are kept, and then
 * copied, in parallel too.
 * To decompress, the frames are found first (struct compress_format, look). If all of them state
 * their sizes, and none is too long for a leaf, runs of frames are decompressed in parallel.
 * Otherwise the data is one stream: each chunk is a task, so that the job can be cancelled in
 * between.
 *
 * INVARIANTS
 *   I1. The buffers are the client's own memory, and may change at any moment. Libraries read and
 *       write only copies in the module's memory. This file reads lengths from the buffers, each
 *       loaded once and checked.
 *   I2. For any input a job allocates at most a constant for each worker that helps, and its
 *       compressed data. It also allocates a struct run for each RUN_IN of input or RUN_OUT of
 *       room. A stream has a window, which the libraries limit.
 *   I3. A run's place in the output is within bounds before a leaf begins: run->to + run->made is
 *       checked when the run is found.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/algorithm.h>

#include "modules/compress.h"
#include "modules/spare.h"

#define RUN_IN	     (128u << 10) /* a run is complete with this many input bytes, */
#define RUN_OUT	     (512u << 10) /* or out */
#define STREAM_CHUNK (128u << 10)

/* The memory of a leaf: a context of the library, and copies. */
struct bench {
	void *library;
	uint8_t *in;
	uint8_t *out;
};

static struct bench *bench_new(void *library, size_t in, size_t out)
{
	struct bench *bench = library ? malloc(sizeof(*bench) + in + out) : NULL;

	if (bench)
		*bench = (struct bench){
			.library = library,
			.in = (uint8_t *)(bench + 1),
			.out = (uint8_t *)(bench + 1) + in,
		};
	return bench;
}

/* ---------------------------------------------------------------- packing */

struct piece {
	uint8_t *data;
	size_t size;
	uint64_t to; /* in the output */
};

struct packing {
	const struct compress_format *format;
	const uint8_t *in;
	uint64_t size;
	uint8_t *out;
	uint64_t room;
	struct piece *pieces;
	int64_t n;
	int level;
	struct spare benches;
};

static struct bench *packing_bench(struct packing *p)
{
	const struct compress_format *f = p->format;
	struct bench *bench = spare_take(&p->benches);
	void *packer;

	if (bench)
		return bench;
	packer = f->packer_new(p->level);
	bench = bench_new(packer, f->piece, f->bound(f->piece));
	if (!bench && packer)
		f->packer_free(packer);
	return bench;
}

static void packing_bench_free(const struct packing *p, struct bench *bench)
{
	p->format->packer_free(bench->library);
	free(bench);
}

static int pack_piece(int64_t i, struct packing *p)
{
	uint64_t from = (uint64_t)i * p->format->piece;
	uint64_t left = p->size - from;
	size_t n = left < p->format->piece ? (size_t)left : p->format->piece;
	struct bench *bench = packing_bench(p);
	size_t size;

	if (!bench)
		return -ENOMEM;
	if (n)
		memcpy(bench->in, p->in + from, n);
	size = p->format->pack(bench->library, bench->in, n, bench->out);
	p->pieces[i].data = malloc(size + 1);
	if (p->pieces[i].data)
		memcpy(p->pieces[i].data, bench->out, size);
	p->pieces[i].size = size;
	if (!spare_give(&p->benches, bench))
		packing_bench_free(p, bench);
	/* The room is sufficient, so the library fails only if there is no memory. */
	return p->pieces[i].data && (size || !n) ? 0 : -ENOMEM;
}

static void place_piece(int64_t i, struct packing *p)
{
	memcpy(p->out + p->pieces[i].to, p->pieces[i].data, p->pieces[i].size);
}

FK_FOR_RANGE(pack_pieces, pack_piece, struct packing *)
FK_FOR_RANGE(place_pieces, place_piece, struct packing *)

/* Returns the number of bytes of all pieces. */
static uint64_t packing_count(struct packing *p)
{
	uint64_t to = 0;

	for (int64_t i = 0; i < p->n; i++) {
		p->pieces[i].to = to;
		to += p->pieces[i].size;
	}
	return to + p->format->tail_size;
}

static void packing_fini(struct packing *p)
{
	for (uint32_t i = 0; i < SPARE_MAX; i++) {
		struct bench *bench = spare_take(&p->benches);

		if (bench)
			packing_bench_free(p, bench);
	}
	for (int64_t i = 0; p->pieces && i < p->n; i++)
		free(p->pieces[i].data);
	free(p->pieces);
}

/* Level 0: the default. */
FK_DECLARE(int64_t, pack,
	   (const struct compress_format *, format, struct fk_buf, data, int64_t, level,
	    struct fk_iobuf, out),
	   struct packing p;
	   int64_t size;)
FK_UNWIND(pack)
{
	packing_fini(&self->p);
}
FK_DEFINE_UNWIND(int64_t, pack,
		 (const struct compress_format *, format, struct fk_buf, data, int64_t, level,
		  struct fk_iobuf, out))
{
	if (level < 0 || level > format->max_level)
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(pack)
{
	self->p = (struct packing){
		.format = self->format,
		.in = self->data.data,
		.size = self->data.size,
		.out = self->out.data,
		.room = self->out.size,
		/* Empty data is one empty piece, if the format has no end mark. */
		.n = (int64_t)((self->data.size + self->format->piece - 1) / self->format->piece),
		.level = self->level ? (int)self->level : self->format->default_level,
	};
	if (!self->p.n && !self->format->tail_size)
		self->p.n = 1;
	self->p.pieces = calloc((size_t)self->p.n + 1, sizeof(*self->p.pieces));
	if (!self->p.pieces)
		FK_FAIL(-ENOMEM);
	FK_CALL_VOID(pack_pieces, 0, self->p.n, 1, &self->p);
	self->size = (int64_t)packing_count(&self->p);
	if ((uint64_t)self->size > self->p.room) {
		packing_fini(&self->p);
		FK_FAIL(-ENOBUFS);
	}
	FK_CALL_VOID(place_pieces, 0, self->p.n, 1, &self->p);
	if (self->format->tail_size)
		memcpy(self->p.out + self->size - self->format->tail_size, self->format->tail,
		       self->format->tail_size);
	packing_fini(&self->p);
	FK_RETURN(self->size);
}
FK_END(pack)

/* ---------------------------------------------------------------- unpacking */

/* Consecutive frames. */
struct run {
	uint64_t from; /* in the input */
	uint64_t to;   /* in the output */
	uint32_t n;
	uint32_t made;
};

/* The maximum size of a run: it ends with the frame that completes it. */
#define RUN_IN_MOST  (RUN_IN + COMPRESS_PART_MAX)
#define RUN_OUT_MOST (RUN_OUT + COMPRESS_PART_MAX)

struct stream {
	void *library;
	uint64_t from; /* how far the input was copied */
	bool whole;    /* nothing of a frame is missing */
	bool full;     /* there may be more that was not written for lack of room */
	struct compress_span in;
	struct compress_span out;
	uint8_t chunks[2][STREAM_CHUNK];
};

struct unpacking {
	const struct compress_format *format;
	const uint8_t *in;
	uint64_t size;
	uint8_t *out; /* NULL: nothing is written, all is counted */
	uint64_t room;
	struct run *runs;
	size_t n;
	size_t most;   /* that there is memory for */
	uint64_t from; /* how far runs were looked for, or unpacked */
	uint64_t to;
	struct stream *stream;
	struct spare benches;
};

static void unpacking_bench_free(const struct unpacking *u, struct bench *bench)
{
	u->format->unpacker_free(bench->library);
	free(bench);
}

static void unpacking_fini(struct unpacking *u)
{
	for (uint32_t i = 0; i < SPARE_MAX; i++) {
		struct bench *bench = spare_take(&u->benches);

		if (bench)
			unpacking_bench_free(u, bench);
	}
	if (u->stream)
		u->format->stream_free(u->stream->library);
	free(u->stream);
	free(u->runs);
}

/* The result of a step: continue, end, or an error. */
enum { MORE = 1, END = 0 };

/* Finds the next run. -EAGAIN: only a stream can decompress the next frame. */
static int find_run(struct unpacking *u)
{
	struct run run = { .from = u->from, .to = u->to };

	if (u->from == u->size)
		return END;
	while (u->from < u->size && run.n < RUN_IN && run.made < RUN_OUT) {
		struct compress_part part;

		if (!u->format->look(u->in + u->from, u->size - u->from, &part))
			return -EAGAIN;
		u->from += part.in;
		u->to += part.out;
		run.n += (uint32_t)part.in;
		run.made += (uint32_t)part.out;
	}
	if (u->to > u->room)
		return -ENOBUFS;
	if (!u->out)
		return MORE;
	if (u->n == u->most) {
		size_t most = u->most ? 2 * u->most : 64;
		struct run *runs = realloc(u->runs, most * sizeof(*runs));

		if (!runs)
			return -ENOMEM;
		u->runs = runs;
		u->most = most;
	}
	u->runs[u->n++] = run;
	return MORE;
}

static int unpack_run(int64_t i, struct unpacking *u)
{
	const struct run *run = &u->runs[i];
	struct bench *bench = spare_take(&u->benches);
	void *unpacker;
	int err;

	if (!bench) {
		unpacker = u->format->unpacker_new();
		bench = bench_new(unpacker, RUN_IN_MOST, RUN_OUT_MOST);
		if (!bench) {
			if (unpacker)
				u->format->unpacker_free(unpacker);
			return -ENOMEM;
		}
	}
	memcpy(bench->in, u->in + run->from, run->n);
	err = u->format->unpack(bench->library, bench->in, run->n, bench->out, run->made);
	if (!err)
		memcpy(u->out + run->to, bench->out, run->made);
	if (!spare_give(&u->benches, bench))
		unpacking_bench_free(u, bench);
	return err;
}

static int stream_begin(struct unpacking *u)
{
	u->from = u->to = 0;
	u->stream = calloc(1, sizeof(*u->stream));
	if (!u->stream)
		return -ENOMEM;
	u->stream->library = u->format->stream_new();
	if (!u->stream->library) {
		free(u->stream);
		u->stream = NULL;
		return -ENOMEM;
	}
	u->stream->in = (struct compress_span){ .data = u->stream->chunks[0] };
	u->stream->out =
		(struct compress_span){ .data = u->stream->chunks[1], .size = STREAM_CHUNK };
	return 0;
}

/* Reads a chunk, or writes a chunk. */
static int stream_on(struct unpacking *u)
{
	struct stream *s = u->stream;
	int ended;

	if (s->in.at == s->in.size && !s->full) {
		uint64_t left = u->size - u->from;

		if (!left)
			return s->whole ? END : -EBADMSG;
		s->in.at = 0;
		s->in.size = left < STREAM_CHUNK ? (size_t)left : STREAM_CHUNK;
		memcpy(s->in.data, u->in + u->from, s->in.size);
		u->from += s->in.size;
	}
	s->out.at = 0;
	ended = u->format->stream(s->library, &s->in, &s->out);
	if (ended < 0)
		return ended;
	s->whole = ended;
	s->full = !ended && s->out.at == s->out.size;
	if (s->out.at > u->room - u->to)
		return -ENOBUFS;
	if (u->out && s->out.at)
		memcpy(u->out + u->to, s->out.data, s->out.at);
	u->to += s->out.at;
	return MORE;
}

FK_FOR_RANGE(unpack_runs, unpack_run, struct unpacking *)

/* Each chunk is a task, so that the job can be cancelled in between. */
FK_LEAF_TASK(int, find, (struct unpacking *, u))
{
	return find_run(u);
}

FK_LEAF_TASK(int, flow, (struct unpacking *, u))
{
	return stream_on(u);
}

/* out.data == NULL: computes the size of the output only. */
FK_DECLARE(int64_t, unpack,
	   (const struct compress_format *, format, struct fk_buf, data, struct fk_iobuf, out),
	   struct unpacking u;
	   int next;)
FK_UNWIND(unpack)
{
	unpacking_fini(&self->u);
}
FK_DEFINE_UNWIND(int64_t, unpack,
		 (const struct compress_format *, format, struct fk_buf, data, struct fk_iobuf,
		  out))
{
	/* No file of either format is empty. */
	if (!data.size)
		FK_LEAF_FAIL(-EBADMSG);
}
FK_BODY(unpack)
{
	self->u = (struct unpacking){
		.format = self->format,
		.in = self->data.data,
		.size = self->data.size,
		.out = self->out.data,
		.room = self->out.size,
	};
	do
		FK_CALL(next, find, &self->u);
	while (self->next == MORE);
	if (self->next == END) {
		FK_CALL_VOID(unpack_runs, 0, (int64_t)self->u.n, 1, &self->u);
	} else if (self->next == -EAGAIN) {
		self->next = stream_begin(&self->u);
		while (self->next >= 0) {
			FK_CALL(next, flow, &self->u);
			if (self->next == END)
				break;
		}
	}
	unpacking_fini(&self->u);
	if (self->next < 0)
		FK_FAIL(self->next);
	FK_RETURN((int64_t)self->u.to);
}
FK_END(unpack)

/* ---------------------------------------------------------------- what is exported */

static int64_t bound(const struct compress_format *format, int64_t size)
{
	int64_t piece = (int64_t)format->piece;
	int64_t full = size / piece * (int64_t)format->bound(format->piece);

	/* Empty data has a piece, too: as in pack(). */
	return full + (int64_t)format->bound((size_t)(size % piece)) + (int64_t)format->tail_size;
}

/* Limits the size, so that every bound fits into a result. */
#define BOUND_MOST (INT64_MAX / 2)

FK_LEAF_TASK(int64_t, zstd_bound, (int64_t, size))
{
	if (size < 0 || size > BOUND_MOST)
		FK_LEAF_FAIL(-EINVAL);
	return bound(&compress_zstd, size);
}

FK_LEAF_TASK(int64_t, gzip_bound, (int64_t, size))
{
	if (size < 0 || size > BOUND_MOST)
		FK_LEAF_FAIL(-EINVAL);
	return bound(&compress_gzip, size);
}

/* Exports a task that calls one of the functions above with these arguments. */
#define CODEC_TASK(NAME, help, params, ...)                                                        \
	FK_TASK(int64_t, NAME, params, int64_t size;)                                              \
	FK_NO_LEAF(NAME)                                                                           \
	{                                                                                          \
		FK_CALL(size, __VA_ARGS__);                                                        \
		FK_RETURN(self->size);                                                             \
	}                                                                                          \
	FK_END(NAME)                                                                               \
	FK_EXPORT_RESULTS(NAME, (int64_t, size), FK_EXPORT_IN_PLACE, help)

/* Unlimited room, no output. */
#define COUNTED ((struct fk_iobuf){ .size = INT64_MAX })

CODEC_TASK(zstd, "Packs data as zstd(1) would, levels 1 to 19, 0 for 3",
	   (struct fk_buf, data, int64_t, level, struct fk_iobuf, out), pack, &compress_zstd,
	   self->data, self->level, self->out)
CODEC_TASK(gzip, "Packs data as gzip(1) would, levels 1 to 12, 0 for 6",
	   (struct fk_buf, data, int64_t, level, struct fk_iobuf, out), pack, &compress_gzip,
	   self->data, self->level, self->out)
CODEC_TASK(unzstd, "Unpacks a file of zstd(1)", (struct fk_buf, data, struct fk_iobuf, out), unpack,
	   &compress_zstd, self->data, self->out)
CODEC_TASK(gunzip, "Unpacks a file of gzip(1)", (struct fk_buf, data, struct fk_iobuf, out), unpack,
	   &compress_gzip, self->data, self->out)
CODEC_TASK(unzstd_size, "How many bytes a file of zstd(1) has unpacked", (struct fk_buf, data),
	   unpack, &compress_zstd, self->data, COUNTED)
CODEC_TASK(gunzip_size, "How many bytes a file of gzip(1) has unpacked", (struct fk_buf, data),
	   unpack, &compress_gzip, self->data, COUNTED)

FK_EXPORT_RESULTS(zstd_bound, (int64_t, size), 0, "The largest size of n bytes compressed by zstd")
FK_EXPORT_RESULTS(gzip_bound, (int64_t, size), 0, "The largest size of n bytes compressed by gzip")
FK_MODULE(compress, "Zstandard and gzip")
