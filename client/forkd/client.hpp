/* SPDX-License-Identifier: MIT */
/*
 * forkd/client.hpp - libforkclient for C++17: owning objects, futures and exceptions
 *
 *	forkd::client client;
 *	auto f = client.submit<std::int64_t>("fib:fib", 30);
 *	std::cout << f.get() << '\n';
 *
 * LIFETIME
 *   Clients, buffers and futures release what they own. They can be moved, but not copied. Destroy
 *   the buffers and futures of a client before the client.
 *
 * THREADS
 *   Any number of threads may use a client at the same time. One thread at a time may use any other
 *   object.
 *
 * ERRORS
 *   Functions that fail throw forkd::error, a std::system_error. Its code compares with std::errc,
 *   such as std::errc::timed_out. A job that ends without a result throws forkd::job_error from
 *   get() and call(), with the outcome, the code and the signal of the job.
 *   Results that a program must not drop are [[nodiscard]].
 *
 * TYPES
 *	signature   argument                                         result
 *	i64         any integer                                      std::int64_t
 *	f64         any number                                       double
 *	str         std::string, std::string_view, const char *
 *	buf         forkd::buffer, forkd::span, fk_buffer
 *	iobuf       the same; not a span of const elements
 *   Several results are a std::tuple. Arguments and results that do not fit the signature throw
 *   std::errc::invalid_argument before the job is submitted.
 *   Tasks use memory of a forkd::buffer without a copy. call() copies other memory; submit() does
 *   so with options::copy_buffers().
 */
#ifndef FORKD_CLIENT_HPP
#define FORKD_CLIENT_HPP

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <forkd/client.h>

