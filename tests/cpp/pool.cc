/* SPDX-License-Identifier: MIT */
/* pool.cc - tests forkd/pool.hpp. tests/cli/check-cpp runs it. Prints the conditions that do not
 * hold, and returns 1 then. */
#include <forkd/pool.hpp>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <thread>

static std::atomic<int> bad;
static std::atomic<long> allocations;

static void must(bool holds, const char *what, int line)
{
	if (holds)
		return;
	std::fprintf(stderr, "pool.cc:%d: %s\n", line, what);
	bad = 1;
}
#define MUST(condition) must(condition, #condition, __LINE__)

/* The default operator new[] and operator delete[] call these. If g++ inlines only one of the two,
 * it warns of a mismatch. */
#define NOT_INLINE [[gnu::noinline]]
NOT_INLINE void *operator new(std::size_t size)
{
	allocations++;
	if (void *memory = std::malloc(size))
		return memory;
	throw std::bad_alloc();
}
NOT_INLINE void operator delete(void *memory) noexcept
{
	std::free(memory);
}
NOT_INLINE void operator delete(void *memory, std::size_t) noexcept
{
	std::free(memory);
}

/* Returns true if the call throws this number. */
template <class F> static bool throws(int number, F call)
{
	try {
		call();
	} catch (int thrown) {
		return thrown == number;
	}
	return false;
}

/* Returns true if the call throws an error that compares with want. */
template <class F> static bool fails(std::errc want, F call)
{
	try {
		call();
	} catch (const fk::error &e) {
		return e.code() == want && *e.what();
	}
	return false;
}

static std::vector<std::uint32_t> random_numbers(std::size_t n, std::uint32_t below)
{
	std::mt19937 next(static_cast<std::uint32_t>(n) + below);
	std::vector<std::uint32_t> numbers(n);

	for (auto &each : numbers)
		each = next() % below;
	return numbers;
}

static void loops(fk::pool &pool)
{
	std::vector<int> calls(100000);

	pool.parallel_for(0, calls.size(), [&](std::size_t i) { calls[i]++; });
	pool.parallel_for(0, 100000, [&](int first, int last) {
		MUST(first < last);
		while (first < last)
			calls[first++]++;
	});
	pool.parallel_for(
		-50000, 50000L,
		[&](auto first, auto last) {
			static_assert(std::is_same_v<decltype(first), long>);
			MUST(last - first <= 7);
			for (; first < last; first++)
				calls[first + 50000]++;
		},
		7);
	MUST(std::all_of(calls.begin(), calls.end(), [](int n) { return n == 3; }));
	pool.parallel_for(5, 5, [&](int) { MUST(false); });
	pool.parallel_for(5, -5, [&](int) { MUST(false); });
	pool.parallel_for(INT64_MAX - 3, INT64_MAX,
			  [&](std::int64_t i) { calls[INT64_MAX - i]++; });
	MUST(calls[1] == 4 && calls[3] == 4 && calls[0] == 3 && calls[4] == 3);
	MUST(fails(std::errc::invalid_argument,
		   [&] { pool.parallel_for(-1, calls.size(), [](std::size_t) {}); }));
	MUST(fails(std::errc::invalid_argument,
		   [&] { pool.parallel_for(0, UINT64_MAX, [](std::size_t) {}); }));

	std::deque<std::string> texts(1000, "a");
	pool.parallel_for_each(texts, [](std::string &text) { text += "b"; });
	pool.parallel_for_each(texts.begin() + 1, texts.end(), [](auto &text) { text += "c"; });
	MUST(texts[0] == "ab" && std::count(texts.begin(), texts.end(), "abc") == 999);
	int array[] = { 1, 2, 3 };
	pool.parallel_for_each(array, [](int &each) { each *= each; });
	MUST(array[0] + array[1] + array[2] == 14);
}

/* A result that can be moved only: the numbers of a part, in their order. */
using numbers = std::unique_ptr<std::vector<int>>;

static numbers joined(numbers left, numbers right)
{
	left->insert(left->end(), right->begin(), right->end());
	return left;
}

