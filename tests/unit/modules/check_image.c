/* SPDX-License-Identifier: MIT */
/* modules/image.c, compiled in, with its memory counted; its pictures are compared with those of
 * loops over all pixels, in double. */
#define CHECK_TIMEOUT 120

#include "tests/support/counted.h"

#include "modules/image.c"

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/shipped.h"

#define FILTER 8u /* offset of the filter's name */
#define IN     64u
#define OUT    (500u << 10)

struct resize_args {
	struct job_ref in;
	int64_t width, height, channels;
	struct job_ref out;
	int64_t new_width, new_height;
	struct job_ref filter;
};

struct convert_args {
	struct job_ref in;
	int64_t from;
	struct job_ref out;
	int64_t to;
};

static struct resize_args args_of(int64_t width, int64_t height, int64_t channels,
				  int64_t new_width, int64_t new_height, const char *filter)
{
	memcpy(rig.heap + FILTER, filter, strlen(filter));
	return (struct resize_args){
		{ IN, (uint64_t)(width * height * channels) },
		width,
		height,
		channels,
		{ OUT, (uint64_t)(new_width * new_height * channels) },
		new_width,
		new_height,
		{ FILTER, strlen(filter) },
	};
}

static const uint8_t *in(void)
{
	return (const uint8_t *)rig.heap + IN;
}

static const uint8_t *out(void)
{
	return (const uint8_t *)rig.heap + OUT;
}

static void fill(void)
{
	uint64_t x = 88172645463325252u;

	for (uint32_t i = 0; i < OUT - IN; i++)
		rig.heap[IN + i] = (char)xorshift64(&x);
}

/* As in the manual. */
static double weight_of(const char *filter, double x)
{
	double t = M_PI * x;

	if (streq(filter, "box"))
		return x >= -0.5 && x < 0.5;
	if (streq(filter, "bilinear"))
		return fabs(x) < 1 ? 1 - fabs(x) : 0;
	return x == 0 ? 1 : fabs(x) < 3 ? 3 * sin(t) * sin(t / 3) / (t * t) : 0;
}

/* Sums over each pixel of the old picture, with its weight. */
static void naive(const struct resize_args *a, const char *filter, int64_t column, int64_t row,
		  double pixel[4])
{
	double across = (double)a->width / (double)a->new_width;
	double down = (double)a->height / (double)a->new_height;
	double sums[4] = { 0 }, all = 0;

	for (int64_t y = 0; y < a->height; y++) {
		double wy = weight_of(filter, ((double)y + 0.5 - ((double)row + 0.5) * down) /
						      fmax(1, down));

		for (int64_t x = 0; wy != 0 && x < a->width; x++) {
			const uint8_t *p = in() + (y * a->width + x) * a->channels;
			double w = wy * weight_of(filter, ((double)x + 0.5 -
							   ((double)column + 0.5) * across) /
								  fmax(1, across));

			all += w;
			for (int64_t c = 0; c < a->channels; c++)
				sums[c] += a->channels < 4 || c == 3 ? w * p[c] : w * p[c] * p[3];
		}
	}
	for (int64_t c = 0; c < a->channels; c++)
		pixel[c] = a->channels < 4 || c == 3 ? sums[c] / all : sums[c] / sums[3];
}

static void compare(const struct resize_args *a, const char *filter)
{
	uint32_t size = (uint32_t)a->out.size;

	memset(rig.heap + OUT, 0x55, size + 8);
	run("image:resize", a, sizeof(*a));
	nothing_is_left();
	for (int64_t i = 0; i < a->new_width * a->new_height; i++) {
		double pixel[4];

		naive(a, filter, i % a->new_width, i / a->new_width, pixel);
		for (int64_t c = 0; c < a->channels; c++) {
			double right = fmin(255, fmax(0, pixel[c]));

			/* If almost nothing is opaque, rounding determines the colours. */
			if (a->channels == 4 && c < 3 && pixel[3] < 1)
				continue;
			ck_assert_msg(fabs(right - out()[i * a->channels + c]) < 0.51 + 0.05,
				      "%s: %dx%d to %dx%d: channel %d of pixel %d: %d, not %f",
				      filter, (int)a->width, (int)a->height, (int)a->new_width,
				      (int)a->new_height, (int)c, (int)i,
				      out()[i * a->channels + c], right);
		}
	}
	for (uint32_t i = 0; i < 8; i++)
		ck_assert_uint_eq(out()[size + i], 0x55);
}

