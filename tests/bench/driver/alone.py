# SPDX-License-Identifier: MIT
"""Benchmarks of forkd alone: round trips and null jobs, counts of forks, the pool's memory."""

from driver.programs import Failed, median, ratio, run_program
from driver.table import Table, mib, mib2, text

# name, control's mode, forkd's mode, arguments of both; runs are interleaved
PINGPONGS = [
    ("spinning, warm worker", "spin", "warm", ["--round-trips", "100000"]),
    ("futex, idle pool", "futex", "idle", ["--round-trips", "1000", "--gap-us", "1000"]),
]
PINGPONG_RUNS = {"quick": 1, "default": 5, "full": 10}
ROUND_TRIPS = {"quick": 300}
NULL_CLIENTS = (1, 2, 4)

# at 1 and P threads, or at P threads
COUNTED = [["fib", "30"], ["flat", "1000000"]]
MEMORY = {
    "quick": [["job", "deep:deep", "1000000"], ["job", "deep:forked", "1000000"]],
    "default": [
        ["job", "deep:deep", "10000000"],
        ["job", "deep:forked", "10000000"],
        ["memory", "T3L"],
    ],
}
JOBS = {"quick": ["--repeat", "1", "--rounds", "2000"], "full": ["--repeat", "21"]}
TAKEN = {"quick": 20000, "default": 1000000, "full": 100000000}
FORCED = {"quick": 100000, "default": 10000000, "full": 1000000000}


