# SPDX-License-Identifier: MIT
"""The mutual cost of processes with parallel work: K pools or one forkd (bench_compose).

Every process runs jobs of 100 ms, one after the other: parallel loops of 1,000 leaves of 100 us
("large"), or of 100,000 leaves of 1 us ("fine"). In "small" one process sends jobs of 1 ms, 7 ms
apart, during the large jobs of all others. All sides use the defaults of their library, and have
the same machine code in their leaves.

The runs of the sides are interleaved. A ratio is the median of the ratios of all rounds. p50 and p99
are of the jobs of all processes and rounds.
"""

import csv
import math
import os
import time

from driver.plot import Lines, Panels
from driver.programs import median, ratio
from driver.table import Table, text

# name, as bench_compose has it, and its program
SIDES = [
    ("forkd", "compose_forkd"),
    ("local", "compose_local"),
    ("onetbb", "compose_tbb"),
    ("libgomp", "compose_libgomp"),
    ("libomp", "compose_libomp"),
]
PASSIVE = [("libgomp-passive", "compose_libgomp"), ("libomp-passive", "compose_libomp")]
NAMES = {"onetbb": "oneTBB", "local": "libforkpool"}
OTHERS = ("onetbb", "libgomp", "libomp")
GOAL_AT = 8

# leaves of a job, how many of them are as long as one of 100 us, leaves of the small jobs
LOADS = {"large": (1000, 1, 0), "fine": (100000, 100, 0), "small": (1000, 1, 10)}
CELLS = {
    "quick": [("large", (2,)), ("fine", (2,)), ("small", (2,))],
    "default": [("large", (1, 2, 4, 8, 16)), ("fine", (8,)), ("small", (2, 4, 8, 16))],
    "full": [("large", (1, 2, 4, 8, 16)), ("fine", (1, 2, 4, 8, 16)), ("small", (2, 4, 8, 16))],
}
RUNS = {"quick": 1, "default": 3, "full": 10}
TIMES = {
    "quick": ["--ms", "100", "--warm-ms", "20"],
    "default": ["--ms", "1500", "--warm-ms", "300"],
    "full": ["--ms", "5000", "--warm-ms", "500"],
}
QUICK_SHARE = 10  # of the leaves
LIMIT_S = 120

TITLES = {
    "large": "K processes at a time, each with jobs of 100 ms, leaves of 100 us",
    "fine": "K processes at a time, each with jobs of 100 ms, leaves of 1 us",
    "small": "a job of 1 ms of one process, every 7 ms, and K - 1 with jobs of 100 ms",
}
CSV_HEAD = (
    "load processes side runs jobs_per_s p50_ms p99_ms small_p50_ms small_p99_ms small_max_ms "
    "voluntary_per_s involuntary_per_s switches_per_job cpu_s_per_job pss_mib untouched_mib "
    "least_share others_cpus stolen_cpus"
).split()


def quantile(values, q):
    values = sorted(values)
    return values[max(0, math.ceil(q * len(values)) - 1)] if values else None


def ms(ns, digits=1):
    return text(None if ns is None else ns / 1e6, digits)


class Run:
    """Figures of one run of bench_compose."""

    def __init__(self, got, large):
        self.job_ns, self.small_ns = got["job_ns"], got["small_ns"]
        seconds = self.seconds = got["seconds"]
        self.jobs_per_s = got["jobs"] / seconds
        self.voluntary_per_s = got["voluntary"] / seconds
        self.involuntary_per_s = got["involuntary"] / seconds
        self.switches_per_s = self.voluntary_per_s + self.involuntary_per_s
        self.switches_per_job = ratio(self.switches_per_s, self.jobs_per_s)
        self.cpu_s_per_job = ratio(got["cpu_s"], got["jobs"])
        self.pss_mib = self.mib(got["pss_kib"])
        self.untouched_mib = self.mib(got["idle_kib"])
        self.least_share = ratio(got["least"] * large, got["jobs"])
        self.others_cpus = got["others_s"] / seconds
        self.stolen_cpus = got["stolen_s"] / seconds
        self.small_p99 = quantile(self.small_ns, 0.99)

    @staticmethod
    def mib(kib):
        return None if kib is None else kib / 1024


