# SPDX-License-Identifier: MIT
"""The parts of tests/bench/bench: what is measured, and how it is shown.

    programs.py   running the programs, small sums
    table.py      tables and goals, as text and as HTML
    suite.py      the benchmarks that every peer has
    growth.py     how the peak memory grows with the number of workers
    alone.py      what only forkd has: round trips, forks counted, the pool's memory
    deques.py     daemon/core/deque.h, a plain deque and a copy
    compose.py    several processes, on their own pools and on one forkd
    latency.py    a small job during a flood, and cancelling
    plot.py       gnuplot
"""