class Alone:
    def __init__(self, context):
        self.context = context
        self.p = context.p
        self.on = "forkd" in context.programs
        self.pingpongs = {}
        self.nulls = {}
        self.counted = []
        self.memory = []
        self.steals = []
        self.jobs = []

    def forkd(self, words, threads, limit_s):
        """Returns the line of a run of forkd alone, or None if it failed."""
        got = self.context.run("bench_forkd", [*words, "--threads", str(threads)], limit_s)
        return got[-1] if got else None

    def pingpong(self):
        for title, control_mode, forkd_mode, args in PINGPONGS:
            args = list(args)
            if self.context.size in ROUND_TRIPS:
                args[1] = str(ROUND_TRIPS[self.context.size])
            pairs = []
            control = self.context.path("control_pingpong")
            if control:
                pairs.append(("control", [control, control_mode, *args]))
            forkd = self.context.programs["forkd"]
            pairs.append(("forkd", [forkd, "pingpong", forkd_mode, *args]))
            pairs[-1][1].extend(["--threads", str(self.p)])
            for side, argv in pairs:
                try:
                    got = run_program(argv, 60)
                    if not got:
                        raise Failed(f"{' '.join(argv)}: no answer in 60 s")
                    self.pingpongs.setdefault((title, side), []).append(got[-1])
                except Failed as e:
                    self.context.fail(str(e))

    def measure(self):
        if not self.on:
            return
        runs = PINGPONG_RUNS[self.context.size]
        for _ in range(runs if self.context.wanted("pingpong") else 0):
            self.pingpong()
        for _ in range(runs if self.context.wanted("nulls") else 0):
            for clients in NULL_CLIENTS:
                got = self.forkd(["nulls", "--clients", str(clients)], self.p, 60)
                if got:
                    self.nulls.setdefault(clients, []).append(got)
        if self.context.wanted("jobs"):
            words = ["--threads", str(self.p), *JOBS.get(self.context.size, [])]
            self.jobs = self.context.run("bench_jobs", words, 300)
        if self.context.wanted("counted"):
            for words in COUNTED:
                for threads in sorted({1, self.p}):
                    self.counted.append(self.forkd(["counted", *words], threads, 60))
        if self.context.wanted("memory"):
            for words in MEMORY.get(self.context.size, MEMORY["default"]):
                self.memory.append(self.forkd(words, self.p, 120))
        if self.context.wanted("steals"):
            # With one worker nothing is stolen.
            words = ["--threads", str(max(self.p, 2)), "--steals"]
            for how in ([], ["--forced"]):
                steals = (FORCED if how else TAKEN)[self.context.size]
                limit = 60 + steals // 10000
                self.steals += self.context.run("bench_steals", [*words, str(steals), *how], limit)
        self.counted = [r for r in self.counted if r]
        self.memory = [r for r in self.memory if r]

    def pingpong_medians(self, title):
        """Returns the median p50, p99, p99.9 in us, of the control and of forkd, if measured."""
        medians = {}
        for side in ("control", "forkd"):
            runs = self.pingpongs.get((title, side))
            if runs:
                keys = ("p50_ns", "p99_ns", "p999_ns")
                medians[side] = [median([r[k] for r in runs]) / 1000 for k in keys]
        return medians

    def pingpong_table(self):
        rows = []
        for title, *_ in PINGPONGS:
            medians = self.pingpong_medians(title)
            for side, values in medians.items():
                runs = str(len(self.pingpongs[(title, side)]))
                rows.append([f"{title}: {side}", runs, *[text(v, 2) for v in values]])
            if len(medians) == 2:
                pairs = zip(medians["forkd"], medians["control"])
                rows.append(["  forkd - control", "", *[text(f - c, 2) for f, c in pairs]])
        title = "round trip of a null job and of two bare processes, microseconds"
        notes = ["medians over interleaved runs of each run's quantile"]
        return Table(title, ["", "runs", "p50", "p99", "p99.9"], rows, notes)

    def nulls_table(self):
        rows = []
        for clients, runs in self.nulls.items():
            rate = median([r["jobs_per_second"] for r in runs])
            rows.append([f"{clients} clients", str(len(runs)), text(rate, 0)])
        return Table("null jobs per second, many in flight", ["", "runs", "jobs/s"], rows)

    def jobs_table(self):
        rows = []
        for r in self.jobs:
            what = "stealing" if r["stealing"] else "strict"
            row = [f"{r['shape']}, {what}", str(r["jobs"]), str(r["runs"]), text(r["seconds"], 4)]
            row += [str(r["job_steals"]), str(r["steal_attempts"])]
            success = ratio(r["job_steals"], r["steal_attempts"])
            row.append("-" if success is None else f"{100 * success:.2f} %")
            rows.append(row)
        head = ["", "jobs", "runs", "seconds", "jobs stolen", "attempts", "success"]
        title = f"jobs that are each put on one of {self.p} workers, stealing on and off"
        notes = ["imbalanced: the first tenth is ten times as long, and on the first worker"]
        return Table(title, head, rows, notes)

    def counted_table(self):
        rows = [
            [" ".join(r["args"]), str(r["threads"]), str(r["forks"]), str(r["expected"])]
            for r in self.counted
        ]
        title = "forks, counted by modules compiled for it, and the closed form"
        return Table(title, ["", "P", "forks", "closed form"], rows)

    def memory_table(self):
        rows = []
        for r in self.memory:
            row = [" ".join(r["args"]), str(r["threads"]), text(r["seconds"], 2)]
            for key in ("pool_pss_idle_kib", "pool_pss_peak_kib", "pool_pss_after_kib"):
                row.append(mib(r[key]))
            rows.append(row)
        title = "memory of the pool (PSS), MiB"
        return Table(title, ["", "P", "s", "idle", "peak", "after"], rows)

    def steals_table(self):
        rows = []
        for r in self.steals:
            rate = r["steals"] / r["seconds"]
            for look in [r["idle"], *r["decades"], r["tenths"][0], r["tenths"][-1]]:
                row = [f"{r['what']}, {r['threads']} workers", str(look["steals"])]
                rows.append(row + [mib2(look["pss_kib"]), mib2(look["rss_kib"]), text(rate, 0)])
        notes = [
            "taken: by another worker; forced: every fork is treated as stolen",
            "the last two rows of each: after a tenth of the steals, and after all",
        ]
        head = ["", "steals", "PSS", "RSS", "steals/s"]
        return Table("memory of the pool over steals, MiB", head, rows, notes)

    def tables(self):
        pairs = [
            (self.pingpongs, self.pingpong_table),
            (self.nulls, self.nulls_table),
            (self.jobs, self.jobs_table),
            (self.counted, self.counted_table),
            (self.memory, self.memory_table),
            (self.steals, self.steals_table),
        ]
        return [make() for there, make in pairs if there]

    def plots(self):
        return []

    def goals(self, goals):
        for title, _, mode, _ in PINGPONGS:
            medians = self.pingpong_medians(title)
            if len(medians) == 2:
                for i, name in enumerate(("p50", "p99")):
                    extra = medians["forkd"][i] - medians["control"][i]
                    most = 1 if mode == "warm" else 10
                    goals.at_most(f"{title}: {name} above the control, us", extra, most)
        if 1 in self.nulls:
            rate = median([r["jobs_per_second"] for r in self.nulls[1]])
            goals.at_least("null jobs per second, one client", rate, 1000000, 0)
        for r in self.memory:
            title = " ".join(r["args"])
            idle = r["pool_pss_idle_kib"] / 1024
            goals.at_most(f"{title}: pool when idle, MiB", idle, 16, 1)
            if r["args"][0] != "uts:uts":
                peak = r["pool_pss_peak_kib"] / 1024
                goals.at_most(f"{title}: pool at its peak, MiB", peak, 2048, 0)
        for r in self.steals:
            grown = (r["tenths"][-1]["rss_kib"] - r["tenths"][0]["rss_kib"]) / 1024
            what = f"steals, {r['what']}: RSS after all above that after a tenth, MiB"
            goals.at_most(what, grown, 1)

    def json(self):
        return {
            "pingpong": [
                {"what": title, "peer": side, "runs": runs}
                for (title, side), runs in self.pingpongs.items()
            ],
            "nulls": [r for runs in self.nulls.values() for r in runs],
            "jobs": self.jobs,
            "counted": self.counted,
            "memory": self.memory,
            "steals": self.steals,
        }
