# SPDX-License-Identifier: MIT
"""The growth of the peak memory with the number of workers: MRSS = a + b M_1 P^n.

The model and the question are those of the libfork paper (Williams and Elliott): theory promises
n <= 1. M_1 is the peak of the serial program. P exceeds the number of CPUs: workers without a CPU
still have a stack each, and steal from each other. The memory is that of the pool, which has all
stacks, or of a peer's process.

The fit is by least squares. For a given n the model is linear in a and c = b M_1. So only n is
searched for, first on a grid, then by bisection around the best one (variable projection). The
standard error of n comes from the Jacobian of all three at the best fit. If the memory grows by at
most twice the scatter of the points, n has no meaning. If the standard error of n is above CLEAR,
n is uncertain, and more runs are needed.
"""

import math

from driver.plot import Lines
from driver.programs import OTHERS, Failed, median, run_program
from driver.table import Table, text

BENCHES = {
    "quick": [("fib", ["22"]), ("nqueens", ["9"])],
    "default": [
        ("fib", ["27"]),
        ("integrate", ["200", "1e-9"]),
        ("matmul", ["256"]),
        ("nqueens", ["10"]),
        ("uts", ["T3"]),
    ],
    "full": [
        ("fib", ["32"]),
        ("integrate", ["1000", "1e-9"]),
        ("matmul", ["1024"]),
        ("nqueens", ["12"]),
        ("uts", ["T1"]),
        ("uts", ["T3"]),
        ("uts", ["T3L"]),
    ],
}
WORKERS = {"quick": (1, 2, 4, 8), "default": (1, 2, 4, 8, 16), "full": (1, 2, 4, 8, 16, 32)}
RUNS = {"quick": 1, "default": 3, "full": 5}
LIMIT_S = {"quick": 5, "default": 20, "full": 600}
FORKD_LIMIT_S = 600
N_LOW, N_HIGH, N_STEP = 0.05, 3.0, 0.05
CLEAR = 0.5


def solve(matrix, vector):
    """Gaussian elimination with pivots; None if the matrix is singular."""
    n = len(vector)
    rows = [list(matrix[i]) + [vector[i]] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        if abs(rows[pivot][i]) < 1e-12:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, n):
            f = rows[k][i] / rows[i][i]
            rows[k] = [a - f * b for a, b in zip(rows[k], rows[i])]
    x = [0.0] * n
    for i in reversed(range(n)):
        rest = sum(rows[i][k] * x[k] for k in range(i + 1, n))
        x[i] = (rows[i][n] - rest) / rows[i][i]
    return x


def line(xs, ys):
    """Least squares of y = a + c x: (a, c, sum of squares)."""
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    sxx = sum((x - mx) ** 2 for x in xs)
    c = sum((x - mx) * (y - my) for x, y in zip(xs, ys)) / sxx if sxx else 0.0
    a = my - c * mx
    return a, c, sum((y - a - c * x) ** 2 for x, y in zip(xs, ys))


def fit(points):
    """[(P, KiB)] -> {a, c, n, se, scatter, grows}; None if there are too few."""
    ps, ys = [float(p) for p, _ in points], [float(y) for _, y in points]
    if len(set(ps)) < 3 or len(points) < 4:
        return None

    def squares(n):
        return line([p**n for p in ps], ys)[2]

    steps = int((N_HIGH - N_LOW) / N_STEP) + 1
    best = min((N_LOW + i * N_STEP for i in range(steps)), key=squares)
    low, high = max(best - N_STEP, N_LOW / 2), best + N_STEP
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if squares(left) < squares(right):
            high = right
        else:
            low = left
    n = (low + high) / 2
    a, c, rest = line([p**n for p in ps], ys)
    scatter = math.sqrt(rest / (len(points) - 3))
    jacobian = [(1.0, p**n, c * p**n * math.log(p)) for p in ps]
    normal = [[sum(j[i] * j[k] for j in jacobian) for k in range(3)] for i in range(3)]
    column = solve(normal, [0.0, 0.0, 1.0])
    se = scatter * math.sqrt(column[2]) if column and column[2] > 0 else None
    rise = c * (max(ps) ** n - 1)
    grows = c > 0 and rise > 2 * scatter and rise > 0.02 * max(ys)
    clear = se is not None and se <= CLEAR
    return {"a": a, "c": c, "n": n, "se": se, "scatter": scatter, "grows": grows, "clear": clear}


