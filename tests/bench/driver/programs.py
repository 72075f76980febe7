# SPDX-License-Identifier: MIT
"""Runs the programs of `make bench`, and computes sums of their results."""

import json
import os
import platform
import signal
import statistics
import subprocess

# name in the JSON, program, what it needs
PEERS = [
    ("serial", "peer_serial", "a C compiler"),
    ("serial-noinline", "peer_serial_noinline", "a C compiler"),
    ("serial-call", "peer_serial_call", "a C compiler"),
    ("forkd", "bench_forkd", "forkd's own client for these benchmarks, built with it"),
    ("local", "peer_local", "libforkpool, built with it"),
    ("onetbb", "peer_tbb", "a C++ compiler and libtbb-dev"),
    ("libomp", "peer_libomp", "clang and libomp-dev"),
    ("libgomp", "peer_libgomp", "gcc as the C compiler, or another one with -fopenmp"),
]
SERIAL = ("serial", "serial-noinline", "serial-call")
FORKD = ("forkd", "local")
OTHERS = ("onetbb", "libomp", "libgomp")


class Failed(Exception):
    """A program failed."""


def run_program(argv, limit_s):
    """Returns the JSON objects that it printed, or None if it took longer than limit_s."""
    process = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except BaseException as e:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(e, subprocess.TimeoutExpired):
            return None
        raise
    if process.returncode:
        why = err.strip().splitlines()[-1:] or [f"exit status {process.returncode}"]
        raise Failed(f"{' '.join(argv)}: {why[0]}")
    try:
        return [json.loads(line) for line in out.splitlines() if line.strip()]
    except ValueError as e:
        raise Failed(f"{' '.join(argv)}: not JSON: {e}") from e


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as f:
        for line in f:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def largest(values):
    return max((v for v in values if v is not None), default=None)


def ratio(a, b):
    return a / b if a is not None and b else None


class Context:
    """Shared by all parts: the options, the available programs, and the failures."""

    def __init__(self, options):
        self.options = options
        self.size = "quick" if options.quick else "full" if options.full else "default"
        self.p = options.threads or len(os.sched_getaffinity(0))
        self.errors = []
        self.programs = {}
        self.missing = []
        for name, program, needs in PEERS:
            path = self.path(program)
            if path:
                self.programs[name] = path
            else:
                self.missing.append(f"{name}: {program} is not there; it needs {needs}")

    def path(self, program):
        path = os.path.join(self.options.dir, program)
        return path if os.access(path, os.X_OK) else None

    def wanted(self, name):
        return not self.options.only or name in self.options.only

    def fail(self, why):
        self.errors.append(why)
        print(f"bench: {why}", file=self.options.log)

    def run(self, program, words, limit_s):
        """Returns all lines of a program of forkd, or [] if it is missing or has failed."""
        path = self.path(program)
        if not path:
            self.fail(f"{program} is not there")
            return []
        argv = [path, *words]
        try:
            got = run_program(argv, limit_s)
            if not got:
                raise Failed(f"{' '.join(argv)}: no answer in {limit_s} s")
            return got
        except Failed as e:
            self.fail(str(e))
            return []
