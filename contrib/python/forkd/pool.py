# SPDX-License-Identifier: MIT
"""The public interface: calls, futures, coroutines and memory."""
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
from forkd.connection import Connection, PoolInfo, post
from forkd.job import Job, Options, Timings
from forkd.task import Task

if TYPE_CHECKING:
    import numpy
    import numpy.typing


class Future(concurrent.futures.Future[Any]):
    """The result of a job that Pool.submit() has submitted.

    A concurrent.futures.Future with two additions. cancel() also ends a job
    that runs, at its next fork or join. timings has the seconds that the job
    has waited and run, or None until it has ended.
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
        """Cancels the future at once, and requests the end of the job.

        Until the job has ended, its task may still use its buffers, whose
        memory is kept. concurrent.futures.wait() waits for that. Returns False
        if the future has a result already.
        """
        job = self._job
        if not super().cancel():
            return False
        if job is not None:
            job.give_up()
        return True

    def result(self, timeout: float | None = None) -> Any:
        """Returns the result, or raises an exception of forkd.errors.

        Raises TimeoutError after timeout seconds; the job continues.
        """
        self._check_process()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the exception that result() raises, or None."""
        self._check_process()
        return super().exception(timeout)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.Error(
                f"{self._name}: only the parent process, which submitted the "
                "job, gets its result: submit it again in this process",
                task=self._name)


class Pool(concurrent.futures.Executor):
    """A connection to forkd, the machine's pool of workers.

    An Executor whose functions are tasks of forkd's modules. A task is called
    by its name, with Python values:

        with forkd.connect() as pool:
            pool.call("fib:fib", 30)
            [f.result() for f in (pool.submit("fib:fib", n) for n in (10, 20))]

    Keyword arguments are options of the job, not arguments of the task: see
    forkd.Options. Any number of threads may use a pool at the same time. The
    global interpreter lock is released while a call waits, and tasks do not
    need it. A child of fork() that uses the pool gets its own connection. If
    the connection is lost, calls that wait raise Disconnected, and the next
    call connects again.
    """

    def __init__(self, socket: str | os.PathLike[str] | None = None, *,
                 n_jobs: int = 0, heap_size: int = 0) -> None:
        """Connects, or raises ConnectError.

        socket: path of forkd's socket; None for $FORKD_SOCKET, or else the
        machine's forkd, or else the user's own; or the name of a cluster,
        "gearman://HOST[:PORT][,HOST[:PORT]...]". n_jobs: maximum number of jobs
        in flight; 0 for 256. heap_size: initial bytes of shared heap, which
        grows when it is full; 0 for 1 MiB.
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

        The result is None, an int, a float, or a named tuple of these. Raises
        the exceptions of forkd.errors. Any other exception while it waits,
        such as the KeyboardInterrupt of Ctrl-C, cancels the job and does not
        wait for its end.
        """
        job = self._job(task, arguments, options)
        try:
            job.start()
            job.wait()
            return job.result()
        except BaseException:
            job.abandon()
            raise

    # Executor.submit() takes a function instead of the name of a task.
    def submit(self, task: str, /, *arguments: Any,  # type: ignore[override]
               **options: Unpack[Options]) -> Future:
        """Submits a job and returns its future.

        Waits for room while n_jobs jobs are in flight. The callbacks of the
        future run on a thread of the pool.
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

        The event loop polls a descriptor for the end of the job, without a
        thread. The coroutine waits for room while n_jobs jobs are in flight.
        Cancelling the coroutine cancels the job.
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
        """Returns a task by its name, or raises UnknownTask."""
        return self._connected().find(task)

    def tasks(self) -> list[Task]:
        """Returns all tasks, sorted by name: their signatures and help."""
        return self._connected().tasks()

    def info(self) -> PoolInfo:
        """Returns the number of workers, the version and similar facts."""
        return self._connected().info()

    # ------------------------------------------------------------- memory

    def alloc(self, size: int) -> memoryview:
        """Allocates bytes in the shared heap, which tasks use without a copy.

        Returns a writable memoryview with undefined contents: cast it, slice
        it, or pass it to numpy.frombuffer(). A part that starts at a multiple
        of 8 bytes is not copied either. The last reference frees the memory.
        """
        connection = self._connected()
        memory = connection.allocate(size)
        connection.memory.add(memory)
        return memoryview(ffi.buffer(memory, size))

    def empty(self, shape: int | tuple[int, ...],
              dtype: numpy.typing.DTypeLike = float,
              ) -> numpy.ndarray[Any, Any]:
        """Allocates an array in the shared heap, like numpy.empty()."""
        import numpy

        items = shape if isinstance(shape, int) else math.prod(shape)
        kind = numpy.dtype(dtype)
        return numpy.ndarray(shape, kind, self.alloc(items * kind.itemsize))

    @property
    def copied(self) -> int:
        """Number of bytes that this connection has copied to the shared heap
        and back, for buffers outside the heap."""
        connection = self._connection
        return connection.copied if connection is not None else 0

    @property
    def connected(self) -> bool:
        """Whether the connection exists. Its loss is found out within about
        0.5 s. If it does not exist, the next call connects."""
        connection = self._connection
        return connection is not None and not connection.is_gone()

    # ------------------------------------------------------------- the end

    def shutdown(self, wait: bool = True, *,
                 cancel_futures: bool = False) -> None:
        """Accepts no more jobs, and closes the connection after the last job.

        wait: returns after all jobs have ended. cancel_futures: cancels all
        jobs first, including those that run. Memory of alloc() and empty()
        stays valid while it is used, and keeps the connection open.
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
        """Cancels all jobs, waits for their ends and closes the connection.

        Raises BufferError and does nothing if a memoryview of alloc() or an
        array of empty() is in use.
        """
        connection = self._connection
        n = len(connection.memory) if connection is not None else 0
        if n:
            raise BufferError(
                f"memoryviews or arrays use {n} block{'s' * (n > 1)} of this "
                "pool's shared heap: delete them first, or call shutdown(), "
                "which keeps them")
        self.shutdown(cancel_futures=True)

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        """Calls shutdown(); after an exception, it cancels all jobs."""
        self.shutdown(cancel_futures=kind is not None)

    # ------------------------------------------------------------- within

    def _connected(self) -> Connection:
        """Returns the connection; connects again if it was lost."""
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
    """Connects to forkd. The arguments are those of Pool."""
    return Pool(socket, n_jobs=n_jobs, heap_size=heap_size)


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    """Resets pools in a child: the parent has the connection, and may have
    held the lock."""
    for pool in _pools:
        pool._lock = threading.Lock()
        pool._connection = None


os.register_at_fork(after_in_child=_after_fork)
