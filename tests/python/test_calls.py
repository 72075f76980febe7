# SPDX-License-Identifier: MIT
"""Tests of calls, futures, coroutines and the ends of jobs."""
import asyncio
import concurrent.futures
import errno
import json
import math
import pickle
import signal
import subprocess
import tempfile
import types
import unittest.mock
import weakref

import forkd
from forkd import _library
from rig import (
    BUILD, ENDLESS, FIB, Forkd, Gate, TestCase, address, running, until)


class Calls(TestCase):
    def test_results_have_the_types_of_the_signature(self):
        pool = self.pool()
        self.assertEqual(pool.call("fib:fib", 30), 832040)
        self.assertIsNone(pool.call("null:null"))
        self.assertAlmostEqual(pool.call("integrate:integrate", 2, 1e-3), 6,
                               places=2)
        tree = pool.call("uts:uts", "T1")
        self.assertEqual(tree, (4130071, 10, 3305118))
        self.assertEqual((tree.nodes, tree.depth), (4130071, 10))
        self.assertEqual(pool.find("uts:uts").results[0], ("nodes", "i64"))

    def test_tasks_have_signatures_and_help(self):
        pool = self.pool()
        tasks = {task.name: task for task in pool.tasks()}
        self.assertEqual(list(tasks), sorted(tasks))
        self.assertIs(tasks["fib:fib"], pool.find("fib:fib"))
        self.assertEqual(tasks["fib:fib"].signature, "n:i64 -> i64")
        self.assertRegex(tasks["fib:fib"].help, "Fibonacci")
        out = subprocess.run([BUILD + "/forkctl", "tasks", "--json"],
                             check=True, stdout=subprocess.PIPE).stdout
        self.assertEqual(
            {task["task"]: task["help"] for task in json.loads(out)["tasks"]},
            {task.name: task.help for task in tasks.values()})

    def test_info_has_the_numbers_of_the_pool(self):
        pool = self.pool(n_jobs=64, heap_size=65536)
        info = pool.info()
        self.assertEqual((info.workers, info.scheduler, info.n_jobs,
                          info.heap_size, info.tasks),
                         (2, "lazy", 64, 65536, len(pool.tasks())))
        self.assertGreater(min(info.nodes, info.modules, info.connections,
                               info.users, info.pools), 0)
        self.assertRegex(info.version, r"^\d+\.\d+")

    def test_integers_have_64_bits(self):
        pool = self.pool()
        for n in (0, -1, 2**63 - 1, -2**63, True):
            self.assertEqual(pool.call("null:add", n, 0), n)

    def test_errors_name_the_argument_and_its_type(self):
        for error, words, call in (
                (TypeError, r"takes 1 argument \(n:i64 -> i64\), not 0",
                 ("fib:fib",)),
                (TypeError, "takes 2 arguments .* not 3",
                 ("null:add", 1, 2, 3)),
                (TypeError, r"^fib:fib: argument 1 \(n:i64\) .* not str",
                 ("fib:fib", "30")),
                (TypeError, r"\(n:i64\) must be an integer, not float",
                 ("fib:fib", 1.5)),
                (OverflowError, r"\(n:i64\) must fit into a signed .* \d+ does",
                 ("fib:fib", 2**63)),
                (TypeError, r"argument 2 \(eps:f64\) must be a number, not st",
                 ("integrate:integrate", 2, "1")),
                (TypeError, r"\(tree:str\) must be a str, not bytes",
                 ("uts:uts", b"T1")),
                (ValueError, r"\(tree:str\) must not contain a NUL",
                 ("uts:uts", "T1\0")),
                (TypeError, r"\(data:buf\) must be a buffer .*, not int",
                 ("array:sum_i64", 8)),
                (TypeError, r"\(data:iobuf\) must be a writable .*, not bytes",
                 ("sort:i64", bytes(8))),
                (ValueError, r"\(data:buf\) must be contiguous",
                 ("array:sum_i64", memoryview(bytes(64))[::2])),
                (TypeError, "no Python objects: got a function",
                 (address,))):
            with self.subTest(call=call):
                self.raises(error, words, *call)
        for name in ("no:such", "fib:fib\0"):
            self.assertEqual(self.raises(LookupError, "no module", name).task,
                             name)

    def test_options_reach_the_library(self):
        pool = self.pool()
        self.assertEqual(pool.call("fib:fib", 10, weight=50, idempotent=True,
                                   worker=1, strict=True, timeout=60), 55)
        self.assertEqual(pool.call("fib:fib", 10, node=0), 55)
        self.raises(ValueError, "no such worker", "fib:fib", 1, worker=77)
        self.raises(ValueError, "exclusive", "fib:fib", 1, worker=0, node=0)
        self.raises(ValueError, "strict", "fib:fib", 1, strict=True)
        self.raises(TypeError, "priority", "fib:fib", 1, priority=1)

    def test_threads_share_a_pool_with_few_records(self):
        pool = self.pool(n_jobs=3)
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            found = list(threads.map(
                lambda i: (pool.call("fib:fib", i % 20),
                           pool.submit("fib:fib", i % 20).result()),
                range(400)))
        self.assertEqual(found, [(FIB[i % 20],) * 2 for i in range(400)])


    def test_room_before_the_wait_is_not_missed(self):
        pool = self.pool(n_jobs=1)
        gate = Gate(self, pool)
        holding = pool.submit("crash:hold", gate.view)

        connection = pool._connection

        def just_then():
            del connection.have_thread
            gate.open()
            until(lambda: not connection.jobs)
        connection.have_thread = just_then
        self.assertEqual(pool.call("fib:fib", 10), 55)
        self.assertGreater(holding.result(), 0)