namespace forkd
{

/* ------------------------------------------------------------------------ errors */

class error_category final : public std::error_category
{
public:
	const char *name() const noexcept override
	{
		return "forkd";
	}
	std::string message(int err) const override
	{
		return fk_strerror(err);
	}
	std::error_condition default_error_condition(int err) const noexcept override
	{
		return { fk_errno(err), std::generic_category() };
	}
};

inline const std::error_category &category() noexcept
{
	static const error_category the_only;

	return the_only;
}

/* An error of the library. err: an errno or an enum fk_error, negative or positive. */
class error : public std::system_error
{
public:
	error(int err, const std::string &what, const std::error_category &of = category())
		: std::system_error(err < 0 ? -err : err, of), what_(what)
	{
	}
	/* Returns what failed, the reason and what to do, as fk_error_text() does. */
	const char *what() const noexcept override
	{
		return what_.what();
	}

private:
	std::runtime_error what_; /* copying it does not throw */
};

/* The error of a job that has ended without a result. An errno that the task has returned is of
 * std::generic_category(). */
class job_error : public error
{
public:
	job_error(int err, const std::string &what, int outcome, int code, int signo)
		: error(err, what,
			outcome == FK_FAILED && err == code && err >= -4095
				? std::generic_category()
				: category()),
		  outcome_(outcome), code_(code), signo_(signo)
	{
	}
	/* Returns FK_FAILED, FK_CANCELLED, FK_EXPIRED, FK_CRASHED or FK_LOST. */
	int outcome() const noexcept
	{
		return outcome_;
	}
	/* Returns a negative error or the task's own number if the outcome is FK_FAILED, else 0. */
	int task_code() const noexcept
	{
		return code_;
	}
	/* Returns the signal if the outcome is FK_CRASHED and there was one, else 0. */
	int signal() const noexcept
	{
		return signo_;
	}

private:
	int outcome_, code_, signo_;
};

namespace detail
{

inline void check(int err, const char *what)
{
	if (err < 0)
		throw error(err, std::string(what) + ": " + fk_strerror(err));
}

/* For functions with a text of fk_error_text(). */
inline void check_text(int err)
{
	if (err < 0)
		throw error(err, fk_error_text());
}

} // namespace detail

/* Converts a timeout for the C functions: FK_FOREVER for forkd::forever, 0 if it is negative. */
inline std::uint64_t timeout_ns(std::chrono::nanoseconds timeout) noexcept
{
	if (timeout == std::chrono::nanoseconds::max())
		return FK_FOREVER;
	return timeout.count() > 0 ? static_cast<std::uint64_t>(timeout.count()) : 0;
}

inline constexpr std::chrono::nanoseconds forever = std::chrono::nanoseconds::max();

/* ------------------------------------------------------------------------ buffers */

/*
 * A view of elements that another object owns. Tasks use a part of a forkd::buffer without a copy
 * if it starts at a multiple of 8 bytes.
 */
template <class T> class span
{
public:
	span() = default;
	span(T *data, std::size_t size) noexcept : data_(data), size_(size)
	{
	}
	/* All elements of a std::vector, a std::array or an array. */
	template <class C, class = decltype(std::data(std::declval<C &>()))>
	span(C &container) noexcept : data_(std::data(container)), size_(std::size(container))
	{
	}
	T *data() const noexcept
	{
		return data_;
	}
	std::size_t size() const noexcept
	{
		return size_;
	}
	bool empty() const noexcept
	{
		return size_ == 0;
	}
	T *begin() const noexcept
	{
		return data_;
	}
	T *end() const noexcept
	{
		return data_ + size_;
	}
	T &operator[](std::size_t i) const noexcept
	{
		return data_[i];
	}
	/* Returns n elements at most, without those beyond the end. */
	span subspan(std::size_t from, std::size_t n = SIZE_MAX) const noexcept
	{
		from = from < size_ ? from : size_;
		n = n < size_ - from ? n : size_ - from;
		return { data_ + from, n };
	}
	operator fk_buffer() const noexcept
	{
		return { const_cast<std::remove_const_t<T> *>(data_), size_ * sizeof(T) };
	}

private:
	T *data_ = nullptr;
	std::size_t size_ = 0;
};

template <class C>
span(C &) -> span<std::remove_pointer_t<decltype(std::data(std::declval<C &>()))>>;

/* Elements in the shared heap, from client::alloc(). Tasks use them without a copy. */
template <class T> class [[nodiscard]] buffer : public span<T>
{
	static_assert(std::is_trivially_copyable_v<T>,
		      "T must be trivially copyable: another process reads and writes it");
	static_assert(alignof(T) <= 64,
		      "T must not need more than the heap's alignment of 64 bytes");

public:
	buffer() = default;
	buffer(buffer &&other) noexcept
		: span<T>(std::exchange(static_cast<span<T> &>(other), span<T>())),
		  client_(std::exchange(other.client_, nullptr))
	{
	}
	buffer &operator=(buffer &&other) noexcept
	{
		std::swap(static_cast<span<T> &>(*this), static_cast<span<T> &>(other));
		std::swap(client_, other.client_);
		return *this;
	}
	~buffer()
	{
		if (client_)
			(void)fk_free(client_, this->data());
	}

private:
	friend class client;
	buffer(fk_client *client, T *data, std::size_t size) noexcept
		: span<T>(data, size), client_(client)
	{
	}
	fk_client *client_ = nullptr;
};

/* ------------------------------------------------------------------------ tasks */

namespace detail
{

enum class kind { i64, f64, str, buf, iobuf };

/* The types of "name:type, ... -> name:type, ...", a signature that the library has checked. */
class signature
{
public:
	explicit signature(std::string_view text)
	{
		const std::size_t arrow = text.find("->");

		args = kinds(text.substr(0, arrow));
		results = kinds(text.substr(arrow + 2));
	}
	std::vector<kind> args, results;

private:
	static std::vector<kind> kinds(std::string_view list)
	{
		std::vector<kind> all;

		while (list.find_first_not_of(' ') != list.npos) {
			const std::size_t comma = list.find(',');

			all.push_back(kind_of(list.substr(0, comma)));
			list.remove_prefix(comma == list.npos ? list.size() : comma + 1);
		}
		return all;
	}
	static kind kind_of(std::string_view item)
	{
		const std::size_t colon = item.find(':');

		item.remove_prefix(colon == item.npos ? 0 : colon + 1);
		item.remove_prefix(item.find_first_not_of(' '));
		item = item.substr(0, 3);
		return item == "i64" ? kind::i64
		     : item == "f64" ? kind::f64
		     : item == "str" ? kind::str
		     : item == "iob" ? kind::iobuf
				     : kind::buf;
	}
};

/* Returns true for a span of const elements. */
template <class T> constexpr bool is_const(const span<T> *)
{
	return std::is_const_v<T>;
}
constexpr bool is_const(const void *)
{
	return false;
}

/* Returns the type of an argument. A buffer that can be written to is an iobuf. */
template <class T> constexpr kind kind_of()
{
	static_assert(!std::is_integral_v<T> || sizeof(T) <= 8,
		      "an integer must not have more than 64 bits");
	static_assert(!std::is_same_v<T, std::nullptr_t>, "an argument must not be a null pointer");
	if constexpr (std::is_convertible_v<const T &, fk_buffer>)
		return is_const(static_cast<const T *>(nullptr)) ? kind::buf : kind::iobuf;
	else if constexpr (std::is_convertible_v<const T &, std::string_view>)
		return kind::str;
	else if constexpr (std::is_integral_v<T>)
		return kind::i64;
	static_assert(std::is_convertible_v<const T &, fk_buffer> ||
			      std::is_convertible_v<const T &, std::string_view> ||
			      std::is_arithmetic_v<T>,
		      "an argument must be a number, a string or a buffer");
	return kind::f64;
}

/* Returns the names of types, separated by commas. */
template <class I> std::string list_of(I first, I last)
{
	static const char *const names[] = { "i64", "f64", "str", "buf", "iobuf" };
	std::string all;

	for (; first != last; ++first)
		all += (all.empty() ? "" : ", ") + std::string(names[static_cast<int>(*first)]);
	return all;
}

/* Throws if the types of a call do not fit the signature of the task. An integer fits an f64, an
 * iobuf fits a buf, and a call without results fits any results. */
template <std::size_t N, std::size_t M>
void check_types(const fk_task *task, const signature &wanted, const std::array<kind, N> &args,
		 const std::array<kind, M> &results)
{
	if (std::equal(args.begin(), args.end(), wanted.args.begin(), wanted.args.end(),
		       [](kind has, kind want) {
			       return has == want || (has == kind::i64 && want == kind::f64) ||
				      (has == kind::iobuf && want == kind::buf);
		       }) &&
	    (!M || std::equal(results.begin(), results.end(), wanted.results.begin(),
			      wanted.results.end())))
		return;
	throw error(FK_E_SIGNATURE,
		    std::string(fk_task_name(task)) + " is (" + fk_task_signature(task) +
			    "), called as (" + list_of(args.begin(), args.end()) + ")" +
			    (M ? " -> " + list_of(results.begin(), results.end()) : ""));
}

/* Converts an argument to the type in the signature. text: keeps a string until the job has been
 * submitted. */
template <class T>
fk_value value_of(const fk_task *task, kind want, const T &arg, std::string &text)
{
	fk_value value{};

	if constexpr (kind_of<T>() >= kind::buf) {
		value.buf = arg;
	} else if constexpr (kind_of<T>() == kind::str) {
		if constexpr (std::is_pointer_v<T>)
			if (!arg)
				throw error(FK_E_NULL,
					    std::string(fk_task_name(task)) +
						    ": a string argument is a null pointer");
		text = std::string_view(arg);
		value.str = text.c_str();
	} else if (want == kind::f64) {
		value.f64 = static_cast<double>(arg);
	} else {
		if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8)
			if (arg > static_cast<T>(INT64_MAX))
				throw error(FK_E_SIGNATURE,
					    std::string(fk_task_name(task)) +
						    ": an integer does not fit into a "
						    "signed 64-bit integer");
		value.i64 = static_cast<std::int64_t>(arg);
	}
	return value;
}

template <class R>
inline constexpr bool is_result = std::is_same_v<R, double> ||
				  (std::is_integral_v<R> && std::is_signed_v<R> &&
				   sizeof(R) == sizeof(std::int64_t));

} // namespace detail

