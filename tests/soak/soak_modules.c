/* SPDX-License-Identifier: MIT */
/*
 * soak_modules.c - jobs of soak_stress on buffers: compress, hash, image, matmul, search
 *
 * Packed data must unpack to the original. Other results are computed here by plain loops, or
 * follow from the arguments. Two jobs run on buffers that their client changes at the same time, to
 * numbers within limits. Their results must be within limits, and nothing may be written around
 * them.
 */
#include <endian.h>
#include <errno.h>
#include <nettle/sha2.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/clock.h"
#include "tests/soak/soak.h"

/* Letters from 'a' on: few, so that they can be packed and patterns are found. */
static uint8_t *new_text(struct soak *s, size_t n, unsigned int letters)
{
	uint8_t *data = take(s, n);
	uint64_t x = 0;

	for (size_t i = 0; data && i < n; i++, x >>= 8) {
		if (i % 4 == 0)
			x = draw(s, UINT64_C(1) << 32);
		data[i] = (uint8_t)('a' + (x & 255) % letters);
	}
	return data;
}

/* ------------------------------------------------------------------------ compress */

/* Its tasks. */
struct packer {
	const char *pack;
	const char *bound;
	const char *unpack;
	const char *size;
};

static bool run_packer(struct soak *s, const struct packer *p)
{
	size_t n = 1 + draw_size(s, 1 << 20);
	int64_t level = (int64_t)draw(s, 4), bound = -1, size = -1, announced = -1, came = -1;
	uint8_t *data = new_text(s, n, 1 + (unsigned int)draw(s, 26)), *packed, *back;
	union fk_value values[3];

	values[0] = (union fk_value){ .i64 = (int64_t)n };
	if (!data || !call(s, p->bound, &bound, sizeof(bound), values, 1))
		return false;
	if (bound < (int64_t)n || bound > (int64_t)(n + n / 64 + 4096))
		return wrong(s, "%s: %lld for %zu", p->bound, (long long)bound, n);
	packed = take(s, (size_t)bound);
	back = take(s, n);
	if (!packed || !back)
		return false;
	values[0] = as_buffer(data, n);
	values[1] = (union fk_value){ .i64 = level };
	values[2] = as_buffer(packed, (size_t)bound);
	if (!call(s, p->pack, &size, sizeof(size), values, 3))
		return false;
	if (size <= 0 || size > bound)
		return wrong(s, "%s: %lld of %zu", p->pack, (long long)size, n);
	values[0] = as_buffer(packed, (size_t)size);
	values[1] = as_buffer(back, n);
	if (!call(s, p->size, &announced, sizeof(announced), values, 1) ||
	    !call(s, p->unpack, &came, sizeof(came), values, 2))
		return false;
	return (announced == (int64_t)n && came == announced && !memcmp(data, back, n)) ||
	       wrong(s, "%s: %zu, packed to %lld, said to be %lld, came out as %lld%s", p->unpack,
		     n, (long long)size, (long long)announced, (long long)came,
		     came == (int64_t)n ? ", others" : "");
}

static bool run_zstd(struct soak *s)
{
	return run_packer(s, &(struct packer){ "compress:zstd", "compress:zstd_bound",
					       "compress:unzstd", "compress:unzstd_size" });
}

static bool run_gzip(struct soak *s)
{
	return run_packer(s, &(struct packer){ "compress:gzip", "compress:gzip_bound",
					       "compress:gunzip", "compress:gunzip_size" });
}

/* ------------------------------------------------------------------------ hash */

#define HASHED (3u << 20) /* at most: three chunks of a tree, and twelve of the other */

