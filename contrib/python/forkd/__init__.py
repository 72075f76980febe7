# SPDX-License-Identifier: MIT
"""forkd for Python: one pool of workers for all programs of a machine.

    import forkd

    with forkd.connect() as pool:
        print(pool.call("fib:fib", 30))

connect() returns a Pool, a concurrent.futures.Executor that runs tasks of
forkd's modules: submit() takes the name of a task, "MODULE:TASK", and no
Python function. call() runs a task and waits, submit() returns a future, and
acall() is for coroutines. Tasks use memory of alloc() and empty() without a
copy. forkd.errors lists the exceptions.
"""
from forkd.errors import (
    AccessDenied, Cancelled, ConnectError, Crashed, Disconnected, Error,
    Expired, Failed, Forbidden, HeapFull, JobError, LimitReached, Lost,
    NotRunning, Outcome, Quarantined, UnknownTask)
from forkd.connection import PoolInfo
from forkd.job import Options, Timings
from forkd.pool import Future, Pool, connect
from forkd.task import Task

__all__ = [
    "AccessDenied", "Cancelled", "ConnectError", "Crashed", "Disconnected",
    "Error", "Expired", "Failed", "Forbidden", "Future", "HeapFull",
    "JobError", "LimitReached", "Lost", "NotRunning", "Options", "Outcome",
    "Pool", "PoolInfo", "Quarantined", "Task", "Timings", "UnknownTask",
    "connect",
]
