/* SPDX-License-Identifier: MIT */
/*
 * peer_boost - boost.fiber's side of the fibers' benchmarks
 *
 * WHAT IT IS
 *   The workloads of fiber_work.h, with a boost fiber for each of ours and stacks of the same size.
 *   boost's work stealing runs on P threads, which search all the time.
 *
 * THREADS
 *   The runner's is one of the P; the others run fibers until the end.
 */
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <boost/fiber/all.hpp>

#include "tests/bench/peer.h"

namespace
{

using boost::fibers::fiber;

constexpr std::size_t stack_size = 65536;
using group = std::vector<fiber>;

template <typename F> void spawn(F fn, void *arg, group &group)
{
	group.emplace_back(boost::fibers::launch::post, std::allocator_arg,
			   boost::fibers::fixedsize_stack(stack_size), fn, arg);
}

void wait(group &group)
{
	for (fiber &fiber : group)
		fiber.join();
}

} // namespace

#define FIBER_GROUP(name)	    group name
#define FIBER_SPAWN(fn, arg, group) spawn(fn, arg, group)
#define FIBER_WAIT(group)	    wait(group)
#include "tests/bench/fiber_work.h"

namespace
{

std::vector<std::thread> threads;
boost::fibers::mutex lock;
boost::fibers::condition_variable changed;
bool ends;
std::atomic<int> ready;

void join_scheduler(int n)
{
	boost::fibers::use_scheduling_algorithm<boost::fibers::algo::work_stealing>(
		static_cast<std::uint32_t>(n), false);
	/* A thief reads all of them. */
	ready++;
	while (ready < n)
		std::this_thread::yield();
}

void start(int n)
{
	for (int i = 1; i < n; i++)
		threads.emplace_back([n] {
			join_scheduler(n);
			std::unique_lock<boost::fibers::mutex> guard(lock);
			changed.wait(guard, [] { return ends; });
		});
	join_scheduler(n);
}

void stop()
{
	{
		std::unique_lock<boost::fibers::mutex> guard(lock);
		ends = true;
	}
	changed.notify_all();
	for (std::thread &thread : threads)
		thread.join();
}

int64_t fib(int64_t n)
{
	return fiber_cut_fib(n, n);
}

} // namespace

int main(int argc, char **argv)
{
	struct peer peer = {};

	peer.name = "boost.fiber";
	peer.start = start;
	peer.stop = stop;
	peer.fib = fib;
	peer.steps = fiber_steps;
	peer.cut_fib = fiber_cut_fib;
	peer.cut_nqueens = fiber_cut_nqueens;
	return peer_main(&peer, argc, argv);
}