static bool run_xxh3(struct soak *s)
{
	enum { CHUNK = 256 << 10 };
	static XXH128_canonical_t hashes[HASHED / CHUNK + 2];
	size_t size = 1 + draw_size(s, HASHED), n = 0;
	const uint8_t *data = new_text(s, size, 26);
	uint64_t found[2] = { 0 }, behind = htobe64(size);
	union fk_value value = as_buffer(data, size);
	XXH128_hash_t wanted;

	if (!data || !call(s, "hash:xxh3", found, sizeof(found), &value, 1))
		return false;
	for (size_t at = 0; at < size; at += CHUNK)
		XXH128_canonicalFromHash(&hashes[n++],
					 XXH3_128bits(data + at, min(size - at, (size_t)CHUNK)));
	memcpy(&hashes[n], &behind, sizeof(behind));
	wanted = XXH3_128bits(hashes, n * sizeof(hashes[0]) + sizeof(behind));
	return (found[0] == wanted.high64 && found[1] == wanted.low64) ||
	       wrong(s, "hash:xxh3: wrong for %zu bytes", size);
}

static void sha256_of(const void *data, size_t n, uint8_t *digest)
{
	struct sha256_ctx sha256;

	sha256_init(&sha256);
	sha256_update(&sha256, n, data);
	sha256_digest(&sha256, SHA256_DIGEST_SIZE, digest);
}

/* Level by level, as the tree is specified; the module starts at its root. */
static bool run_sha256(struct soak *s)
{
	enum { CHUNK = 1 << 20 };
	uint8_t level[HASHED / CHUNK + 1][SHA256_DIGEST_SIZE];
	size_t size = 1 + draw_size(s, HASHED), n = 0;
	const uint8_t *data = new_text(s, size, 26);
	char wanted[2 * SHA256_DIGEST_SIZE + 1], *hex = take(s, sizeof(wanted) - 1);
	union fk_value values[2];

	values[0] = as_buffer(data, size);
	values[1] = as_buffer(hex, sizeof(wanted) - 1);
	if (!data || !hex || !call(s, "hash:sha256", NULL, 0, values, 2))
		return false;
	for (size_t at = 0; at < size; at += CHUNK)
		sha256_of(data + at, min(size - at, (size_t)CHUNK), level[n++]);
	for (; n > 1; n = (n + 1) / 2)
		for (size_t i = 0; i < n; i += 2)
			if (i + 1 < n)
				sha256_of(level[i], 2 * sizeof(level[i]), level[i / 2]);
			else
				memmove(level[i / 2], level[i], sizeof(level[i]));
	for (size_t i = 0; i < sizeof(level[0]); i++)
		(void)snprintf(wanted + 2 * i, 3, "%02x", level[0][i]);
	return !memcmp(hex, wanted, sizeof(wanted) - 1) ||
	       wrong(s, "hash:sha256: wrong for %zu bytes", size);
}

/* ---------------------------------------------------------------------- on buffers that change */

/* Before and after a result. */
#define GUARD 64u

static uint8_t *new_guarded(struct soak *s, size_t n)
{
	uint8_t *data = take(s, n + 2 * (size_t)GUARD);

	if (!data)
		return NULL;
	memset(data, 0xee, n + 2 * (size_t)GUARD);
	return data + GUARD;
}

static bool is_guarded(const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < GUARD; i++)
		if (data[i - GUARD] != 0xee || data[n + i] != 0xee)
			return false;
	return true;
}

/* As call(), while a thread changes its arguments until it has ended. */
static bool call_changing(struct soak *s, const char *task, const union fk_value *values, size_t n,
			  void (*change)(struct soak *s, void *data, size_t n), void *data,
			  size_t data_n)
{
	fk_job job;
	int r;

	if (!begin(s, task, values, n, &job))
		return false;
	do {
		for (int i = 0; i < 100; i++)
			change(s, data, data_n);
		r = fk_wait(s->client, job, 20 * NSEC_PER_USEC);
	} while (r == -ETIMEDOUT);
	return finish(s, task, job, NULL, 0);
}

/* ------------------------------------------------------------------------ image */

/* Pictures in the heap, and in arguments. */
struct pictures {
	uint8_t *in;
	uint8_t *out;
	size_t width, height, new_width, new_height, channels;
};

static size_t in_size(const struct pictures *p)
{
	return p->width * p->height * p->channels;
}

static size_t out_size(const struct pictures *p)
{
	return p->new_width * p->new_height * p->channels;
}

