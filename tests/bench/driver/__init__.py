# SPDX-License-Identifier: MIT
"""The parts of tests/bench/bench: measurements and their report.

    programs.py   runs the programs; sums of their results
    table.py      tables and goals, as text and as HTML
    suite.py      the benchmarks of every peer
    growth.py     growth of the peak memory with the number of workers
    alone.py      forkd alone: round trips, counts of forks, the pool's memory
    deques.py     daemon/core/deque.h, a plain deque and a copy
    local.py      libforkpool and its peers: start, memory, loops
    compose.py    several processes, on their own pools and on one forkd
    latency.py    a small job during a flood, cancels, and long leaves
    plot.py       gnuplot
"""
