# SPDX-License-Identifier: MIT
"""Thousands of pipes, read by a fiber each and by a plain epoll loop: bench_io."""

from driver.programs import median, ratio
from driver.table import Table, text

PIPES = {"quick": "2000", "default": "10000", "full": "10000"}
MESSAGES = {"quick": "40000", "default": "500000", "full": "5000000"}
ROUNDS = {"quick": 1, "default": 9, "full": 21}
LIMIT_S = {"quick": 60, "default": 300, "full": 3600}
WAYS = ("fibers", "epoll", "epoll2")


class Pipes:
    def __init__(self, context):
        self.context = context
        self.rows = []

    def measure(self):
        if not self.context.wanted("io"):
            return
        size = self.context.size
        rounds = self.context.options.runs or ROUNDS[size]
        words = ["--pipes", PIPES[size], "--messages", MESSAGES[size], "--rounds", str(rounds)]
        self.rows = self.context.run("bench_io", words, LIMIT_S[size])

    def of(self, pattern, way):
        return [r for r in self.rows if (r["pattern"], r["way"]) == (pattern, way)]

    def patterns(self):
        return dict.fromkeys(r["pattern"] for r in self.rows)

    def per_second(self, pattern, way):
        return median([r["messages"] / r["seconds"] for r in self.of(pattern, way)])

    def tables(self):
        if not self.rows:
            return []
        rows = []
        for pattern in self.patterns():
            plain = self.per_second(pattern, "epoll")
            for way in WAYS:
                runs = self.of(pattern, way)
                rate = self.per_second(pattern, way)
                waits = median([r["waits"] / r["messages"] for r in runs])
                turns = median([ratio(r["waits"], r["turns"]) for r in runs])
                cpu = median([1e6 * r["cpu_seconds"] / r["messages"] for r in runs])
                row = [f"{pattern}: {way}", text(rate, 0), text(ratio(rate, plain), 2), text(cpu, 2)]
                rows.append([*row, text(waits, 2), text(turns, 0)])
        pipes = self.rows[0]["pipes"]
        rounds = max(r["round"] for r in self.rows) + 1
        head = ["", "messages/s", "/epoll", "CPU us", "waits/message", "waits/turn"]
        notes = [
            "rounds: one message to each pipe in turn; random: each to any; one thread writes",
            "epoll: a loop on one thread; epoll2: on two; fibers: one for each pipe, two workers",
            "CPU: for each message, writing it included; making the pipes is in it, too",
            "waits: reads that had to; turn: of the thread that waits for all of them",
        ]
        if pipes < int(PIPES[self.context.size]):
            notes.append(f"not {PIPES[self.context.size]} pipes: see ulimit -Hn, two for each")
        return [Table(f"reading from {pipes} pipes, {rounds} rounds", head, rows, notes)]

    def plots(self):
        return []

    def goals(self, goals):
        for pattern in self.patterns():
            over = ratio(self.per_second(pattern, "fibers"), self.per_second(pattern, "epoll"))
            goals.at_least(f"io, {pattern}: fibers / epoll loop", over, 0.8)

    def json(self):
        return self.rows
