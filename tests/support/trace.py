#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
trace.py FILE [FROM TO]: checks that a file is a trace in Chrome's "Trace Event Format", in the JSON
object form, sorted by time. Prints its counts, or those between two times (ns of CLOCK_MONOTONIC),
one "NAME NUMBER" per line. On an error it prints the cause and fails.
"""
import collections
import json
import sys

NUMBERS = (int, float)
# Members of an event of each phase in addition to ph, pid and tid.
MEMBERS = {
    "M": {"name": str, "args": dict},
    "B": {"ts": NUMBERS, "name": str, "cat": str, "args": dict},
    "E": {"ts": NUMBERS},
    "i": {"ts": NUMBERS, "name": str, "s": str, "args": dict},
    "s": {"ts": NUMBERS, "name": str, "cat": str, "id": int},
    "f": {"ts": NUMBERS, "name": str, "cat": str, "id": int, "bp": str},
    "b": {"ts": NUMBERS, "name": str, "cat": str, "id": str, "args": dict},
    "e": {"ts": NUMBERS, "name": str, "cat": str, "id": str, "args": dict},
}


def must(condition, what, event=None):
    if not condition:
        sys.exit("%s: %s" % (what, json.dumps(event)))


def look_at(events):
    """Every event is valid, slices nest, arrows have two ends, and times do not fall."""
    now = 0
    slices = collections.defaultdict(list)
    jobs = collections.defaultdict(list)
    arrows = {}
    named = {"process_name": set(), "thread_name": set()}
    used = {"process_name": set(), "thread_name": set()}
    for e in events:
        members = dict(MEMBERS.get(e.get("ph"), {}), pid=int, tid=int)
        must(e.get("ph") in MEMBERS, "no such phase", e)
        for name, kind in members.items():
            must(isinstance(e.get(name), kind), "no good " + name, e)
        must(set(e) - set(members) <= {"ph"} | ({"cat"} if "cat" in members else set()),
             "a member too many", e)
        if e["ph"] == "M":
            if e["name"] in named:
                named[e["name"]].add((e["pid"], e["tid"]))
            continue
        must(e["ts"] >= now, "before the one before it", e)
        now = e["ts"]
        thread = (e["pid"], e["tid"])
        used["process_name"].add((e["pid"], 0))
        if e["ph"] in "BEisf":
            used["thread_name"].add(thread)
        if e["ph"] == "B":
            # One thing at a time: nothing in these traces nests.
            must(not slices[thread], "in another slice", e)
            slices[thread].append(e)
        elif e["ph"] == "E":
            must(slices[thread], "ends what did not begin", e)
            slices[thread].pop()
        elif e["ph"] == "s":
            here = slices[thread][0]["cat"] if slices[thread] else None
            must(here == "strand", "an arrow from no strand", e)
            must(e["id"] not in arrows, "an arrow twice", e)
            arrows[e["id"]] = None
        elif e["ph"] == "f":
            must(e["id"] in arrows and arrows[e["id"]] is None, "an arrow from nowhere", e)
            must(slices[thread] and e["bp"] == "e", "an arrow to nothing", e)
            arrows[e["id"]] = e
        elif e["ph"] == "b":
            jobs[e["pid"], e["cat"], e["id"]].append(e)
        elif e["ph"] == "e":
            begun = jobs[e["pid"], e["cat"], e["id"]]
            must(begun and begun[-1]["name"] == e["name"], "ends what did not begin", e)
            begun.pop()
    must(not any(slices.values()), "slices that do not end")
    must(not any(jobs.values()), "jobs that do not end")
    must(None not in arrows.values(), "arrows that lead nowhere")
    for what in named:
        must(used[what] <= named[what], "some have no " + what)
    return now


def count(events, begun, end):
    n = collections.Counter()
    for e in events:
        if e["ph"] == "M" or not begun < e["ts"] < end:
            continue
        n[e["ph"]] += 1
        if e["ph"] == "B":
            n["strands" if e["cat"] == "strand" else e["name"]] += 1
        elif e["ph"] == "i":
            n[e["name"]] += 1
        elif e["ph"] == "b" and e["name"] == "running":
            n["jobs"] += 1
        elif e["ph"] == "e" and "outcome" in e["args"]:
            n[e["args"]["outcome"]] += 1
    return n


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        trace = json.load(file, parse_constant=lambda what: sys.exit("no JSON: " + what))
    other = trace["otherData"]
    must(set(trace) == {"displayTimeUnit", "traceEvents", "otherData"}, "other members", list(trace))
    last = look_at(trace["traceEvents"])
    must(last * 1e3 <= other["duration_ns"] + 1, "beyond the end", other)
    begun, end = -1, float("inf")
    if len(sys.argv) > 2:
        begun, end = ((int(t) - other["begun_ns"]) / 1e3 for t in sys.argv[2:])
    for name, n in sorted(count(trace["traceEvents"], begun, end).items()):
        print(name, n)
    print("lost", other["lost"])
    print("ended:", other["ended"])


main()
