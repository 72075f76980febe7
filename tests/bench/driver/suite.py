# SPDX-License-Identifier: MIT
"""The benchmarks of every peer, in interleaved rounds."""

import time

from driver.plot import Bars
from driver.programs import (
    FORKD,
    OTHERS,
    PEERS,
    SERIAL,
    Failed,
    available_bytes,
    largest,
    median,
    ratio,
    run_program,
)
from driver.table import Table, mib, mib2, text


def both(name, *args):
    """With work stealing, and divided beforehand."""
    return [(name, [*args, how]) for how in ("stealing", "static")]


def steps(items, rounds, edge, turns, nodes, numbers):
    """The workloads of the M:N runtimes that exist in both forms."""
    return [
        *both("loop", items, rounds, "balanced"),
        *both("loop", items, rounds, "imbalanced"),
        *both("heat", edge, turns),
        *both("bfs", nodes),
        *both("mergesort", numbers),
    ]


# bench: arguments in each size
SIZES = {
    "quick": [
        ("fib", ["25"]),
        ("flat", ["100000"]),
        ("integrate", ["100", "1e-9"]),
        ("matmul", ["256"]),
        ("nqueens", ["9"]),
        ("uts", ["T3"]),
        ("sort", ["500000"]),
        ("blocks", ["200"]),
        *steps("2000", "2000", "256", "50", "100000", "500000"),
    ],
    "default": [
        ("fib", ["32"]),
        ("flat", ["3000000"]),
        ("integrate", ["500", "1e-9"]),
        ("matmul", ["768"]),
        ("nqueens", ["11"]),
        ("uts", ["T1"]),
        ("uts", ["T3"]),
        ("sort", ["5000000"]),
        ("blocks", ["3000"]),
        *steps("20000", "5000", "512", "400", "1000000", "5000000"),
    ],
    # The sizes of the papers.
    "full": [
        ("fib", ["42"]),
        ("flat", ["10000000"]),
        ("flat", ["10000000", "10"]),
        ("flat", ["1000000", "100"]),
        ("integrate", ["10000", "1e-9"]),
        ("matmul", ["8192"]),
        ("nqueens", ["14"]),
        *[("uts", [tree]) for tree in ("T1", "T1L", "T1XXL", "T3", "T3L", "T3XXL")],
        ("sort", ["5000000"]),
        ("sort", ["50000000"]),
        ("blocks", ["30000"]),
        *steps("100000", "10000", "512", "400", "1000000", "5000000"),
    ],
}
RUNS = {"quick": 1, "default": 5, "full": 5}
LIMIT_S = {"quick": 5, "default": 60, "full": 7200}
FORKD_LIMIT_S = 120

# A program that takes longer than this is run in this many rounds only.
SLOW_S = {"quick": 1e9, "default": 2, "full": 300}
SLOW_RUNS = 3

# Only the second run in a process counts if the first one mostly takes page faults.
REPEAT = {"flat": 2, "sort": 2, "mergesort": 2}

# Memory of oneTBB for each task of a flat loop with one thread: all tasks exist at once.
TBB_FLAT_TASK_BYTES = 300

# Error of the RSS that the kernel reports: each thread may have this much uncounted.
RSS_GRAIN_MIB = 0.25

# "No worse": within the error of measurement.
LOCAL_MOST = 1.03

# The tasks of libfork's suite; of these, tasks of a few instructions.
LIBFORK = ("fib", "integrate", "matmul", "nqueens", "uts")
TINY = ("fib", "integrate")


