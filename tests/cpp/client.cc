/* SPDX-License-Identifier: MIT */
/* client.cc - tests forkd/client.hpp. tests/cli/check-cpp runs it in a session. Prints the
 * conditions that do not hold, and returns 1 then. */
#include <forkd/client.hpp>

#include <poll.h>

#include <cstdio>
#include <numeric>
#include <thread>

static int bad;

static void must(bool holds, const char *what, int line)
{
	if (holds)
		return;
	std::fprintf(stderr, "client.cc:%d: %s\n", line, what);
	bad = 1;
}
#define MUST(condition) must(condition, #condition, __LINE__)

/* Returns true if the call throws an error that compares with want. */
template <class F> static bool throws(std::errc want, F call)
{
	try {
		call();
	} catch (const forkd::error &e) {
		if (e.code() == want && *e.what())
			return true;
		std::fprintf(stderr, "%s\n", e.what());
	}
	return false;
}

/* Returns true if the call throws a job_error with this outcome. */
template <class F> static bool ends_as(int outcome, std::errc want, F call)
{
	try {
		call();
	} catch (const forkd::job_error &e) {
		return e.outcome() == outcome && e.code() == want;
	}
	return false;
}

static std::int64_t fib_of(int n)
{
	std::int64_t a = 0, b = 1;

	while (n-- > 0)
		a = std::exchange(b, a + b);
	return a;
}

static void numbers_in_and_out(forkd::client &client)
{
	const forkd::task fib = client.find("fib:fib");
	std::vector<forkd::future<std::int64_t>> all;

	static_assert(
		std::is_same_v<decltype(client.call<std::int64_t>("fib:fib", 1)), std::int64_t>);
	MUST(client.call<std::int64_t>("fib:fib", 30) == 832040);
	for (short i = 0; i < 100; i++)
		all.push_back(client.submit<long>(fib, i % 20));
	forkd::wait_all(all.begin(), all.end());
	for (int i = 0; i < 100; i++) {
		MUST(all[i].valid() && all[i].ready() && all[i].outcome() == FK_DONE);
		MUST(all[i].get() == fib_of(i % 20));
		MUST(!all[i].valid());
	}
	/* An integer fits an f64. A call without result types returns nothing. */
	MUST(client.call<double>("integrate:integrate", 2, 1e-3) > 5.9);
	client.call("fib:fib", 10u);
}

static void facts(forkd::client &client)
{
	const std::vector<forkd::task> tasks = client.tasks();
	const auto fib = std::find_if(tasks.begin(), tasks.end(), [](const forkd::task &task) {
		return task.name() == "fib:fib";
	});

	MUST(fib != tasks.end() && fib->get() == client.find("fib:fib").get());
	MUST(fib->signature() == "n:i64 -> i64" && !fib->help().empty());
	MUST(client.call<std::int64_t>(*fib, 10) == 55);
	MUST(client.info().workers == 2 && client.info().tasks == tasks.size());
}

static void buffers(forkd::client &client)
{
	forkd::buffer<std::int64_t> data = client.alloc<std::int64_t>(1000), moved;
	forkd::buffer<double> reals = client.alloc<double>(4);
	std::int64_t least, most;

	static_assert(!std::is_copy_constructible_v<forkd::buffer<double>>);
	std::iota(data.begin(), data.end(), -500);
	std::reverse(data.begin(), data.end());
	std::tie(least, most) = client.call<std::int64_t, std::int64_t>("array:minmax_i64", data);
	MUST(least == -500 && most == 499);
	client.call("sort:i64", data.subspan(500));
	MUST(data[499] == 0 && data[500] == -500 && data[999] == -1);
	moved = std::move(data);
	MUST(data.empty() && moved.size() == 1000);
	MUST(client.call<std::int64_t>("array:sum_i64", forkd::span<std::int64_t>(moved)) == -500);
	MUST(moved.subspan(2000).empty() && moved.subspan(999, 7).size() == 1);
	std::iota(reals.begin(), reals.end(), 1.0);
	client.call("array:scale_f64", reals, 10);
	const auto stats =
		client.call<std::int64_t, double, double, double, double>("array:stats_f64", reals);
	MUST(std::get<0>(stats) == 4 && std::get<2>(stats) == 40 && std::get<3>(stats) == 25);
	/* Memory outside the heap. */
	std::int64_t elsewhere[3] = { 5, 4, -3 };
	const forkd::span all(elsewhere);
	MUST(client.call<std::int64_t>("array:sum_i64", all) == 6);
	client.call("sort:i64", all);
	MUST(elsewhere[0] == -3 && elsewhere[2] == 5);
	MUST(throws(std::errc::bad_address, [&] { (void)client.submit("sort:i64", all); }));
	elsewhere[0] = 6;
	auto sorted = client.submit("sort:i64", forkd::options().copy_buffers(), all);
	elsewhere[0] = 7;
	sorted.wait();
	MUST(elsewhere[0] == 7);
	sorted.get();
	MUST(elsewhere[0] == 4 && elsewhere[1] == 5 && elsewhere[2] == 6);
	std::vector<std::int64_t> numbers{ 3, 1, 2 };
	client.call("sort:i64", forkd::span(numbers));
	MUST(numbers == (std::vector<std::int64_t>{ 1, 2, 3 }));
	const forkd::span constant(std::as_const(numbers));
	MUST(client.call<std::int64_t>("array:sum_i64", constant) == 6);
	MUST(throws(std::errc::invalid_argument, [&] { client.call("sort:i64", constant); }));
	MUST(throws(std::errc::not_enough_memory,
		    [&] { (void)client.alloc<double>(SIZE_MAX / 8); }));
}