static void set_values(const struct pictures *p, const char *filter, union fk_value values[8])
{
	values[0] = as_buffer(p->in, in_size(p));
	values[1] = (union fk_value){ .i64 = (int64_t)p->width };
	values[2] = (union fk_value){ .i64 = (int64_t)p->height };
	values[3] = (union fk_value){ .i64 = (int64_t)p->channels };
	values[4] = as_buffer(p->out, out_size(p));
	values[5] = (union fk_value){ .i64 = (int64_t)p->new_width };
	values[6] = (union fk_value){ .i64 = (int64_t)p->new_height };
	values[7] = (union fk_value){ .str = filter };
}

static bool compare_pictures(struct soak *s, const struct pictures *p, const char *filter,
			     bool right)
{
	return (right && is_guarded(p->out, out_size(p))) ||
	       wrong(s, "image:resize: %zux%zu to %zux%zu, %zu channels, by %s", p->width,
		     p->height, p->new_width, p->new_height, p->channels, filter);
}

/* The box filter makes a square of each pixel; reduced, it is their mean. */
static bool run_resize(struct soak *s)
{
	static const size_t channels[] = { 1, 3, 4 };
	size_t times = 1 + draw(s, 5);
	struct pictures p = {
		.width = 1 + draw_size(s, 150),
		.height = 1 + draw_size(s, 150),
		.channels = channels[draw(s, ARRAY_SIZE(channels))],
	}, back;
	union fk_value values[8];
	bool right = true;

	p.new_width = p.width * times;
	p.new_height = p.height * times;
	/* No pixel is fully transparent: such a pixel has no colour. */
	p.in = new_text(s, in_size(&p), 26);
	p.out = new_guarded(s, out_size(&p));
	back = (struct pictures){ p.out,       new_guarded(s, in_size(&p)),
				  p.new_width, p.new_height,
				  p.width,     p.height,
				  p.channels };
	if (!p.in || !p.out || !back.out)
		return false;
	set_values(&p, "box", values);
	if (!call(s, "image:resize", NULL, 0, values, 8))
		return false;
	for (size_t i = 0; i < p.new_width * p.new_height; i++) {
		size_t x = i % p.new_width / times, y = i / p.new_width / times;

		right = right && !memcmp(p.out + i * p.channels,
					 p.in + (y * p.width + x) * p.channels, p.channels);
	}
	if (!compare_pictures(s, &p, "box", right))
		return false;
	set_values(&back, "box", values);
	return call(s, "image:resize", NULL, 0, values, 8) &&
	       compare_pictures(s, &back, "box", !memcmp(back.out, p.in, in_size(&p)));
}

#define DARKEST	  100u
#define BRIGHTEST 200u

static void change_pixel(struct soak *s, void *data, size_t n)
{
	((volatile uint8_t *)data)[draw(s, n)] =
		(uint8_t)(DARKEST + draw(s, BRIGHTEST - DARKEST + 1));
}

/* Means of pixels within limits of brightness. */
static bool run_resize_changing(struct soak *s)
{
	struct pictures p = {
		.width = 1 + draw_size(s, 400),
		.height = 1 + draw_size(s, 400),
		.new_width = 2 + draw_size(s, 400),
		.new_height = 2 + draw_size(s, 400),
		.channels = draw(s, 2) ? 1 : 3,
	};
	const char *filter = draw(s, 2) ? "box" : "bilinear";
	union fk_value values[8];
	bool right = true;

	p.in = take(s, in_size(&p));
	p.out = new_guarded(s, out_size(&p));
	if (!p.in || !p.out)
		return false;
	memset(p.in, DARKEST, in_size(&p));
	set_values(&p, filter, values);
	if (!call_changing(s, "image:resize", values, 8, change_pixel, p.in, in_size(&p)))
		return false;
	for (size_t i = 0; i < out_size(&p); i++)
		right = right && p.out[i] >= DARKEST && p.out[i] <= BRIGHTEST;
	return compare_pictures(s, &p, filter, right);
}

