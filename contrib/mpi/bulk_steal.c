/* SPDX-License-Identifier: MIT */
#include "contrib/mpi/bulk_steal.h"

#include <stdlib.h>
#include <string.h>

/*
 * Purpose
 *   Work stealing between ranks. An item is a piece of work that fits into a message, such as the
 *   root of a subtree. Each rank has a stock of items, the oldest first. An idle rank sends a steal
 *   request to a random rank. The answer is one message with up to half of the victim's items.
 *   Requests to random victims are those of Blumofe and Leiserson, "Scheduling Multithreaded
 *   Computations by Work Stealing", J. ACM 46(5), 1999. Half of a stock for one request is from
 *   Hendler and Shavit, "Non-blocking steal-half work queues", PODC 2002.
 *   Dinan, Olivier, Sabin, Prins, Sadayappan and Tseng use both between MPI ranks: "Dynamic Load
 *   Balancing of Unbalanced Computations Using Message Passing", IPDPS 2007.
 *
 * Which half
 *   Every second item, from the oldest on. Old items are near the root, and can be much larger than
 *   new ones. With every second one, victim and thief get the same share of each age. UTS T1 on two
 *   ranks without a pool needs 14 requests so (median of 5 runs), and 68 if the older half moves.
 *
 * Messages
 *   REQUEST  from a thief to a victim, empty
 *   ITEMS    its answer: items, or empty if the victim has none to give
 *   TOKEN    of the detection of termination, on the ring 0, N - 1, ..., 1, 0
 *   END      from rank 0 to all others
 *
 * Termination
 *   The algorithm is Safra's: E. W. Dijkstra, "Shmuel Safra's version of termination detection",
 *   EWD998, 1987. A rank is passive if it is not busy and its stock is empty. Only ITEMS with items
 *   make a rank active, so the algorithm counts only these. Each rank has its balance: such
 *   messages sent minus received. The receipt of one makes it black. A passive rank passes the
 *   token on. It adds its balance to the token, makes the token black if it is black itself, and
 *   becomes white. The token returns to rank 0. The search has ended if rank 0 is passive, rank 0
 *   and the token are white, and the sum of all balances is 0. Otherwise rank 0 sends the token
 *   again.
 *
 * Threads
 *   One thread for each rank, the one that called MPI_Init_thread() (MPI_THREAD_FUNNELED).
 *
 * Invariants
 *   I1  An item is in exactly one place: the stock of a rank, the busy part of its program, or one
 *       ITEMS message. push(), take(), give() and receive_items() move it from one to another.
 *   I2  A rank has at most one unanswered REQUEST. While it waits for the answer its stock is empty
 *       and it is not busy.
 *   I3  The sum of all balances is the number of ITEMS messages with items that are on their way.
 *   I4  Every REQUEST is answered by one ITEMS message: when the victim has items to give, or when
 *       it is passive.
 *
 * No item is lost or visited twice
 *   By I1, as MPI delivers each message once. The items of a killed rank are lost. So the launcher
 *   must end the whole job then, which mpirun does.
 *
 * The search ends, and not too early
 *   Safety is EWD998's proof with I3. After detection all ranks are passive and no items are on
 *   their way. Nothing can become active again.
 *   Progress: a rank that is not busy gives at most half of its stock. So a rank that gets items
 *   keeps at least one until it takes it. A busy program finishes at least one item before it is
 *   not busy. So a rank finishes an item between two ITEMS messages that it receives with items. A
 *   finite number of items means a finite number of such messages. When all items are finished all
 *   ranks stay passive, and no balance changes. The first complete round of the token from then on
 *   makes all ranks white, and the second one detects the end.
 *   After END each rank waits for the answer to its last REQUEST, and enters a barrier that does
 *   not block. It refuses requests until the barrier has ended. So no message is left.
 */

enum tag { TAG_REQUEST, TAG_ITEMS, TAG_TOKEN, TAG_END };

/* Seconds before the next request after a refusal; they double up to the maximum. */
#define WAIT_MIN 20e-6
#define WAIT_MAX 1e-3

struct token {
	int64_t balance;
	int64_t black;
};

/* A message that MPI may still read. */
struct message {
	struct message *next;
	MPI_Request request;
	char data[];
};

struct bulk_steal {
	MPI_Comm comm;
	int rank, size;
	size_t item_size;

	char *items; /* the stock, oldest first */
	size_t n, capacity;

	struct message *sent;
	bool *asked; /* by rank: an unanswered request of it */
	int n_asked;
	bool waiting; /* I2 */
	double wait, next_request;
	unsigned int seed;

	int64_t balance;
	bool black;
	bool has_token;
	bool probed; /* rank 0: the token has gone round */
	struct token token;

	bool ending;
	MPI_Request barrier;

	double idle_since; /* < 0: not idle */
	struct bulk_steal_counts counts;
};

/* ------------------------------------------------------------------------ the stock */