class Ends(TestCase):
    def test_a_failed_job_raises_its_code(self):
        error = self.raises(forkd.Failed, "nqueens:nqueens: FAILED: ERANGE",
                            "nqueens:nqueens", 99)
        self.assertEqual((error.code, error.task, error.outcome),
                         (-34, "nqueens:nqueens", forkd.Outcome.FAILED))
        self.raises(forkd.Failed, r"FAILED: EINVAL \(Invalid arg", "uts:uts",
                    "no")
        # EACCES from a task does not mean that the pool refused the task.
        for code, refusal, kind in (
                (errno.EACCES, "", forkd.Failed),
                (4130, "FAILED: not", forkd.Forbidden),
                (errno.EKEYREVOKED, "FAILED: not", forkd.Quarantined),
                (4132, "FAILED: not", forkd.Failed)):
            self.assertIs(type(forkd.errors.job_error(
                "a:b", forkd.Outcome.FAILED, -code, 0, refusal)), kind)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), again.args, again.code),
                         (forkd.Failed, error.args, -34))
        self.assertEqual(self.raises(forkd.Failed, "code 77", "bytes:spoil",
                                     bytearray(8)).code, 77)

    def test_a_job_expires_after_its_timeout(self):
        error = self.raises(TimeoutError, "EXPIRED", *ENDLESS, timeout=0.001)
        self.assertIsInstance(error, forkd.Expired)
        self.raises(forkd.Expired, "EXPIRED", *ENDLESS, timeout=-1)
        pool = self.pool(n_jobs=1)
        gate = Gate(self, pool)
        holding = pool.submit("crash:hold", gate.view)
        with self.assertRaisesRegex(forkd.Expired, "before there was room"):
            pool.call("fib:fib", 1, timeout=0.01)
        self.assertIsNone(holding.timings)
        gate.open()
        self.assertGreater(holding.result(), 0)
        self.assertGreater(sum(holding.timings), 0.01)

    def test_a_job_without_a_timeout_has_the_default_deadline(self):
        with tempfile.TemporaryDirectory() as directory:
            daemon = Forkd(directory, "--default-deadline=1ms")
            daemon.start()
            self.addCleanup(daemon.kill)
            pool = self.pool(socket=daemon.socket)
            endless = pool.submit(*ENDLESS, timeout=math.inf)
            with self.assertRaises(forkd.Expired):
                pool.call(*ENDLESS)
            self.assertFalse(endless.done())

    def test_a_crash_raises_and_other_jobs_are_lost(self):
        pool = self.pool()
        gate = Gate(self, pool)
        holding = pool.submit("crash:hold", gate.view)
        until(lambda: running("crash:hold"))
        with self.assertRaisesRegex(forkd.Crashed, "CRASHED: SIGSEGV") as e:
            pool.call("crash:segv")
        self.assertEqual((e.exception.signal, e.exception.module,
                          e.exception.outcome),
                         (signal.SIGSEGV, "crash", forkd.Outcome.CRASHED))
        with self.assertRaises(forkd.Lost):
            holding.result()
        # The session has --quarantine-task-crashes=1.
        with self.assertRaisesRegex(forkd.Quarantined, "in quarantine"):
            pool.call("crash:segv")
        self.assertEqual(pool.call("fib:fib", 20), 6765)

    def test_a_text_that_is_no_utf8_is_shown(self):
        text = _library.ffi.new("char[]", b"FAILED: \xff")
        library = types.SimpleNamespace(fk_error_text=lambda: text)
        with unittest.mock.patch.object(_library, "lib", library):
            self.assertEqual(_library.last_text(), "FAILED: \ufffd")

    def test_connect_errors_have_a_class_per_cause(self):
        with self.assertRaisesRegex(ConnectionError, "/no/such") as caught:
            forkd.connect("/no/such/socket")
        self.assertIs(type(caught.exception), forkd.NotRunning)
        self.assertEqual(caught.exception.errno, errno.ECONNREFUSED)
        with self.assertRaisesRegex(forkd.LimitReached, "heap-max"):
            forkd.connect(heap_size=2**40)
        for code, kind in ((errno.EACCES, forkd.AccessDenied),
                           (errno.ECONNREFUSED, forkd.NotRunning),
                           (errno.EUSERS, forkd.LimitReached),
                           (errno.EPROTO, forkd.ConnectError)):
            self.assertIs(type(forkd.errors.connect_error("", -code)), kind)


