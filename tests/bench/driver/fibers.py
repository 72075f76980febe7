# SPDX-License-Identifier: MIT
"""Workloads of an M:N runtime (fiber_work.h): fibers, boost.fiber, threads and a serial run."""

from driver.programs import Failed, median, ratio, run_program
from driver.table import Table, text

# name, program, words before the benchmark, with 1 thread too, what it needs
WAYS = [
    ("serial", "peer_serial", [], True, "a C compiler"),
    ("fibers", "bench_forkd", ["fibers"], True, "forkd's own client for the benchmarks"),
    ("kept", "bench_forkd", ["kept"], False, "forkd's own client for the benchmarks"),
    ("boost.fiber", "peer_boost", [], True, "a C++ compiler and libboost-fiber-dev"),
    ("threads", "peer_threads", [], True, "a C compiler"),
]
MOVES = "moves"
MOVERS = ("fibers", "boost.fiber")


def workloads(items, rounds, fib, edge, steps, nodes, queens, numbers, moves):
    return [
        ("balanced", ["loop", items, rounds, "balanced", "stealing"]),
        ("imbalanced", ["loop", items, rounds, "imbalanced", "stealing"]),
        (f"fib({fib}), cutoff 20", ["cut-fib", fib, "20"]),
        ("heat diffusion", ["heat", edge, steps, "stealing"]),
        ("BFS", ["bfs", nodes, "stealing"]),
        (f"n-queens({queens}), 3 rows", ["cut-nqueens", queens, "3"]),
        ("mergesort", ["mergesort", numbers, "stealing"]),
        (MOVES, ["moves", "64", moves]),
    ]


SIZES = {
    "quick": workloads("500", "5000", "27", "256", "20", "50000", "9", "200000", "50"),
    "default": workloads("2000", "50000", "40", "1024", "200", "1000000", "13", "5000000", "500"),
    "full": workloads("20000", "50000", "42", "2048", "400", "8000000", "14", "50000000", "5000"),
}
ROUNDS = {"quick": 1, "default": 5, "full": 11}
LIMIT_S = {"quick": 30, "default": 60, "full": 1200}
# Of these the speedup is a goal.
SCALING = ("balanced", "fib", "n-queens")
KEYS = ("steals", "steal_attempts", "fibers", "fiber_parks", "fiber_migrations")


