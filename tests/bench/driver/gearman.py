# SPDX-License-Identifier: MIT
"""Jobs through a Gearman server: forkd with its gateway, and workers without forkd (bench_gearman).

The workers return the payload: "echo" with libgearman, "plain" with the gateway's own code for
connections. Each of their connections has one job; the gateway has places for jobs. Client, server,
worker and forkd share the CPUs. A ratio is the median of the ratios of neighbouring runs.
"""

from driver.programs import median, ratio
from driver.table import Table, text

SIDES = ("forkd", "echo", "plain")
GOAL = 0.8
# connections, places, jobs in flight, MiB of a buffer, jobs
SMALL = [(n, n, 64, 0, 10000) for n in (1, 4, 8, 16)]
# The default of the gateway with two workers, and one thread of a worker.
DEFAULT = [(1, 4, 64, 0, 10000)]
LARGE = [(1, 1, 2, 16, 50), (4, 4, 4, 16, 50)]
QUICK = [(4, 4, 64, 0, 1000), (1, 1, 2, 1, 20)]
RUNS = {"quick": 1, "default": 5, "full": 11}
LIMIT_S = 600


class Gearman:
    def __init__(self, context):
        self.context = context
        self.cells = QUICK if context.size == "quick" else SMALL + DEFAULT + LARGE
        self.rows = []

    def measure(self):
        # Without libgearman there is no program.
        if not self.context.wanted("gearman") or not self.context.path("bench_gearman"):
            return
        runs = self.context.options.runs or RUNS[self.context.size]
        for connections, places, flight, mib, jobs in self.cells:
            words = ["--threads", str(self.context.p), "--connections", str(connections)]
            words += ["--places", str(places), "--flight", str(flight), "--bytes", str(mib << 20), "--jobs", str(jobs)]
            words += ["--repeat", str(runs)]
            self.rows += self.context.run("bench_gearman", words, LIMIT_S)

    def runs(self, cell, side):
        wanted = (cell[0], cell[1], cell[3] << 20, side)
        return [
            r for r in self.rows if (r["connections"], r["places"], r["bytes"], r["side"]) == wanted
        ]

    def of(self, cell, side):
        """Returns the seconds of one job, in each run."""
        return [r["seconds"] / r["jobs"] for r in self.runs(cell, side)]

    def cpu_us(self, cell, side, process):
        used = [r["cpu_s"][process] / r["jobs"] for r in self.runs(cell, side)]
        return text(median(used) * 1e6, 0)

    def over(self, cell, other):
        """Returns how many times as fast as another worker forkd is."""
        pairs = zip(self.of(cell, "forkd"), self.of(cell, other))
        return median([ratio(theirs, ours) for ours, theirs in pairs])

    def name(self, cell):
        if cell[0] == cell[1]:
            return f"{cell[0]} connections"
        return f"{cell[0]} connections, {cell[1]} places"

    def table(self, title, unit, digits, cells):
        processes = ("client", "gearmand", "worker", "forkd")
        rows = []
        for cell in cells:
            for side in SIDES:
                times = self.of(cell, side)
                if not times:
                    continue
                row = [f"{self.name(cell)}: {side}", str(len(times))]
                row.append(text((cell[3] or 1) / median(times), digits))
                row.append(text(None if side == "forkd" else self.over(cell, side), 2))
                rows.append(row + [self.cpu_us(cell, side, p) for p in processes])
        notes = ["forkd/: how many times as fast forkd is; then CPU time of one job, us"]
        head = ["", "runs", unit, "forkd/", *processes]
        return Table(title, head, rows, notes)

    def tables(self):
        if not self.rows:
            return []
        small = [c for c in self.cells if not c[3]]
        large = [c for c in self.cells if c[3]]
        title = f"buffers of {large[0][3]} MiB through gearmand and back"
        return [
            self.table("jobs without arguments through gearmand", "jobs/s", 0, small),
            self.table(title, "MiB/s", 1, large),
        ]

    def plots(self):
        return []

    def goals(self, goals):
        for cell in self.cells if self.rows else []:
            what = f"{cell[3]} MiB" if cell[3] else "small jobs"
            name = f"gearman: {what}, {self.name(cell)}: forkd / echo worker"
            goals.at_least(name, self.over(cell, "echo"), GOAL)

    def json(self):
        return self.rows