/* A task, from client::find(). Valid as long as its client. */
class [[nodiscard]] task
{
public:
	const fk_task *get() const noexcept
	{
		return task_;
	}
	std::string_view name() const noexcept
	{
		return fk_task_name(task_);
	}
	/* Returns the arguments and results, such as "n:i64 -> i64". */
	std::string_view signature() const noexcept
	{
		return fk_task_signature(task_);
	}
	/* Returns one line by the author of the module; it may be empty. */
	std::string_view help() const noexcept
	{
		return fk_task_help(task_);
	}

private:
	friend class client;
	explicit task(const fk_task *raw) : task_(raw), signature_(fk_task_signature(raw))
	{
	}
	const fk_task *task_;
	detail::signature signature_;
};

/*
 * Options of a job. Each function sets one option and returns the object:
 *	client.call("sort:i64", forkd::options().timeout(20ms).weight(10), numbers);
 */
class options
{
public:
	/* The job ends as FK_EXPIRED if it has not ended within this time. The default is the
	 * option default-deadline of forkd.conf; forkd::forever means no deadline. */
	options &timeout(std::chrono::nanoseconds time) noexcept
	{
		/* To the library 0 means the default. */
		raw_.timeout_ns = std::max(timeout_ns(time), std::uint64_t{ 1 });
		return *this;
	}
	/* Share of CPU time among the jobs of this client; 0 for the default, 100. */
	options &weight(std::uint32_t share) noexcept
	{
		raw_.weight = share;
		return *this;
	}
	/* A group of fk_group_new(). */
	options &group(fk_group group) noexcept
	{
		raw_.group = group;
		return *this;
	}
	/* The job may run again if its pool process crashes. */
	options &idempotent() noexcept
	{
		raw_.flags |= FK_IDEMPOTENT;
		return *this;
	}
	/* submit() copies buffers that are outside the heap. call() always does. */
	options &copy_buffers() noexcept
	{
		raw_.flags |= FK_COPY_BUFFERS;
		return *this;
	}
	/* If there is no room for the job, an error that compares with
	 * std::errc::resource_unavailable_try_again is thrown at once. */
	options &no_wait() noexcept
	{
		flags_ = 0;
		return *this;
	}
	/* client::dispatch() calls ended() with this data when the job has ended. */
	options &on_completion(void (*ended)(fk_client *, fk_job, void *), void *data) noexcept
	{
		raw_.on_completion = ended;
		raw_.data = data;
		return *this;
	}
	/* The worker to start on, counted from 0; a hint. */
	options &worker(std::uint32_t index) noexcept
	{
		return place(FK_PLACE_WORKER, index);
	}
	/* The NUMA node to start on, by the system's number; a hint. */
	options &node(std::uint32_t index) noexcept
	{
		return place(FK_PLACE_NODE, index);
	}
	/* The job must start on its worker or node, however long it waits. */
	options &strict() noexcept
	{
		raw_.flags |= FK_STRICT;
		return *this;
	}

private:
	friend class client;
	options &place(std::uint32_t kind, std::uint32_t index) noexcept
	{
		raw_.place = kind;
		raw_.place_index = index;
		return *this;
	}
	fk_job_options raw_{};
	unsigned int flags_ = FK_WAIT_ROOM;
};