class Growth:
    def __init__(self, context):
        self.context = context
        self.on = context.wanted("growth")
        self.runs = {}  # (title, peer): [(P, KiB)]
        self.serial = {}  # title: [KiB]
        self.late = {}  # (title, peer, P): remark

    def one(self, bench, args, peer, threads):
        title = " ".join([bench] + args)
        if (title, peer, threads) in self.late:
            return
        argv = [self.context.programs[peer], bench, *args, "--threads", str(threads)]
        limit = LIMIT_S[self.context.size]
        try:
            # A peer that is too slow is only noted.
            got = run_program(argv, FORKD_LIMIT_S if peer == "forkd" else limit)
            if got is None and peer == "forkd":
                raise Failed(f"{' '.join(argv)}: no answer in {FORKD_LIMIT_S} s")
        except Failed as e:
            self.context.fail(str(e))
            return
        if not got:
            what = f"{title}: {peer} with {threads} threads"
            self.late[(title, peer, threads)] = f"{what}: more than {limit} s, not run again"
            return
        if peer == "serial":
            self.serial.setdefault(title, []).append(got[-1]["peak_rss_kib"])
            return
        kib = got[-1]["pool_rss_peak_kib" if peer == "forkd" else "peak_rss_kib"]
        self.runs.setdefault((title, peer), []).append((threads, kib))

    def measure(self):
        peers = [p for p in ("forkd", *OTHERS) if p in self.context.programs]
        for _ in range(RUNS[self.context.size] if self.on else 0):
            for bench, args in BENCHES[self.context.size]:
                if "serial" in self.context.programs:
                    self.one(bench, args, "serial", 1)
                for threads in WORKERS[self.context.size]:
                    for peer in peers:
                        self.one(bench, args, peer, threads)

    def fits(self):
        for (title, peer), points in self.runs.items():
            found = fit(points)
            if found:
                yield title, peer, points, found

    def tables(self):
        rows = []
        for title, peer, points, f in self.fits():
            m1 = median(self.serial.get(title, []))
            at = [median([y for p, y in points if p == w]) for w in WORKERS[self.context.size]]
            cells = [f"{title}: {peer}"] + [text(None if v is None else v / 1024, 2) for v in at]
            if f["grows"]:
                cells += [text(f["a"] / 1024, 2), text(f["c"] / m1 if m1 else None, 3)]
                cells += [text(f["n"], 2), text(f["se"], 2)]
            else:
                cells += [text(at[0] / 1024, 2), "-", "no growth", "-"]
            rows.append(cells)
        if not rows:
            return []
        head = [""] + [f"P={w}" for w in WORKERS[self.context.size]]
        head += ["a MiB", "b", "n", "std. error"]
        notes = ["M_1: peak of the serial program. forkd: peak of the pool. Medians of the runs."]
        notes += self.late.values()
        return [Table("peak RSS in MiB, fitted to a + b M_1 P^n", head, rows, notes)]

    def plots(self):
        plots = []
        for title in dict.fromkeys(t for t, _ in self.runs):
            series = []
            for peer in ("forkd", *OTHERS):
                points = self.runs.get((title, peer), [])
                ps = sorted({p for p, _ in points})
                series.append(
                    (peer, [(w, median([y / 1024 for p, y in points if p == w])) for w in ps])
                )
            name = "memory_" + "_".join(title.split()[:2]).replace("/", "_")
            plots.append(Lines(name, f"peak RSS: {title}", "workers", "MiB", series, "xy"))
        return plots

    def goals(self, goals):
        for title, peer, _, f in self.fits():
            if peer == "forkd":
                what = f"{title}: exponent n of the pool's peak RSS over P"
                measured = f"{f['n']:.2f} +- {text(f['se'], 2)}" if f["grows"] else "no growth"
                if f["clear"] or not f["grows"]:
                    goals.add(what, measured, "at most 1", not f["grows"] or f["n"] <= 1)

    def json(self):
        return {
            "serial_kib": self.serial,
            "notes": list(self.late.values()),
            "fits": [
                {"bench": title, "peer": peer, "points": points, **f}
                for title, peer, points, f in self.fits()
            ],
        }
