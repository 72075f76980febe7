/* SPDX-License-Identifier: MIT */
/*
 * modules/image.c - scales decoded pixels and converts their formats
 *
 * A pixel is 1, 3 or 4 bytes (gray; red, green, blue; the same and alpha), row by row from the top,
 * with no padding. A pixel of the new size is a weighted mean of the old pixels within the filter's
 * reach. The reach grows as the picture shrinks, so every old pixel counts. The weight is the
 * product of the weights of column and row; colours are also weighted by alpha. A leaf makes a part
 * of a row: first the sums of the columns, then from these the pixels of the row. No library of
 * Debian does this in tiles, without threads and on memory that may change.
 *
 * INVARIANTS
 *   I1. The buffers are the client's own memory, and may change at any moment. All addresses follow
 *       from the sizes, which are arguments.
 *   I2. A picture shrinks at most by the factor SHRINK_MOST in either direction. So a new pixel has
 *       a limited number of old ones, and a leaf is short.
 *   I3. The weights of all columns together are at most 6 for each old column, and 2 for each new
 *       one.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/algorithm.h>

#include "modules/spare.h"

#define SIDE_MOST   65536
#define SHRINK_MOST 256
#define PART	    (64 << 10) /* pixels that a leaf reads, about */

/* ---------------------------------------------------------------- sizes */

static double box(double x)
{
	return x >= -0.5 && x < 0.5;
}

static double triangle(double x)
{
	return fmax(0, 1 - fabs(x));
}

static double sinc(double x)
{
	return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x);
}