/* ------------------------------------------------------------------------ futures */

/*
 * A submitted job. Its destructor cancels a job that has not ended and waits for its end. The task
 * may still use a buffer that is destroyed next.
 */
class [[nodiscard]] job
{
public:
	job() = default;
	job(job &&other) noexcept
		: client_(std::exchange(other.client_, nullptr)), task_(other.task_),
		  job_(std::exchange(other.job_, 0))
	{
	}
	job &operator=(job &&other) noexcept
	{
		std::swap(client_, other.client_);
		std::swap(task_, other.task_);
		std::swap(job_, other.job_);
		return *this;
	}
	~job()
	{
		if (!valid())
			return;
		while (fk_poll(client_, job_) == 0 &&
		       fk_cancel(client_, job_) == -FK_E_REQUESTS_FULL)
			(void)fk_wait(client_, job_, 1000000);
		(void)fk_wait(client_, job_, FK_FOREVER);
		release();
	}
	/* Returns true if there is a job and get() has not been called. If not, no other function
	 * may be called. */
	[[nodiscard]] bool valid() const noexcept
	{
		return job_ != 0;
	}
	/* Returns the job and its client for C functions, such as fk_watch(). */
	fk_job handle() const noexcept
	{
		return job_;
	}
	fk_client *owner() const noexcept
	{
		return client_;
	}
	void wait() const
	{
		(void)wait_for(forever);
	}
	/* Returns false if the job has not ended within this time. */
	[[nodiscard]] bool wait_for(std::chrono::nanoseconds timeout) const
	{
		const int err = fk_wait(client_, job_, timeout_ns(timeout));

		if (err == -ETIMEDOUT)
			return false;
		detail::check(err, fk_task_name(task_));
		return true;
	}
	[[nodiscard]] bool ready() const
	{
		return wait_for(std::chrono::nanoseconds(0));
	}
	/* Returns an enum fk_outcome; FK_PENDING while the job has not ended. */
	[[nodiscard]] int outcome() const
	{
		const int outcome = fk_outcome(client_, job_, nullptr, nullptr);

		detail::check(outcome, fk_task_name(task_));
		return outcome;
	}
	[[nodiscard]] struct fk_timings timings() const
	{
		struct fk_timings timings;

		detail::check(fk_timings_of(&timings), fk_task_name(task_));
		return timings;
	}
	/* Requests the end of the job, and does not wait for it. */
	void cancel()
	{
		detail::check(fk_cancel(client_, job_), fk_task_name(task_));
	}

protected:
	job(fk_client *client, const fk_task *task, fk_job handle) noexcept
		: client_(client), task_(task), job_(handle)
	{
	}
	/* Waits for the end of the job and releases it. Copies its result, or throws. */
	void take(void *bytes, std::size_t size)
	{
		int code = 0, signo = 0, outcome, err;

		wait();
		outcome = fk_outcome(client_, job_, &code, &signo);
		err = fk_result(client_, job_, bytes, size);
		release();
		if (err && outcome >= FK_DONE)
			throw job_error(err,
					std::string(fk_task_name(task_)) + ": " + fk_error_text(),
					outcome, code, signo);
		detail::check(err, fk_task_name(task_));
	}

private:
	int fk_timings_of(struct fk_timings *timings) const noexcept
	{
		return ::fk_timings(client_, job_, timings);
	}
	void release() noexcept
	{
		(void)fk_release(client_, std::exchange(job_, 0));
	}
	fk_client *client_ = nullptr;
	const fk_task *task_ = nullptr;
	fk_job job_ = 0;
};

