/* SPDX-License-Identifier: MIT */
/*
 * bulk_steal: under random schedules of ranks and messages no item is lost or finished twice, and
 * the end is detected when it is there, not before.
 *
 * All ranks are in this thread. The functions of MPI below are a model of it. A message arrives
 * after a random time, in order between two ranks, and the sender's memory is read only then. An
 * item is a subtree with a known number of nodes.
 */
#include "contrib/mpi/bulk_steal.c"
#include "tests/support/check_unit.h"

#define RANKS_MAX 8
#define POLLS_MAX 2000000 /* a schedule that takes more does not end */

struct fake_message {
	const void *data;
	size_t size;
	int from, to, tag;
	bool sent; /* MPI has read the data */
};

#define MESSAGES_MAX 4096

static struct fake_message messages[MESSAGES_MAX]; /* in the order of their sending */
static size_t n_messages, first_message;
static int n_ranks, current, entered;
static int slow_tag; /* messages of this tag take long in this schedule */
static unsigned int seed;
static double now;
static int64_t all_nodes, finished;
static bool fail_next; /* the next MPI_Iprobe() fails */

static unsigned int chance(unsigned int n)
{
	return (unsigned int)rand_r(&seed) % n;
}

/* ------------------------------------------------------------------------ MPI */

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *ret)
{
	*ret = comm;
	return MPI_SUCCESS;
}

int MPI_Comm_free(MPI_Comm *comm)
{
	*comm = MPI_COMM_NULL;
	return MPI_SUCCESS;
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
	(void)comm;
	(void)handler;
	return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm comm, int *ret)
{
	(void)comm;
	*ret = current;
	return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm comm, int *ret)
{
	(void)comm;
	*ret = n_ranks;
	return MPI_SUCCESS;
}

double MPI_Wtime(void)
{
	return now;
}

int MPI_Isend(const void *data, int size, MPI_Datatype type, int to, int tag, MPI_Comm comm,
	      MPI_Request *ret)
{
	struct fake_message *message = &messages[n_messages++];

	(void)type;
	(void)comm;
	ck_assert_uint_le(n_messages, MESSAGES_MAX);
	ck_assert_int_ne(to, current);
	if (tag == TAG_END)
		ck_assert_int_eq(finished, all_nodes);
	*message = (struct fake_message){ data, (size_t)size, current, to, tag, false };
	*ret = (MPI_Request)(void *)message;
	return MPI_SUCCESS;
}

/* The oldest message from a rank to this one that has not arrived, or NULL. */
static struct fake_message *oldest_from(int from)
{
	for (size_t i = first_message; i < n_messages; i++)
		if (messages[i].from == from && messages[i].to == current && !messages[i].sent)
			return &messages[i];
	return NULL;
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *ret, MPI_Status *ret_status)
{
	int first = (int)chance((unsigned int)n_ranks);

	(void)tag;
	(void)comm;
	ck_assert_int_eq(from, MPI_ANY_SOURCE);
	*ret = 0;
	if (fail_next)
		return MPI_ERR_OTHER;
	for (int i = 0; i < n_ranks && !*ret; i++) {
		struct fake_message *message = oldest_from((first + i) % n_ranks);

		if (!message || chance(message->tag == slow_tag ? 50 : 4))
			continue;
		*ret = 1;
		ret_status->MPI_SOURCE = message->from;
		ret_status->MPI_TAG = message->tag;
	}
	return MPI_SUCCESS;
}

int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *ret)
{
	(void)type;
	*ret = (int)oldest_from(status->MPI_SOURCE)->size;
	return MPI_SUCCESS;
}

int MPI_Recv(void *data, int size, MPI_Datatype type, int from, int tag, MPI_Comm comm,
	     MPI_Status *status)
{
	struct fake_message *message = oldest_from(from);

	(void)type;
	(void)comm;
	(void)status;
	ck_assert_int_eq(message->tag, tag);
	ck_assert_uint_eq(message->size, (size_t)size);
	if (size)
		memcpy(data, message->data, message->size);
	message->sent = true;
	while (first_message < n_messages && messages[first_message].sent)
		first_message++;
	return MPI_SUCCESS;
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *ret)
{
	(void)comm;
	entered++;
	*ret = (MPI_Request)(void *)&entered;
	return MPI_SUCCESS;
}

int MPI_Test(MPI_Request *request, int *ret, MPI_Status *status)
{
	(void)status;
	if (*request == (MPI_Request)(void *)&entered)
		*ret = entered == n_ranks && !chance(4);
	else
		*ret = ((struct fake_message *)(void *)*request)->sent;
	return MPI_SUCCESS;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	int sent;

	(void)MPI_Test(request, &sent, status);
	ck_assert(sent);
	return MPI_SUCCESS;
}

/* ------------------------------------------------------------------------ the ranks */

/* A subtree, and a pad: items of any size. */
struct item {
	int64_t nodes;
	int32_t pad[3];
};

struct program {
	struct bulk_steal *steal;
	struct item *items; /* the busy part */
	size_t n;
	bool stop, ended;
};

/* Finishes the newest item of the busy part: a node whose children have the rest of its nodes. */
static void finish_item(struct program *p)
{
	int64_t rest = p->items[--p->n].nodes - 1;

	finished++;
	while (rest) {
		int64_t part = chance(2) ? rest : 1 + (int64_t)chance((unsigned int)rest);

		p->items[p->n++] = (struct item){ .nodes = part };
		rest -= part;
	}
}