/* "T1" names a tree. A string_view of a longer string must end after its own last byte. */
static void texts(forkd::client &client)
{
	const auto walk = [&](const auto &name) {
		return std::get<0>(
			client.call<std::int64_t, std::int64_t, std::int64_t>("uts:uts", name));
	};
	const std::string longer = "T1XX";

	MUST(walk(std::string_view(longer).substr(0, 2)) == 4130071);
	MUST(ends_as(FK_FAILED, std::errc::invalid_argument, [&] { walk(longer); }));
	MUST(ends_as(FK_FAILED, std::errc::invalid_argument, [&] { walk("no"); }));
	try {
		walk("no");
		MUST(false);
	} catch (const forkd::job_error &e) {
		MUST(!std::strcmp(e.what(),
				  "uts:uts: FAILED: Invalid argument (tree:str -> nodes:i64, "
				  "depth:i64, leaves:i64: Walks a sample tree: T1, T1L, "
				  "T1XXL, T3, T3L or T3XXL)"));
		MUST(e.code().message() == "Invalid argument");
	}
}

/* Returns true if the call throws an error that has this text. */
template <class F> static bool says(const std::string &text, F call)
{
	try {
		call();
	} catch (const forkd::error &e) {
		if (e.code() == std::errc::invalid_argument && text == e.what())
			return true;
		std::fprintf(stderr, "%s\n", e.what());
	}
	return false;
}

static void misfits(forkd::client &client)
{
	const std::errc misfit = std::errc::invalid_argument;

	MUST(says("fib:fib is (n:i64 -> i64), called as () -> i64",
		  [&] { (void)client.submit<std::int64_t>("fib:fib"); }));
	MUST(says("fib:fib is (n:i64 -> i64), called as (f64, str)",
		  [&] { (void)client.submit("fib:fib", 1.5f, std::string("1")); }));
	MUST(says("fib:fib is (n:i64 -> i64), called as (i64) -> f64, i64",
		  [&] { (void)client.submit<double, std::int64_t>("fib:fib", 1); }));
	MUST(says("fib:fib is (n:i64 -> i64), called as (iobuf)",
		  [&] { (void)client.submit("fib:fib", fk_buffer{}); }));

	MUST(throws(std::errc::no_such_file_or_directory, [&] { (void)client.find("no:such"); }));
	MUST(throws(misfit, [&] { (void)client.submit<std::int64_t>("fib:fib"); }));
	MUST(throws(misfit, [&] { (void)client.submit<std::int64_t>("fib:fib", 1, 2); }));
	MUST(throws(misfit, [&] { (void)client.submit<std::int64_t>("fib:fib", 1.5); }));
	MUST(throws(misfit, [&] { (void)client.submit<std::int64_t>("fib:fib", "1"); }));
	MUST(throws(misfit, [&] { (void)client.submit<std::int64_t>("fib:fib", UINT64_MAX); }));
	MUST(throws(misfit, [&] { (void)client.submit<double>("fib:fib", 1); }));
	MUST(says("uts:uts: a string argument is a null pointer",
		  [&] { (void)client.submit("uts:uts", static_cast<const char *>(nullptr)); }));
	MUST(says("uts:uts: a string argument is a null pointer",
		  [&] { (void)client.submit("uts:uts", static_cast<char *>(nullptr)); }));
	MUST(throws(misfit,
		    [&] { (void)client.submit<std::int64_t, std::int64_t>("fib:fib", 1); }));
	MUST(throws(misfit, [&] { (void)client.submit<std::int64_t>("array:sum_i64", 1); }));
	MUST(throws(std::errc::connection_refused, [] { forkd::client("/no/such/socket"); }));
}

