# SPDX-License-Identifier: MIT
"""Latencies, and a control in the same runs.

A job of 100 us during a flood (bench_latency), the end of a cancelled job (bench_cancel), and
continuations behind a long leaf (bench_hidden).
"""

from driver.plot import Lines
from driver.table import Table, mib, text

ROUNDS = {"quick": ("1", "30"), "default": ("4", "150"), "full": ("20", "500")}
CANCELS = {"quick": "5", "default": "100", "full": "500"}
HIDDEN = {"quick": "20", "default": "500", "full": "5000"}
FLOODS = {"batch": "4,096 jobs of 10 us, over and over", "tree": "one fork-join job, leaves of 10 us"}
QUANTILES = ("p50", "p99", "p999", "max")
AT = [*range(0, 100, 5), 99, 99.9, 100]


def us(ns):
    return text(None if ns is None else ns / 1000, 0)


def us1(ns):
    return text(None if ns is None else ns / 1000, 1)


class Latency:
    def __init__(self, context):
        self.context = context
        self.p = context.p
        self.floods = []
        self.cancels = []
        self.hidden = []

    def measure(self):
        size = self.context.size
        threads = ["--threads", str(self.p)]
        if self.context.wanted("latency"):
            rounds, samples = ROUNDS[size]
            words = [*threads, "--rounds", rounds, "--samples", samples]
            self.floods = self.context.run("bench_latency", words, 1200)
        if self.context.wanted("cancel"):
            words = [*threads, "--samples", CANCELS[size]]
            self.cancels = self.context.run("bench_cancel", words, 900)
        if self.context.wanted("hidden"):
            words = ["--threads", str(max(self.p, 2)), "--samples", HIDDEN[size]]
            self.hidden = self.context.run("bench_hidden", words, 300)

    @staticmethod
    def name(r):
        return f"{r['flood']}, {'one uid' if r['uids'] == 1 else 'two uids'}"

    @staticmethod
    def extra(r, side, q="p99"):
        """Above the control, and above one leaf of the flood, in ns."""
        return r[f"{side}_ns"][q] - r[f"control_{side}_ns"][q] - r["leaf_ns"]

    def flood_table(self):
        rows = []
        for r in self.floods:
            for side in ("client", "pool"):
                for title, key in (("during it", f"{side}_ns"), ("control", f"control_{side}_ns")):
                    values = [us(r[key][q]) for q in QUANTILES]
                    values.insert(1, us(r[f"{key}_curve"][AT.index(90)]))
                    rows.append([f"{self.name(r)}: {title}, by the {side}", str(r["samples"])])
                    rows[-1] += values
        head = ["", "samples", "p50", "p90", "p99", "p99.9", "max"]
        notes = [f"{name}: {what}" for name, what in FLOODS.items()]
        notes += [
            "by the client: until it sees the end; it competes with the workers for a CPU",
            "by the pool: from submission to end as forkd has it (fk_timings)",
            "control: the same job on the idle pool, in turns with the flood",
        ]
        if not any(r["uids"] == 2 for r in self.floods):
            notes.append("two uids: not measured, only root can run the flood as another user")
        title = "a job of 100 us during a flood, microseconds from submission to end"
        return Table(title, head, rows, notes)

    def cancel_table(self):
        rows = []
        for r in self.cancels:
            for title, key in (
                ("until the client sees it", "client_ns"),
                ("  control: relay", "relay_ns"),
                ("until it has its outcome", "ended_ns"),
                ("  control: relay until seen", "seen_ns"),
                ("control: futex and back", "futex_ns"),
            ):
                row = [f"{r['what']}: {title}", str(r["samples"]), str(r["missed"])]
                rows.append(row + [us(r[key][q]) for q in QUANTILES])
            for title, key, control in (
                ("client - relay", "client_ns", "relay_ns"),
                ("outcome - seen", "ended_ns", "seen_ns"),
            ):
                row = [f"{r['what']}: {title}", "", ""]
                rows.append(row + [us(r[key][q] - r[control][q]) for q in QUANTILES[:2]])
                rows[-1] += ["-"] * (len(QUANTILES) - 2)
        head = ["", "samples", "missed", "p50", "p99", "p99.9", "max"]
        notes = [
            "all with the same job running on all workers, in turns",
            "relay: a packet to a thread, one from it to another, an answer by a futex: the way of",
            "a cancel (client, manager, pool, client) with nothing to do on it",
            "missed: the job had ended by itself",
        ]
        return Table("from cancel to end of a job in full swing, microseconds", head, rows, notes)

    def back_table(self):
        rows = []
        for r in self.cancels:
            row = [r["what"], str(r["unwound"]), str(r["steals"])]
            row += [mib(r[f"pss_{when}_kib"]) for when in ("before", "running", "after")]
            rows.append(row + [str(r["stacks_before"]), str(r["stacks_after"])])
        head = ["", "frames ended", "stolen", "PSS before", "running", "after"]
        head += ["stacks before", "after"]
        notes = ["frames: of one cancelled job; PSS of the pool in MiB; stacks in bytes"]
        return Table("memory back after cancels", head, rows, notes)

    def hidden_table(self):
        rows = []
        for r in self.hidden:
            for title, key in (
                ("first of the work", "first_ns"),
                ("all of it", "last_ns"),
                ("  control: a signal to a running thread", "signal_ns"),
            ):
                row = [f"{r['what']}: {title}", str(r["samples"]), str(r["exposed"])]
                rows.append(row + [us1(r[key][q]) for q in QUANTILES])
        head = ["", "samples", "exposed", "p50", "p99", "p99.9", "max"]
        notes = [
            "from the start of a leaf, which does not end before, until a thief has taken the work",
            "that its worker has forked before; public: one continuation, which is public at once;",
            "hidden: 16, of which thieves can see no more than 8",
            "exposed: samples in which work was made public from under the leaf, by a signal",
        ]
        return Table("work behind a long leaf, microseconds", head, rows, notes)

    def tables(self):
        tables = [self.flood_table()] if self.floods else []
        tables += [self.cancel_table(), self.back_table()] if self.cancels else []
        return tables + ([self.hidden_table()] if self.hidden else [])

    def plots(self):
        plots = []
        for side in ("client", "pool"):
            series = []
            for r in self.floods:
                for title, key in ((self.name(r), f"{side}_ns"), (None, f"control_{side}_ns")):
                    points = [(ns / 1000, at) for ns, at in zip(r[f"{key}_curve"], AT)]
                    series.append((title or f"control of {self.name(r)}", points))
            title = f"a job of 100 us during a flood, as the {side} sees it"
            if series:
                plots.append(Lines(f"latency_{side}", title, "us", "per cent", series, "x"))
        return plots

    def goals(self, goals):
        for r in self.floods:
            for side in ("client", "pool"):
                what = f"{self.name(r)}: p99 above control and leaf, by the {side}, us"
                goals.at_most(what, self.extra(r, side) / 1000, 1000, 0)
        for r in self.cancels:
            if r["missed"] == r["samples"]:
                continue
            what = f"cancel, {r['what']}: p99 above the relay's and one leaf, by the client, us"
            extra = r["client_ns"]["p99"] - r["relay_ns"]["p99"] - r["leaf_ns"]
            goals.at_most(what, extra / 1000, 1000, 0)
            what = f"cancel, {r['what']}: p99 of outcome above seen and one leaf, us"
            extra = r["ended_ns"]["p99"] - r["seen_ns"]["p99"] - r["leaf_ns"]
            goals.at_most(what, extra / 1000, 1000, 0)
            what = f"cancel, {r['what']}: PSS of the pool after, above that before, MiB"
            goals.at_most(what, (r["pss_after_kib"] - r["pss_before_kib"]) / 1024, 1)

    def json(self):
        return {"floods": self.floods, "cancels": self.cancels, "hidden": self.hidden}