int bulk_steal_push(struct bulk_steal *s, const void *items, size_t n)
{
	if (n > s->capacity - s->n) {
		size_t capacity = 2 * (s->n + n);
		char *more = realloc(s->items, capacity * s->item_size);

		if (!more)
			return MPI_ERR_NO_MEM;
		s->items = more;
		s->capacity = capacity;
	}
	if (n)
		memcpy(s->items + s->n * s->item_size, items, n * s->item_size);
	s->n += n;
	return MPI_SUCCESS;
}

size_t bulk_steal_take(struct bulk_steal *s, void *items, size_t max)
{
	size_t n = s->n < max ? s->n : max;

	s->n -= n;
	if (n)
		memcpy(items, s->items + s->n * s->item_size, n * s->item_size);
	return n;
}

size_t bulk_steal_n(const struct bulk_steal *s)
{
	return s->n;
}

/* ------------------------------------------------------------------------ messages */

/* Frees messages that MPI has sent. */
static int reap(struct bulk_steal *s)
{
	struct message **at = &s->sent;

	while (*at) {
		struct message *message = *at;
		int sent;
		int err = MPI_Test(&message->request, &sent, MPI_STATUS_IGNORE);

		if (err)
			return err;
		if (!sent) {
			at = &message->next;
			continue;
		}
		*at = message->next;
		free(message);
	}
	return MPI_SUCCESS;
}

/* Returns a message with room for size bytes, or NULL. */
static struct message *new_message(size_t size)
{
	return malloc(sizeof(struct message) + size);
}

/* Sends a message; MPI_Isend(), because two ranks that wait for each other would never end. */
static int send_message(struct bulk_steal *s, struct message *message, int to, enum tag tag,
			size_t size)
{
	int err;

	if (!message)
		return MPI_ERR_NO_MEM;
	err = MPI_Isend(message->data, (int)size, MPI_BYTE, to, tag, s->comm, &message->request);
	if (err) {
		free(message);
		return err;
	}
	message->next = s->sent;
	s->sent = message;
	s->counts.messages++;
	s->counts.bytes += size;
	return MPI_SUCCESS;
}

/* Answers the request of a rank. A busy rank can give its last item. */
static int give(struct bulk_steal *s, int to, bool busy)
{
	size_t n = busy ? (s->n + 1) / 2 : s->n / 2;
	struct message *message;
	size_t size, kept = 0;
	int err;

	if (n > BULK_STEAL_MAX)
		n = BULK_STEAL_MAX;
	size = n * s->item_size;
	message = new_message(size);
	for (size_t i = 0; message && i < n; i++)
		memcpy(message->data + i * s->item_size, s->items + 2 * i * s->item_size,
		       s->item_size);
	err = send_message(s, message, to, TAG_ITEMS, size);
	if (err)
		return err;
	for (size_t i = 0; i < s->n; i++)
		if (i % 2 || i >= 2 * n)
			memmove(s->items + kept++ * s->item_size, s->items + i * s->item_size,
				s->item_size);
	s->n = kept;
	s->asked[to] = false;
	s->n_asked--;
	s->balance += n > 0;
	s->counts.answered += n > 0;
	s->counts.refused += !n;
	s->counts.items_sent += n;
	return MPI_SUCCESS;
}

/* A rank that is not busy works on its last item first, and may have more to give then. */
static bool can_answer(const struct bulk_steal *s, bool busy)
{
	return busy ? s->n > 0 : s->n != 1;
}

/* Answers the requests that can be answered, beginning with a random rank. */
static int answer(struct bulk_steal *s, bool busy)
{
	int first = rand_r(&s->seed) % s->size;
	int err = MPI_SUCCESS;

	for (int i = 0; !err && i < s->size && s->n_asked && can_answer(s, busy); i++)
		if (s->asked[(first + i) % s->size])
			err = give(s, (first + i) % s->size, busy);
	return err;
}

static int receive_items(struct bulk_steal *s, const void *items, size_t n, double now)
{
	s->waiting = false;
	if (!n) {
		s->next_request = now + s->wait;
		s->wait = s->wait < WAIT_MAX / 2 ? 2 * s->wait : WAIT_MAX;
		return MPI_SUCCESS;
	}
	s->wait = WAIT_MIN;
	s->balance--;
	s->black = true;
	s->counts.items_received += n;
	return bulk_steal_push(s, items, n);
}

/* Receives one message that has arrived. */
static int receive(struct bulk_steal *s, const MPI_Status *status, double now)
{
	struct message *message = NULL;
	int size;
	int err = MPI_Get_count(status, MPI_BYTE, &size);

	if (err)
		return err;
	message = new_message((size_t)size);
	if (!message)
		return MPI_ERR_NO_MEM;
	err = MPI_Recv(message->data, size, MPI_BYTE, status->MPI_SOURCE, status->MPI_TAG, s->comm,
		       MPI_STATUS_IGNORE);
	if (!err)
		switch ((enum tag)status->MPI_TAG) {
		case TAG_REQUEST:
			s->asked[status->MPI_SOURCE] = true;
			s->n_asked++;
			break;
		case TAG_ITEMS:
			err = receive_items(s, message->data, (size_t)size / s->item_size, now);
			break;
		case TAG_TOKEN:
			memcpy(&s->token, message->data, sizeof(s->token));
			s->has_token = true;
			break;
		case TAG_END:
			s->ending = true;
			break;
		}
	free(message);
	return err;
}

