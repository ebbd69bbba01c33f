#!/usr/bin/env python3
"""Host instructions that a simulated access takes, by part of the simulator: a Markdown table.

    scripts/host-instructions.py [--ambulator PATH] [ROW...]

Needs valgrind. Each row runs twice under callgrind, with different numbers of instructions; the difference leaves out
set-up. Parts are told by source files, so that inlined code counts where it was written. Host machines do not matter: the
same build gives the same numbers anywhere. The last two columns are accesses that miss in caches of 32 KiB and 2 MiB.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TARGET = os.environ.get("CARGO_TARGET_DIR") or "target"
# The first that a path contains.
PARTS = [
    ("records", ["crates/workloads/", "crates/trace/", "base/src/record", "base/src/source", "simulator/src/look_ahead"]),
    ("core", ["hardware/src/window/", "hardware/src/events", "hardware/src/branch", "hardware/src/core", "hardware/src/cycle_stack"]),
    ("main memory", ["hardware/src/awaited", "hardware/src/channel", "hardware/src/plan", "hardware/src/dram", "hardware/src/main_memory"]),
    ("caches", ["crates/hardware/"]),
    ("TLBs, tables", ["crates/mmu/", "crates/designs/", "crates/structures/"]),
    ("kernel, memory", ["crates/os/", "crates/memory/"]),
    ("run loop", ["crates/"]),
]
NAMES = [name for name, _ in PARTS] + ["other"]
ROWS = {
    "GUPS 1 GiB, timing": ["gups", "--footprint", "1GiB"],
    "GUPS 8 GiB, timing": ["gups", "--footprint", "8GiB"],
    "BFS 256 MiB, CSR, timing": ["bfs", "--footprint", "256MiB", "--program-set", "layout=csr"],
    "BFS 256 MiB, property, timing": ["bfs", "--footprint", "256MiB"],
    "GUPS 8 GiB, functional": ["gups", "--footprint", "8GiB", "--functional"],
    "BFS 256 MiB, functional": ["bfs", "--footprint", "256MiB", "--functional"],
}
# The memory is small enough for valgrind's address space.
EVERY = ["--design", "radix", "--set", "memory.bytes=16GiB", "--warmup", "0", "--seed", "1", "--no-progress"]
SHORT, LONG = 1_000_000, 3_000_000


def part_of(path):
    return next((name for name, folders in PARTS if any(folder in path for folder in folders)), None)


def costs(path):
    """Costs by part: a counter of each event. What is not in the project's files counts with those that surround it."""
    files, functions = {}, {}

    def name(table, text):
        number, _, known = text.partition(" ")
        if known:
            table[number] = known.strip()
        return table.get(number, "")

    events, own = [], collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    function = file = ""
    called = False
    with open(path) as lines:
        for line in lines:
            line = line.rstrip("\n")
            if line.startswith("events:"):
                events = line.split()[1:]
            elif line.startswith(("fl=", "fi=", "fe=")):
                file = name(files, line[3:])
            elif line.startswith("fn="):
                function = name(functions, line[3:])
            elif line.startswith("cfn="):
                name(functions, line[4:])
            elif line.startswith(("cfi=", "cfl=")):
                name(files, line[4:])
            elif line.startswith("calls="):
                called = True
            elif re.match(r"[0-9+*-]", line):
                if called:
                    called = False
                    continue
                values = dict(zip(events, map(int, line.split()[1:])))
                own[function][part_of(file)].update(values)
    total = collections.defaultdict(collections.Counter)
    for parts in own.values():
        strange = parts.pop(None, collections.Counter())
        known = sum(sum(counts.values()) for counts in parts.values())
        for part, counts in parts.items():
            share = sum(counts.values()) / known if known else 0
            for event, count in counts.items():
                total[part][event] += count
            for event, count in strange.items():
                total[part][event] += share * count
        if not known:
            total["other"].update(strange)
    return total


def measured(ambulator, command, instructions):
    with tempfile.TemporaryDirectory() as folder:
        out, result = os.path.join(folder, "callgrind"), os.path.join(folder, "result.json")
        subprocess.run(
            ["valgrind", "--tool=callgrind", "--cache-sim=yes", "--LL=2097152,16,64", f"--callgrind-out-file={out}"]
            + [ambulator, "run", *command, *EVERY, "--instructions", str(instructions), "--json", result],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env={**os.environ, "AMBULATOR_STORE": "none"},
        )
        with open(result) as file:
            run = json.load(file)["runs"][0]
        return costs(out), run["simulated_accesses"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ambulator", default=os.path.join(TARGET, "release", "ambulator"))
    parser.add_argument("rows", nargs="*", metavar="ROW", help="; ".join(ROWS))
    options = parser.parse_args()
    unknown = [row for row in options.rows if row not in ROWS]
    if unknown:
        parser.error(f"no row is called {unknown[0]!r}")
    ambulator = pathlib.Path(options.ambulator)
    if not ambulator.exists():
        sys.exit(f"{ambulator}: there is no such file; `make ambulator` builds it")
    print(f"| host instructions an access | all | {' | '.join(NAMES)} | misses, 32 KiB | misses, 2 MiB |")
    print(f"|---|---{'|---' * len(NAMES)}|---|---|", flush=True)
    for row in options.rows or ROWS:
        (short, fewer), (long, more) = (measured(ambulator, ROWS[row], count) for count in (SHORT, LONG))
        per = lambda part, events: sum(long[part][event] - short[part][event] for event in events) / (more - fewer)
        cells = [f"{per(name, ['Ir']):.0f}" for name in NAMES]
        near, far = (sum(per(name, events) for name in NAMES) for events in (["D1mr", "D1mw"], ["DLmr", "DLmw"]))
        whole = sum(per(name, ["Ir"]) for name in NAMES)
        print(f"| {row} | {whole:.0f} | {' | '.join(cells)} | {near:.1f} | {far:.2f} |", flush=True)


if __name__ == "__main__":
    main()