class Fibers:
    def __init__(self, context):
        self.context = context
        self.p = context.p
        self.runs = {}
        self.missing = []

    def measure_one(self, workload, words, way, threads):
        name, program, before, _, _ = way
        # The first run has the page faults.
        argv = [self.context.path(program), *before, *words]
        argv += ["--threads", str(threads), "--repeat", "2"]
        limit = LIMIT_S[self.context.size]
        try:
            got = run_program(argv, limit)
            if not got:
                raise Failed(f"{' '.join(argv)}: no answer in {limit} s")
            run = {"workload": workload, "way": name, **got[-1]}
            self.runs.setdefault((workload, name, threads), []).append(run)
        except Failed as e:
            self.context.fail(str(e))

    def wanted(self, workload, way, threads):
        name, _, _, single, _ = way
        if threads == 1:
            return single and workload != MOVES
        return name != "serial" and (workload != MOVES or name in MOVERS)

    def measure(self):
        if not self.context.wanted("fibers"):
            return
        ways = [way for way in WAYS if self.context.path(way[1])]
        self.missing = [(way[0], way[4]) for way in WAYS if way not in ways]
        # With one worker there is no thief.
        self.p = max(self.p, 2)
        for nth in range(self.context.options.runs or ROUNDS[self.context.size]):
            turned = ways[nth % len(ways) :] + ways[: nth % len(ways)]
            for workload, words in SIZES[self.context.size]:
                for threads in (1, self.p):
                    for way in turned:
                        if self.wanted(workload, way, threads):
                            self.measure_one(workload, words, way, threads)
        for workload in self.workloads():
            results = {r["result"] for (w, *_), runs in self.runs.items() for r in runs if w == workload}
            if len(results) > 1:
                self.context.fail(f"{workload}: the results differ: {sorted(results)}")

    def workloads(self):
        return dict.fromkeys(workload for workload, _, _ in self.runs)

    def median(self, workload, way, threads, key="seconds"):
        return median([r.get(key) for r in self.runs.get((workload, way, threads), [])])

    def speedup(self, workload, way):
        return ratio(self.median(workload, way, 1), self.median(workload, way, self.p))

    def stealing(self, workload):
        """Returns the time without stealing over the time with it."""
        off = self.median(workload, "kept", self.p)
        return ratio(off, self.median(workload, "fibers", self.p))

    def table(self):
        rows = []
        for workload in self.workloads():
            serial = self.median(workload, "serial", 1)
            for way, *_ in WAYS:
                t1, tp = (self.median(workload, way, n) for n in (1, self.p))
                if workload == MOVES or (t1 is None and tp is None):
                    continue
                counts = [self.median(workload, way, self.p, key) for key in KEYS]
                success = ratio(counts[0], counts[1])
                row = [f"{workload}: {way}", text(t1, 4), text(tp, 4)]
                row += [text(ratio(t1, serial), 2), text(self.speedup(workload, way), 2)]
                row += [text(ratio(serial, tp), 2), *[text(n, 0) for n in counts]]
                row.append("-" if success is None else f"{100 * success:.1f} %")
                rows.append(row)
        head = ["", "T_1 s", f"T_{self.p} s", "T_1/serial", "speedup", f"serial/T_{self.p}"]
        head += ["steals", "attempts", "fibers", "waits", "moves", "success"]
        notes = [
            "kept: fibers that are not stolen, so all of them are run by the worker of the first one",
            "boost.fiber: its work_stealing; threads: a thread for each fiber, but P at a time",
            "attempts: looks at a victim's deque, those of a thief that waits for work included",
        ]
        notes += [f"{name} is missing: it needs {needs}" for name, needs in self.missing]
        return Table(f"workloads as fibers, {self.rounds()} rounds", head, rows, notes)

    def rounds(self):
        return max(len(runs) for runs in self.runs.values())

    def stealing_table(self):
        rows = []
        for workload in self.workloads():
            on, off = (self.median(workload, way, self.p) for way in ("fibers", "kept"))
            if on is not None and off is not None:
                rows.append([workload, text(on, 4), text(off, 4), text(ratio(off, on), 2)])
        head = ["", "on s", "off s", "off/on"]
        return Table(f"fibers, stealing on and off, {self.p} workers", head, rows)

    def moves_table(self):
        rows = []
        for way in MOVERS:
            for what in ("local", "stolen"):
                row = [self.median(MOVES, way, self.p, key) for key in self.move_keys(what)]
                if row[0]:
                    rows.append([f"{way}: {what}", *[text(value, 0) for value in row]])
            penalties = [self.penalty(way, key) for key in ("gap", "work")]
            if None not in penalties:
                rows.append([f"{way}: stolen - local", "", *[text(value, 0) for value in penalties]])
        head = ["", "fibers", "before it, ns", "itself, ns"]
        notes = [
            "before it: from the end of what the thread has run before; medians of each run's median",
            "itself: reads 8 KiB that were written where it was spawned; one of 64 that are waited for",
        ]
        return Table(f"fibers that ran where they were spawned, and stolen ones, P = {self.p}", head, rows, notes)

    @staticmethod
    def move_keys(what):
        return (what, f"{what}_gap_ns", f"{what}_work_ns")

    def penalty(self, way, key):
        """Returns the extra ns of a stolen fiber; None if there were none of one kind."""
        both = [self.median(MOVES, way, self.p, f"{what}_{key}_ns") for what in ("stolen", "local")]
        return None if None in both or min(both) < 0 else both[0] - both[1]

    def tables(self):
        return [self.table(), self.stealing_table(), self.moves_table()] if self.runs else []

    def plots(self):
        return []

    def goals(self, goals):
        for workload in self.workloads():
            if workload.startswith(SCALING):
                speedup = self.speedup(workload, "fibers")
                goals.at_least(f"fibers, {workload}: speedup", speedup, 0.95 * self.p)
        heat = self.stealing("heat diffusion")
        goals.at_least("fibers, heat diffusion: stealing off / on", heat, 0.9 * self.p)

    def json(self):
        return [r for runs in self.runs.values() for r in runs]
