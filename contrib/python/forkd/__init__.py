# SPDX-License-Identifier: MIT
"""forkd for Python: the parallel work of a machine in one pool of workers.

    import forkd

    with forkd.connect() as pool:
        print(pool.call("fib:fib", 30))

connect() gives a Pool, which is a concurrent.futures.Executor whose functions
are tasks of forkd's modules: "MODULE:TASK". call() runs one, submit() gives a
future, acall() is for coroutines. alloc() and empty() give memory that tasks
work in without a copy. forkd.errors says what is raised.
"""
from forkd.errors import (
    Cancelled, ConnectError, Crashed, Disconnected, Error, Expired, Failed,
    HeapFull, JobError, Lost, Outcome, Refused, UnknownTask)
from forkd.job import Options, Timings
from forkd.pool import Future, Pool, connect
from forkd.task import Task

__all__ = [
    "Cancelled", "ConnectError", "Crashed", "Disconnected", "Error", "Expired",
    "Failed", "Future", "HeapFull", "JobError", "Lost", "Options", "Outcome",
    "Pool", "Refused", "Task", "Timings", "UnknownTask", "connect",
]