class Bench:
    """One benchmark with its arguments, and its measurements by program and threads."""

    def __init__(self, name, args):
        self.name = name
        self.args = args
        self.title = " ".join([name] + args)
        self.runs = {}
        self.notes = {}

    def add(self, peer, threads, run):
        self.runs.setdefault((peer, threads), []).append(run)

    def median(self, peer, threads, key="seconds"):
        return median([r.get(key) for r in self.runs.get((peer, threads), [])])

    def any_run(self):
        return next((runs[0] for runs in self.runs.values() if runs), None)

    def disagreement(self):
        """Returns the difference between the results of two programs, or None."""
        first = self.any_run()
        tasks = {}
        for (_, threads), runs in self.runs.items():
            for r in runs:
                exact = self.name != "integrate"
                near = abs(r["result"] - first["result"]) <= 1e-9 * abs(first["result"])
                if r["result"] != first["result"] and (exact or not near):
                    return f"{r['peer']} says {r['result']}, {first['peer']} {first['result']}"
                # The number of parts of a static division depends on the threads.
                other = tasks.setdefault(threads if "static" in self.args else 0, r)
                if r["tasks"] != other["tasks"]:
                    counts = f"{r['tasks']} tasks, {other['peer']} {other['tasks']}"
                    return f"{r['peer']} counts {counts}"
        return None

    def row(self, peer, p):
        t1 = self.median(peer, 1)
        tp = self.median(peer, p)
        runs = self.runs.get((peer, 1), []) + self.runs.get((peer, p), [])

        def most(key):
            return largest(r.get(key) for r in runs)

        row = {
            "peer": peer,
            "runs": max(len(self.runs.get((peer, n), [])) for n in (1, p)),
            "t_1": t1,
            "t_p": tp,
            "speedup": ratio(t1, tp),
            "ns_per_task": None if t1 is None else 1e9 * t1 / self.any_run()["tasks"],
            "base_rss_kib": most("base_rss_kib"),
            "peak_rss_kib": most("peak_rss_kib"),
            "pool_rss_idle_kib": most("pool_rss_idle_kib"),
            "pool_rss_peak_kib": most("pool_rss_peak_kib"),
            "manager_rss_kib": most("manager_rss_kib"),
            "pool_pss_idle_kib": most("pool_pss_idle_kib"),
            "pool_pss_peak_kib": most("pool_pss_peak_kib"),
        }
        for key in ("steals", "steal_attempts", "job_steals"):
            row[key] = self.median(peer, p, key)
        for serial in SERIAL:
            row["over_" + serial] = ratio(t1, self.median(serial, 1))
        for other in OTHERS:
            row[f"{other}_over_t_1"] = ratio(self.median(other, 1), t1)
            row[f"{other}_over_t_p"] = ratio(self.median(other, p), tp)
        return row

    def added_kib(self, row):
        """Returns the memory that the benchmark has added to its processes."""
        pairs = [("peak_rss_kib", "base_rss_kib"), ("pool_rss_peak_kib", "pool_rss_idle_kib")]
        if row["peer"] != "forkd":
            pairs = pairs[:1]
        if any(row[key] is None for pair in pairs for key in pair):
            return None
        return sum(row[peak] - row[base] for peak, base in pairs)

    def memory_rows(self, p):
        rows = []
        for r in self.rows(p):
            title = f"{self.title}: {r['peer']}"
            parts = [(title, r["base_rss_kib"], r["peak_rss_kib"])]
            if r["peer"] == "forkd":
                parts[0] = (f"{title}, client", *parts[0][1:])
                parts.append((f"{title}, pool", r["pool_rss_idle_kib"], r["pool_rss_peak_kib"]))
            for name, base, peak in parts:
                added = None if base is None or peak is None else peak - base
                rows.append([name, mib(base), mib(peak), mib2(added)])
        return rows

    def rows(self, p):
        peers = [name for name, _, _ in PEERS if any((name, n) in self.runs for n in (1, p))]
        return [self.row(peer, p) for peer in peers]

    def best_other(self, p):
        times = [self.median(other, p) for other in OTHERS]
        return min((t for t in times if t is not None), default=None)

    def table(self, p):
        first = self.any_run()
        title = f"{self.title}: {first['tasks']} tasks, result {first['result']}"
        head = ["", "runs", "T_1 s", f"T_{p} s", "/serial", "/noinline", "/call", "speedup"]
        head += ["ns/task", "RSS", "pool RSS", "PSS idle", "peak"]
        head += ["tbb/T_1", f"tbb/T_{p}", "omp/T_1", f"omp/T_{p}"]
        rows = []
        for r in self.rows(p):
            cells = [r["peer"], str(r["runs"]), text(r["t_1"], 4)]
            cells.append("-" if r["peer"] in SERIAL else text(r["t_p"], 4))
            cells += [text(r["over_" + s], 2) for s in SERIAL]
            cells.append("-" if r["peer"] in SERIAL else text(r["speedup"], 2))
            cells.append(text(r["ns_per_task"], 2))
            cells += [mib(r[k]) for k in ("peak_rss_kib", "pool_rss_peak_kib")]
            cells += [mib(r[k]) for k in ("pool_pss_idle_kib", "pool_pss_peak_kib")]
            for other in ("onetbb", "libomp"):
                cells.append(text(r[f"{other}_over_t_1"], 2))
                cells.append("-" if r["peer"] in SERIAL else text(r[f"{other}_over_t_p"], 2))
            rows.append(cells)
        return Table(title, head, rows, self.notes.values())


