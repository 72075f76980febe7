/* SPDX-License-Identifier: MIT */
#include "tests/bench/bots/bots.h"

#define SHAPES 3

/* Each cell has a few shapes, and touches the right or lower side of another one. */
static const struct {
	uint8_t neighbour;
	struct {
		uint8_t height;
		uint8_t width;
	} shapes[SHAPES];
} cells[PLAN_CELLS] = {
	{ 0, { { 3, 4 }, { 2, 6 }, { 6, 2 } } },  { 0, { { 2, 5 }, { 5, 2 }, { 3, 3 } } },
	{ 0, { { 4, 2 }, { 2, 4 }, { 3, 3 } } },  { 1, { { 3, 5 }, { 5, 3 }, { 4, 4 } } },
	{ 2, { { 2, 2 }, { 1, 4 }, { 4, 1 } } },  { 3, { { 6, 3 }, { 3, 6 }, { 4, 5 } } },
	{ 4, { { 2, 3 }, { 3, 2 }, { 1, 6 } } },  { 4, { { 5, 4 }, { 4, 5 }, { 10, 2 } } },
	{ 5, { { 1, 7 }, { 7, 1 }, { 2, 4 } } },  { 6, { { 3, 3 }, { 2, 5 }, { 5, 2 } } },
	{ 7, { { 4, 3 }, { 3, 4 }, { 2, 6 } } },  { 8, { { 2, 7 }, { 7, 2 }, { 4, 4 } } },
	{ 9, { { 5, 1 }, { 1, 5 }, { 2, 3 } } },  { 10, { { 3, 7 }, { 7, 3 }, { 4, 5 } } },
	{ 11, { { 2, 2 }, { 4, 1 }, { 1, 4 } } }, { 12, { { 6, 2 }, { 2, 6 }, { 3, 4 } } },
	{ 13, { { 5, 3 }, { 3, 5 }, { 4, 4 } } }, { 14, { { 1, 3 }, { 3, 1 }, { 2, 2 } } },
	{ 15, { { 4, 2 }, { 2, 4 }, { 8, 1 } } }, { 16, { { 5, 5 }, { 4, 6 }, { 6, 4 } } },
};

struct plan plan_empty;
static int n_cells;
static int smallest; /* area of the best plan; atomic */

int plan_choices(const struct plan *plan)
{
	int neighbour = cells[plan->placed].neighbour;

	if (!plan->placed)
		return SHAPES;
	return SHAPES * (plan->cells[neighbour].height + plan->cells[neighbour].width);
}

/* Sets smallest to area, if it is not smaller. Relaxed: nothing else is passed. */
static void note(int area)
{
	int old = __atomic_load_n(&smallest, __ATOMIC_RELAXED);

	while (area < old && !__atomic_compare_exchange_n(&smallest, &old, area, true,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Returns the next cell at the place and in the shape of a choice. */
static struct plan_cell cell_of(const struct plan *plan, int choice)
{
	int offset =
		choice / SHAPES; /* along the right side of the neighbour, then the lower one */
	struct plan_cell cell = { 0, 0, cells[plan->placed].shapes[choice % SHAPES].height,
				  cells[plan->placed].shapes[choice % SHAPES].width };
	const struct plan_cell *neighbour = &plan->cells[cells[plan->placed].neighbour];

	if (!plan->placed)
		return cell;
	if (offset < neighbour->height) {
		cell.top = neighbour->top + offset;
		cell.left = neighbour->left + neighbour->width;
	} else {
		cell.top = neighbour->top + neighbour->height;
		cell.left = neighbour->left + offset - neighbour->height;
	}
	return cell;
}

/* Returns the columns of a cell as bits. */
static uint64_t columns_of(struct plan_cell cell)
{
	return ((UINT64_C(1) << cell.width) - 1) << cell.left;
}

static int larger(int a, int b)
{
	return a > b ? a : b;
}

bool plan_fits(const struct plan *plan, int choice)
{
	struct plan_cell cell = cell_of(plan, choice);
	int height = larger(plan->height, cell.top + cell.height);
	int width = larger(plan->width, cell.left + cell.width);

	if (height > PLAN_SIDE || width > PLAN_SIDE ||
	    height * width >= __atomic_load_n(&smallest, __ATOMIC_RELAXED))
		return false;
	for (int row = cell.top; row < cell.top + cell.height; row++)
		if (plan->rows[row] & columns_of(cell))
			return false;
	if (plan->placed + 1 < n_cells)
		return true;
	note(height * width);
	return false;
}

void plan_with(const struct plan *plan, int choice, struct plan *ret_next)
{
	struct plan_cell cell = cell_of(plan, choice);

	*ret_next = *plan;
	for (int row = cell.top; row < cell.top + cell.height; row++)
		ret_next->rows[row] |= columns_of(cell);
	ret_next->cells[ret_next->placed++] = cell;
	ret_next->height = larger(plan->height, cell.top + cell.height);
	ret_next->width = larger(plan->width, cell.left + cell.width);
}

void bots_prepare(int size)
{
	n_cells = size;
	smallest = PLAN_SIDE * PLAN_SIDE;
}

uint64_t bots_result(void)
{
	return (uint64_t)smallest;
}
