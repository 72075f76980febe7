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
#include <math.h>

#include <forkd/algorithm.h>

static inline double f(double x)
{
	return (x * x + 1.0) * x;
}

static inline double middle(double x1, double x2)
{
	return x1 + (x2 - x1) / 2;
}

static inline double trapezoid(double x1, double y1, double x2, double y2)
{
	return (y1 + y2) / 2 * (x2 - x1);
}

/* From x1 to x2, where f is y1 and y2; whole: the trapezoid between them. Six numbers, and no
 * struct of them, which would go through memory. */
FK_FINE_TASK(double, area,
	     (double, x1, double, y1, double, x2, double, y2, double, whole, double, eps),
	     double x0;
	     double y0; double right; double x; double y;)
{
	double x0 = middle(x1, x2);
	double y0 = f(x0);
	double sum = trapezoid(x1, y1, x0, y0) + trapezoid(x0, y0, x2, y2);
	double change = sum - whole;

	if (!(change >= eps || -change >= eps))
		FK_LEAF(sum);
}
FK_BODY(area)
{
	self->x0 = middle(self->x1, self->x2);
	self->y0 = f(self->x0);
	self->right = trapezoid(self->x0, self->y0, self->x2, self->y2);
	FK_INVOKE((x, area, self->x1, self->y1, self->x0, self->y0,
		   trapezoid(self->x1, self->y1, self->x0, self->y0), self->eps),
		  (y, area, self->x0, self->y0, self->x2, self->y2, self->right, self->eps));
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
	FK_CALL(sum, area, 0.0, f(0.0), self->n, f(self->n), 0.0, self->eps);
	FK_RETURN(self->sum);
}
FK_END(integrate)

FK_EXPORT(integrate, "n:f64, eps:f64 -> f64", 0,
	  "Area under (x*x + 1)*x from 0 to n, cut until a cut changes less than eps")
FK_MODULE(integrate, "Adaptive quadrature")