START_TEST(resized_pictures_are_correct_in_every_mode)
{
	static const struct {
		int64_t width, height, new_width, new_height;
	} cases[] = {
		{ 1, 1, 5, 3 },	   { 5, 3, 1, 1 },     { 40, 30, 40, 30 },   { 40, 30, 20, 10 },
		{ 37, 41, 91, 7 }, { 300, 2, 2, 300 }, { 256, 256, 1, 256 }, { 64, 300, 33, 2 },
	};
	static const char *const names[] = { "box", "bilinear", "lanczos" };
	static const int64_t channels[] = { 1, 3, 4 };

	for_each_mode (m, &fk_module) {
		fill();
		for (uint32_t i = 0; i < ARRAY_SIZE(cases); i++)
			for (uint32_t f = 0; f < ARRAY_SIZE(names); f++) {
				struct resize_args args =
					args_of(cases[i].width, cases[i].height,
						channels[(i + f) % 3], cases[i].new_width,
						cases[i].new_height, names[f]);

				compare(&args, names[f]);
			}
	}
}
END_TEST

/* A mean of four that is easy to compute; and invisible pixels have no colour. */
START_TEST(small_pictures_have_the_expected_pixels)
{
	static const uint8_t gray[] = { 10, 20, 30, 40, 50, 60, 70, 80 };
	static const uint8_t colours[] = { 200, 0, 0, 255, 0, 100, 0, 0 };
	struct resize_args args;

	start_mode(1, &fk_module);
	args = args_of(4, 2, 1, 2, 1, "box");
	memcpy(rig.heap + IN, gray, sizeof(gray));
	run("image:resize", &args, sizeof(args));
	ck_assert_uint_eq(out()[0], 35);
	ck_assert_uint_eq(out()[1], 55);
	args = args_of(2, 1, 4, 1, 1, "box");
	memcpy(rig.heap + IN, colours, sizeof(colours));
	run("image:resize", &args, sizeof(args));
	ck_assert_mem_eq(out(), ((uint8_t[]){ 200, 0, 0, 128 }), 4);
}
END_TEST

START_TEST(invalid_pictures_are_an_error)
{
	struct resize_args good, bad;

	start_mode(1, &fk_module);
	good = args_of(40, 30, 3, 20, 15, "box");
#define REFUSED(member, value)                                                                     \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.member = value;                                                                \
		refused("image:resize", &bad, sizeof(bad), -EINVAL);                               \
	} while (0)
	run("image:resize", &good, sizeof(good));
	REFUSED(in.size, good.in.size - 1);
	REFUSED(out.size, good.out.size - 1);
	REFUSED(out.size, good.out.size + 1);
	REFUSED(width, 0);
	REFUSED(width, -40);
	REFUSED(width, INT64_MAX);
	REFUSED(height, INT64_C(1) << 62);
	REFUSED(channels, 0);
	REFUSED(channels, 2);
	REFUSED(channels, -3);
	REFUSED(new_width, 0);
	REFUSED(new_height, INT64_MIN);
	REFUSED(filter.size, 2);
	REFUSED(filter.size, 0);
	bad = args_of(257, 1, 1, 1, 1, "box");
	refused("image:resize", &bad, sizeof(bad), -EINVAL);
	nothing_is_left();
}
END_TEST

START_TEST(pixels_are_converted_in_every_mode)
{
	static const int64_t formats[] = { 1, 3, 4 };
	enum { N = 30000 };

	for_each_mode (m, &fk_module) {
		fill();
		for (uint32_t k = 0; k < 9; k++) {
			int64_t from = formats[k / 3], to = formats[k % 3], pixels;
			struct convert_args args = {
				{ IN, (uint64_t)(N * from) }, from, { OUT, (uint64_t)(N * to) }, to
			};
			int wrong = 0;

			run("image:convert", &args, sizeof(args));
			result(&pixels, sizeof(pixels));
			ck_assert_int_eq(pixels, N);
			for (int64_t i = 0; i < N; i++) {
				const uint8_t *a = in() + i * from;
				const uint8_t *b = out() + i * to;
				double gray = 0.299 * a[0] + 0.587 * a[from == 1 ? 0 : 1] +
					      0.114 * a[from == 1 ? 0 : 2];

				if (to == 1)
					wrong += fabs(b[0] - gray) > 0.51;
				for (int64_t c = 0; to > 1 && c < 3; c++)
					wrong += b[c] != a[from == 1 ? 0 : c];
				if (to == 4)
					wrong += b[3] != (from == 4 ? a[3] : 255);
			}
			ck_assert_int_eq(wrong, 0);
			args.out.size--;
			refused("image:convert", &args, sizeof(args), -EINVAL);
			args.to = 2;
			refused("image:convert", &args, sizeof(args), -EINVAL);
		}
	}
}
END_TEST

static void fill_filter(void)
{
	(void)args_of(400, 300, 3, 20, 15, "lanczos");
}

START_TEST(memory_is_freed_if_an_allocation_fails)
{
	struct resize_args args = {
		{ IN, 360000 }, 400, 300, 3, { OUT, 900 }, 20, 15, { FILTER, 7 }
	};

	gives_back_when_it_fails("image:resize", &args, sizeof(args), fill_filter);
}
END_TEST

CHECK_MAIN("image")
