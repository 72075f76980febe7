# SPDX-License-Identifier: MIT
"""daemon/core/deque.h, a plain Chase-Lev deque and a copy of the same bytes: bench_deque."""

from driver.plot import Lines
from driver.programs import median, ratio
from driver.table import Table, text

REPEAT = {"quick": 21, "default": 501, "full": 2001}
NODES = {"quick": 100000, "default": 2500000, "full": 300000000}
DAG_RUNS = {"quick": 1, "default": 5, "full": 3}
BY = ("forkd", "chase-lev", "memcpy")
WHERE = {"same": "by the thread that pushed", "other": "by another CPU"}

# The paper: a push under 500 ns for any batch, a steal of about 40 us for any proportion. The goal is
# a fifth of both.
PAPER_PUSH_NS = 500
PAPER_STEAL_NS = 40000


class Deques:
    def __init__(self, context):
        self.context = context
        self.p = context.p
        self.ops = []
        self.dags = []

    def measure(self):
        size = self.context.size
        if self.context.wanted("deque"):
            self.ops = self.context.run("bench_deque", ["ops", str(REPEAT[size])], 120)
        for _ in range(DAG_RUNS[size] if self.context.wanted("dag") else 0):
            for threads in sorted({1, self.p}):
                words = ["dag", str(NODES[size]), str(threads)]
                self.dags += self.context.run("bench_deque", words, 600)

    def ns(self, what, where, n, by, key="ns"):
        for r in self.ops:
            if (r["what"], r["where"], r["n"], r["by"]) == (what, where, n, by):
                return r[key]
        return None

    def sizes(self, what, where):
        return sorted({r["n"] for r in self.ops if r["what"] == what and r["where"] == where})

    def push_over_budget(self):
        """A batch of 1,024 over one push and the copy of 8 KiB."""
        one = self.ns("push", "same", 1, "forkd")
        copy = self.ns("push", "same", 1024, "memcpy")
        if one is None or copy is None:
            return None
        return ratio(self.ns("push", "same", 1024, "forkd"), one + copy)

    def ops_tables(self):
        rows = []
        for n in self.sizes("push", "same"):
            values = [self.ns("push", "same", n, by) for by in BY]
            rows.append([f"push {n}"] + [text(v, 1) for v in values])
            rows[-1] += [text(ratio(values[0], values[2]), 2), text(ratio(values[1], values[0]), 1)]
        pops = [self.ns("pop", "same", 1, by) for by in BY]
        rows.append(["pop"] + [text(v, 2) for v in pops])
        rows[-1] += ["-", text(ratio(pops[1], pops[0]), 1)]
        head = ["", "forkd", "Chase-Lev", "memcpy", "forkd/memcpy", "Chase-Lev/forkd"]
        notes = ["of a batch, one publication; Chase-Lev pushes one by one; medians"]
        budget = self.push_over_budget()
        notes.append(f"push of 1024 / (push of 1 + copy of 8 KiB): {text(budget, 2)}")
        tables = [Table("deque, ns: push and pop", head, rows, notes)]
        for where, how in WHERE.items():
            rows = []
            for n in self.sizes("steal", where):
                values = [self.ns("steal", where, n, by) for by in BY]
                taken = self.ns("steal", where, n, "forkd", "items")
                rows.append([f"{n} %", text(taken, 0)] + [text(v, 0) for v in values])
                rows[-1] += [text(ratio(values[0], values[2]), 2)]
                rows[-1] += [text(ratio(values[1], values[0]), 1)]
            if rows:
                head = ["of 10,000", "taken", "forkd", "Chase-Lev", "CAS + memcpy"]
                head += ["forkd/memcpy", "Chase-Lev/forkd"]
                title = f"deque, ns: steal of a proportion, {how}"
                tables.append(Table(title, head, rows, ["Chase-Lev takes its own one by one"]))
        return tables

    def dag_table(self):
        rows = []
        for threads in sorted({r["threads"] for r in self.dags}):
            for by in BY[:2]:
                runs = [r for r in self.dags if r["threads"] == threads and r["by"] == by]
                seconds = median([r["seconds"] for r in runs])
                row = [f"{by}, {threads} threads", str(len(runs)), text(seconds, 4)]
                row.append(text(ratio(1e9 * seconds, runs[0]["nodes"]), 1))
                row += [text(median([r[k] for r in runs]), 0) for k in ("steals", "stolen")]
                rows.append(row)
        head = ["", "runs", "seconds", "ns/node", "steals", "nodes stolen"]
        nodes = self.dags[0]["nodes"]
        return Table(f"exploration of a graph of {nodes} nodes", head, rows)

    def tables(self):
        tables = self.ops_tables() if self.ops else []
        return tables + ([self.dag_table()] if self.dags else [])

    def plots(self):
        if not self.ops:
            return []
        series = [
            (by, [(n, self.ns("push", "same", n, by)) for n in self.sizes("push", "same")])
            for by in BY
        ]
        plots = [Lines("push", "push of a batch", "items", "ns", series, "xy")]
        for where, how in WHERE.items():
            ns = self.sizes("steal", where)
            series = [(by, [(n, self.ns("steal", where, n, by)) for n in ns]) for by in BY]
            title = f"steal of a proportion of 10,000, {how}"
            if ns:
                plots.append(Lines(f"steal_{where}", title, "per cent", "ns", series, "y"))
        return plots

    def goals(self, goals):
        what = "deque: push of 1024 / (push of 1 + copy of 8 KiB)"
        goals.at_most(what, self.push_over_budget(), 1)
        worst = self.ns("push", "same", 1024, "forkd")
        goals.at_most("deque: push of 1024, ns (the paper: 500)", worst, PAPER_PUSH_NS // 5, 0)
        for where, how in WHERE.items():
            ns = self.sizes("steal", where)
            pairs = [[self.ns("steal", where, n, by) for by in ("forkd", "memcpy")] for n in ns]
            if pairs:
                over = max(ratio(a, b) for a, b in pairs)
                what = f"deque: steal / (CAS + copy), {how}, the worst of 10 to 60 %"
                goals.at_most(what, over, 1.25)
                what = f"deque: steal, {how}, the longest, ns (the paper: 40,000)"
                goals.at_most(what, max(a for a, _ in pairs), PAPER_STEAL_NS // 5, 0)

    def json(self):
        return {"ops": self.ops, "dag": self.dags}