/* The manual's formula, times 1000: rounding costs up to 500, weights of 16 bits a few more. */
static bool is_gray(const uint8_t *colour, uint8_t gray)
{
	int exact = 299 * colour[0] + 587 * colour[1] + 114 * colour[2];

	return exact - 1000 * gray <= 510 && 1000 * gray - exact <= 510;
}

static bool run_convert(struct soak *s)
{
	static const size_t formats[] = { 1, 3, 4 };
	size_t from = formats[draw(s, 3)], to = formats[draw(s, 3)], n = 1 + draw_size(s, 100000);
	uint8_t *in = new_text(s, n * from, 150), *out = new_guarded(s, n * to);
	union fk_value values[4];
	int64_t pixels = -1;
	bool right;

	values[0] = as_buffer(in, n * from);
	values[1] = (union fk_value){ .i64 = (int64_t)from };
	values[2] = as_buffer(out, n * to);
	values[3] = (union fk_value){ .i64 = (int64_t)to };
	if (!in || !out || !call(s, "image:convert", &pixels, sizeof(pixels), values, 4))
		return false;
	right = pixels == (int64_t)n && is_guarded(out, n * to);
	for (size_t i = 0; i < n && right; i++) {
		const uint8_t *old = in + i * from, *made = out + i * to;
		const uint8_t *colour = from == 1 ? (uint8_t[3]){ *old, *old, *old } : old;

		if (to == 1)
			right = is_gray(colour, *made);
		else
			right = !memcmp(made, colour, 3) &&
				(to == 3 || made[3] == (from == 4 ? old[3] : 255));
	}
	return right || wrong(s, "image:convert: wrong for %zu pixels, %zu to %zu", n, from, to);
}

/* ------------------------------------------------------------------------ matmul */

#define SIDE 250u

/* a, b and their product, row by row. */
struct matrices {
	double *a;
	double *b;
	double *c;
	size_t rows, inner, columns;
	union fk_value values[6];
};

static bool new_matrices(struct soak *s, struct matrices *m)
{
	size_t rows = 1 + draw_size(s, SIDE), inner = 1 + draw_size(s, SIDE),
	       columns = 1 + draw_size(s, SIDE);

	*m = (struct matrices){ take(s, rows * inner * 8),
				take(s, inner * columns * 8),
				(void *)new_guarded(s, rows * columns * 8),
				rows,
				inner,
				columns,
				{
					[3].i64 = (int64_t)rows,
					[4].i64 = (int64_t)inner,
					[5].i64 = (int64_t)columns,
				} };
	m->values[0] = as_buffer(m->a, rows * inner * 8);
	m->values[1] = as_buffer(m->b, inner * columns * 8);
	m->values[2] = as_buffer(m->c, rows * columns * 8);
	return m->a && m->b && m->c;
}

static bool compare_product(struct soak *s, const struct matrices *m, bool right)
{
	return (right && is_guarded((const uint8_t *)m->c, m->rows * m->columns * 8)) ||
	       wrong(s, "matmul:f64: wrong for %zu x %zu x %zu", m->rows, m->inner, m->columns);
}

static void fill(struct soak *s, double *to, size_t n, uint64_t below)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (double)draw(s, below) - (double)(below / 2);
}

/* y = m x. */
static void apply(const double *m, const double *x, double *y, size_t rows, size_t columns)
{
	for (size_t i = 0; i < rows; i++) {
		y[i] = 0;
		for (size_t j = 0; j < columns; j++)
			y[i] += m[i * columns + j] * x[j];
	}
}

/* c x = a (b x): Freivalds, Probabilistic machines can use less running time, 1977. All numbers are
 * whole, so it is exact. A wrong number is not detected if x is 0 there, once in a thousand. */
static bool run_matmul(struct soak *s)
{
	double x[SIDE], bx[SIDE], abx[SIDE], cx[SIDE];
	struct matrices m;

	if (!new_matrices(s, &m))
		return false;
	fill(s, m.a, m.rows * m.inner, 200);
	fill(s, m.b, m.inner * m.columns, 200);
	fill(s, x, m.columns, 1000);
	if (!call(s, "matmul:f64", NULL, 0, m.values, 6))
		return false;
	apply(m.b, x, bx, m.inner, m.columns);
	apply(m.a, bx, abx, m.rows, m.inner);
	apply(m.c, x, cx, m.rows, m.columns);
	return compare_product(s, &m, !memcmp(abx, cx, m.rows * sizeof(cx[0])));
}