/* A job with results of the types R. Without types, the results are ignored. */
template <class... R> class [[nodiscard]] future : public job
{
	static_assert((detail::is_result<R> && ...), "a result must be a std::int64_t or a double");

public:
	future() = default;

	/* Waits for the end of the job and returns its result; called once. Throws job_error if
	 * there is no result. */
	[[nodiscard]] auto get()
	{
		std::array<unsigned char, 64> bytes;

		take(bytes.data(), bytes.size());
		if constexpr (sizeof...(R) == 1)
			return std::get<0>(unpack(bytes.data(), std::index_sequence_for<R...>()));
		else if constexpr (sizeof...(R) > 1)
			return unpack(bytes.data(), std::index_sequence_for<R...>());
	}

private:
	friend class client;
	using job::job;

	template <std::size_t... I>
	static std::tuple<R...> unpack(const unsigned char *bytes, std::index_sequence<I...>)
	{
		std::tuple<R...> all;

		(std::memcpy(&std::get<I>(all), bytes + 8 * I, 8), ...);
		return all;
	}
};

/* ------------------------------------------------------------------------ the client */

class client
{
public:
	/* Connects to forkd. socket: path of its socket; nullptr for $FORKD_SOCKET, or else the
	 * default socket of fk_open(). */
	explicit client(const char *socket = nullptr, const fk_open_options &options = {})
	{
		detail::check_text(fk_open(socket, &options, &client_));
	}
	client(client &&other) noexcept : client_(std::exchange(other.client_, nullptr))
	{
	}
	client &operator=(client &&other) noexcept
	{
		std::swap(client_, other.client_);
		return *this;
	}
	~client()
	{
		(void)fk_close(client_);
	}
	fk_client *get() const noexcept
	{
		return client_;
	}
	task find(const std::string &name) const
	{
		const fk_task *raw = nullptr;

		detail::check_text(fk_task_find(client_, name.c_str(), &raw));
		return task(raw);
	}
	/* Returns the tasks of all modules. */
	std::vector<task> tasks() const
	{
		std::vector<task> all;
		const fk_task *next = nullptr;
		int err;

		while (!(err = fk_task_next(client_, &next)))
			all.push_back(task(next));
		detail::check(err == -FK_E_NO_MORE_TASKS ? 0 : err, "tasks");
		return all;
	}
	/* Returns the number of workers and other facts about the pool. */
	struct fk_pool_info info() const
	{
		struct fk_pool_info info;