class Futures(TestCase):
    def test_1000_futures(self):
        pool = self.pool(n_jobs=64)
        futures = [pool.submit("fib:fib", i % 20) for i in range(1000)]
        for future in concurrent.futures.as_completed(futures):
            self.assertIsNone(future.exception())
        self.assertEqual([f.result() for f in futures], FIB * 50)
        self.assertEqual(list(pool.map("fib:fib", range(20))), FIB)

    def test_a_callback_can_wait_for_room(self):
        pool = self.pool(n_jobs=1)
        gate = Gate(self, pool)
        found = []

        def go_on(_):
            found.append(pool.submit("crash:hold", gate.view))
            found.append(pool.submit("fib:fib", 10))
            found.append(pool.call("fib:fib", 11))
        pool.submit("fib:fib", 1).add_done_callback(go_on)
        until(lambda: running("crash:hold"))
        gate.open()
        until(lambda: len(found) == 3)
        self.assertEqual((found[1].result(), found[2]), (55, 89))

    def test_cancel_ends_a_running_job(self):
        pool = self.pool()
        future = pool.submit(*ENDLESS)
        until(lambda: running("fib:fib"))
        self.assertTrue(future.cancel())
        self.assertTrue(future.cancelled())
        with self.assertRaises(concurrent.futures.CancelledError):
            future.result()
        concurrent.futures.wait([future])
        self.assertEqual(running("fib:fib"), 0)
        done = pool.submit("fib:fib", 1)
        done.result()
        self.assertFalse(done.cancel())

    def test_shutdown_waits_or_cancels(self):
        pool = forkd.connect()
        gate = Gate(self, pool)
        holding = pool.submit("crash:hold", gate.view)
        pool.shutdown(wait=False)
        self.assertFalse(holding.done())
        gate.open()
        self.assertGreater(holding.result(), 0)
        with self.assertRaisesRegex(RuntimeError, "shut down"):
            pool.submit("fib:fib", 1)
        with forkd.connect() as pool:
            futures = [pool.submit("fib:fib", 19) for _ in range(100)]
        self.assertTrue(all(f.done() for f in futures))
        pool = forkd.connect()
        future = pool.submit(*ENDLESS)
        pool.shutdown(cancel_futures=True)
        self.assertTrue(future.cancelled())
        with self.assertRaises(ZeroDivisionError), forkd.connect() as pool:
            future = pool.submit(*ENDLESS)
            raise ZeroDivisionError
        self.assertTrue(future.cancelled())

    def test_a_connection_ends_with_its_last_reference(self):
        pool = forkd.connect()
        futures = [pool.submit("fib:fib", 1), pool.submit("bytes:spoil",
                                                          bytearray(8))]
        concurrent.futures.wait(futures)
        connection = weakref.ref(pool._connection)
        until(lambda: connection()._thread is None)
        pool.shutdown()
        self.assertIsNone(connection())


class Loops(TestCase):
    def test_1000_coroutines_without_a_thread(self):
        pool = self.pool(n_jobs=64)

        async def main():
            found = await asyncio.gather(
                *(pool.acall("fib:fib", i % 20) for i in range(1000)))
            self.assertIsNone(pool._connection._thread)
            return found
        self.assertEqual(asyncio.run(main()), FIB * 50)

    def test_loops_threads_and_futures_at_the_same_time(self):
        pool = self.pool(n_jobs=8)

        async def main():
            return await asyncio.gather(
                *(pool.acall("fib:fib", i % 20) for i in range(100)),
                asyncio.wrap_future(pool.submit("fib:fib", 10)))
        with concurrent.futures.ThreadPoolExecutor(3) as threads:
            # With debug= a loop reports calls from other threads.
            loops = [threads.submit(asyncio.run, main(), debug=True)
                     for _ in range(3)]
            futures = [pool.submit("fib:fib", i % 20) for i in range(100)]
            self.assertEqual([f.result() for f in futures], FIB * 5)
            for loop in loops:
                self.assertEqual(loop.result(), FIB * 5 + [55])

    def test_cancelling_a_coroutine_cancels_its_job(self):
        pool = self.pool(n_jobs=1)

        async def main():
            endless = asyncio.ensure_future(pool.acall(*ENDLESS))
            behind = asyncio.ensure_future(pool.acall("fib:fib", 10))
            await asyncio.sleep(0)
            endless.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await endless
            self.assertEqual(await behind, 55)
            with self.assertRaises(forkd.Failed):
                await pool.acall("nqueens:nqueens", 99)
        asyncio.run(main())
        self.assertFalse(pool._connection.jobs)

    def test_a_cancelled_waiter_passes_room_on(self):
        pool = self.pool(n_jobs=1)

        async def main():
            first, second, third = [
                asyncio.ensure_future(pool.acall("fib:fib", n))
                for n in (10, 11, 12)]
            await asyncio.sleep(0)
            # The first job has ended, and the second coroutine is woken.
            until(lambda: pool._connection.take(0))
            second.cancel()
            self.assertEqual((await first, await third), (55, 144))
        asyncio.run(main())
