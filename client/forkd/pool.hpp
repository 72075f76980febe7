/* SPDX-License-Identifier: MIT */
/*
 * forkd/pool.hpp - a pool of workers in this program, for C++17
 *
 *	fk::pool pool;
 *	std::vector<double> x(1000000, 2.0);
 *
 *	pool.parallel_for(0, x.size(), [&](std::size_t i) { x[i] *= x[i]; });
 *	double sum = pool.parallel_reduce(
 *		0, x.size(), 0.0, [&](std::size_t i) { return x[i]; }, std::plus<>());
 *	pool.parallel_sort(x.begin(), x.end(), std::greater<>());
 *	pool.parallel_invoke([&] { first(x); }, [&] { second(sum); });
 *
 * Link with -lforkpool (pkg-config forkd-pool). A forkd::pool is a forkd::client, opened with
 * fk_open_local(): all functions of forkd/client.hpp take it. fk is short for the namespace forkd.
 *
 * CALLS
 *   Each call returns when all of its parts have ended. A part is one of the functions, or one
 *   grain of a range. Parts run in parallel on the workers. They share the caller's functions and
 *   objects, which are not copied.
 *   Any thread may call a member of forkd::pool, also a worker within a part. Code within a part or
 *   a task may call the functions without a pool instead. Elsewhere they throw
 *   std::errc::invalid_argument, except for a range that the calling thread sorts or reduces alone.
 *   No call allocates memory, except parallel_sort(), which needs a copy of the range.
 *
 * ERRORS
 *   The first exception that a part throws travels to the caller, after all parts have ended. Parts
 *   that have not begun by then may be skipped.
 *   A catch block within a part may call these functions, but not those of forkd/pool.h: other
 *   parts that run in between would find its exception.
 *   Errors of forkd/pool.h throw forkd::error.
 */
#ifndef FORKD_POOL_HPP
#define FORKD_POOL_HPP

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <forkd/client.hpp>
#include <forkd/pool.h>

