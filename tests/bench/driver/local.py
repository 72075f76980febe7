# SPDX-License-Identifier: MIT
"""A library in the user's own program: start and end of its threads, idle memory, and loops.

libforkpool ("local"), its peers and controls: two plain threads, and a word that two threads hand
over by polling. Start and memory are measured in a new process each time.
"""

from driver.programs import OTHERS, Failed, largest, median, ratio, run_program
from driver.table import Table, text

# name, program; each has the loops
SIDES = [
    ("serial", "peer_serial"),
    ("local", "peer_local"),
    ("onetbb", "peer_tbb"),
    ("libomp", "peer_libomp"),
    ("libgomp", "peer_libgomp"),
]
CONTROL = ("threads", "peer_threads")

ROUNDS = {"quick": 1, "default": 5, "full": 11}
STARTS = {"quick": 2, "default": 20, "full": 100}  # processes in each round
REPS = {"quick": "5", "default": "200", "full": "1000"}
LIMIT_S = 120
ITEM_NS = 1000

START_US = 300
IDLE_KIB = 400
ABOVE_HAND_OVER_US = 3


def loops(rounds, reps):
    """title, arguments. rounds: of work_leaf(), which take 1 us."""
    return [
        ("1,000 numbers of 1 us", ["each", "1000", rounds, reps]),
        ("32 loops of 32 numbers of 1 us, nested", ["nest", "32", "32", rounds, reps]),
        ("1,000 numbers, empty, from outside", ["empty", "1000", reps, "outside"]),
        ("1,000 numbers, empty, inside a loop", ["empty", "1000", reps, "inside"]),
    ]


def us(seconds, digits=1):
    return text(None if seconds is None else seconds * 1e6, digits)