static int receive_all(struct bulk_steal *s, double now)
{
	MPI_Status status;
	int arrived;
	int err;

	while (!(err = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, s->comm, &arrived, &status)) &&
	       arrived) {
		err = receive(s, &status, now);
		if (err)
			return err;
	}
	return err;
}

/* ------------------------------------------------------------------------ a passive rank */

static int send_request(struct bulk_steal *s, double now)
{
	int to = rand_r(&s->seed) % (s->size - 1);

	if (s->waiting || now < s->next_request)
		return MPI_SUCCESS;
	s->waiting = true;
	s->counts.requests++;
	return send_message(s, new_message(0), to + (to >= s->rank), TAG_REQUEST, 0);
}

static int send_token(struct bulk_steal *s)
{
	struct message *message = new_message(sizeof(s->token));

	if (message)
		memcpy(message->data, &s->token, sizeof(s->token));
	s->has_token = false;
	s->black = false;
	return send_message(s, message, (s->rank ? s->rank : s->size) - 1, TAG_TOKEN,
			    sizeof(s->token));
}

static int send_end(struct bulk_steal *s)
{
	int err = MPI_SUCCESS;

	for (int to = 1; !err && to < s->size; to++)
		err = send_message(s, new_message(0), to, TAG_END, 0);
	s->ending = true;
	return err;
}

/* What a passive rank does with the token: see Termination. */
static int pass_token(struct bulk_steal *s)
{
	if (!s->has_token)
		return MPI_SUCCESS;
	if (s->rank) {
		s->token.balance += s->balance;
		s->token.black |= s->black;
		return send_token(s);
	}
	if (s->probed && !s->token.black && !s->black && !(s->token.balance + s->balance))
		return send_end(s);
	s->token = (struct token){ 0, 0 };
	s->probed = true;
	return send_token(s);
}

/* Enters the last barrier when the rank's own request is answered. */
static int end(struct bulk_steal *s, bool *ret_ended)
{
	int over = 0;
	int err = MPI_SUCCESS;

	if (s->waiting)
		return MPI_SUCCESS;
	if (s->barrier == MPI_REQUEST_NULL)
		err = MPI_Ibarrier(s->comm, &s->barrier);
	err = err ? err : MPI_Test(&s->barrier, &over, MPI_STATUS_IGNORE);
	*ret_ended = over;
	return err;
}

static void count_idle(struct bulk_steal *s, bool passive, double now)
{
	if (s->idle_since >= 0)
		s->counts.idle += now - s->idle_since;
	s->idle_since = passive ? now : -1;
}

int bulk_steal_poll(struct bulk_steal *s, bool busy, bool *ret_asked, bool *ret_ended)
{
	double now = MPI_Wtime();
	bool passive;
	int err = reap(s);

	*ret_ended = false;
	err = err ? err : receive_all(s, now);
	err = err ? err : answer(s, busy);
	*ret_asked = s->n_asked;
	passive = !busy && !s->n;
	count_idle(s, passive, now);
	if (err || !passive)
		return err;
	if (s->size == 1) {
		*ret_ended = true;
		return MPI_SUCCESS;
	}
	if (!s->ending)
		err = pass_token(s);
	if (err)
		return err;
	return s->ending ? end(s, ret_ended) : send_request(s, now);
}

/* ------------------------------------------------------------------------ its life */

int bulk_steal_new(MPI_Comm comm, size_t item_size, struct bulk_steal **ret)
{
	struct bulk_steal *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return MPI_ERR_NO_MEM;
	*s = (struct bulk_steal){
		.comm = MPI_COMM_NULL,
		.item_size = item_size,
		.barrier = MPI_REQUEST_NULL,
		.wait = WAIT_MIN,
		.idle_since = -1,
	};
	err = MPI_Comm_dup(comm, &s->comm);
	err = err ? err : MPI_Comm_set_errhandler(s->comm, MPI_ERRORS_RETURN);
	err = err ? err : MPI_Comm_rank(s->comm, &s->rank);
	err = err ? err : MPI_Comm_size(s->comm, &s->size);
	s->asked = err ? NULL : calloc((size_t)s->size, sizeof(*s->asked));
	if (!err && !s->asked)
		err = MPI_ERR_NO_MEM;
	if (err) {
		bulk_steal_free(s);
		return err;
	}
	s->seed = (unsigned int)s->rank + 1;
	s->has_token = !s->rank;
	*ret = s;
	return MPI_SUCCESS;
}

void bulk_steal_free(struct bulk_steal *s)
{
	if (!s)
		return;
	while (s->sent) {
		struct message *next = s->sent->next;

		(void)MPI_Wait(&s->sent->request, MPI_STATUS_IGNORE);
		free(s->sent);
		s->sent = next;
	}
	if (s->comm != MPI_COMM_NULL)
		(void)MPI_Comm_free(&s->comm);
	free(s->asked);
	free(s->items);
	free(s);
}

const struct bulk_steal_counts *bulk_steal_counts(const struct bulk_steal *s)
{
	return &s->counts;
}
