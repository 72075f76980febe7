# SPDX-License-Identifier: MIT
"""Kernels of the Barcelona OpenMP Tasks Suite, with one source file per kernel and library."""

import difflib
import os
import re

from driver.programs import Failed, median, ratio, run_program
from driver.table import Table, text

# What runs a kernel, and its source: KERNEL followed by this.
LIBRARIES = {
    "serial": ".c",
    "libgomp": "_omp.c",
    "libomp": "_omp.c",
    "forkd": "_forkd.c",
    "forkdxx": "_forkd.cc",
}
PEERS = ("libgomp", "libomp")
OURS = {"forkd": "C", "forkdxx": "C++"}
SIZES = {
    "quick": {"sparselu": 6, "strassen": 256, "health": 3, "floorplan": 5},
    "default": {"sparselu": 128, "strassen": 1024, "health": 6, "floorplan": 11},
    "full": {"sparselu": 256, "strassen": 4096, "health": 8, "floorplan": 12},
}
ROUNDS = {"quick": 1, "default": 5, "full": 5}
LIMIT_S = {"quick": 60, "default": 120, "full": 3600}
SOURCES = os.path.join(os.path.dirname(os.path.dirname(__file__)), "bots")


def code_of(kernel, library):
    """Returns the lines of a source without comments, empty lines and indentation."""
    with open(os.path.join(SOURCES, kernel + LIBRARIES[library]), encoding="ascii") as f:
        code = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.DOTALL)
    return [line.strip() for line in code.splitlines() if line.strip()]


def changed_lines(kernel, library):
    """Returns the number of lines that differ from the serial kernel: added, changed or removed."""
    matcher = difflib.SequenceMatcher(
        None, code_of(kernel, "serial"), code_of(kernel, library), autojunk=False
    )
    changes = [op for op in matcher.get_opcodes() if op[0] != "equal"]
    return sum(max(old_end - old, new_end - new) for _, old, old_end, new, new_end in changes)


class Bots:
    def __init__(self, context):
        self.context = context
        self.threads = sorted({1, context.p})
        self.sizes = SIZES[context.size]
        self.rows = []

    def run(self, kernel, library, threads):
        path = self.context.path(f"bots/{kernel}_{library}")
        if not path:
            if library in ("serial", "forkd"):
                self.context.fail(f"bots/{kernel}_{library} is not there")
            return
        argv = [path, str(self.sizes[kernel]), str(threads)]
        limit_s = self.context.options.limit or LIMIT_S[self.context.size]
        try:
            got = run_program(argv, limit_s)
        except Failed as e:
            self.context.fail(str(e))
            return
        if got is None:
            print(f"bench: {' '.join(argv)}: too slow", file=self.context.options.log)
        for r in got or []:
            self.rows.append({"kernel": kernel, "library": library, "threads": threads, **r})

    def measure(self):
        if not self.context.wanted("bots"):
            return
        libraries = list(LIBRARIES)
        for i in range(self.context.options.runs or ROUNDS[self.context.size]):
            first = i % len(libraries)
            for kernel in self.sizes:
                for library in libraries[first:] + libraries[:first]:
                    for threads in self.threads[: 1 if library == "serial" else None]:
                        self.run(kernel, library, threads)
        for kernel in self.sizes:
            results = {r["result"] for r in self.rows if r["kernel"] == kernel}
            if len(results) > 1:
                self.context.fail(f"bots {kernel}: the results differ: {' '.join(results)}")

    def of(self, kernel, library, threads):
        wanted = (kernel, library, threads)
        return [r for r in self.rows if (r["kernel"], r["library"], r["threads"]) == wanted]

    def seconds(self, kernel, library, threads):
        return median([r["seconds"] for r in self.of(kernel, library, threads)])

    def row(self, kernel, library):
        times = [self.seconds(kernel, library, threads) for threads in self.threads]
        runs = [r for threads in self.threads for r in self.of(kernel, library, threads)]
        over = [ratio(t, self.seconds(kernel, "serial", 1)) for t in times]
        return [
            f"{kernel} {self.sizes[kernel]}: {library}",
            str(len(runs)),
            *(text(t, 3) for t in times),
            *(text(x, 2) for x in over),
            str(changed_lines(kernel, library)),
        ]

    def tables(self):
        if not self.rows:
            return []
        head = ["", "runs", *(f"T_{t}" for t in self.threads)]
        head += [*(f"T_{t}/serial" for t in self.threads), "lines"]
        rows = [
            self.row(kernel, library)
            for kernel in self.sizes
            for library in LIBRARIES
            if self.of(kernel, library, 1)
        ]
        notes = ["lines: that differ from the serial kernel, without comments and indentation"]
        return [Table("kernels of the Barcelona OpenMP Tasks Suite", head, rows, notes)]

    def plots(self):
        return []

    def goals(self, goals):
        """The best of libgomp and libomp is the measure of times, OpenMP and 40 that of lines."""
        for kernel in self.sizes if self.rows else ():
            for threads in self.threads:
                times = [self.seconds(kernel, library, threads) for library in PEERS]
                best = min((t for t in times if t is not None), default=None)
                for library, language in OURS.items():
                    lead = ratio(best, self.seconds(kernel, library, threads))
                    what = f"bots, {kernel}: best of OpenMP / forkd, {language}, {threads} workers"
                    goals.at_least(what, lead, 1)
            lines = {library: changed_lines(kernel, library) for library in LIBRARIES}
            goals.at_most(f"bots, {kernel}: lines changed in C", lines["forkd"], 40, 0)
            most = 2 * lines["libgomp"]
            goals.at_most(f"bots, {kernel}: lines changed in C++", lines["forkdxx"], most, 0)

    def json(self):
        return self.rows