		detail::check(fk_pool_info(client_, &info), "info");
		return info;
	}
	/*
	 * Submits a job and returns its future. R: types of the results; without types, the results
	 * are ignored. task: a task of find(), or its name.
	 */
	template <class... R, class T, class... A>
	future<R...> submit(const T &task, const options &opts, const A &...args)
	{
		return submit_found<R...>(found(task), opts, args...);
	}
	template <class... R, class T, class... A>
	future<R...> submit(const T &task, const A &...args)
	{
		return submit<R...>(task, options(), args...);
	}
	/* Submits a job, waits and returns its result. Copies buffers that are outside the heap. */
	template <class... R, class T, class... A>
	[[nodiscard]] auto call(const T &task, const options &opts, const A &...args)
	{
		return submit<R...>(task, options(opts).copy_buffers(), args...).get();
	}
	template <class... R, class T, class... A>
	[[nodiscard]] auto call(const T &task, const A &...args)
	{
		return call<R...>(task, options(), args...);
	}
	/* Allocates n elements in the shared heap, with undefined values. */
	template <class T> buffer<T> alloc(std::size_t n)
	{
		void *data = nullptr;

		detail::check_text(fk_alloc(
			client_, n > SIZE_MAX / sizeof(T) ? SIZE_MAX : n * sizeof(T), &data));
		return { client_, static_cast<T *>(data), n };
	}
	/* Returns the descriptor of fk_event_fd(). */
	[[nodiscard]] int event_fd()
	{
		int fd = -1;

		detail::check_text(fk_event_fd(client_, &fd));
		return fd;
	}
	/* Calls the callbacks of watched jobs, as fk_dispatch() does. Returns their number. */
	int dispatch(std::chrono::nanoseconds timeout = std::chrono::nanoseconds(0))
	{
		const int n = fk_dispatch(client_, timeout_ns(timeout));

		detail::check(n, "dispatch");
		return n;
	}

protected:
	/* A connection that another function has opened. */
	struct opened {
		fk_client *client;
	};
	explicit client(opened raw) noexcept : client_(raw.client)
	{
	}

private:
	static const task &found(const task &task) noexcept
	{
		return task;
	}
	task found(const std::string &name) const
	{
		return find(name);
	}
	template <class... R, class... A>
	future<R...> submit_found(const task &task, const options &opts, const A &...args)
	{
		const fk_task *raw = task.get();
		std::array<std::string, sizeof...(A) + 1> texts;
		std::size_t i = 0;
		fk_request request{};
		fk_job job = 0;

		detail::check_types(
			raw, task.signature_,
			std::array<detail::kind, sizeof...(A)>{ detail::kind_of<A>()... },
			std::array<detail::kind, sizeof...(R)>{ (std::is_same_v<R, double>
									 ? detail::kind::f64
									 : detail::kind::i64)... });
		/* A list in braces is evaluated from left to right. */
		const std::array<fk_value, sizeof...(A) + 1> values{
			(i++,
			 detail::value_of(raw, task.signature_.args[i - 1], args, texts[i - 1]))...
		};
		request.task = raw;
		request.values = values.data();
		request.size = sizeof...(A);
		request.options = opts.raw_;
		detail::check_text(fk_submit_batch(client_, &request, 1, opts.flags_, &job));
		return { client_, raw, job };
	}
	fk_client *client_ = nullptr;
};