/* fib:fib of 90 takes years. */
static void ends_of_jobs(forkd::client &client)
{
	const forkd::task fib = client.find("fib:fib");
	forkd::future<std::int64_t> gone;

	gone = client.submit<std::int64_t>(
		fib, forkd::options().timeout(std::chrono::milliseconds(1)), 90);
	MUST(ends_as(FK_EXPIRED, std::errc::stream_timeout, [&] { (void)gone.get(); }));
	MUST(!gone.valid());
	for (const int hours : { -1, 0 })
		MUST(ends_as(FK_EXPIRED, std::errc::stream_timeout, [&] {
			(void)client.call<std::int64_t>(
				fib, forkd::options().timeout(std::chrono::hours(hours)), 90);
		}));
	gone = client.submit<std::int64_t>("fib:fib", 90);
	MUST(!gone.wait_for(std::chrono::milliseconds(1)) && !gone.ready());
	MUST(gone.outcome() == FK_PENDING);
	MUST(throws(std::errc::operation_in_progress, [&] { (void)gone.timings(); }));
	gone.cancel();
	MUST(ends_as(FK_CANCELLED, std::errc::operation_canceled, [&] { (void)gone.get(); }));
	try {
		(void)client.call<std::int64_t>("nqueens:nqueens", 99);
		MUST(false);
	} catch (const forkd::job_error &e) {
		MUST(e.outcome() == FK_FAILED && e.code() == std::errc::result_out_of_range);
		MUST(e.task_code() == -ERANGE && e.signal() == 0);
		MUST(std::string(e.what()).find("nqueens:nqueens: FAILED") == 0);
	}
	/* Each future cancels its job and releases the record: there are only 256. */
	for (int i = 0; i < 300; i++)
		(void)client.submit<std::int64_t>("fib:fib", 90);
}

static void options(forkd::client &client)
{
	const forkd::task fib = client.find("fib:fib");
	fk_open_options small{};
	fk_group group;

	small.n_jobs = 1;
	forkd::client other(nullptr, small), moved(std::move(other));
	MUST(!other.get() && moved.get());
	const auto endless = moved.submit<std::int64_t>("fib:fib", 90);
	MUST(throws(std::errc::resource_unavailable_try_again, [&] {
		(void)moved.submit<std::int64_t>("fib:fib", forkd::options().no_wait(), 1);
	}));
	MUST(client.call<std::int64_t>(fib, forkd::options(), 20) == 6765);
	MUST(client.call<std::int64_t>(
		     "fib:fib",
		     forkd::options().weight(50).idempotent().worker(1).strict().timeout(
			     std::chrono::hours(1)),
		     20) == 6765);
	client.call(fib, forkd::options().node(0), 1);
	MUST(throws(std::errc::invalid_argument, [&] {
		(void)client.submit<std::int64_t>(fib, forkd::options().worker(77), 1);
	}));
	MUST(throws(std::errc::invalid_argument,
		    [&] { (void)client.submit<std::int64_t>(fib, forkd::options().strict(), 1); }));
	MUST(!fk_group_new(client.get(), &group));
	const auto member = client.submit(fib, forkd::options().group(group), 90);
	MUST(fk_group_free(client.get(), group) == -EBUSY);
}

static void waits_for_ranges(forkd::client &client)
{
	std::vector<forkd::future<std::int64_t>> all;

	forkd::wait_all(all.begin(), all.end());
	MUST(forkd::wait_any(all.begin(), all.end()) == all.end());
	for (int i = 0; i < 200; i++)
		all.push_back(client.submit<std::int64_t>("fib:fib", i == 150 ? 1 : 90));
	auto first = forkd::wait_any(all.begin(), all.end());
	MUST(first - all.begin() == 150 && first->get() == 1);
	MUST(forkd::wait_any(all.begin(), all.end(), std::chrono::milliseconds(1)) == all.end());
	MUST(!forkd::wait_all(all.begin(), all.end(), std::chrono::milliseconds(1)));
	for (auto &each : all)
		if (each.valid())
			each.cancel();
	forkd::wait_all(all.begin(), all.end());
	for (auto i = all.begin(); (i = forkd::wait_any(i, all.end())) != all.end();)
		MUST(ends_as(FK_CANCELLED, std::errc::operation_canceled, [&] { (void)i->get(); }));
}

