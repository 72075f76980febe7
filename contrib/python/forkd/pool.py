# SPDX-License-Identifier: MIT
"""The pool as a program sees it: calls, futures, coroutines, memory."""
from __future__ import annotations

import asyncio
import concurrent.futures
import math
import os
import threading
import weakref
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from forkd import errors
from forkd._library import ffi
from forkd.connection import Connection, post
from forkd.job import Job, Options, Timings
from forkd.task import Task

if TYPE_CHECKING:
    import numpy
    import numpy.typing


class Future(concurrent.futures.Future[Any]):
    """The result of a job that Pool.submit() has submitted.

    As any concurrent.futures.Future, with two things more: cancel() ends the
    job also while it runs, at its next fork or join, and timings says in
    seconds how long it has waited and run, once it has ended.
    """

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.timings: Timings | None = None
        self._name = job.task.name
        self._job: Job | None = job
        self._pid = os.getpid()
        job.deliver = self._deliver
        job.stop = self.cancel

    def _deliver(self, result: Any, error: BaseException | None) -> None:
        job, self._job = self._job, None
        self.timings = job.timings if job is not None else None
        if not self.set_running_or_notify_cancel():
            return
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(result)

    def cancel(self) -> bool:
        """Cancels the future at once, and asks forkd to end the job.

        Until the job has ended its tasks may still work in its buffers, which
        are kept for them; concurrent.futures.wait() waits for that. False if
        there is a result already.
        """
        job = self._job
        if not super().cancel():
            return False
        if job is not None:
            job.give_up()
        return True

    def result(self, timeout: float | None = None) -> Any:
        """The result, or what forkd.errors has; TimeoutError after timeout
        seconds, and the job goes on."""
        self._check_process()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What result() raises, or None."""
        self._check_process()
        return super().exception(timeout)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.Error(
                f"{self._name}: a job of the parent process, which alone gets "
                "its result: submit it again in this one", task=self._name)


class Pool(concurrent.futures.Executor):
    """The machine's pool of workers, by a connection to forkd.

    Tasks are called by name with Python values:

        with forkd.connect() as pool:
            pool.call("fib:fib", 30)
            [f.result() for f in (pool.submit("fib:fib", n) for n in (10, 20))]

    What may be said of a job stands behind the arguments, by keyword: see
    forkd.Options. Any number of threads may use a pool at the same time; a
    child of fork() that uses its parent's gets a connection of its own. When
    forkd has gone away, calls under way raise Disconnected, and the next one
    connects anew.
    """

    def __init__(self, socket: str | os.PathLike[str] | None = None, *,
                 n_jobs: int = 0, heap_size: int = 0) -> None:
        """Connects, or raises ConnectError.

        socket: None for $FORKD_SOCKET, or else the machine's forkd, or else
        the user's own. n_jobs: jobs at the same time; more wait here.
        heap_size: bytes of shared heap. 0 is the default of the C library for
        both, 256 and 1 MiB.
        """
        path = None if socket is None else os.fspath(socket)
        self._connect = partial(Connection, path, n_jobs, heap_size)
        self._lock = threading.Lock()
        self._shut = False
        self._connection: Connection | None = self._connect()
        _pools.add(self)

    # ------------------------------------------------------------- calls

    def call(self, task: str, /, *arguments: Any,
             **options: Unpack[Options]) -> Any:
        """Runs a task and returns its result.

        That is None, an int or a float, or a named tuple of several. Raises
        what forkd.errors has. An exception in between, such as the
        KeyboardInterrupt of Ctrl-C, cancels the job and does not wait for it.
        """
        job = self._job(task, arguments, options)
        try:
            job.start()
            job.wait()
            return job.result()
        except BaseException:
            job.abandon()
            raise

    # The interface has a function where this has the name of a task.
    def submit(self, task: str, /, *arguments: Any,  # type: ignore[override]
               **options: Unpack[Options]) -> Future:
        """Submits a job and returns its future.

        Waits where there is no room: n_jobs are under way. Callbacks of the
        future run on a thread of the pool's.
        """
        job = self._job(task, arguments, options)
        future = Future(job)
        try:
            job.start()
            job.watch()
            job.connection.have_thread()
        except BaseException:
            job.abandon()
            raise
        return future

    async def acall(self, task: str, /, *arguments: Any,
                    **options: Unpack[Options]) -> Any:
        """Runs a task and returns its result, for coroutines.

        The event loop hears of the job's end by a descriptor, without a thread
        in between. Where there is no room the coroutine waits; cancelling it
        cancels the job.
        """
        loop = asyncio.get_running_loop()
        job = self._job(task, arguments, options)
        ended = loop.create_future()
        job.deliver = partial(post, loop, ended)
        job.connection.join_loop(loop)
        try:
            await job.astart(loop)
            job.watch()
            return await ended
        except BaseException:
            job.abandon()
            raise
        finally:
            job.connection.leave_loop(loop)

    def find(self, task: str) -> Task:
        """What a task is called with: pool.find("fib:fib").signature."""
        return self._connected().find(task)

    # ------------------------------------------------------------- memory

    def alloc(self, size: int) -> memoryview:
        """Bytes in the shared heap, where tasks work without a copy.

        A memoryview that can be written to, whose contents are not defined:
        cast it, slice it, give it to numpy.frombuffer(). Any such part that
        starts at a multiple of 8 bytes is good for a task. The memory is free
        when nothing refers to it any more.
        """
        connection = self._connected()
        memory = connection.allocate(size)
        connection.memory.add(memory)
        return memoryview(ffi.buffer(memory, size))

    def empty(self, shape: int | tuple[int, ...],
              dtype: numpy.typing.DTypeLike = float,
              ) -> numpy.ndarray[Any, Any]:
        """numpy.empty() in the shared heap."""
        import numpy

        items = shape if isinstance(shape, int) else math.prod(shape)
        kind = numpy.dtype(dtype)
        return numpy.ndarray(shape, kind, self.alloc(items * kind.itemsize))

    @property
    def copied(self) -> int:
        """Bytes that were copied to the shared heap and back on this
        connection, for buffers that are not there."""
        connection = self._connection
        return connection.copied if connection is not None else 0

    @property
    def connected(self) -> bool:
        """Whether there is a connection, whose end is found out within
        half a second or so. If not, the next call connects."""
        connection = self._connection
        return connection is not None and not connection.is_gone()

    # ------------------------------------------------------------- the end

    def shutdown(self, wait: bool = True, *,
                 cancel_futures: bool = False) -> None:
        """Takes no more jobs, and closes the connection after the last one.

        wait: returns when every job has ended. cancel_futures: has them
        cancelled first, those that run as well. Memory of alloc() and arrays
        in it stay as they are until they are not used any more, and the
        connection with them.
        """
        with self._lock:
            self._shut = True
            connection, self._connection = self._connection, None
        if connection is None:
            return
        if cancel_futures:
            for job in tuple(connection.jobs):
                (job.stop or job.cancel)()
        if wait:
            connection.finish()

    def close(self) -> None:
        """Cancels what has not ended, waits for it and closes the connection.

        BufferError, and nothing happens, if memory of alloc() is in use: by a
        memoryview, by an array.
        """
        connection = self._connection
        n = len(connection.memory) if connection is not None else 0
        if n:
            raise BufferError(
                f"memoryviews or arrays use {n} piece{'s' * (n > 1)} of this "
                "pool's shared heap: delete them first, or use shutdown(), "
                "which leaves them")
        self.shutdown(cancel_futures=True)

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        """shutdown(), which cancels what has not ended if an exception comes
        by."""
        self.shutdown(cancel_futures=kind is not None)

    # ------------------------------------------------------------- within

    def _connected(self) -> Connection:
        """The connection, or another one if the daemon is gone."""
        connection = self._connection
        if connection is not None and not connection.is_gone():
            return connection
        with self._lock:
            if self._shut:
                raise RuntimeError("the pool was shut down")
            if self._connection is connection:
                self._connection = self._connect()
            assert self._connection is not None
            return self._connection

    def _job(self, task: str, arguments: tuple[Any, ...],
             options: Options) -> Job:
        connection = self._connected()
        return Job(connection, connection.find(task), arguments, options)


def connect(socket: str | os.PathLike[str] | None = None, *, n_jobs: int = 0,
            heap_size: int = 0) -> Pool:
    """Connects to forkd: a Pool, which see."""
    return Pool(socket, n_jobs=n_jobs, heap_size=heap_size)


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    """In a child: the connection is the parent's, and so is whoever had a
    lock."""
    for pool in _pools:
        pool._lock = threading.Lock()
        pool._connection = None


os.register_at_fork(after_in_child=_after_fork)