/* ------------------------------------------------------------------------ many futures */

namespace detail
{

inline constexpr std::size_t none = SIZE_MAX;

/* The jobs of several futures. Futures that are not valid() have none. */
class jobs
{
public:
	void add(const job &future)
	{
		const std::size_t index = n_++;

		if (!future.valid())
			return;
		if (client_ && client_ != future.owner())
			throw error(FK_E_OPTIONS, "futures of several clients");
		client_ = future.owner();
		handles_.push_back(future.handle());
		indices_.push_back(index);
	}
	bool empty() const noexcept
	{
		return handles_.empty();
	}
	/* Waits for all jobs. Returns false on a timeout. */
	bool wait_all(std::chrono::nanoseconds timeout) const
	{
		return empty() || ended(fk_wait_all(client_, handles_.data(), handles_.size(),
						    timeout_ns(timeout)));
	}
	/* Waits for one job and returns the index of its future. Returns none on a timeout, or if
	 * there are no jobs. */
	std::size_t wait_any(std::chrono::nanoseconds timeout) const
	{
		std::size_t i = 0;

		if (empty() || !ended(fk_wait_any(client_, handles_.data(), handles_.size(),
						  timeout_ns(timeout), &i)))
			return none;
		return indices_[i];
	}

private:
	static bool ended(int err)
	{
		if (err == -ETIMEDOUT)
			return false;
		check(err, "wait");
		return true;
	}
	fk_client *client_ = nullptr;
	std::size_t n_ = 0;
	std::vector<fk_job> handles_;
	std::vector<std::size_t> indices_;
};

template <class I> jobs jobs_of(I first, I last)
{
	jobs all;

	for (; first != last; ++first)
		all.add(*first);
	return all;
}
template <class F> jobs jobs_of(const std::vector<F> &futures)
{
	return jobs_of(futures.begin(), futures.end());
}
template <class... F> jobs jobs_of(const std::tuple<F...> &futures)
{
	jobs all;

	std::apply([&](const F &...each) { (all.add(each), ...); }, futures);
	return all;
}

/* Several futures as one. Futures: a std::vector or a std::tuple. */
template <class Futures> class several
{
public:
	several() = default;
	explicit several(Futures &&futures)
		: jobs_(jobs_of(futures)), futures_(std::move(futures)), valid_(true)
	{
	}
	several(several &&other) noexcept
		: jobs_(std::move(other.jobs_)), futures_(std::move(other.futures_)),
		  valid_(std::exchange(other.valid_, false))
	{
	}
	several &operator=(several &&other) noexcept
	{
		std::swap(jobs_, other.jobs_);
		std::swap(futures_, other.futures_);
		std::swap(valid_, other.valid_);
		return *this;
	}
	/* Returns true if there are futures and get() has not been called. */
	[[nodiscard]] bool valid() const noexcept
	{
		return valid_;
	}

protected:
	Futures take() noexcept
	{
		valid_ = false;
		return std::move(futures_);
	}
	jobs jobs_;

private:
	Futures futures_;
	bool valid_ = false;
};

/* The future of when_all(). */
template <class Futures> class every : public several<Futures>
{
public:
	using several<Futures>::several;

	void wait() const
	{
		(void)wait_for(forever);
	}
	/* Returns false if a job has not ended within this time. */
	[[nodiscard]] bool wait_for(std::chrono::nanoseconds timeout) const
	{
		return this->jobs_.wait_all(timeout);
	}
	[[nodiscard]] bool ready() const
	{
		return wait_for(std::chrono::nanoseconds(0));
	}
	/* Waits until all jobs have ended, and returns the futures. */
	[[nodiscard]] Futures get()
	{
		wait();
		return this->take();
	}
};

/* Return the arguments of when_all() or when_any() as a std::vector or a std::tuple. */
template <class F> std::vector<F> gather(std::vector<F> &&futures)
{
	return std::move(futures);
}
template <class I, class F = typename std::iterator_traits<I>::value_type>
std::vector<F> gather(I first, I last)
{
	return { std::make_move_iterator(first), std::make_move_iterator(last) };
}
template <class... F, class = std::enable_if_t<(std::is_base_of_v<job, std::decay_t<F>> && ...)>>
std::tuple<std::decay_t<F>...> gather(F &&...futures)
{
	static_assert(!(std::is_lvalue_reference_v<F> || ...),
		      "futures cannot be copied: write std::move(future)");
	return { std::move(futures)... };
}

} // namespace detail

