/* SPDX-License-Identifier: MIT */
/*
 * mpi_matmul.c - a product of matrices on several ranks, each with a pool of forkd
 *
 * C = A B, matrices of n x n doubles. The ranks are a grid of p x q, and C is in blocks: rank (i,
 * j) computes row group i and column group j. It needs all of these rows of A and all of these
 * columns of B. At first each rank has a part of them: a q-th of the rows of A, and a p-th of the
 * rows of B. The ranks of a grid row gather A once. The ranks of a grid column gather B in strips
 * of columns. The pool multiplies A by one strip (matmul:f64, fork and join) while MPI transfers
 * the next one.
 *
 * It is SUMMA (van de Geijn and Watts, "SUMMA: Scalable Universal Matrix Multiplication
 * Algorithm", Concurrency 9(4), 1997) with strips of C instead of panels of the inner side. Both
 * transfer nearly n * n * (1 / p + 1 / q) numbers to each rank. With strips no sum is kept between
 * two steps.
 *
 * INVARIANTS
 *   I1. A job reads one strip of B, and MPI writes the other one. The next transfer into a strip
 *       begins after the job that reads it has ended.
 *
 * CHECK
 *   All numbers of A and B are integers from -8 to 8, computed from their row and column. So the
 *   product is exact, and a rank can compute numbers that others have. Freivalds' check
 *   ("Probabilistic machines can use less running time", IFIP 1977) is C x = A (B x), for a random
 *   x of integers below 2^16. A wrong C passes it with a probability of at most 2^-16, so two of
 *   them are tried. n is at most 32768, so all sums are below 2^53. Up to n = SERIAL_MAX each rank
 *   also compares its block with a serial product.
 */
#include <errno.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "contrib/mpi/rank.h"

#define N_MAX	   32768
#define SERIAL_MAX 256
#define CHECKS	   2
#define POLL_NS	   200000 /* between two polls of MPI while a job runs */

static const char help[] =
	"Usage: mpirun -n RANKS mpi_matmul [OPTION...]\n"
	"Multiplies two matrices of N x N doubles.\n"
	"  --size=N               a multiple of the number of ranks, at most 32768; default: 1024\n"
	"  --strip=N              columns of B in one transfer; default: 256\n"
	"  --spoil=RANK           adds 1 to a number of C on this rank, so the check must fail\n";

struct product {
	struct rank rank;
	int64_t n;
	int64_t p, q;		      /* the grid */
	int64_t i, j;		      /* this rank's place */
	int64_t rows, columns, strip; /* of a block of C; of a strip */
	MPI_Comm row, column;	      /* the ranks of this row and of this column of the grid */

	double *a;	/* rows x n */
	double *part_b; /* rows of this rank: strips of rows x strip, one after the other */
	double *b[2];	/* strips of n x strip */
	double *c;	/* strips of rows x strip, one after the other */

	double wait;   /* seconds in which the rank waited for MPI, and had no job */
	int64_t bytes; /* that it received */
};

/* Mixes the bits of a number: the finalizer of splitmix64. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static double element_a(int64_t row, int64_t column)
{
	return (double)(mix((uint64_t)(row * N_MAX + column) + 1) % 17) - 8;
}

static double element_b(int64_t row, int64_t column)
{
	return (double)(mix(~(uint64_t)(row * N_MAX + column)) % 17) - 8;
}

static int64_t width_of(const struct product *m, int64_t first)
{
	return m->strip < m->columns - first ? m->strip : m->columns - first;
}

/* ------------------------------------------------------------------------ the product */

/* A's part goes to its place among those of the grid row. */
static void make_parts(struct product *m)
{
	int64_t part = m->rows / m->q;
	double *b = m->part_b;

	for (int64_t i = m->j * part; i < (m->j + 1) * part; i++)
		for (int64_t k = 0; k < m->n; k++)
			m->a[i * m->n + k] = element_a(m->i * m->rows + i, k);
	for (int64_t first = 0; first < m->columns; first += m->strip)
		for (int64_t i = 0; i < m->rows; i++)
			for (int64_t k = first; k < first + width_of(m, first); k++)
				*b++ = element_b(m->i * m->rows + i, m->j * m->columns + k);
}

/* Begins to gather `rows` rows of `width` numbers from each rank of comm; from NULL: they are in
 * their place. The type is a row, because MPI counts in int. */
static void gather(struct product *m, MPI_Comm comm, int64_t ranks, const double *from, double *to,
		   int64_t rows, int64_t width, MPI_Request *ret)
{
	MPI_Datatype type;

	rank_check(MPI_Type_contiguous((int)width, MPI_DOUBLE, &type), "make a type");
	rank_check(MPI_Type_commit(&type), "make a type");
	rank_check(MPI_Iallgather(from ? from : MPI_IN_PLACE, (int)rows, type, to, (int)rows, type,
				  comm, ret),
		   "gather a matrix");
	rank_check(MPI_Type_free(&type), "free a type");
	m->bytes += (ranks - 1) * rows * width * (int64_t)sizeof(double);
}