static double lanczos(double x)
{
	return fabs(x) < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static const struct filter {
	const char *name;
	double (*weight)(double x);
	double reach;
} filters[] = {
	{ "box", box, 0.5 },
	{ "bilinear", triangle, 1 },
	{ "lanczos", lanczos, 3 },
};

/* Old and new number of columns or rows. */
struct axis {
	const struct filter *filter;
	int64_t from;
	int64_t to;
	double scale;	/* old ones to a new one */
	double stretch; /* of the filter */
	int64_t taps;	/* that a new one is made of at most */
};

/* The range of old columns or rows of a new one. */
struct reach {
	int64_t from;
	int64_t n;
};

static struct axis axis_of(const struct filter *filter, int64_t from, int64_t to)
{
	struct axis a = { filter, from, to, (double)from / (double)to, 1, 0 };

	a.stretch = fmax(1, a.scale);
	a.taps = (int64_t)(2 * filter->reach * a.stretch) + 2;
	return a;
}

/* Computes their weights, whose sum is 1. */
static struct reach weigh(const struct axis *a, int64_t i, float *ret_weights)
{
	double centre = ((double)i + 0.5) * a->scale;
	double reach = a->filter->reach * a->stretch;
	int64_t from = (int64_t)fmax(0, floor(centre - reach));
	int64_t to = (int64_t)fmin((double)a->from, ceil(centre + reach));
	double sum = 0;

	for (int64_t k = from; k < to; k++)
		sum += a->filter->weight(((double)k + 0.5 - centre) / a->stretch);
	for (int64_t k = from; k < to; k++)
		ret_weights[k - from] =
			(float)(a->filter->weight(((double)k + 0.5 - centre) / a->stretch) / sum);
	return (struct reach){ from, to - from };
}

struct resize {
	const uint8_t *in;
	uint8_t *out;
	int64_t channels;
	struct axis across;
	struct axis down;
	struct reach *columns;
	float *weights; /* of the columns, across.taps for each */
	int64_t part;	/* columns of a leaf */
	int64_t parts;	/* of a row */
	struct spare sums;
};

static void weigh_column(int64_t i, const struct resize *r)
{
	r->columns[i] = weigh(&r->across, i, r->weights + i * r->across.taps);
}

/* The memory of a leaf: the sums of its columns, and the weights of its row. */
static size_t sums_size(const struct resize *r)
{
	int64_t columns = (int64_t)((double)r->part * r->across.scale) + r->across.taps + 2;

	return (size_t)(columns * r->channels + r->down.taps) * sizeof(float);
}

static inline __attribute__((always_inline)) void
add_row(float *restrict sums, const uint8_t *restrict in, int64_t n, float weight, int64_t channels)
{
	for (int64_t i = 0; i < n; i++, in += channels, sums += channels) {
		float w = channels == 4 ? weight * in[3] : weight;

		for (int64_t c = 0; c < channels; c++)
			sums[c] += w * (channels == 4 && c == 3 ? 1.0f : (float)in[c]);
	}
}

static inline uint8_t to_byte(float x)
{
	return (uint8_t)(x <= 0 ? 0 : x >= 255 ? 255 : x + 0.5f);
}

/* sums: the sums of the columns from `first` on. */
static inline __attribute__((always_inline)) void
make_pixel(uint8_t *out, const float *sums, const float *weights, int64_t n, int64_t channels)
{
	float pixel[4] = { 0 };

	for (int64_t i = 0; i < n; i++)
		for (int64_t c = 0; c < channels; c++)
			pixel[c] += weights[i] * sums[i * channels + c];
	for (int64_t c = 0; c < channels; c++)
		/* The mean of alpha; the mean of colours times alpha. */
		if (channels == 4 && c < 3)
			out[c] = pixel[3] > 0 ? to_byte(pixel[c] / pixel[3]) : 0;
		else
			out[c] = to_byte(pixel[c]);
}

static inline __attribute__((always_inline)) void make_part(const struct resize *r, int64_t row,
							    int64_t first, int64_t end, float *sums,
							    const int64_t channels)
{
	float *weights = sums + sums_size(r) / sizeof(float) - r->down.taps;
	struct reach rows = weigh(&r->down, row, weights);
	int64_t left = r->columns[first].from;
	int64_t n = r->columns[end - 1].from + r->columns[end - 1].n - left;

	memset(sums, 0, (size_t)(n * channels) * sizeof(float));
	for (int64_t i = 0; i < rows.n; i++)
		add_row(sums, r->in + ((rows.from + i) * r->across.from + left) * channels, n,
			weights[i], channels);
	for (int64_t i = first; i < end; i++)
		make_pixel(r->out + (row * r->across.to + i) * channels,
			   sums + (r->columns[i].from - left) * channels,
			   r->weights + i * r->across.taps, r->columns[i].n, channels);
}

static int resize_part(int64_t i, struct resize *r)
{
	int64_t row = i / r->parts;
	int64_t first = i % r->parts * r->part;
	int64_t end = r->across.to - first < r->part ? r->across.to : first + r->part;
	float *sums = spare_take(&r->sums);

	if (!sums)
		sums = malloc(sums_size(r));
	if (!sums)
		return -ENOMEM;
	/* Constants, so that the compiler vectorizes the loops. */
	if (r->channels == 1)
		make_part(r, row, first, end, sums, 1);
	else if (r->channels == 3)
		make_part(r, row, first, end, sums, 3);
	else
		make_part(r, row, first, end, sums, 4);
	if (!spare_give(&r->sums, sums))
		free(sums);
	return 0;
}

FK_FOR_RANGE(weigh_columns, weigh_column, const struct resize *)
FK_FOR_RANGE(resize_parts, resize_part, struct resize *)

static const struct filter *find_filter(struct fk_str name)
{
	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
		if (name.size == strlen(filters[i].name) &&
		    memcmp(name.data, filters[i].name, name.size) == 0)
			return &filters[i];
	return NULL;
}

static bool is_format(int64_t channels)
{
	return channels == 1 || channels == 3 || channels == 4;
}

static bool is_picture(struct fk_buf pixels, int64_t width, int64_t height, int64_t channels)
{
	return is_format(channels) && width >= 1 && width <= SIDE_MOST && height >= 1 &&
	       height <= SIDE_MOST && pixels.size == (uint64_t)(width * height * channels);
}

static bool is_enough(int64_t from, int64_t to)
{
	return (from + to - 1) / to <= SHRINK_MOST;
}

static int resize_init(struct resize *r)
{
	double area = r->across.scale * (double)r->down.taps;

	r->part = (int64_t)fmax(1, fmin((double)r->across.to, PART / area));
	r->parts = (r->across.to + r->part - 1) / r->part;
	r->columns = calloc((size_t)r->across.to, sizeof(*r->columns));
	r->weights = calloc((size_t)(r->across.to * r->across.taps), sizeof(*r->weights));
	return r->columns && r->weights ? 0 : -ENOMEM;
}

static void resize_fini(struct resize *r)
{
	for (uint32_t i = 0; i < SPARE_MAX; i++)
		free(spare_take(&r->sums));
	free(r->columns);
	free(r->weights);
}

FK_DECLARE(fk_void, resize,
	   (struct fk_buf, in, int64_t, w, int64_t, h, int64_t, channels, struct fk_iobuf, out,
	    int64_t, to_w, int64_t, to_h, struct fk_str, filter),
	   struct resize r;)
FK_UNWIND(resize)
{
	resize_fini(&self->r);
}
FK_DEFINE_UNWIND(fk_void, resize,
		 (struct fk_buf, in, int64_t, w, int64_t, h, int64_t, channels, struct fk_iobuf,
		  out, int64_t, to_w, int64_t, to_h, struct fk_str, filter))
{
	if (!is_picture(in, w, h, channels) || !is_picture(FK_BUF(out), to_w, to_h, channels) ||
	    !is_enough(w, to_w) || !is_enough(h, to_h))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(resize)
{
	const struct filter *filter = find_filter(self->filter);

	if (!filter)
		FK_FAIL(-EINVAL);
	self->r = (struct resize){
		.in = self->in.data,
		.out = self->out.data,
		.channels = self->channels,
		.across = axis_of(filter, self->w, self->to_w),
		.down = axis_of(filter, self->h, self->to_h),
	};
	if (resize_init(&self->r)) {
		resize_fini(&self->r);
		FK_FAIL(-ENOMEM);
	}
	FK_CALL_VOID(weigh_columns, 0, self->to_w, FK_GRAIN(40 * self->r.across.taps), &self->r);
	FK_CALL_VOID(resize_parts, 0, self->to_h * self->r.parts, 1, &self->r);
	resize_fini(&self->r);
	FK_RETURN();
}
FK_END(resize)

/* ---------------------------------------------------------------- formats */

#define LEAF 8192 /* pixels */

struct conversion {
	const uint8_t *in;
	uint8_t *out;
	int64_t n;
	int64_t from;
	int64_t to;
};

/* The luminance of a colour, by ITU-R BT.601; the sum of the weights is 65536. */
static inline uint8_t gray_of(uint8_t red, uint8_t green, uint8_t blue)
{
	return (uint8_t)((red * 19595u + green * 38470u + blue * 7471u + 32768u) >> 16);
}

static inline __attribute__((always_inline)) void
convert_pixels(const uint8_t *restrict in, uint8_t *restrict out, int64_t n, int from, int to)
{
	for (int64_t i = 0; i < n; i++, in += from, out += to) {
		uint8_t red = in[0];
		uint8_t green = from == 1 ? red : in[1];
		uint8_t blue = from == 1 ? red : in[2];

		out[0] = to == 1 && from != 1 ? gray_of(red, green, blue) : red;
		if (to >= 3) {
			out[1] = green;
			out[2] = blue;
		}
		if (to == 4)
			out[3] = from == 4 ? in[3] : 255;
	}
}

static void convert_leaf(int64_t i, const struct conversion *c)
{
	int64_t first = i * LEAF;
	int64_t n = c->n - first < LEAF ? c->n - first : LEAF;
	const uint8_t *in = c->in + first * c->from;
	uint8_t *out = c->out + first * c->to;

	switch (c->from * 10 + c->to) {
	case 13:
		convert_pixels(in, out, n, 1, 3);
		break;
	case 14:
		convert_pixels(in, out, n, 1, 4);
		break;
	case 31:
		convert_pixels(in, out, n, 3, 1);
		break;
	case 34:
		convert_pixels(in, out, n, 3, 4);
		break;
	case 41:
		convert_pixels(in, out, n, 4, 1);
		break;
	case 43:
		convert_pixels(in, out, n, 4, 3);
		break;
	default: /* the same */
		memcpy(out, in, (size_t)(n * c->to));
	}
}

FK_FOR_RANGE(convert_leaves, convert_leaf, const struct conversion *)

FK_TASK(int64_t, convert, (struct fk_buf, in, int64_t, from, struct fk_iobuf, out, int64_t, to),
	struct conversion c;)
{
	if (!is_format(from) || !is_format(to) || in.size % (uint64_t)from ||
	    out.size / (uint64_t)to < in.size / (uint64_t)from)
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(convert)
{
	self->c = (struct conversion){
		.in = self->in.data,
		.out = self->out.data,
		.n = (int64_t)(self->in.size / (uint64_t)self->from),
		.from = self->from,
		.to = self->to,
	};
	FK_CALL_VOID(convert_leaves, 0, (self->c.n + LEAF - 1) / LEAF, 1, &self->c);
	FK_RETURN(self->c.n);
}
FK_END(convert)

FK_EXPORT(resize, FK_EXPORT_IN_PLACE, "Resizes a picture by the filter box, bilinear or lanczos")
FK_EXPORT_RESULTS(convert, (int64_t, pixels), FK_EXPORT_IN_PLACE,
		  "Converts pixels of 1 (gray), 3 (RGB) or 4 bytes (RGBA)")
FK_MODULE(image, "Decoded pixels")