/* The result of when_any(), as in the Concurrency TS. */
template <class Futures> struct [[nodiscard]] when_any_result {
	std::size_t index; /* index of a future whose job has ended; SIZE_MAX if none is valid */
	Futures futures;   /* all futures, in the order of the arguments */
};

template <class F> class [[nodiscard]] future<std::vector<F>> : public detail::every<std::vector<F>>
{
	using detail::every<std::vector<F>>::every;
};

template <class... F>
class [[nodiscard]] future<std::tuple<F...>> : public detail::every<std::tuple<F...>>
{
	using detail::every<std::tuple<F...>>::every;
};

template <class Futures>
class [[nodiscard]] future<when_any_result<Futures>> : public detail::several<Futures>
{
public:
	using detail::several<Futures>::several;

	void wait() const
	{
		(void)wait_for(forever);
	}
	/* Returns false if no job has ended within this time. */
	[[nodiscard]] bool wait_for(std::chrono::nanoseconds timeout) const
	{
		return this->jobs_.empty() || this->jobs_.wait_any(timeout) != detail::none;
	}
	[[nodiscard]] bool ready() const
	{
		return wait_for(std::chrono::nanoseconds(0));
	}
	/* Waits until one job has ended, and returns the futures. */
	when_any_result<Futures> get()
	{
		const std::size_t index = this->jobs_.wait_any(forever);

		return { index, this->take() };
	}
};

/*
 * Joins futures into one future, which is ready when all jobs have ended. Moves the futures of a
 * std::vector, of a range of iterators, or of the arguments:
 *	when_all(std::move(vector)).get()  returns a std::vector of futures
 *	when_all(first, last).get()        returns a std::vector of futures
 *	when_all(future, future).get()     returns a std::tuple of futures
 * Does not wait and starts no thread. A failed job throws from get() of its own future only.
 * Throws std::errc::invalid_argument if the futures belong to several clients.
 */
template <class... A> auto when_all(A &&...futures)
{
	auto all = detail::gather(std::forward<A>(futures)...);

	return future<decltype(all)>(std::move(all));
}

/*
 * Joins futures into one future, which is ready when one job has ended. The arguments are those of
 * when_all(). get() returns a when_any_result with all futures.
 */
template <class... A> auto when_any(A &&...futures)
{
	auto all = detail::gather(std::forward<A>(futures)...);

	return future<when_any_result<decltype(all)>>(std::move(all));
}

/*
 * Waits until all jobs of a range of futures have ended, without moving the futures. Returns false
 * on a timeout.
 */
template <class I> [[nodiscard]] bool wait_all(I first, I last, std::chrono::nanoseconds timeout)
{
	return detail::jobs_of(first, last).wait_all(timeout);
}
template <class I> void wait_all(I first, I last)
{
	(void)wait_all(first, last, forever);
}

/*
 * Waits until one job of a range of futures has ended, without moving the futures. Returns its
 * future, or last: on a timeout, or if none of the futures is valid (as after their get()).
 */
template <class I>
[[nodiscard]] I wait_any(I first, I last, std::chrono::nanoseconds timeout = forever)
{
	const std::size_t index = detail::jobs_of(first, last).wait_any(timeout);

	return index == detail::none ? last : std::next(first, index);
}

} // namespace forkd

#endif