static void gather_strip(struct product *m, int64_t first, MPI_Request *ret)
{
	if (first < m->columns)
		gather(m, m->column, m->p, m->part_b + m->rows * first, m->b[first / m->strip % 2],
		       m->rows, width_of(m, first), ret);
}

static void wait_for_mpi(struct product *m, MPI_Request *request)
{
	double start = MPI_Wtime();

	rank_check(MPI_Wait(request, MPI_STATUS_IGNORE), "wait for a part of a matrix");
	m->wait += MPI_Wtime() - start;
}

/* Waits for a job, and lets MPI transfer in the meantime. */
static void wait_for_job(struct product *m, fk_job job, MPI_Request *request)
{
	int err, done;

	while ((err = fk_wait(m->rank.client, job, POLL_NS)) == -ETIMEDOUT)
		rank_check(MPI_Test(request, &done, MPI_STATUS_IGNORE), "transfer a matrix");
	rank_check_pool(err, "wait for a job");
	rank_result(&m->rank, job, NULL, 0);
}

static void multiply(struct product *m)
{
	MPI_Request next = MPI_REQUEST_NULL;
	fk_job job;

	gather(m, m->row, m->q, NULL, m->a, m->rows / m->q, m->n, &next);
	wait_for_mpi(m, &next);
	gather_strip(m, 0, &next);
	for (int64_t first = 0; first < m->columns; first += m->strip) {
		int64_t width = width_of(m, first);
		double *b = m->b[first / m->strip % 2];
		double *c = m->c + m->rows * first;

		wait_for_mpi(m, &next);
		if (fk_submit(m->rank.client, m->rank.task, 0, &job,
			      FK_BUFFER(m->a, sizeof(double) * (size_t)(m->rows * m->n)),
			      FK_BUFFER(b, sizeof(double) * (size_t)(m->n * width)),
			      FK_BUFFER(c, sizeof(double) * (size_t)(m->rows * width)), m->rows,
			      m->n, width))
			rank_fail("cannot submit a job: %s", fk_error_text());
		gather_strip(m, first + m->strip, &next);
		wait_for_job(m, job, &next);
	}
}

/* ------------------------------------------------------------------------ the check */

/* A number of C, by its row and column in the block. */
static double *element_c(const struct product *m, int64_t row, int64_t column)
{
	int64_t first = column / m->strip * m->strip;

	return m->c + m->rows * first + row * width_of(m, first) + column - first;
}

static double pseudo_random(int check, int64_t column)
{
	return (double)(mix(mix((uint64_t)check + 1) + (uint64_t)column) >> 48);
}

/* Freivalds' check. Returns the number of wrong rows of this grid row. x and y are of n numbers. */
static int64_t check_product(const struct product *m, int check, double *x, double *y)
{
	int64_t wrong = 0;

	for (int64_t k = 0; k < m->columns; k++)
		x[k] = pseudo_random(check, m->j * m->columns + k);
	for (int64_t i = 0; i < m->rows; i++) {
		y[m->i * m->rows + i] = 0;
		for (int64_t k = 0; k < m->columns; k++)
			y[m->i * m->rows + i] +=
				element_b(m->i * m->rows + i, m->j * m->columns + k) * x[k];
	}
	rank_check(MPI_Allreduce(MPI_IN_PLACE, y + m->i * m->rows, (int)m->rows, MPI_DOUBLE,
				 MPI_SUM, m->row),
		   "sum up B x");
	rank_check(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, y, (int)m->rows, MPI_DOUBLE,
				 m->column),
		   "gather B x");
	/* x becomes C x - A (B x), each rank with its columns of both. */
	for (int64_t i = 0; i < m->rows; i++) {
		double sum = 0;

		for (int64_t k = 0; k < m->columns; k++)
			sum += *element_c(m, i, k) * pseudo_random(check, m->j * m->columns + k) -
			       element_a(m->i * m->rows + i, m->j * m->columns + k) *
				       y[m->j * m->columns + k];
		x[i] = sum;
	}
	rank_check(MPI_Allreduce(MPI_IN_PLACE, x, (int)m->rows, MPI_DOUBLE, MPI_SUM, m->row),
		   "sum up C x");
	for (int64_t i = 0; i < m->rows; i++)
		wrong += x[i] != 0;
	return wrong;
}

/* Compares the block with a serial product. Returns the number of wrong elements. */
static int64_t compare_serial(const struct product *m)
{
	int64_t wrong = 0;

	for (int64_t i = 0; i < m->rows; i++)
		for (int64_t j = 0; j < m->columns; j++) {
			double sum = 0;

			for (int64_t k = 0; k < m->n; k++)
				sum += element_a(m->i * m->rows + i, k) *
				       element_b(k, m->j * m->columns + j);
			wrong += *element_c(m, i, j) != sum;
		}
	return wrong;
}

/* ------------------------------------------------------------------------ the program */

/* The report of a rank; rank 0 gathers them. */
struct report {
	int64_t wrong; /* numbers, or rows of the check */
	int64_t bytes;
	double wait;
};