static void change_number(struct soak *s, void *data, size_t n)
{
	((volatile double *)data)[draw(s, n)] = draw(s, 2) ? 1 : 2;
}

/* Sums of products, each of a number from 1 to 2 and of 1. */
static bool run_matmul_changing(struct soak *s)
{
	struct matrices m;
	bool right = true;

	if (!new_matrices(s, &m))
		return false;
	for (size_t i = 0; i < m.rows * m.inner; i++)
		m.a[i] = 1;
	for (size_t i = 0; i < m.inner * m.columns; i++)
		m.b[i] = 1;
	if (!call_changing(s, "matmul:f64", m.values, 6, change_number, m.a, m.rows * m.inner))
		return false;
	for (size_t i = 0; i < m.rows * m.columns; i++)
		right = right && m.c[i] >= (double)m.inner && m.c[i] <= 2 * (double)m.inner;
	return compare_product(s, &m, right);
}

/* ------------------------------------------------------------------------ search */

#define PLACES 2000u

/* text: the pattern is passed as a string. Its letters are those of the data. */
static bool run_search(struct soak *s, const char *task, bool text, bool places_too)
{
	static int64_t wanted[PLACES];
	size_t n = 1 + draw_size(s, 400000), length = 1 + draw(s, 8), room = draw(s, PLACES) + 1;
	unsigned int letters = 1 + (unsigned int)draw(s, 4);
	const uint8_t *data = new_text(s, n, letters), *pattern = new_text(s, length + 1, letters);
	int64_t *places = (void *)new_guarded(s, room * 8), found = -1, count = 0;
	union fk_value values[3];
	bool right;

	if (!data || !pattern || !places)
		return false;
	((uint8_t *)(uintptr_t)pattern)[length] = 0;
	for (size_t i = 0; i + length <= n; i++)
		if (!memcmp(data + i, pattern, length)) {
			if (count < (int64_t)room)
				wanted[count] = (int64_t)i;
			count++;
		}
	values[0] = as_buffer(data, n);
	values[1] = text ? (union fk_value){ .str = (const char *)pattern }
			 : as_buffer(pattern, length);
	values[2] = as_buffer(places, room * 8);
	if (!call(s, task, &found, sizeof(found), values, places_too ? 3 : 2))
		return false;
	right = found == count && is_guarded((const uint8_t *)places, room * 8) &&
		(!places_too || !memcmp(places, wanted, min((size_t)count, room) * 8));
	return right || wrong(s, "%s: %s in %zu bytes: %lld, not %lld", task, (const char *)pattern,
			      n, (long long)found, (long long)count);
}

static bool run_count(struct soak *s)
{
	return run_search(s, "search:count", true, false);
}

static bool run_count_bytes(struct soak *s)
{
	return run_search(s, "search:count_bytes", false, false);
}

static bool run_places(struct soak *s)
{
	return run_search(s, "search:places", true, true);
}

static bool run_places_bytes(struct soak *s)
{
	return run_search(s, "search:places_bytes", false, true);
}

const struct soak_row soak_modules[] = {
	{ "compress:zstd compress:zstd_bound compress:unzstd compress:unzstd_size", run_zstd },
	{ "compress:gzip compress:gzip_bound compress:gunzip compress:gunzip_size", run_gzip },
	{ "hash:xxh3", run_xxh3 },
	{ "hash:sha256", run_sha256 },
	{ "image:resize", run_resize },
	{ "image:resize, in changes", run_resize_changing },
	{ "image:convert", run_convert },
	{ "matmul:f64", run_matmul },
	{ "matmul:f64, a changes", run_matmul_changing },
	{ "search:count", run_count },
	{ "search:count_bytes", run_count_bytes },
	{ "search:places", run_places },
	{ "search:places_bytes", run_places_bytes },
	{ NULL, NULL },
};