class Suite:
    def __init__(self, context):
        self.context = context
        self.p = context.p
        self.rounds = context.options.runs or RUNS[context.size]
        self.limit_s = context.options.limit or LIMIT_S[context.size]
        self.benches = [Bench(n, a) for n, a in SIZES[context.size] if context.wanted(n)]

    def too_large(self, bench, peer):
        if peer != "onetbb" or bench.name != "flat":
            return None
        need = int(bench.args[0]) * TBB_FLAT_TASK_BYTES
        if need < available_bytes():
            return None
        return f"{peer} left out: it takes {need >> 20} MiB, more than there is"

    def measure_one(self, bench, peer, threads):
        key = (peer, threads)
        done = bench.runs.get(key, [])
        slow = len(done) >= SLOW_RUNS and done[0]["seconds"] > SLOW_S[self.context.size]
        if key in bench.notes or slow:
            return
        note = self.too_large(bench, peer)
        if note:
            bench.notes[key] = note
            return
        repeat = REPEAT.get(bench.name, 1)
        argv = [self.context.programs[peer], bench.name, *bench.args]
        argv += ["--threads", str(threads), "--repeat", str(repeat)]
        limit = self.limit_s * repeat
        if peer in FORKD:
            limit = max(limit, FORKD_LIMIT_S)
        try:
            runs = run_program(argv, limit)
            if runs is None and peer in FORKD:
                raise Failed(f"{' '.join(argv)}: no answer in {limit} s")
            if runs is None:
                why = f"{peer} with {threads} threads: more than {limit} s, not run again"
                bench.notes[key] = why
            elif not runs:
                raise Failed(f"{' '.join(argv)}: printed nothing")
            else:
                bench.add(peer, threads, runs[-1])
        except Failed as e:
            bench.notes[key] = f"{peer} with {threads} threads failed"
            self.context.fail(str(e))

    def measure(self):
        for nth in range(self.rounds if self.benches else 0):
            began = time.monotonic()
            names = list(self.context.programs)
            names = names[nth % len(names) :] + names[: nth % len(names)]
            for bench in self.benches:
                for threads in sorted({1, self.p}):
                    for peer in names:
                        if threads == 1 or peer not in SERIAL:
                            self.measure_one(bench, peer, threads)
            took = time.monotonic() - began
            log = self.context.options.log
            print(f"bench: round {nth + 1} of {self.rounds}: {took:.0f} s", file=log)

    def measured(self):
        return [b for b in self.benches if b.any_run()]

    def pairs(self):
        """(stealing, static) of the benchmarks that exist in both forms."""
        by_title = {b.title: b for b in self.measured()}
        for b in by_title.values():
            other = by_title.get(b.title.replace("stealing", "static"))
            if other and other is not b:
                yield b, other

    def stealing_table(self):
        head = ["", "stealing s", "static s", "static/stealing", "steals", "attempts", "success"]
        rows = []
        for on, off in self.pairs():
            for r in on.rows(self.p):
                if r["peer"] in SERIAL:
                    continue
                t = off.median(r["peer"], self.p)
                steals, attempts = r["steals"], r["steal_attempts"]
                success = ratio(steals, attempts)
                rows.append(
                    [
                        f"{on.title.replace(' stealing', '')}: {r['peer']}",
                        text(r["t_p"], 4),
                        text(t, 4),
                        text(ratio(t, r["t_p"]), 2),
                        text(steals, 0),
                        text(attempts, 0),
                        "-" if success is None else f"{100 * success:.2f} %",
                    ]
                )
        notes = [
            "static: as many parts as threads, cut beforehand, so that there is nothing to steal",
            "attempts: looks at a victim's deque, those of a thief that waits for work included",
        ]
        title = f"work stealing on and off, {self.p} threads"
        return Table(title, head, rows, notes) if rows else None

    def steals_table(self):
        head = ["forkd", "steals", "attempts", "success", "queued jobs stolen"]
        rows = []
        for b in self.measured():
            r = b.row("forkd", self.p)
            if r["steals"] is None:
                continue
            success = ratio(r["steals"], r["steal_attempts"])
            rows.append(
                [
                    b.title,
                    text(r["steals"], 0),
                    text(r["steal_attempts"], 0),
                    "-" if success is None else f"{100 * success:.2f} %",
                    text(r["job_steals"], 0),
                ]
            )
        return Table(f"steals in a run, {self.p} workers", head, rows) if rows else None

    def memory_table(self):
        rows = [r for b in self.measured() if b.name in LIBFORK for r in b.memory_rows(self.p)]
        managers = largest(
            r["manager_rss_kib"] for b in self.measured() for r in b.rows(self.p)
        )
        notes = [
            "before: with the library's threads (the pool) started, and nothing done yet",
            "the client is what each process has that uses forkd, the pool there is once a machine,",
            f"plus the manager with {mib(managers)} MiB; matmul's matrices are in client and pool",
        ]
        head = ["", "before", "peak", "added"]
        return Table("peak RSS in MiB, and what of it was there before", head, rows, notes)

    def tables(self):
        for b in self.measured():
            wrong = b.disagreement()
            if wrong:
                self.context.fail(f"{b.title}: {wrong}")
        tables = [b.table(self.p) for b in self.measured()]
        more = (self.memory_table(), self.stealing_table(), self.steals_table())
        return tables + [t for t in more if t and t.rows]

    def plots(self):
        benches = self.measured()
        names = [b.title for b in benches]
        plots = []
        for key, threads in (("t_1", 1), ("t_p", self.p)):
            series = [
                (peer, [ratio(b.median(peer, threads), b.median("forkd", threads)) for b in benches])
                for peer in OTHERS
            ]
            title = f"time with {threads} threads over forkd's"
            plots.append(Bars(f"peers_{key}", title, "times forkd", names, series, True, 1))
        series = [
            (peer, [b.row(peer, self.p)["speedup"] for b in benches])
            for peer in (*FORKD, *OTHERS)
        ]
        title = f"speedup with {self.p} threads"
        plots.append(Bars("speedup", title, "T_1 / T_P", names, series, False, self.p))
        pairs = list(self.pairs())
        series = [
            (peer, [ratio(off.median(peer, self.p), on.median(peer, self.p)) for on, off in pairs])
            for peer in ("forkd", *OTHERS)
        ]
        names = [on.title.replace(" stealing", "") for on, _ in pairs]
        title = "static cut over work stealing"
        plots.append(Bars("stealing", title, "T_P / T_P", names, series, False, 1))
        return plots

    def goals(self, goals):
        for b in self.measured():
            row = next((r for r in b.rows(self.p) if r["peer"] == "forkd"), None)
            tbb = next((r for r in b.rows(self.p) if r["peer"] == "onetbb"), None)
            if not row:
                continue
            if b.name in ("fib", "flat"):
                goals.at_least(f"{b.title}: oneTBB's T_1 / T_1", row["onetbb_over_t_1"], 20, 1)
                goals.at_least(f"{b.title}: libomp's T_1 / T_1", row["libomp_over_t_1"], 10, 1)
            if b.name == "fib":
                what = f"{b.title}: T_1 / serial, inlining off"
                goals.at_most(f"{what}, as compiled", row["over_serial-noinline"], 1.25)
                goals.at_most(f"{what}, each task a call", row["over_serial-call"], 1.25)
            if b.name == "blocks":
                goals.at_most(f"{b.title}: T_1 / serial", row["over_serial"], 1.03, 3)
            if b.name in LIBFORK:
                best = ratio(b.best_other(self.p), row["t_p"])
                low = 10 if b.name in TINY else 1
                goals.at_least(f"{b.title}: the best peer's T_P / T_P", best, low)
                self.rss_goal(goals, b, row)
            if (b.name in ("fib", "flat", "nqueens") or b.args == ["T1"]) and tbb:
                relative = ratio(row["speedup"], tbb["speedup"])
                goals.at_least(f"{b.title}: speedup / oneTBB's speedup", relative, 0.95)

            self.local_goals(goals, b)

    def local_goals(self, goals, bench):
        local = bench.row("local", self.p)
        if local["t_1"] is None:
            return
        over = ratio(local["t_1"], bench.median("forkd", 1))
        if bench.name in LIBFORK:
            most = 1 if bench.name == "fib" else LOCAL_MOST
            goals.at_most(f"{bench.title}: T_1 in the program / through the daemon", over, most)
        if bench.name == "nqueens":
            goals.at_most(f"{bench.title}: T_1 in the program / serial", local["over_serial"], 1.08)
        peers = [r["peak_rss_kib"] for r in bench.rows(self.p) if r["peer"] in OTHERS]
        if peers:
            over = ratio(local["peak_rss_kib"], min(peers))
            goals.at_most(f"{bench.title}: peak RSS in the program / the least peer's", over, 1)

    def rss_goal(self, goals, bench, row):
        # matmul's matrices are in the pool and in the client, and would count twice.
        if bench.name == "matmul" or row["pool_rss_peak_kib"] is None:
            return
        peers = [r for r in bench.rows(self.p) if r["peer"] in OTHERS]
        if not peers:
            return
        least = min(r["peak_rss_kib"] for r in peers)
        both = row["pool_rss_peak_kib"] + row["peak_rss_kib"]
        what = f"{bench.title}: peak RSS of"
        goals.at_most(f"{what} pool and client / the least peer's", ratio(both, least), 1)
        goals.at_most(f"{what} the client / the least peer's", ratio(row["peak_rss_kib"], least), 1)
        added = [kib for kib in map(bench.added_kib, peers) if kib is not None]
        if added and bench.added_kib(row) is not None:
            what = f"{bench.title}: MiB that the benchmark adds to it, less what the least peer's has"
            extra = (bench.added_kib(row) - min(added)) / 1024
            goals.at_most(what, extra, RSS_GRAIN_MIB)

    def json(self):
        return [
            {
                "bench": b.name,
                "args": b.args,
                "table": b.rows(self.p) if b.any_run() else [],
                "notes": list(b.notes.values()),
                "runs": [r for runs in b.runs.values() for r in runs],
            }
            for b in self.benches
        ]