static void joined_futures(forkd::client &client)
{
	using number = forkd::future<std::int64_t>;
	std::vector<number> many;

	static_assert(!std::is_copy_constructible_v<forkd::future<std::vector<number>>>);
	/* A vector. A failed job throws from its own future only. */
	for (int i = 0; i < 1000; i++)
		many.push_back(client.submit<std::int64_t>("fib:fib", i % 20));
	many.push_back(client.submit<std::int64_t>("nqueens:nqueens", 99));
	forkd::future<std::vector<number>> all = forkd::when_all(std::move(many)), moved;
	moved = std::move(all);
	MUST(!all.valid() && moved.valid() && many.empty());
	moved.wait();
	MUST(moved.ready());
	many = moved.get();
	MUST(!moved.valid() && many.size() == 1001);
	for (int i = 0; i < 1000; i++)
		MUST(many[i].ready() && many[i].get() == fib_of(i % 20));
	MUST(ends_as(FK_FAILED, std::errc::result_out_of_range, [&] { (void)many[1000].get(); }));

	/* All other futures are not valid: get() has taken their results. */
	many[7] = client.submit<std::int64_t>("fib:fib", 12);
	auto [index, rest] = forkd::when_any(std::move(many)).get();
	MUST(index == 7 && rest.size() == 1001 && rest[index].get() == 144);
	MUST(forkd::when_any(rest.begin(), rest.end()).get().index == SIZE_MAX);
	MUST(forkd::when_all(std::vector<number>()).get().empty());

	/* Futures of several types. */
	auto [n, area, nothing] =
		forkd::when_all(client.submit<std::int64_t>("fib:fib", 10),
				client.submit<double>("integrate:integrate", 2, 1e-3),
				client.submit("sort:i64", client.alloc<std::int64_t>(0)))
			.get();
	MUST(n.ready() && area.ready() && nothing.ready());
	MUST(n.get() == 55 && area.get() > 5.9);
	nothing.get();

	/* The first job that ends, by a failure. The other one never ends. */
	auto first = forkd::when_any(client.submit<std::int64_t>("fib:fib", 90),
				     client.submit<std::int64_t>("nqueens:nqueens", 99))
			     .get();
	MUST(first.index == 1);
	MUST(ends_as(FK_FAILED, std::errc::result_out_of_range,
		     [&] { (void)std::get<1>(first.futures).get(); }));
	const auto late = forkd::when_any(std::move(std::get<0>(first.futures)));
	MUST(!late.wait_for(std::chrono::milliseconds(1)) && !late.ready());
	const auto never = forkd::when_all(client.submit<std::int64_t>("fib:fib", 90));
	MUST(!never.wait_for(std::chrono::milliseconds(1)) && !never.ready());

	forkd::client other;
	MUST(throws(std::errc::invalid_argument, [&] {
		(void)forkd::when_all(client.submit("fib:fib", 1), other.submit("fib:fib", 1));
	}));
}

/* A program can submit more jobs than the table has records before it takes a result. */
static void more_than_records(forkd::client &client, int n)
{
	std::vector<forkd::future<std::int64_t>> all;

	for (int i = 0; i < n; i++)
		all.push_back(client.submit<std::int64_t>("fib:fib", i % 20));
	/* Jobs that have ended do not block a call. */
	MUST(client.call<std::int64_t>("fib:fib", 10) == 55);
	forkd::wait_all(all.begin(), all.end());
	MUST(forkd::wait_any(all.begin(), all.end()) == all.begin());
	for (int i = n; i-- > 0;) {
		MUST(all[i].outcome() == FK_DONE);
		MUST(all[i].get() == fib_of(i % 20) && !all[i].valid());
	}
}

static void more_than_records(forkd::client &client)
{
	more_than_records(client, 257);
	more_than_records(client, 1000);
	std::thread other([&] { more_than_records(client, 1000); });
	more_than_records(client, 1000);
	other.join();
}

static void event_loop(forkd::client &client)
{
	std::vector<forkd::future<std::int64_t>> all;
	pollfd loop = { client.event_fd(), POLLIN, 0 };
	int n = 0;

	const auto count = [](fk_client *, fk_job, void *data) { ++*static_cast<int *>(data); };
	for (int i = 0; i < 100; i++)
		all.push_back(client.submit<std::int64_t>(
			"fib:fib", forkd::options().on_completion(count, &n), 15));
	for (int told = 0; told < 100;) {
		MUST(poll(&loop, 1, -1) == 1);
		told += client.dispatch();
	}
	MUST(n == 100 && client.dispatch() == 0);
}

int main()
{
	try {
		forkd::client client;

		numbers_in_and_out(client);
		facts(client);
		buffers(client);
		texts(client);
		misfits(client);
		ends_of_jobs(client);
		options(client);
		waits_for_ranges(client);
		joined_futures(client);
		more_than_records(client);
		event_loop(client);
	} catch (const std::exception &e) {
		std::fprintf(stderr, "%s\n", e.what());
		return 1;
	}
	return bad;
}
