/* SPDX-License-Identifier: MIT */
/*
 * modules/integrate.c - adaptive quadrature of (x * x + 1) * x over [0, n]
 *
 * WHAT IT IS
 *   The benchmark of libfork (Williams & Elliott): a strip is cut in two until that changes its
 *   area by less than eps. The tree is lopsided, the tasks are tiny and floating point.
 *
 * INVARIANTS
 *   I1. The recursion ends for every n: a change that is not a number ends it, each cut halves the
 *       strip, and a strip too narrow to be cut changes by 0, which is below every eps > 0.
 */
#include <errno.h>

#include <forkd/algorithm.h>

/* A piece of the x axis, f at both ends, and the trapezoid between them. */
struct strip {
	double x1;
	double y1;
	double x2;
	double y2;
	double area;
};

static inline double f(double x)
{
	return (x * x + 1.0) * x;
}

static inline double trapezoid(double x1, double y1, double x2, double y2)
{
	return (y1 + y2) / 2 * (x2 - x1);
}

static inline struct strip left_half(struct strip strip)
{
	double x0 = strip.x1 + (strip.x2 - strip.x1) / 2;
	double y0 = f(x0);

	return (struct strip){ strip.x1, strip.y1, x0, y0, trapezoid(strip.x1, strip.y1, x0, y0) };
}

static inline struct strip right_half(struct strip strip)
{
	double x0 = strip.x1 + (strip.x2 - strip.x1) / 2;
	double y0 = f(x0);

	return (struct strip){ x0, y0, strip.x2, strip.y2, trapezoid(x0, y0, strip.x2, strip.y2) };
}

FK_FINE_TASK(double, area, (struct strip, strip, double, eps), double x; double y;)
{
	double sum = left_half(strip).area + right_half(strip).area;
	double change = sum - strip.area;

	if (!(change >= eps || -change >= eps))
		FK_LEAF(sum);
}
FK_BODY(area)
{
	/* Cut once more than in the first block: a dozen operations cost less than a larger frame. */
	FK_INVOKE((x, area, left_half(self->strip), self->eps),
		  (y, area, right_half(self->strip), self->eps));
	FK_RETURN(self->x + self->y);
}
FK_END(area)

FK_TASK(double, integrate, (double, n, double, eps), double sum;)
{
	if (!(eps > 0))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(integrate)
{
	struct strip whole = { 0.0, f(0.0), self->n, f(self->n), 0.0 };

	FK_CALL(sum, area, whole, self->eps);
	FK_RETURN(self->sum);
}
FK_END(integrate)

FK_EXPORT(integrate, "n:f64, eps:f64 -> f64", 0,
	  "Area under (x*x + 1)*x from 0 to n, cut until a cut changes less than eps")
FK_MODULE(integrate, "Adaptive quadrature")
