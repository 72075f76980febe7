# SPDX-License-Identifier: MIT
"""The cost of a sleep and of a wake, by workers and tenants: bench_sleep."""

from driver.table import Table, text

# Steps whose time and loads (check_sleep.c) depend on neither workers nor tenants.
STEADY = ("to sleep", "to wake", "to wake, any", "to turn busy")


class Sleeps:
    def __init__(self, context):
        self.context = context
        self.rows = []

    def measure(self):
        if self.context.wanted("sleep"):
            self.rows = self.context.run("bench_sleep", ["--json"], 300)

    def tables(self):
        if not self.rows:
            return []
        pools = list(dict.fromkeys((r["workers"], r["tenants"]) for r in self.rows))
        rows = []
        for name in dict.fromkeys(r["operation"] for r in self.rows):
            of = [r for r in self.rows if r["operation"] == name]
            rows.append([name] + [f"{text(r['ns'], 0)} ({text(r['ratio'], 2)})" for r in of])
        head = [""] + [f"{w} x {t}" for w, t in pools]
        notes = ["medians; in brackets over the smallest pool; the last one that looks in a group"]
        notes += ["looks at each tenant once before it sleeps or naps, all others at none"]
        return [Table("sleep and wake, ns, by workers x tenants", head, rows, notes)]

    def plots(self):
        return []

    def goals(self, goals):
        for name in STEADY:
            ratios = [r["ratio"] for r in self.rows if r["operation"] == name]
            if ratios:
                what = f"sleep: {name}, 128 workers and 64 tenants / 8 and 1"
                goals.at_most(what, ratios[-1], 1.5)

    def json(self):
        return self.rows
