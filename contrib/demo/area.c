/* SPDX-License-Identifier: MIT */
/*
 * area.c - an area in slices, compared with its closed form
 *
 * integrate:integrate gives the area A(x) under (x*x + 1)*x from 0 to x; that of a slice is the
 * difference of two. All slices are submitted before the first is waited for, and each is compared
 * with x^4/4 + x^2/2.
 */
#include "contrib/demo/demo.h"

#include <math.h>

#define AREA_SLICES    40
#define AREA_WIDTH     10.0
#define AREA_EPS       1e-6
#define AREA_TOLERANCE 1e-6 /* of the closed form */

static double area_right(double x)
{
	return x * x * x * x / 4 + x * x / 2;
}

int main(int argc, char *argv[])
{
	fk_client *client = demo_open(AREA_SLICES, 0);
	char what[64], answer[64], right[64];
	double sum = 0, before = 0;
	fk_job jobs[AREA_SLICES];
	const fk_task *task;
	int good = 0;

	demo_must(fk_task_find(client, "integrate:integrate", &task), "area: integrate");
	for (int i = 0; i < AREA_SLICES; i++)
		demo_must(fk_submit(client, task, 0, &jobs[i], AREA_WIDTH * (i + 1), AREA_EPS),
			  "area: submit");
	for (int i = 0; i < AREA_SLICES; i++) {
		double want = area_right(AREA_WIDTH * (i + 1)) - area_right(AREA_WIDTH * i);
		double result;

		demo_must(fk_wait(client, jobs[i], FK_FOREVER), "area: wait");
		demo_must(fk_result(client, jobs[i], &result, sizeof(result)), "area: result");
		demo_must(fk_release(client, jobs[i]), "area: release");
		good += fabs(result - before - want) <= AREA_TOLERANCE * want;
		sum += result - before;
		before = result;
	}
	(void)snprintf(what, sizeof(what), "integrate:integrate, %d slices", AREA_SLICES);
	(void)snprintf(answer, sizeof(answer), "%.7g, %d slices right", sum, good);
	(void)snprintf(right, sizeof(right), "%.7g, %d slices right",
		       area_right(AREA_WIDTH * AREA_SLICES), AREA_SLICES);
	return demo_end(client, argc, argv, what, answer, right);
}
