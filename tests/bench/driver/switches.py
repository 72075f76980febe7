# SPDX-License-Identifier: MIT
"""The cost of a switch to another stack, or to another thread: bench_switch."""

from driver.programs import median, ratio
from driver.table import Table, text

ROUNDS = {"quick": 3, "default": 101, "full": 501}
OURS = ("switch_to", "loop")
FCONTEXT = ("jump_fcontext", "loop")
THREADS = ("futex", "condition variable")


class Switches:
    def __init__(self, context):
        self.context = context
        self.rows = []

    def measure(self):
        if self.context.wanted("switch"):
            words = [str(ROUNDS[self.context.size])]
            self.rows = self.context.run("bench_switch", words, 300)

    def ns(self, way, shape):
        return median([r["ns"] for r in self.rows if (r["way"], r["shape"]) == (way, shape)])

    def ways(self):
        """(way, shape), in the order of the program."""
        return dict.fromkeys((r["way"], r["shape"]) for r in self.rows)

    def hand_over(self):
        """The fastest way between two threads."""
        times = [self.ns(*way) for way in self.ways() if way[0].startswith(THREADS)]
        return min(times, default=None)

    def tables(self):
        if not self.rows:
            return []
        rows = []
        for way, shape in self.ways():
            ns = self.ns(way, shape)
            low = min(r["ns"] for r in self.rows if (r["way"], r["shape"]) == (way, shape))
            over = ratio(ns, self.ns("switch_to", shape))
            rows.append([way, shape, text(ns, 2), text(low, 2), text(over, 2)])
        head = ["a switch, ns", "shape", "median", "least", "/switch_to"]
        notes = [
            "loop: both sides switch in a loop; calls: they reach it by two calls, and return",
            "a hand-over between threads is half of one there and back",
        ]
        if FCONTEXT not in self.ways():
            notes.append("jump_fcontext is missing: it needs libboost-context-dev")
        rounds = max(r["round"] for r in self.rows) + 1
        return [Table(f"switches of stacks and of threads, {rounds} rounds", head, rows, notes)]

    def plots(self):
        return []

    def goals(self, goals):
        for shape in ("loop", "calls"):
            over = ratio(self.ns("switch_to", shape), self.ns("jump_fcontext", shape))
            if over is not None:
                goals.at_most(f"switch: switch_to() / jump_fcontext, {shape}", over, 1)
        over = ratio(self.hand_over(), self.ns(*OURS))
        if over is not None:
            goals.at_least("switch: fastest hand-over of threads / switch_to()", over, 100, 0)

    def json(self):
        return self.rows