static void reductions(fk::pool &pool)
{
	const auto same = [](auto i) { return i; };

	MUST(pool.parallel_reduce(0L, 100001L, 0L, same, std::plus<>()) == 5000050000);
	MUST(pool.parallel_reduce(3, 3, 7, same, std::plus<>()) == 7);
	MUST(pool.parallel_reduce(3, -3, 7, same, std::plus<>()) == 7);
	/* The parts and their order are the same each time. */
	const auto harmonic = [&] {
		return pool.parallel_reduce(
			1, 100000, 0.0, [](int i) { return 1.0 / i; }, std::plus<>());
	};
	const double sum = harmonic();
	MUST(sum > 12.0901 && sum < 12.0902);
	for (int i = 0; i < 20; i++)
		MUST(harmonic() == sum);
	/* No commutative operation. */
	const std::string digits = pool.parallel_reduce(
		0, 10000, std::string(), [](int i) { return std::string(1, '0' + i % 10); },
		std::plus<>());
	MUST(digits.size() == 10000);
	for (std::size_t i = 0; i < digits.size(); i++)
		MUST(digits[i] == static_cast<char>('0' + i % 10));
	/* Results that cannot be copied. */
	const numbers all = pool.parallel_reduce(
		0, 5000, [] { return std::make_unique<std::vector<int>>(); },
		[](int first, int last, numbers part) {
			MUST(last - first <= 10);
			while (first < last)
				part->push_back(first++);
			return part;
		},
		joined, 10);
	MUST(all->size() == 5000);
	for (int i = 0; i < 5000; i++)
		MUST((*all)[i] == i);
}

/* An element that is neither trivial nor can be copied, with an order. */
struct element {
	std::unique_ptr<std::uint32_t> key;
	std::size_t place;

	bool operator<(const element &other) const
	{
		return *key < *other.key;
	}
};

/* The destructor and the moves of this class end the program if there is no object. */
class counted
{
public:
	explicit counted(std::uint32_t n) : n_(n), self_(this)
	{
	}
	counted(counted &&other) noexcept : n_(other.n_), self_(this)
	{
		other.check();
	}
	counted &operator=(counted &&other) noexcept
	{
		check();
		other.check();
		n_ = other.n_;
		return *this;
	}
	~counted()
	{
		check();
		self_ = nullptr;
	}
	std::uint32_t n() const
	{
		return n_;
	}

private:
	void check() const
	{
		if (self_ != this)
			std::abort();
	}
	std::uint32_t n_;
	counted *self_;
};

static void sorts(fk::pool &pool)
{
	for (const std::size_t n : { 0, 1, 2, 15, 16, 17, 33, 2048, 2049, 5000, 100000 })
		for (const std::uint32_t below : { 1u, 10u, 1u << 31 }) {
			const auto input = random_numbers(n, below);
			auto output = input, want = input;
			std::deque<std::uint32_t> other(input.begin(), input.end());
			std::vector<element> elements;
			std::vector<counted> objects;

			std::sort(want.begin(), want.end());
			pool.parallel_sort(output.begin(), output.end());
			MUST(output == want);
			pool.parallel_sort(output.data(), output.data() + n);
			MUST(output == want);
			pool.parallel_sort(other.rbegin(), other.rend(), std::greater<>());
			MUST(std::equal(other.begin(), other.end(), want.begin(), want.end()));
			/* Halves that do not overlap. No iterator may leave the range. */
			pool.parallel_sort(other.begin(), other.end(), std::greater<>());
			MUST(std::equal(other.rbegin(), other.rend(), want.begin(), want.end()));

			for (const auto each : input)
				elements.push_back(
					{ std::make_unique<std::uint32_t>(each), elements.size() });
			pool.parallel_sort(elements.begin(), elements.end());
			for (std::size_t i = 0; i < n; i++) {
				MUST(*elements[i].key == want[i]);
				MUST(input[elements[i].place] == want[i]);
				/* Equal elements have kept their order. */
				MUST(i == 0 || want[i - 1] != want[i] ||
				     elements[i - 1].place < elements[i].place);
			}

			for (const auto each : input)
				objects.emplace_back(each);
			pool.parallel_sort(objects.begin(), objects.end(),
					   [](const auto &a, const auto &b) {
						   return a.n() < b.n();
					   });
			for (std::size_t i = 0; i < n; i++)
				MUST(objects[i].n() == want[i]);
		}
}

