/* SPDX-License-Identifier: MIT */
/*
 * modules/integrate.c - adaptive quadrature of (x * x + 1) * x over [0, n]
 *
 * The benchmark of libfork (Williams & Elliott): a strip is halved until that changes its area by
 * less than eps. The tree is unbalanced, the tasks are tiny and use floating point.
 *
 * INVARIANTS
 *   I1. The recursion ends for every n: a change that is not a number ends it. Each cut halves the
 *       width, so the change falls below every eps > 0.
 */
#include <errno.h>
#include <math.h>

#include <forkd/algorithm.h>

static inline double f(double x)
{
	return (x * x + 1.0) * x;
}

static inline double trapezoid(double y1, double y2, double width)
{
	return (y1 + y2) / 2 * width;
}

/* The strip from x1 to x1 + 2 half. f is y1 at its start, y0 in the middle and y2 at the end; whole
 * is its trapezoid. Seven numbers, because a struct would be in memory, not in registers. */
FK_FINE_TASK(double, area,
	     (double, x1, double, half, double, y1, double, y0, double, y2, double, whole, double,
	      eps),
	     double x;
	     double y;)
{
	double sum = trapezoid(y1, y0, half) + trapezoid(y0, y2, half);

	if (!(fabs(sum - whole) >= eps))
		FK_LEAF(sum);
}
FK_BODY(area)
{
	FK_INVOKE((x, area, self->x1, self->half / 2, self->y1, f(self->x1 + self->half / 2),
		   self->y0, trapezoid(self->y1, self->y0, self->half), self->eps),
		  (y, area, self->x1 + self->half, self->half / 2, self->y0,
		   f(self->x1 + self->half + self->half / 2), self->y2,
		   trapezoid(self->y0, self->y2, self->half), self->eps));
	FK_RETURN(self->x + self->y);
}
FK_END(area)

FK_TASK(double, integrate, (double, n, double, eps), double sum;)
{
	if (!(eps > 0) || !isfinite(n))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(integrate)
{
	FK_CALL(sum, area, 0.0, self->n / 2, f(0.0), f(self->n / 2), f(self->n), 0.0, self->eps);
	FK_RETURN(self->sum);
}
FK_END(integrate)

FK_EXPORT(integrate, 0,
	  "Area under (x*x + 1)*x from 0 to n, divided until that changes less than eps")
FK_MODULE(integrate, "Adaptive quadrature")