namespace forkd
{

namespace detail
{

/*
 * The first exception of the parts of a call. It is in the caller's stack frame.
 *
 * [F1] Only the part that changes failed_ writes first_.
 * [F2] The caller reads first_ after fk_*() has returned. Its return synchronizes with the end of
 *      each part. So relaxed operations are sufficient.
 */
class failure
{
public:
	explicit operator bool() const noexcept
	{
		return failed_.load(std::memory_order_relaxed);
	}
	/* Keeps the exception that is being handled. */
	void keep() noexcept
	{
		if (!failed_.exchange(true, std::memory_order_relaxed))
			first_ = std::current_exception();
	}
	/* Calls a part, unless another one has failed. */
	template <class F> void guard(F &&part) noexcept
	{
		if (*this)
			return;
		try {
			part();
		} catch (...) {
			keep();
		}
	}
	/* Throws the exception of a part, or the error of the call. */
	void end(int err, const char *what)
	{
		if (*this)
			std::rethrow_exception(std::move(first_));
		check(err, what);
	}

private:
	std::atomic<bool> failed_{ false };
	std::exception_ptr first_;
};

/* The exceptions that a thread is handling, as the C++ runtime stores them for each thread: struct
 * __cxa_eh_globals of the Itanium C++ ABI. */
struct handled {
	void *caught;
	unsigned int uncaught;
};

/* Not inline: the address is that of another thread at the next call. */
[[gnu::noinline]] inline handled exchange_handled(handled now) noexcept
{
	void *const here = abi::__cxa_get_globals();
	handled before;

	std::memcpy(&before, here, sizeof(before));
	std::memcpy(here, &now, sizeof(now));
	return before;
}

/*
 * Makes a call that can run other parts on this thread, and can return on another thread: a fiber
 * can migrate while it waits. The exceptions that the caller is handling stay with the caller.
 */
template <class F> int call_apart(F &&call) noexcept
{
	const handled before = exchange_handled({});
	const int err = call();

	/* Otherwise there are none on this thread either: all parts leave it in this way. */
	if (before.caught || before.uncaught)
		exchange_handled(before);
	return err;
}

/* Calls functions, which must not throw, in parallel. Returns 0 or an error of fk_invoke(). */
template <class... F> int invoke(fk_client *client, F &&...functions)
{
	const fk_function all[] = {
		{ [](void *context) { (*static_cast<std::remove_reference_t<F> *>(context))(); },
		  &functions }...
	};

	return call_apart([&] { return fk_invoke(client, all, sizeof...(F)); });
}

/* Calls two functions, which must not throw, in parallel. After an error it calls those that have
 * not been called: to run all of their work if there is no memory for tasks, or to end it. */
template <class F, class G>
void both(fk_client *client, failure &failed, const char *what, F &&f, G &&g) noexcept
{
	bool f_called = false, g_called = false;
	const int err = invoke(
		client,
		[&] {
			f_called = true;
			f();
		},
		[&] {
			g_called = true;
			g();
		});

	if (!err)
		return;
	if (err != -ENOMEM)
		failed.guard([&] { check(err, what); });
	if (!f_called)
		f();
	if (!g_called)
		g();
}

template <class... F> void invoke_all(fk_client *client, F &&...functions)
{
	failure failed;

	failed.end(invoke(client, [&] { failed.guard(functions); }...), "parallel_invoke");
}

/* Converts a bound of a range of numbers of the type I. */
template <class I, class N> std::int64_t bound(N n)
{
	static_assert(std::is_integral_v<N>, "the bounds of a range must be integers");
	const auto value = static_cast<std::int64_t>(n);

	if (value < 0 && std::is_unsigned_v<I>)
		throw error(EINVAL, "the bounds of a range do not fit into their common type, or "
				    "into a signed 64-bit integer");
	return value;
}

template <class I, class F>
void loop(fk_client *client, std::int64_t begin, std::int64_t end, std::int64_t grain, F &body,
	  const char *what)
{
	struct call {
		F &body;
		failure failed;
	} all{ body, {} };
	const auto part = [](std::int64_t first, std::int64_t last, void *context) {
		call &one = *static_cast<call *>(context);
		const I to = static_cast<I>(last);

		one.failed.guard([&] {
			if constexpr (std::is_invocable_v<F &, I>)
				for (I i = static_cast<I>(first); i < to; i++)
					one.body(i);
			else
				one.body(static_cast<I>(first), to);
		});
	};

	static_assert(std::is_invocable_v<F &, I> || std::is_invocable_v<F &, I, I>,
		      "the body of a loop must be callable as f(i) or f(first, last)");
	if (begin >= end)
		return;
	all.failed.end(
		call_apart([&] { return fk_for_grain(client, begin, end, grain, part, &all); }),
		what);
}

template <class B, class E, class F>
void loop_of_numbers(fk_client *client, B begin, E end, std::int64_t grain, F &body)
{
	using I = std::common_type_t<B, E>;

	loop<I>(client, bound<I>(begin), bound<I>(end), grain, body, "parallel_for");
}

template <class I, class F> void loop_of_elements(fk_client *client, I first, I last, F &f)
{
	static_assert(std::is_convertible_v<typename std::iterator_traits<I>::iterator_category,
					    std::random_access_iterator_tag>,
		      "parallel_for_each needs random access iterators");
	const auto body = [&](std::ptrdiff_t i) { f(first[i]); };

	loop<std::ptrdiff_t>(client, 0, last - first, 0, body, "parallel_for_each");
}

/* A call of parallel_reduce(). I: the type of a number, T: that of a result. */
template <class I, class T, class Make, class Body, class Combine> struct reduction {
	fk_client *client;
	std::int64_t grain;
	Make make;
	Body &body;
	Combine &combine;
	failure failed;

	T part(std::int64_t from, std::int64_t to, T result)
	{
		const I last = static_cast<I>(to);

		if constexpr (std::is_invocable_v<Body &, I>) {
			for (I i = static_cast<I>(from); i < last; i++)
				result = combine(std::move(result), body(i));
			return result;
		} else {
			return body(static_cast<I>(from), last, std::move(result));
		}
	}
	/* For results that fk_reduce() can copy. */
	T run_bytes(std::int64_t first, std::int64_t last)
	{
		const T identity = make();
		T result = identity;
		const fk_reduction raw = {
			sizeof(T), &identity,
			[](std::int64_t from, std::int64_t to, void *left, void *context) {
				reduction &call = *static_cast<reduction *>(context);
				T &sum = *static_cast<T *>(left);

				call.failed.guard([&] { sum = call.part(from, to, sum); });
			},
			[](void *left, const void *right, void *context) {
				reduction &call = *static_cast<reduction *>(context);
				T &sum = *static_cast<T *>(left);

				call.failed.guard([&] {
					sum = call.combine(sum, T(*static_cast<const T *>(right)));
				});
			},
			grain
		};

		failed.end(call_apart([&] {
				   return fk_reduce(client, first, last, &raw, &result, this);
			   }),
			   "parallel_reduce");
		return result;
	}
	/* Leaves result empty only if a part has failed. */
	void run(std::int64_t first, std::int64_t last, std::optional<T> &result) noexcept
	{
		failed.guard([&] {
			const std::int64_t middle = first + (last - first) / 2;
			std::optional<T> right;

			if (last - first <= grain) {
				result.emplace(part(first, last, make()));
				return;
			}
			both(
				client, failed, "parallel_reduce",
				[&] { run(first, middle, result); },
				[&] { run(middle, last, right); });
			if (!failed)
				result.emplace(combine(std::move(*result), std::move(*right)));
		});
	}
};

/* The grain that is used for n numbers if none is given: it depends on n alone. */
inline std::int64_t grain_of(std::int64_t n) noexcept
{
	return std::clamp(n / 64, std::int64_t{ 1 }, std::int64_t{ 2048 });
}

template <class B, class E, class Identity, class Body, class Combine>
auto reduce(fk_client *client, B begin, E end, std::int64_t grain, const Identity &identity,
	    Body &body, Combine &combine)
{
	using I = std::common_type_t<B, E>;
	const std::int64_t first = bound<I>(begin), last = std::max(first, bound<I>(end));
	const auto make = [&] {
		if constexpr (std::is_invocable_v<const Identity &>)
			return identity();
		else
			return identity;
	};
	using T = decltype(make());
	reduction<I, T, decltype(make) &, Body, Combine> call{
		client, grain > 0 ? grain : grain_of(last - first), make, body, combine, {}
	};

	static_assert(std::is_invocable_v<Body &, I> || std::is_invocable_v<Body &, I, I, T>,
		      "the body of a reduction must be callable as f(i) or f(first, last, result)");
	if constexpr (std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t)) {
		return call.run_bytes(first, last);
	} else {
		std::optional<T> result;

		call.run(first, last, result);
		call.failed.end(0, "");
		return std::move(*result);
	}
}

/*
 * A call of parallel_sort(): a merge sort of the n elements at x_, with additional memory at y_,
 * that merges in parallel.
 *
 * [S1] All elements of a segment are in x_ before sort(), and y_ is memory without objects there.
 *      After it they are in the target, x_ or y_. y_ has objects then. A caller of merge() has
 *      sorted both halves into the other array, so merge() is between two arrays of objects.
 * [S2] Only less_ throws, and each function calls it between two moves of elements. Then it moves
 *      the remaining elements without less_. So no element is lost.
 */
template <class I, class Less> class sorter
{
	using T = typename std::iterator_traits<I>::value_type;
	static_assert(std::is_convertible_v<typename std::iterator_traits<I>::iterator_category,
					    std::random_access_iterator_tag> &&
			      std::is_same_v<typename std::iterator_traits<I>::reference, T &>,
		      "parallel_sort needs random access iterators to elements in memory");

public:
	sorter(fk_client *client, I x, Less &less) : client_(client), x_(x), less_(less)
	{
	}
	void run(std::ptrdiff_t n)
	{
		std::allocator<T> memory;

		if (n <= leaf) {
			insert(x_, x_, n);
		} else {
			y_ = memory.allocate(static_cast<std::size_t>(n));
			sort<false>(0, n);
			std::destroy_n(y_, n);
			memory.deallocate(y_, static_cast<std::size_t>(n));
		}
		failed_.end(0, "");
	}

private:
	static constexpr std::ptrdiff_t leaf = 16;    /* elements sorted by insertion */
	static constexpr std::ptrdiff_t grain = 2048; /* elements sorted or merged by one thread */

	template <class F, class G> void both(F &&f, G &&g) noexcept
	{
		detail::both(client_, failed_, "parallel_sort", f, g);
	}
	template <bool to_y> void sort(std::ptrdiff_t first, std::ptrdiff_t n) noexcept
	{
		const std::ptrdiff_t half = n / 2;
		const auto left = [&] { sort<!to_y>(first, half); };
		const auto right = [&] { sort<!to_y>(first + half, n - half); };

		if (n <= leaf || failed_) {
			std::uninitialized_move_n(x_ + first, n, y_ + first);
			if constexpr (to_y)
				insert(y_ + first, y_ + first, n);
			else
				insert(y_ + first, x_ + first, n);
			return;
		}
		if (n > grain)
			both(left, right);
		else
			left(), right();
		if constexpr (to_y)
			merge(x_ + first, half, x_ + first + half, n - half, y_ + first);
		else
			merge(y_ + first, half, y_ + first + half, n - half, x_ + first);
	}
	/* Sorts by insertion. The arrays are the same, or do not overlap. */
	template <class From, class To> void insert(From from, To to, std::ptrdiff_t n) noexcept
	{
		std::ptrdiff_t i = 0;

		failed_.guard([&] {
			for (; i < n; i++) {
				std::ptrdiff_t place = i;

				while (place > 0 && less_(from[i], to[place - 1]))
					place--;
				T element = std::move(from[i]);
				for (std::ptrdiff_t j = i; j > place; j--)
					to[j] = std::move(to[j - 1]);
				to[place] = std::move(element);
			}
		});
		if constexpr (std::is_same_v<From, To>)
			if (from == to)
				return;
		std::move(from + i, from + n, to + i);
	}
	/*
	 * Merges n elements at a with m elements at b into out. Large segments are split at the
	 * middle of the output, as in "Merge Path" (Green, Odeh, Birk 2014).
	 */
	template <class In, class Out>
	void merge(In a, std::ptrdiff_t n, In b, std::ptrdiff_t m, Out out) noexcept
	{
		const std::ptrdiff_t half = (n + m) / 2;
		/* The first half has low elements of a, and half - low of b. */
		std::ptrdiff_t low = std::max(half - m, std::ptrdiff_t{ 0 }),
			       high = std::min(half, n);

		if (n + m > grain)
			failed_.guard([&] {
				while (low < high) {
					const std::ptrdiff_t i = low + (high - low) / 2;

					if (less_(b[half - i - 1], a[i]))
						high = i;
					else
						low = i + 1;
				}
			});
		if (n + m <= grain || failed_) {
			merge_all(a, a + n, b, b + m, out);
			return;
		}
		both([&] { merge(a, low, b, half - low, out); },
		     [&] {
			     merge(a + low, n - low, b + (half - low), m - half + low, out + half);
		     });
	}
	template <class In, class Out>
	void merge_all(In a, In a_end, In b, In b_end, Out out) noexcept
	{
		failed_.guard([&] {
			while (a != a_end && b != b_end) {
				const bool from_b = less_(*b, *a);

				/* Numbers: no branch, because every second one would be
				 * mispredicted. Other elements may have pointers: a predicted
				 * branch loads the next ones early. */
				if constexpr (std::is_arithmetic_v<T>) {
					*out = from_b ? *b : *a;
					a += !from_b;
					b += from_b;
				} else if (from_b) {
					*out = std::move(*b);
					++b;
				} else {
					*out = std::move(*a);
					++a;
				}
				++out;
			}
		});
		std::move(b, b_end, std::move(a, a_end, out));
	}

	fk_client *client_;
	I x_;
	Less &less_;
	T *y_ = nullptr;
	failure failed_;
};

} // namespace detail