/* A comparison that throws ends the sort, and no element is lost. after: comparisons. */
static void sort_keeps_all_elements_after_an_exception(fk::pool &pool)
{
	for (const std::size_t n : { 10, 100, 20000 })
		for (long after = 1; after < 300000; after = after * 2 + 1) {
			auto texts = std::vector<std::string>(n);
			std::atomic<long> left = after;
			bool thrown = false;

			for (std::size_t i = 0; i < n; i++)
				texts[i] = std::to_string(1000000000000000 + i * 7919 % n);
			try {
				pool.parallel_sort(texts.begin(), texts.end(),
						   [&](const auto &a, const auto &b) {
							   if (left-- == 0)
								   throw 5;
							   return a < b;
						   });
			} catch (int number) {
				thrown = number == 5;
			}
			MUST(thrown == (left < 0));
			if (!thrown)
				MUST(std::is_sorted(texts.begin(), texts.end()));
			std::sort(texts.begin(), texts.end());
			for (std::size_t i = 0; i < n; i++)
				MUST(texts[i] == std::to_string(1000000000000000 + i));
		}
}

static std::int64_t fib(int n)
{
	std::int64_t a, b;

	if (n < 2)
		return n;
	fk::parallel_invoke([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
	return a + b;
}

static void invocations(fk::pool &pool)
{
	int a = 0;
	std::string b;
	numbers c;
	std::int64_t result = 0;

	pool.parallel_invoke([&] { a = 1; }, [&] { b = "two"; },
			     [&] { c = std::make_unique<std::vector<int>>(3); });
	MUST(a == 1 && b == "two" && c->size() == 3);
	pool.parallel_invoke([&] { result = fib(16); });
	MUST(result == 987);
}

static void exceptions(fk::pool &pool)
{
	std::atomic<int> calls{ 0 };
	const auto odd = [&](int i) {
		calls++;
		if (i % 2)
			throw 1;
	};

	MUST(throws(1, [&] { pool.parallel_for(0, 1000, odd, 1); }));
	MUST(calls >= 1);
	/* One part: the numbers after the one that throws are not called. */
	calls = 0;
	MUST(throws(1, [&] { pool.parallel_for(0, 1000, odd, 1000); }));
	MUST(calls == 2);
	MUST(throws(1, [&] {
		std::vector<int> ones(100, 1);
		pool.parallel_for_each(ones, odd);
	}));
	/* Other functions end before the exception arrives. */
	for (int i = 0; i < 100; i++) {
		std::string text;
		bool skipped = true;

		MUST(throws(2, [&] {
			pool.parallel_invoke(
				[&] {
					skipped = false;
					text.assign(1000, 'x');
				},
				[] { throw 2; });
		}));
		MUST(skipped || text.size() == 1000);
	}
	MUST(throws(3, [&] {
		(void)pool.parallel_reduce(
			0, 1000, 0, [](int i) { return i == 777 ? throw 3 : i; }, std::plus<>(), 1);
	}));
	MUST(throws(4, [&] {
		(void)pool.parallel_reduce(
			0, 1000, std::string("a string without room in itself"),
			[](int i) { return std::to_string(i); },
			[](std::string a, const std::string &b) {
				return b.find("77") < 2 ? throw 4 : a + b;
			},
			10);
	}));
	MUST(throws(5, [&] {
		(void)pool.parallel_reduce(
			0, 10, [] { return throw 5, std::string(); }, [](int) { return ""; },
			std::plus<>());
	}));
	/* Through calls within calls, of which one handles it. */
	MUST(throws(6, [&] {
		pool.parallel_for(0, 10, [](int i) {
			MUST(throws(7, [&] {
				fk::parallel_invoke([] { throw 7; },
						    [&] { fk::parallel_for(0, 10, [](int) {}); });
			}));
			fk::parallel_invoke([&] {
				(void)fk::parallel_reduce(
					0, 100, 0,
					[&](int j) { return i * j == 693 ? throw 6 : j; },
					std::plus<>());
			});
		});
	}));
}

/* A part that is handling an exception calls other parts, which throw and handle exceptions. */
static void calls_from_a_handler(fk::pool &pool)
{
	pool.parallel_for(
		0, 200,
		[](int i) {
			try {
				throw i;
			} catch (int &n) {
				fk::parallel_for(
					0, 20,
					[](int j) {
						MUST(!std::uncaught_exceptions());
						MUST(!std::current_exception());
						MUST(throws(j, [&] { throw j; }));
					},
					1);
				MUST(n == i);
				MUST(throws(i, [] { throw; }));
			}
			MUST(!std::current_exception());
		},
		1);
}

static void nesting(fk::pool &pool)
{
	std::vector<std::vector<std::uint32_t>> rows(50);
	std::atomic<std::int64_t> sum{ 0 };

	pool.parallel_for(
		0, 50,
		[&](int i) {
			/* With and without the pool. */
			rows[i] = random_numbers(5000, 1000 + i);
			if (i % 2)
				fk::parallel_sort(rows[i].begin(), rows[i].end());
			else
				pool.parallel_sort(rows[i].begin(), rows[i].end());
			fk::parallel_for_each(rows[i], [](auto &n) { n++; });
			sum += fk::parallel_reduce(
				0, rows[i].size(), std::int64_t{ 0 },
				[&](std::size_t j) { return rows[i][j]; }, std::plus<>());
		},
		1);
	for (const auto &row : rows) {
		MUST(std::is_sorted(row.begin(), row.end()));
		sum -= std::accumulate(row.begin(), row.end(), std::int64_t{ 0 });
	}
	MUST(sum == 0);
}

static void no_allocations(fk::pool &pool)
{
	std::vector<int> squares(10000);
	std::int64_t result = 0;
	long before = allocations;

	pool.parallel_for(
		0, 10000, [&](int i) { squares[i] = i * i; }, 10);
	pool.parallel_for_each(squares, [](int &n) { n++; });
	result = pool.parallel_reduce(
		0, 10000, result, [&](int i) { return squares[i]; }, std::plus<>(), 10);
	MUST(result == 333283345000);
	pool.parallel_invoke([&] { result = fib(12); });
	MUST(result == 144);
	MUST(allocations == before);
	/* The memory of a copy of the range. */
	pool.parallel_sort(squares.begin(), squares.end(), std::greater<>());
	MUST(squares.front() == 9999 * 9999 + 1);
	MUST(allocations == before + 1);
}

/* Threads of the program that are no workers. */
static void threads(fk::pool &pool)
{
	std::vector<std::thread> all;

	for (int i = 0; i < 4; i++)
		all.emplace_back([&pool, i] {
			const fk::pool mine(1);
			std::int64_t n = 0;

			for (int j = 0; j < 50; j++)
				n += pool.parallel_reduce(
					0, 1000, 0, [](int k) { return k; }, std::plus<>(), 10);
			MUST(n == 50 * 499500);
			MUST(throws(i, [&] { pool.parallel_for(0, 100, [&](int) { throw i; }); }));
		});
	for (auto &each : all)
		each.join();
}

static void clients(fk::pool &pool)
{
	fk::pool other, moved(std::move(other));
	fk_local_options options{};
	fk::client &client = pool;

	MUST(!other.get() && moved.get());
	moved.parallel_for(0, 10, [](int) {});
	MUST(client.info().workers == 2 && moved.info().workers == 2);
	MUST(moved.alloc<double>(10).size() == 10);
	MUST(fails(std::errc::no_such_file_or_directory, [&] { pool.load("/no/such/file.so"); }));
	options.reserved0 = 1;
	MUST(fails(std::errc::invalid_argument, [&] { fk::pool refused(options); }));
	MUST(fails(std::errc::invalid_argument, [] { fk::pool refused(257); }));
	MUST(fails(std::errc::invalid_argument, [] { fk::parallel_for(0, 10, [](int) {}); }));
	MUST(fails(std::errc::invalid_argument, [] { fk::parallel_invoke([] {}); }));
}

int main()
{
	try {
		fk::pool pool(2);

		loops(pool);
		reductions(pool);
		sorts(pool);
		sort_keeps_all_elements_after_an_exception(pool);
		invocations(pool);
		exceptions(pool);
		calls_from_a_handler(pool);
		nesting(pool);
		no_allocations(pool);
		threads(pool);
		if (!getenv("STUB"))
			clients(pool);
	} catch (const std::exception &e) {
		std::fprintf(stderr, "%s\n", e.what());
		return 1;
	}
	return bad;
}