/* Prints all on rank 0. Returns the exit status. */
static int report(const struct product *m, int64_t wrong, double seconds)
{
	const struct report mine = { wrong, m->bytes, m->wait };
	struct report *all = calloc((size_t)m->rank.size, sizeof(*all));

	if (!all)
		rank_fail("no memory for the reports");
	rank_check(MPI_Gather(&mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, 0,
			      MPI_COMM_WORLD),
		   "gather the reports");
	wrong = 0;
	if (!m->rank.rank)
		printf("rank  bytes-in   wait-s  check\n");
	for (int i = 0; !m->rank.rank && i < m->rank.size; i++) {
		printf("%4d %9" PRId64 "  %7.4f  %s\n", i, all[i].bytes, all[i].wait,
		       all[i].wrong ? "WRONG" : "right");
		wrong += all[i].wrong;
	}
	free(all);
	if (!m->rank.rank)
		printf("%" PRId64 " x %" PRId64 " on %" PRId64 " x %" PRId64
		       " ranks: %s; %.4f s, %.2f Gflop/s\n",
		       m->n, m->n, m->p, m->q, wrong ? "WRONG" : "right", seconds,
		       2e-9 * (double)m->n * (double)m->n * (double)m->n / seconds);
	return wrong != 0;
}

static void make_grid(struct product *m)
{
	int dims[2] = { 0, 0 };

	rank_check(MPI_Dims_create(m->rank.size, 2, dims), "make a grid");
	m->p = dims[0];
	m->q = dims[1];
	m->i = m->rank.rank / m->q;
	m->j = m->rank.rank % m->q;
	m->rows = m->n / m->p;
	m->columns = m->n / m->q;
	if (m->strip > m->columns)
		m->strip = m->columns;
	rank_check(MPI_Comm_split(MPI_COMM_WORLD, (int)m->i, (int)m->j, &m->row), "make a row");
	rank_check(MPI_Comm_split(MPI_COMM_WORLD, (int)m->j, (int)m->i, &m->column),
		   "make a column");
	rank_check(MPI_Comm_set_errhandler(m->row, MPI_ERRORS_RETURN), "make a row");
	rank_check(MPI_Comm_set_errhandler(m->column, MPI_ERRORS_RETURN), "make a column");
}

static void make_memory(struct product *m)
{
	size_t a = sizeof(double) * (size_t)(m->rows * m->n);
	size_t b = sizeof(double) * (size_t)(m->n * m->strip);
	size_t c = sizeof(double) * (size_t)(m->rows * m->columns);

	rank_open(&m->rank, MATMUL_MODULE, "matmul:f64", a + 2 * b + c + (1 << 20));
	m->a = rank_alloc(&m->rank, a);
	m->b[0] = rank_alloc(&m->rank, b);
	m->b[1] = rank_alloc(&m->rank, b);
	m->c = rank_alloc(&m->rank, c);
	m->part_b = malloc(c);
	if (!m->part_b)
		rank_fail("no memory for B: %zu bytes", c);
}

static int64_t check(const struct product *m)
{
	double *x = malloc(sizeof(double) * (size_t)m->n);
	double *y = malloc(sizeof(double) * (size_t)m->n);
	int64_t wrong = 0;

	if (!x || !y)
		rank_fail("no memory for the check");
	for (int i = 0; i < CHECKS; i++)
		wrong += check_product(m, i, x, y);
	if (m->n <= SERIAL_MAX)
		wrong += compare_serial(m);
	free(x);
	free(y);
	return wrong;
}

int main(int argc, char *argv[])
{
	const char *size = "1024", *strip = "256", *spoil = "-1";
	const struct rank_option options[] = {
		{ "size", &size }, { "strip", &strip }, { "spoil", &spoil }, { NULL, NULL }
	};
	struct product m = { .rank = rank_start(argc, argv, help, options, false) };
	double start, seconds;
	int status;

	m.n = rank_number("size", size, 1, N_MAX);
	m.strip = rank_number("strip", strip, 1, N_MAX);
	if (m.n % m.rank.size)
		rank_usage("--size: %" PRId64 " is not a multiple of the number of ranks, %d", m.n,
			   m.rank.size);
	make_grid(&m);
	make_memory(&m);
	make_parts(&m);
	rank_check(MPI_Barrier(MPI_COMM_WORLD), "meet the other ranks");
	start = MPI_Wtime();
	multiply(&m);
	rank_check(MPI_Barrier(MPI_COMM_WORLD), "meet the other ranks");
	seconds = MPI_Wtime() - start;
	if (rank_number("spoil", spoil, -1, INT32_MAX) == m.rank.rank)
		*element_c(&m, m.rows - 1, m.columns - 1) += 1;
	status = report(&m, check(&m), seconds);
	rank_check(MPI_Comm_free(&m.row), "free a row");
	rank_check(MPI_Comm_free(&m.column), "free a column");
	free(m.part_b);
	for (int i = 0; i < 2; i++)
		rank_free(&m.rank, m.b[i]);
	rank_free(&m.rank, m.a);
	rank_free(&m.rank, m.c);
	rank_end(&m.rank);
	return status;
}