/* ------------------------------------------------------------------------ within a task */

/*
 * Calls body for all numbers i, begin <= i < end. Their type is the common one of begin and end.
 * body: called as body(i), or else as body(first, last) for a part of the range, first <= i < last.
 * grain: the greatest length of a part; 0: fk_for_grain() chooses it.
 */
template <class B, class E, class F>
void parallel_for(B begin, E end, F &&body, std::int64_t grain = 0)
{
	detail::loop_of_numbers(nullptr, begin, end, grain, body);
}

/* Calls f(element) for all elements of a range with random access. */
template <class I, class F> void parallel_for_each(I first, I last, F &&f)
{
	detail::loop_of_elements(nullptr, first, last, f);
}
template <class R, class F> void parallel_for_each(R &&range, F &&f)
{
	detail::loop_of_elements(nullptr, std::begin(range), std::end(range), f);
}

/*
 * Reduces the numbers i, begin <= i < end, to one result of a type T.
 * identity: the result of an empty range, a T. It is copied. For a T that cannot be copied, it is a
 *	function that returns a T.
 * body: called as body(i): returns a T; or else as body(first, last, result): takes a T and returns
 *	it with a part of the range added.
 * combine: called as combine(left, right): takes and returns T. It must be associative. left is of
 *	numbers before those of right.
 * grain: the greatest length of a part; 0: a 64th of the range, from 1 to 2048.
 * The parts, and the order in which they are combined, depend on the range and the grain only. So
 * the sum of floating-point numbers has the same bits each time.
 */
