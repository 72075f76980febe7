# SPDX-License-Identifier: MIT
"""Common parts of the tests of the Python package.

tests/cli/check-python runs the tests in a session that loads the shipped
modules and the modules of the tests.
"""
import ctypes
import json
import logging
import os
import signal
import subprocess
import tempfile
import time
import unittest

import forkd
from forkd import connection

BUILD = os.environ["top_builddir"]
MULTIPLIER = float(os.environ.get("CK_TIMEOUT_MULTIPLIER", "1"))

# asyncio warns that a loop with debug= is slow.
logging.getLogger("asyncio").setLevel(logging.ERROR)
# A waiter must be woken when there is room; a test that relies on the periodic
# attempt hangs.
connection._ROOM = connection._ROOM_LATE = 1000

# fib:fib of 90 takes years, with a fork at every call.
ENDLESS = ("fib:fib", 90)
FIB = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597,
       2584, 4181]


def until(holds):
    """Waits until holds() is true; TestCase limits the time of the test."""
    while not holds():
        time.sleep(0.001)


def running(task):
    """Returns the number of running jobs of a task."""
    out = subprocess.run([BUILD + "/forkctl", "jobs", "--json"], check=True,
                         stdout=subprocess.PIPE).stdout
    return sum(job["task"] == task and job["state"] == "running"
               for job in json.loads(out)["jobs"])


def address(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


class Gate:
    """The argument of crash:hold, which runs in one leaf until open()."""

    def __init__(self, test, pool):
        self.view = pool.alloc(8)
        self.view[0] = 0
        self.address = address(self.view)
        # Keeps the memory at that address valid.
        self.connection = pool._connection
        test.addCleanup(self.open)

    def open(self):
        ctypes.c_char.from_address(self.address).value = b"\1"


class Forkd:
    """A forkd that a test can kill."""

    def __init__(self, directory, *options):
        self.socket = os.path.join(directory, "sock")
        self.options = options

    def start(self):
        self.process = subprocess.Popen(
            [os.environ["FORKD_BIN"], "--config=/dev/null", "--workers=2",
             "--log-level=error", "--socket=" + self.socket,
             "--module-dir=" + os.environ["FORKD_MODULES"], *self.options])
        until(self._answers)

    def _answers(self):
        try:
            forkd.connect(self.socket)
        except forkd.ConnectError:
            return False
        return True

    def kill(self):
        self.process.kill()
        self.process.wait()


class TestCase(unittest.TestCase):
    def setUp(self):
        # A test that hangs fails with a traceback.
        signal.signal(signal.SIGALRM, self._late)
        signal.setitimer(signal.ITIMER_REAL, 60 * MULTIPLIER, 1)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)

    def _late(self, *_):
        raise AssertionError("it hangs")

    def pool(self, **options):
        pool = forkd.connect(**options)
        self.addCleanup(pool.shutdown, cancel_futures=True)
        return pool

    def small_pool(self):
        """A pool whose heap has 64 KiB and cannot grow."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        server = Forkd(directory.name, "--heap-max=64K")
        server.start()
        self.addCleanup(server.kill)
        return self.pool(socket=server.socket)

    def raises(self, error, pattern, task, *arguments, **options):
        with self.assertRaisesRegex(error, pattern) as caught:
            self.pool().call(task, *arguments, **options)
        return caught.exception