static void run_job(struct program *p)
{
	unsigned int steps = 1 + chance(40);

	if (!p->n)
		p->n = bulk_steal_take(p->steal, p->items, 1 + chance(20));
	if (!p->n)
		return;
	do
		finish_item(p);
	while (p->n && --steps && !p->stop);
	if (!p->stop)
		return;
	ck_assert_int_eq(bulk_steal_push(p->steal, p->items, p->n), MPI_SUCCESS);
	p->n = 0;
	p->stop = false;
}

static void poll_rank(struct program *p)
{
	bool asked;

	ck_assert_int_eq(bulk_steal_poll(p->steal, p->n, &asked, &p->ended), MPI_SUCCESS);
	if (asked && p->n && chance(2))
		p->stop = true;
}

static void make_ranks(struct program *programs, int n, int64_t nodes)
{
	n_ranks = n;
	all_nodes = nodes;
	n_messages = first_message = 0;
	entered = 0;
	finished = 0;
	for (current = 0; current < n; current++) {
		struct program *p = &programs[current];

		*p = (struct program){ .items = malloc((size_t)nodes * sizeof(*p->items)) };
		ck_assert_ptr_nonnull(p->items);
		ck_assert_int_eq(bulk_steal_new((MPI_Comm)(void *)&n_ranks, sizeof(struct item),
						&p->steal),
				 MPI_SUCCESS);
	}
}

static void push_item(struct program *programs, int rank, int64_t nodes)
{
	ck_assert_int_eq(bulk_steal_push(programs[rank].steal, &(struct item){ .nodes = nodes }, 1),
			 MPI_SUCCESS);
}

static void free_ranks(struct program *programs)
{
	for (current = 0; current < n_ranks; current++) {
		bulk_steal_free(programs[current].steal);
		free(programs[current].items);
	}
}

/* One schedule. Returns the number of items that were moved. */
static uint64_t search(int n, int64_t nodes, unsigned int schedule)
{
	struct program programs[RANKS_MAX];
	uint64_t moved = 0, got = 0;
	int left = n, polls = 0, slow_rank;

	seed = schedule;
	make_ranks(programs, n, nodes);
	slow_tag = (int)chance(4);
	slow_rank = (int)chance((unsigned int)n);
	push_item(programs, (int)chance((unsigned int)n), nodes);
	for (; left; polls++) {
		struct program *p;

		ck_assert_int_lt(polls, POLLS_MAX);
		current = (int)chance((unsigned int)n);
		p = &programs[current];
		now += 50e-6;
		if (p->ended)
			continue;
		poll_rank(p);
		left -= p->ended;
		if (p->stop || !chance(current == slow_rank ? 100 : 3))
			run_job(p);
	}
	ck_assert_int_eq(finished, nodes);
	ck_assert_uint_eq(first_message, n_messages);
	for (int i = 0; i < n; i++) {
		const struct bulk_steal_counts *counts = bulk_steal_counts(programs[i].steal);

		moved += counts->items_sent;
		got += counts->items_received;
	}
	ck_assert_uint_eq(moved, got);
	free_ranks(programs);
	return moved;
}

START_TEST(all_schedules_finish_each_item_once)
{
	for (unsigned int schedule = 1; schedule <= 2000; schedule++) {
		int n = 1 + (int)(schedule % RANKS_MAX);
		int64_t nodes = 1 + (int64_t)(schedule % 300);
		uint64_t moved = search(n, nodes, schedule);

		if (n == 1)
			ck_assert_uint_eq(moved, 0);
	}
}
END_TEST

START_TEST(two_ranks_share_a_large_tree)
{
	ck_assert_uint_gt(search(2, 5000, 7), 0);
}
END_TEST

START_TEST(every_second_item_is_given)
{
	struct program programs[RANKS_MAX];
	struct item items[5];
	bool asked, ended;

	make_ranks(programs, 2, 1);
	for (int i = 1; i <= 5; i++)
		push_item(programs, 0, i);
	current = 1;
	ck_assert_int_eq(bulk_steal_poll(programs[1].steal, false, &asked, &ended), MPI_SUCCESS);
	current = 0;
	while (bulk_steal_n(programs[0].steal) == 5)
		ck_assert_int_eq(bulk_steal_poll(programs[0].steal, false, &asked, &ended),
				 MPI_SUCCESS);
	ck_assert_uint_eq(bulk_steal_take(programs[0].steal, items, 5), 3);
	ck_assert_int_eq(items[0].nodes, 2);
	ck_assert_int_eq(items[1].nodes, 4);
	ck_assert_int_eq(items[2].nodes, 5);
	current = 1;
	while (!bulk_steal_n(programs[1].steal))
		ck_assert_int_eq(bulk_steal_poll(programs[1].steal, false, &asked, &ended),
				 MPI_SUCCESS);
	ck_assert_uint_eq(bulk_steal_take(programs[1].steal, items, 5), 2);
	ck_assert_int_eq(items[0].nodes, 1);
	ck_assert_int_eq(items[1].nodes, 3);
	free_ranks(programs);
}
END_TEST

START_TEST(error_of_mpi_is_returned)
{
	struct program programs[RANKS_MAX];
	bool asked, ended;

	make_ranks(programs, 2, 1);
	fail_next = true;
	ck_assert_int_eq(bulk_steal_poll(programs[0].steal, false, &asked, &ended), MPI_ERR_OTHER);
	ck_assert(!ended);
	free_ranks(programs);
}
END_TEST

CHECK_MAIN("bulk_steal")
