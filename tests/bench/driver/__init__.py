# SPDX-License-Identifier: MIT
"""The parts of tests/bench/bench: what is measured, and how it is shown.

    programs.py   running the programs, small sums
    table.py      tables and goals, as text and as HTML
    suite.py      the benchmarks that every peer has
    growth.py     how the peak memory grows with the number of workers
    alone.py      what only forkd has: round trips, forks counted, the pool's memory
    deques.py     daemon/core/deque.h beside a plain deque and a copy
    compose.py    processes beside each other, on pools of their own and on one forkd
    latency.py    a small job beside a flood, and cancelling
    plot.py       gnuplot
"""