template <class B, class E, class T, class F, class C>
[[nodiscard]] auto parallel_reduce(B begin, E end, const T &identity, F &&body, C &&combine,
				   std::int64_t grain = 0)
{
	return detail::reduce(nullptr, begin, end, grain, identity, body, combine);
}

/*
 * Sorts a range of iterators with random access. Equal elements keep their order.
 * less: as for std::sort(). If it throws, the range has all of its elements, in any order.
 * Elements are moved. A move that throws ends the program (std::terminate()). If there is no memory
 * for a copy of the range, std::bad_alloc is thrown before any element has moved.
 */
template <class I, class C = std::less<>> void parallel_sort(I first, I last, C less = {})
{
	detail::sorter<I, C>(nullptr, first, less).run(last - first);
}

/* Calls functions in parallel. On a worker, the first one runs first. */
template <class... F> void parallel_invoke(F &&...functions)
{
	detail::invoke_all(nullptr, functions...);
}

/* ------------------------------------------------------------------------ the pool */

class pool : public client
{
public:
	/* Opens a client of this process's pool with fk_open_local(). */
	explicit pool(const fk_local_options &options = {}) : client(open(options))
	{
	}
	explicit pool(std::uint32_t workers) : client(open(of(workers)))
	{
	}
	/* Loads a module with fk_load(). */
	void load(const std::string &path)
	{
		detail::check_text(fk_load(get(), path.c_str()));
	}
	/* The functions above, for any thread. */
	template <class B, class E, class F>
	void parallel_for(B begin, E end, F &&body, std::int64_t grain = 0)
	{
		detail::loop_of_numbers(get(), begin, end, grain, body);
	}
	template <class I, class F> void parallel_for_each(I first, I last, F &&f)
	{
		detail::loop_of_elements(get(), first, last, f);
	}
	template <class R, class F> void parallel_for_each(R &&range, F &&f)
	{
		detail::loop_of_elements(get(), std::begin(range), std::end(range), f);
	}
	template <class B, class E, class T, class F, class C>
	[[nodiscard]] auto parallel_reduce(B begin, E end, const T &identity, F &&body, C &&combine,
					   std::int64_t grain = 0)
	{
		return detail::reduce(get(), begin, end, grain, identity, body, combine);
	}
	template <class I, class C = std::less<>> void parallel_sort(I first, I last, C less = {})
	{
		detail::sorter<I, C>(get(), first, less).run(last - first);
	}
	template <class... F> void parallel_invoke(F &&...functions)
	{
		detail::invoke_all(get(), functions...);
	}

private:
	static fk_local_options of(std::uint32_t workers) noexcept
	{
		fk_local_options options{};

		options.workers = workers;
		return options;
	}
	static opened open(const fk_local_options &options)
	{
		opened raw{};

		detail::check_text(fk_open_local(&options, &raw.client));
		return raw;
	}
};

} // namespace forkd

namespace fk = forkd;

#endif
