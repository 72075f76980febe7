# SPDX-License-Identifier: MIT
"""A job of 100 us beside a flood, and how long a cancelled job takes: bench_latency, bench_cancel."""

from driver.plot import Lines
from driver.table import Table, text

ROUNDS = {"quick": ("1", "30"), "default": ("4", "150"), "full": ("20", "500")}
CANCELS = {"quick": "5", "default": "50", "full": "500"}
FLOODS = {"batch": "4,096 jobs of 10 us, over and over", "tree": "one fork-join job, leaves of 10 us"}
QUANTILES = ("p50", "p99", "p999", "max")
AT = [*range(0, 100, 5), 99, 99.9, 100]


def us(ns):
    return text(None if ns is None else ns / 1000, 0)


class Latency:
    def __init__(self, context):
        self.context = context
        self.p = context.p
        self.floods = []
        self.cancels = []

    def measure(self):
        size = self.context.size
        threads = ["--threads", str(self.p)]
        if self.context.wanted("latency"):
            rounds, samples = ROUNDS[size]
            words = [*threads, "--rounds", rounds, "--samples", samples]
            self.floods = self.context.run("bench_latency", words, 1200)
        if self.context.wanted("cancel"):
            words = [*threads, "--samples", CANCELS[size]]
            self.cancels = self.context.run("bench_cancel", words, 300)

    @staticmethod
    def name(r):
        return f"{r['flood']}, {'one uid' if r['uids'] == 1 else 'two uids'}"

    @staticmethod
    def extra(r, who, q="p99"):
        """Above the control, and above one leaf of the flood, in ns."""
        return r[f"{who}_ns"][q] - r[f"control_{who}_ns"][q] - r["leaf_ns"]

    def flood_table(self):
        rows = []
        for r in self.floods:
            for who in ("client", "pool"):
                for title, key in (("beside it", f"{who}_ns"), ("control", f"control_{who}_ns")):
                    values = [us(r[key][q]) for q in QUANTILES]
                    values.insert(1, us(r[key]["curve"][AT.index(90)]))
                    rows.append([f"{self.name(r)}: {title}, by the {who}", str(r["samples"])])
                    rows[-1] += values
        head = ["", "samples", "p50", "p90", "p99", "p99.9", "max"]
        notes = [f"{name}: {what}" for name, what in FLOODS.items()]
        notes += [
            "by the client: until it sees the end; it competes with the workers for a CPU",
            "by the pool: from submission to end as forkd has it (fk_timings)",
            "control: the same job on the idle pool, in turns with the flood",
        ]
        if not any(r["uids"] == 2 for r in self.floods):
            notes.append("two uids: not measured, only root can run the flood as somebody else")
        title = "a job of 100 us beside a flood, microseconds from submission to end"
        return Table(title, head, rows, notes)

    def cancel_table(self):
        rows = []
        for r in self.cancels:
            row = [r["what"], str(r["samples"]), str(r["missed"])]
            row += [us(r[k]) for k in ("p50_ns", "p99_ns", "max_ns")]
            row += [text(r[k] / 1024, 1) for k in ("pss_before_kib", "pss_after_kib")]
            rows.append(row)
        head = ["", "samples", "missed", "p50", "p99", "max", "PSS before", "after"]
        notes = ["missed: the job had ended by itself; PSS of the pool in MiB"]
        return Table("from cancel to end of a job in full swing, microseconds", head, rows, notes)

    def tables(self):
        tables = [self.flood_table()] if self.floods else []
        return tables + ([self.cancel_table()] if self.cancels else [])

    def plots(self):
        plots = []
        for who in ("client", "pool"):
            series = []
            for r in self.floods:
                for title, key in ((self.name(r), f"{who}_ns"), (None, f"control_{who}_ns")):
                    points = [(ns / 1000, at) for ns, at in zip(r[key]["curve"], AT)]
                    series.append((title or f"control of {self.name(r)}", points))
            title = f"a job of 100 us beside a flood, as the {who} sees it"
            if series:
                plots.append(Lines(f"latency_{who}", title, "us", "per cent", series, "x"))
        return plots

    def goals(self, goals):
        for r in self.floods:
            for who in ("client", "pool"):
                what = f"{self.name(r)}: p99 above control and leaf, by the {who}, us"
                goals.at_most(what, self.extra(r, who) / 1000, 1000, 0)
        for r in self.cancels:
            leaf = 10000 if r["what"] == "tree" else 0
            if r["missed"] < r["samples"]:
                what = f"cancel, {r['what']}: p99 above one leaf, us"
                goals.at_most(what, (r["p99_ns"] - leaf) / 1000, 1000, 0)

    def json(self):
        return {"floods": self.floods, "cancels": self.cancels}