class Local:
    def __init__(self, context):
        self.context = context
        self.p = max(context.p, 2)
        self.threads = (1, self.p)
        self.starts = []
        self.idles = []
        self.loops = []

    def run(self, program, words, threads):
        argv = [self.context.path(program), *words, "--threads", str(threads)]
        try:
            got = run_program(argv, LIMIT_S)
            if not got:
                raise Failed(f"{' '.join(argv)}: no answer in {LIMIT_S} s")
            return got[-1:]
        except Failed as e:
            self.context.fail(str(e))
            return []

    def measure(self):
        if not self.context.wanted("local"):
            return
        size = self.context.size
        sides = [side for side in SIDES if self.context.path(side[1])]
        got = self.context.run("bench_compose", ["rounds"], 60)
        if not got or not sides:
            return
        # Those of 100 us.
        rounds = str(got[-1]["rounds"] * ITEM_NS // 100000)
        for nth in range(self.context.options.runs or ROUNDS[size]):
            turned = sides[nth % len(sides) :] + sides[: nth % len(sides)]
            for _ in range(STARTS[size]):
                self.start(turned)
            for title, words in loops(rounds, REPS[size]):
                for threads in self.threads:
                    for name, program in turned:
                        if threads > 1 and name == "serial":
                            continue
                        for r in self.run(program, words, threads):
                            self.loops.append({**r, "peer": name, "loop": title})

    def start(self, sides):
        """A process of each side and of the control, for the start; and one for the memory."""
        for threads in self.threads:
            for name, program in [*sides, CONTROL]:
                if name != "serial" and self.context.path(program):
                    self.starts += self.run(program, ["start"], threads)
                    self.idles += self.run(program, ["idle"], threads)

    def of(self, rows, peer, threads, key):
        return [r[key] for r in rows if (r["peer"], r["threads"]) == (peer, threads)]

    def started(self, peer, threads, key="seconds"):
        return median(self.of(self.starts, peer, threads, key))

    def peers(self, rows):
        return list(dict.fromkeys(r["peer"] for r in rows))

    def start_table(self):
        rows = []
        for threads in self.threads:
            for peer in sorted(self.peers(self.starts)):
                times = self.of(self.starts, peer, threads, "seconds")
                row = [f"{peer}, {threads} threads", str(len(times)), us(median(times))]
                row += [us(min(times, default=None)), us(largest(times))]
                rows.append(row + [us(self.started(peer, threads, "stop_seconds"))])
        head = ["", "processes", "to the first result", "least", "most", "end"]
        notes = [
            "microseconds in a new process: the library starts and counts P numbers, then ends",
            "threads: the control, P threads that are created and joined, with nothing to end",
        ]
        return Table("start and end of a pool", head, rows, notes)

    def added(self, peer, threads):
        """Returns the KiB that the library adds to a process, by kind, and the rest after its end."""
        rows = [r for r in self.idles if (r["peer"], r["threads"]) == (peer, threads)]
        kinds = rows[0]["idle_kib"] if rows else {}
        added = {
            kind: median([r["idle_kib"][kind] - r["before_kib"][kind] for r in rows])
            for kind in kinds
        }
        totals = [
            [sum(r[when].values()) - sum(r["before_kib"].values()) for r in rows]
            for when in ("idle_kib", "after_kib")
        ]
        return added, *map(median, totals)

    def idle_table(self):
        rows = []
        head = ["", "added"]
        for threads in self.threads:
            for peer in sorted(self.peers(self.idles)):
                added, idle, after = self.added(peer, threads)
                head = ["", "added", *added, "after the end"]
                row = [f"{peer}, {threads} threads", text(idle, 0)]
                rows.append(row + [text(kib, 0) for kib in added.values()] + [text(after, 0)])
        notes = [
            "KiB of /proc/self/smaps, less those before the start: heap of malloc(), anonymous",
            "mappings with the stacks, shared memory, and pages of the program and its libraries",
        ]
        return Table("resident memory that an idle pool adds", head, rows, notes)

    def loop(self, title, peer, threads, key="seconds"):
        rows = [r for r in self.loops if r["loop"] == title]
        return median(self.of(rows, peer, threads, key))

    def loop_table(self):
        rows = []
        for title in dict.fromkeys(r["loop"] for r in self.loops):
            for peer in self.peers(self.loops):
                times = [self.loop(title, peer, threads) for threads in self.threads]
                row = [f"{title}: {peer}", *map(us, times)]
                for threads, time in zip(self.threads, times):
                    row.append(text(ratio(time, self.loop(title, "local", threads)), 2))
                control = None
                if title.endswith("outside"):
                    control = self.loop(title, peer, self.p, "control")
                rows.append(row + [us(control, 2)])
        head = ["", "T_1 us", f"T_{self.p} us", "/local", "/local", "hand-over us"]
        notes = [
            "medians of each run's median; hand-over: of a word to a thread that polls, and back,",
            "in the same run",
        ]
        return Table("loops over plain functions", head, rows, notes)

    def tables(self):
        if not self.starts:
            return []
        return [self.start_table(), self.idle_table(), self.loop_table()]

    def plots(self):
        return []

    def goals(self, goals):
        if not self.starts:
            return
        start = self.started("local", self.p)
        goals.at_most("local: start to the first result, us", start and start * 1e6, START_US, 0)
        over = ratio(start, self.started("onetbb", self.p))
        goals.at_most("local: start to the first result / oneTBB's", over, 0.5)
        goals.at_most("local: KiB that an idle pool adds", self.added("local", self.p)[1], IDLE_KIB, 0)
        empty = "1,000 numbers, empty, from outside"
        times = [self.loop(empty, "local", self.p, key) for key in ("seconds", "control")]
        if None not in times:
            above = (times[0] - times[1]) * 1e6
            goals.at_most("local: an empty loop above a hand-over, us", above, ABOVE_HAND_OVER_US)
        for title in dict.fromkeys(r["loop"] for r in self.loops):
            others = [self.loop(title, peer, self.p) for peer in OTHERS]
            best = min((t for t in others if t is not None), default=None)
            over = ratio(self.loop(title, "local", self.p), best)
            goals.at_most(f"local: {title}: T_{self.p} / the best peer's", over, 1)

    def json(self):
        return {"starts": self.starts, "idles": self.idles, "loops": self.loops}
