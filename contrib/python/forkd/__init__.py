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
    AccessDenied, Cancelled, ConnectError, Crashed, Disconnected, Error,
    Expired, Failed, Forbidden, HeapFull, JobError, LimitReached, Lost,
    NotRunning, Outcome, Quarantined, UnknownTask)
from forkd.job import Options, Timings
from forkd.pool import Future, Pool, connect
from forkd.task import Task

__all__ = [
    "AccessDenied", "Cancelled", "ConnectError", "Crashed", "Disconnected",
    "Error", "Expired", "Failed", "Forbidden", "Future", "HeapFull",
    "JobError", "LimitReached", "Lost", "NotRunning", "Options", "Outcome",
    "Pool", "Quarantined", "Task", "Timings", "UnknownTask", "connect",
]
