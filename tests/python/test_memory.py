# SPDX-License-Identifier: MIT
"""Tests of buffers and their lifetime, and of signals, fork() and exits."""
import array
import asyncio
import concurrent.futures
import ctypes
import gc
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import weakref

import forkd
from forkd._native import ffi
from rig import ENDLESS, Forkd, Gate, TestCase, until

try:
    import numpy
except ImportError:
    numpy = None

needs_numpy = unittest.skipUnless(numpy, "python3-numpy is not installed")


class Buffers(TestCase):
    @needs_numpy
    def test_an_array_in_the_heap_is_sorted_without_a_copy(self):
        n = 100_000_000 // 8
        pool = self.pool(heap_size=n * 8)
        numbers = pool.empty(n, numpy.int64)
        numbers[:] = numpy.random.default_rng(1).integers(-2**62, 2**62, n)
        total = numbers.sum()
        pool.call("sort:i64", numbers)
        self.assertTrue((numbers[:-1] <= numbers[1:]).all())
        self.assertEqual(numbers.sum(), total)
        self.assertEqual(pool.call("array:sum_i64", numbers[1:]),
                         total - numbers[0])
        self.assertEqual(pool.copied, 0)
        # The array is in memory that this process shares with forkd.
        at = numbers.ctypes.data
        with open("/proc/self/maps") as maps:
            lines = [line for line in maps for low, high in
                     [line.split()[0].split("-")]
                     if int(low, 16) <= at < int(high, 16)]
        self.assertRegex(lines[0], "rw-s .*/memfd:forkd")

    @needs_numpy
    def test_an_array_elsewhere_is_copied_there_and_back(self):
        pool = self.pool()
        numbers = numpy.arange(100.0)[::-1].copy()
        self.assertEqual(pool.call("array:stats_f64", numbers)[:3],
                         (100, 0, 99))
        self.assertEqual(pool.copied, 800)
        pool.call("sort:f64", numbers)
        self.assertEqual(list(numbers), list(range(100)))
        self.assertEqual(pool.copied, 2400)
        grid = pool.empty((3, 4))
        grid[:] = 2
        pool.submit("array:scale_f64", grid, 21).result()
        self.assertTrue((grid == 42).all())
        self.assertEqual(pool.copied, 2400)

    def test_all_kinds_of_buffers_are_taken(self):
        pool = self.pool()
        self.assertEqual(pool.call("bytes:sum", b"\1\2\3"), 6)
        self.assertEqual(pool.call("bytes:sum", b""), 0)
        self.assertEqual(pool.call("search:count", b"abab", "ab"), 2)
        numbers = array.array("q", [3, 1, 2])
        pool.call("sort:i64", numbers)
        self.assertEqual(numbers.tolist(), [1, 2, 3])
        heap = pool.alloc(64)
        heap[:] = bytes(range(64))
        copied = pool.copied
        self.assertEqual(pool.call("bytes:sum", heap[8:]), 1988)
        self.assertEqual(pool.copied, copied)
        # This part does not start at a multiple of 8 bytes.
        self.assertEqual(pool.call("bytes:sum", heap[1:3]), 3)
        self.assertEqual(pool.copied, copied + 2)

    def test_elements_of_wrong_types_are_refused(self):
        pool = self.pool()
        three = [3, 1, 2]
        for words, name, *values in (
                (r"\(data:iobuf\) must have elements of int64, not int32",
                 "sort:i64", array.array("i", three)),
                ("int64, not uint64", "sort:i64", array.array("Q", three)),
                ("int64, not float64", "sort:i64", array.array("d", three)),
                ("float64, not int64", "sort:f64", array.array("q", three)),
                ("float64, not float32", "array:dot_f64",
                 array.array("d", three), array.array("f", three)),
                (r"argument 4 \(counts_i64:iobuf\) .* int64, not float64",
                 "array:histogram_f64", array.array("d", three), 0, 4,
                 array.array("d", three)),
                ("int64 or float64, not int16", "bytes:sum",
                 array.array("h", three)),
                ("not elements of format '>q'", "sort:i64",
                 (ctypes.c_longlong.__ctype_be__ * 3)(*three))):
            with self.subTest(words=words):
                self.raises(TypeError, words, name, *values)
        self.assertEqual(pool.copied, 0)
        for letter in "qldB":
            numbers = array.array(letter, three)
            total = pool.call("bytes:sum", bytes(numbers))
            self.assertEqual(pool.call("bytes:sum", numbers), total)
        small = array.array("i", [1, 2])
        with memoryview(small).cast("B") as view:
            pool.call("sort:i64", view)
        self.assertEqual(small.tolist(), [1, 2])
        counts = array.array("q", [0, 0])
        pool.call("array:histogram_f64", array.array("d", three), 0, 4, counts)
        self.assertEqual(counts.tolist(), [1, 2])
        pool.call("sort:i64", (ctypes.c_longlong * 3)(*three))

    @needs_numpy
    def test_elements_of_numpy_arrays_are_checked(self):
        pool = self.pool()
        for kind in ("int32", "uint64", "float32", "complex128", ">i8", "M8[s]"):
            with self.subTest(kind=kind):
                with self.assertRaises((TypeError, ValueError)):
                    pool.call("sort:i64", numpy.array([3, 1, 2]).astype(kind))
        numbers = numpy.array([3, 1, 2], numpy.int32)
        wide = numbers.astype(numpy.int64)
        pool.call("sort:i64", wide)
        self.assertEqual(wide.tolist(), [1, 2, 3])
        self.assertEqual(pool.call("bytes:sum", numbers.view(numpy.uint8)), 6)

    def test_a_failed_job_copies_nothing_back(self):
        pool = self.pool()
        data = bytearray(b"\1\2\3")
        with self.assertRaises(forkd.Failed):
            pool.call("bytes:spoil", data)
        self.assertEqual(data, b"\1\2\3")
        pool.call("bytes:invert", data)
        self.assertEqual(data, b"\xfe\xfd\xfc")
        # This task works in place.
        data = bytearray(4096)
        future = pool.submit("flat:fill", data, 10**6)
        [(_, copy)] = next(iter(pool._connection.jobs))._copies
        until(lambda: any(ffi.buffer(copy, 4096)))
        future.cancel()
        concurrent.futures.wait([future])
        self.assertEqual(data, bytes(4096))

    def test_an_abandoned_job_copies_nothing_back(self):
        pool = self.pool()
        data = bytearray(b"\1\2\3")
        job = pool._job("bytes:invert", (data,), {})
        job.start()
        job.wait()
        job.give_up()
        self.assertEqual(job.result(), 6)
        self.assertEqual(data, b"\1\2\3")

    def test_a_full_heap_raises_with_a_hint(self):
        pool = self.small_pool()
        with self.assertRaisesRegex(forkd.HeapFull, "70000 bytes.*heap-max"):
            pool.alloc(70000)
        with self.assertRaisesRegex(MemoryError, r"argument 1 \(data:buf\)"):
            pool.call("bytes:sum", bytes(70000))
        # The whole heap is free: no memory was leaked.
        for _ in range(3):
            self.assertEqual(pool.call("bytes:sum", bytes(65536)), 0)

    def test_a_heap_grows(self):
        pool = self.pool(heap_size=65536)
        self.assertEqual(pool.call("bytes:sum", bytes(3 << 20)), 0)
        view = pool.alloc(3 << 20)
        view[:] = b"\1" * (3 << 20)
        self.assertEqual(pool.call("bytes:sum", view), 3 << 20)

    def test_a_job_keeps_its_buffer(self):
        pool = self.small_pool()
        gate = Gate(self, pool)
        holding = pool.submit("crash:hold", gate.view)
        gate.view = None
        gc.collect()
        rest = []
        with self.assertRaises(forkd.HeapFull):
            while True:
                rest.append(pool.alloc(64))
                rest[-1][0] = 1
        self.assertEqual(len(rest), 65536 // 64 - 1)
        self.assertFalse(holding.done())
        gate.open()
        self.assertGreater(holding.result(), 0)
        rest.append(pool.alloc(64))

    def test_close_keeps_memory_in_use(self):
        pool = forkd.connect()
        view = pool.alloc(64)
        part = view[8:16].cast("q")
        del view
        with self.assertRaisesRegex(BufferError, "1 block of this pool"):
            pool.close()
        part[0] = 7
        self.assertEqual(pool.call("array:sum_i64", part), 7)
        pool.shutdown()
        self.assertEqual(part[0], 7)
        pool = forkd.connect()
        view = pool.alloc(64)
        connection = weakref.ref(pool._connection)
        view.release()
        pool.close()
        self.assertIsNone(connection())
        pool.close()


    def test_garbage_is_collected_in_any_order(self):
        for _ in range(3):
            pool = forkd.connect()
            garbage = [pool, pool._connection, pool.alloc(64)]
            pool._connection.garbage = garbage
            pool._connection.memories = list(pool._connection.memory)
            garbage.append(garbage)
            gone = weakref.ref(pool._connection)
            del pool, garbage
            gc.collect()
            self.assertIsNone(gone())


class Processes(TestCase):
    def test_a_program_can_exit_with_jobs_in_flight(self):
        script = """if True:
            import asyncio
            import forkd
            pool = forkd.connect()
            view = pool.alloc(64)
            future = pool.submit("fib:fib", 90)
            async def main():
                asyncio.ensure_future(pool.acall("fib:fib", 90))
                await asyncio.sleep(0)
            asyncio.run(main())
            pool._connection.garbage = [pool, view]
            """
        subprocess.run([sys.executable, "-P", "-c", script], check=True)

    def test_ctrl_c_interrupts_a_call_and_cancels_its_job(self):
        script = """if True:
            import threading
            import forkd
            pool = forkd.connect()
            def tell():
                while not pool._connection.jobs:
                    pass
                print("under way", flush=True)
            threading.Thread(target=tell).start()
            try:
                pool.call("fib:fib", 90)
            except KeyboardInterrupt:
                print("interrupted", pool.call("fib:fib", 20))
            pool.shutdown()
            """
        with subprocess.Popen([sys.executable, "-P", "-c", script], text=True,
                              stdout=subprocess.PIPE) as process:
            self.addCleanup(process.kill)
            self.assertEqual(process.stdout.readline(), "under way\n")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.communicate(),
                             ("interrupted 6765\n", None))
            self.assertEqual(process.returncode, 0)

    def test_a_child_of_fork_has_its_own_connection(self):
        pool = self.pool()
        numbers = pool.alloc(24).cast("q")
        numbers[:] = array.array("q", [3, 1, 2])
        gate = Gate(self, pool)
        holding = pool.submit("crash:hold", gate.view)
        child = os.fork()
        if not child:
            status = 1
            try:
                assert pool.call("fib:fib", 20) == 6765
                assert pool.submit("fib:fib", 20).result() == 6765
                pool.call("sort:i64", numbers)
                assert pool.copied == 48 and numbers.tolist() == [1, 2, 3]
                try:
                    holding.result(0)
                except forkd.Error as error:
                    assert "parent process" in str(error), error
                    status = 0
                pool.shutdown()
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        gate.open()
        self.assertGreater(holding.result(), 0)
        self.assertEqual(pool.call("fib:fib", 20), 6765)

    def test_calls_continue_with_the_next_forkd(self):
        with tempfile.TemporaryDirectory() as directory:
            daemon = Forkd(directory)
            daemon.start()
            self.addCleanup(lambda: daemon.kill())
            pool = self.pool(socket=daemon.socket)
            data = pool.alloc(24).cast("q")
            data[:] = array.array("q", [3, 1, 2])
            ended = [pool.submit("fib:fib", 10) for _ in range(100)]
            concurrent.futures.wait(ended)
            endless = pool.submit(*ENDLESS)

            async def main():
                call = asyncio.ensure_future(pool.acall(*ENDLESS))
                await asyncio.sleep(0)
                daemon.kill()
                with self.assertRaises(forkd.Disconnected):
                    await call
            asyncio.run(main())
            with self.assertRaisesRegex(ConnectionError, "is lost"):
                endless.result()
            self.assertEqual({f.result() for f in ended}, {55})
            self.assertFalse(pool.connected)
            with self.assertRaises(forkd.ConnectError):
                pool.call("fib:fib", 20)
            daemon.start()
            self.assertEqual(pool.call("fib:fib", 20), 6765)
            # The heap of the old connection is copied now.
            pool.call("sort:i64", data)
            self.assertEqual((data.tolist(), pool.copied), ([1, 2, 3], 48))
            # A connection that was idle during a restart.
            daemon.kill()
            daemon.start()
            until(lambda: not pool.connected)
            self.assertEqual(pool.submit("fib:fib", 20).result(), 6765)