class Cell:
    """All runs of one load with this many processes: a list per side, with one entry per round."""

    def __init__(self, load, members, sides):
        self.load, self.members = load, members
        self.runs = {side: [] for side in sides}

    def of(self, side, name):
        return [getattr(run, name) for run in self.runs.get(side, []) if run]

    def median(self, side, name):
        return median(self.of(side, name))

    def pooled(self, side, name, q):
        return quantile([ns for times in self.of(side, name) for ns in times], q)

    def over(self, a, b, name):
        """Returns the median over the rounds of a's figure by b's."""
        pairs = [(x, y) for x, y in zip(self.runs.get(a, []), self.runs.get(b, [])) if x and y]
        return median([ratio(getattr(x, name), getattr(y, name)) for x, y in pairs])

    def measured(self):
        return [side for side, runs in self.runs.items() if any(runs)]

    def csv_row(self, side):
        row = [self.load, self.members, side, len(self.of(side, "jobs_per_s"))]
        row.append(self.median(side, "jobs_per_s"))
        asked = [("job_ns", 0.5), ("job_ns", 0.99), *(("small_ns", q) for q in (0.5, 0.99, 1))]
        for name, q in asked:
            ns = self.pooled(side, name, q)
            row.append(None if ns is None else ns / 1e6)
        row += [self.median(side, name) for name in CSV_HEAD[len(row) :]]
        return [f"{cell:.4f}" if isinstance(cell, float) else cell for cell in row]


class Compose:
    def __init__(self, context):
        self.context = context
        self.rounds = context.options.runs or RUNS[context.size]
        self.cells = []
        self.began = None

    def sides(self, load, members):
        sides = list(SIDES)
        if members == GOAL_AT and load != "fine":
            sides += PASSIVE
        return [side for side, program in sides if self.context.path(program)]

    def words(self, cell, rounds):
        leaves, finer, small = LOADS[cell.load]
        if self.context.size == "quick":
            leaves //= QUICK_SHARE
        words = ["--members", str(cell.members), "--leaves", str(leaves), "--small", str(small)]
        return [*words, "--rounds", str(rounds // finer), *TIMES[self.context.size]]

    def run(self, cell, side, rounds):
        words = [side, *self.words(cell, rounds)]
        got = self.context.run("bench_compose", words, LIMIT_S)
        large = cell.members - (1 if cell.load == "small" else 0)
        cell.runs[side].append(Run(got[-1], large) if got else None)

    def measure(self):
        if not self.context.wanted("compose") or "forkd" not in self.context.programs:
            return
        got = self.context.run("bench_compose", ["rounds"], 60)
        if not got:
            return
        self.began = time.strftime("%Y-%m-%d %H:%M")
        for load, sizes in CELLS[self.context.size]:
            self.cells += [Cell(load, n, self.sides(load, n)) for n in sizes]
        for nth in range(self.rounds):
            began = time.monotonic()
            for i, cell in enumerate(self.cells):
                names = list(cell.runs)
                first = (nth + i) % len(names)
                for side in names[first:] + names[:first]:
                    self.run(cell, side, got[-1]["rounds"])
            took = time.monotonic() - began
            what = f"bench: compose: round {nth + 1} of {self.rounds}: {took:.0f} s"
            print(what, file=self.context.options.log)

    def rows(self, load, cells):
        for cell in self.cells:
            if cell.load != load:
                continue
            for side in cell.measured():
                name = f"{cell.members} {side}"
                yield [name, str(len(cell.of(side, "jobs_per_s"))), *cells(cell, side)]

    @staticmethod
    def large_cells(cell, side):
        def of(name, digits):
            return text(cell.median(side, name), digits)

        row = [of("jobs_per_s", 2), text(cell.over(side, "forkd", "jobs_per_s"), 2)]
        row += [ms(cell.pooled(side, "job_ns", q), 0) for q in (0.5, 0.99)]
        row += [of("least_share", 2), of("voluntary_per_s", 0), of("involuntary_per_s", 0)]
        row += [of("switches_per_job", 1), text(cell.over(side, "forkd", "switches_per_s"), 2)]
        return row + [of("cpu_s_per_job", 4), of("pss_mib", 1), of("untouched_mib", 1)]

    @staticmethod
    def small_cells(cell, side):
        row = [str(sum(len(times) for times in cell.of(side, "small_ns")))]
        row += [ms(cell.pooled(side, "small_ns", q), 2) for q in (0.5, 0.99, 1)]
        row.append(text(cell.over(side, "forkd", "small_p99"), 2))
        row.append(text(cell.median(side, "jobs_per_s"), 2))
        row.append(text(cell.over(side, "forkd", "jobs_per_s"), 2))
        return row + [text(cell.median(side, "switches_per_s"), 0)]

    def notes(self):
        runs = [run for cell in self.cells for runs in cell.runs.values() for run in runs if run]
        others, stolen = [r.others_cpus for r in runs], [r.stolen_cpus for r in runs]
        return [
            "/forkd: the median of the ratios to forkd's run in the same round",
            "p50, p99: of one job as its process sees it; share: of the process that got least,",
            "by an equal part; vol, invol: context switches in a second, of all threads, forkd's too",
            "PSS: of all processes, MiB, forkd's two included; untouched: shared memory that forkd",
            "has allocated and that was not used yet",
            f"{self.began}: others used {text(median(others), 2)} CPUs in the middle run,"
            f" {text(max(others), 2)} at most; the hypervisor kept {text(median(stolen), 2)}",
        ]

    def tables(self):
        if not any(cell.measured() for cell in self.cells):
            return []
        tables = []
        head = ["K", "runs", "jobs/s", "/forkd", "p50 ms", "p99", "share", "vol", "invol"]
        head += ["per job", "/forkd", "CPU s/job", "PSS", "untouched"]
        for load in ("large", "fine"):
            rows = list(self.rows(load, self.large_cells))
            tables.append(Table(TITLES[load], head, rows, self.notes()))
        head = ["K", "runs", "small jobs", "p50 ms", "p99", "max", "p99 /forkd", "large jobs/s"]
        head += ["/forkd", "switches/s"]
        rows = list(self.rows("small", self.small_cells))
        tables.append(Table(TITLES["small"], head, rows, self.notes()[:1]))
        return [table for table in tables if table.rows]

    def series(self, load, value):
        series = []
        for side, _ in SIDES:
            name = "one forkd" if side == "forkd" else f"K pools of {NAMES.get(side, side)}"
            cells = [cell for cell in self.cells if cell.load == load and side in cell.measured()]
            points = [(cell.members, value(cell, side)) for cell in cells]
            series.append((name, [(x, y) for x, y in points if y is not None]))
        return series

    def plots(self):
        def medians(name):
            return lambda cell, side: cell.median(side, name)

        def small_p99(cell, side):
            ns = cell.pooled(side, "small_ns", 0.99)
            return None if ns is None else ns / 1e6

        axis = "set logscale x 2\nset xtics (1, 2, 4, 8, 16)\nset xrange [0.9:18]\n"
        whole = axis + "set yrange [0:*]\nunset key\n"
        tens = axis + "set logscale y 10\nunset key\n"
        legend = axis + "set yrange [0:*]\nset key inside bottom right\n"
        panels = [
            ("all jobs of 100 ms", "jobs/s", self.series("large", medians("jobs_per_s")), legend),
            ("a job of 1 ms during them", "p99, ms", self.series("small", small_p99), tens),
            (
                "context switches",
                "in a second",
                self.series("large", medians("switches_per_s")),
                tens,
            ),
            ("memory of all processes", "PSS, MiB", self.series("large", medians("pss_mib")), whole),
        ]
        title = "K processes with parallel work on one machine"
        lines = [
            Lines(None, name, "K, processes", y, series, more=more)
            for name, y, series, more in panels
        ]
        return [Panels("composability", title, lines)]

    def goals(self, goals):
        by_load = {cell.load: cell for cell in self.cells if cell.members == GOAL_AT}
        large, small = by_load.get("large"), by_load.get("small")
        for other in OTHERS:
            what = f"{GOAL_AT} processes, {GOAL_AT} pools of {other}"
            if large:
                over = large.over("forkd", other, "jobs_per_s")
                goals.at_least(f"{what}: jobs/s of forkd / theirs", over, 1)
                over = large.over(other, "forkd", "switches_per_s")
                goals.at_least(f"{what}: their context switches / forkd's", over, 10, 1)
                over = large.over("forkd", other, "pss_mib")
                goals.at_most(f"{what}: PSS of forkd and its clients / theirs", over, 1)
            if small:
                over = small.over(other, "forkd", "small_p99")
                goals.at_least(f"{what}: their p99 of a small job / forkd's", over, 5, 1)

    def readme(self):
        """Returns the table of benchmarks.md for K = GOAL_AT, or the largest K."""
        most = {cell.load: cell for cell in self.cells if cell.members <= GOAL_AT}
        if not {"large", "small"} <= set(most):
            return []
        large, small = most["large"], most["small"]
        sides = [side for side, _ in SIDES if side in large.measured()]

        def row(name, value):
            return f"| {name} | " + " | ".join(value(side) for side in sides) + " |"

        def quantiles(cell, name, digits):
            def both(side):
                return " / ".join(ms(cell.pooled(side, name, q), digits) for q in (0.5, 0.99))

            return both

        def of(name, digits):
            return lambda side: text(large.median(side, name), digits)

        def small_rate(side):
            ended = [len(times) for times in small.of(side, "small_ns")]
            seconds = small.of(side, "seconds")
            return text(ratio(sum(ended), sum(seconds)), 0)

        names = ["one forkd" if side == "forkd" else NAMES.get(side, side) for side in sides]
        return [
            row(f"{large.members} processes", lambda side: names[sides.index(side)]),
            "|" + "---|" * (len(sides) + 1),
            row("jobs of 100 ms in a second, all together", of("jobs_per_s", 1)),
            row("such a job, p50 / p99, ms", quantiles(large, "job_ns", 0)),
            row("a job of 1 ms during them, p50 / p99, ms", quantiles(small, "small_ns", 1)),
            row("such jobs in a second", small_rate),
            row("context switches in a second", of("switches_per_s", 0)),
            row("memory of all processes (PSS), MiB", of("pss_mib", 1)),
        ]

    def write_files(self, directory):
        """Every figure as CSV, and the table of benchmarks.md."""
        rows = [cell.csv_row(side) for cell in self.cells for side in cell.measured()]
        if not rows:
            return
        path = os.path.join(directory, "composability.csv")
        with open(path, "w", encoding="ascii", newline="") as f:
            csv.writer(f, lineterminator="\n").writerows([CSV_HEAD, *rows])
        path = os.path.join(directory, "composability.md")
        with open(path, "w", encoding="ascii") as f:
            f.writelines(f"{line}\n" for line in [*self.readme(), "", self.notes()[-1]])

    def json(self):
        return {
            "began": self.began,
            "rounds": self.rounds,
            "cells": [
                dict(zip(CSV_HEAD, cell.csv_row(side)))
                for cell in self.cells
                for side in cell.measured()
            ],
        }
