#!/usr/bin/env python3
"""Measures how far sampled runs are from whole ones, and how much faster: the tables of docs/src/sampling.md.

usage: scripts/sampling-table.py [--instructions 60M] [--period 2M] [--window 50k] [--warming 300k] [--count-host]
                                 [--json FILE] [--methods none,windows,phases] [PROGRAM[:FOOTPRINT]...]

Each program runs three times on radix: with time throughout, with `--sampling=windows` and with `--sampling=phases`. A
program may be a trace file. The first table has three numbers of each: instructions per cycle, page walks for each 1000
instructions, and cycles in the MMU for each access, with the error of both samples and half of their 95% intervals; an
error beyond half of its interval is bold. The second table has the time that the runs took: host processor time, which
other programs on the machine change little, of the whole command (with the reading of the program, twice for phases, and
its set-up).

`--json` keeps what was measured in a file, from which a later call goes on.

`--count-host` counts host instructions with valgrind's callgrind instead (some fifty times as slow).
"""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ["gups:1GiB", "bfs:512MiB", "pagerank:512MiB", "xsbench:1GiB", "memcached:512MiB", "stream:512MiB", "traces/mummer.amb"]
METHODS = ["none", "windows", "phases"]


def binary():
    folder = os.environ.get("AMBULATOR_BIN", ROOT / "target/release")
    return str(pathlib.Path(folder) / "ambulator")


def run(command, count_host):
    """The JSON that a command prints, and what it cost: processor seconds, or host instructions."""
    if count_host:
        with tempfile.TemporaryDirectory() as folder:
            tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
            done = subprocess.run(tool + command, cwd=ROOT, capture_output=True, text=True, check=False)
            refs = re.search(r"Collected : (\d+)", done.stderr)
            cost = float(refs.group(1)) if refs else float("nan")
    else:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cost = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout), cost


def numbers(result):
    """The three numbers of a run, each with half of its interval, if it has one."""
    half = (result.get("sampled") or {}).get("half", {})
    kilo = result["simulated_instructions"] / 1000
    return {
        "IPC": (result["ipc"], half.get("ipc")),
        "walks per 1000 instructions": (
            result["counters"]["mmu.walks"] / kilo,
            half["mmu.walks"] / kilo if "mmu.walks" in half else None,
        ),
        "MMU cycles per access": (
            result["measures"]["mmu_cycles_per_access"],
            half.get("measures.mmu_cycles_per_access"),
        ),
    }


def measure(program, options, results):
    """A program with each method that has no result yet."""
    name, _, footprint = program.partition(":")
    common = [binary(), "run", name, "--design", "radix", "--json", "-", "--no-progress", "--store", "none"]
    common += ["-n", options.instructions, "--warmup", options.warmup]
    common += ["--footprint", footprint] if footprint else []
    common += ["--set", "memory.bytes=8GiB"] if options.count_host else []
    parts = {"sample_window": options.window, "sample_timing": options.timing, "sample_warming": options.warming}
    sampled = [word for key, value in parts.items() for word in ("--set", f"run.{key}={value}")]
    for method in options.methods.split(","):
        if method in results:
            continue
        own = [] if method == "none" else [f"--sampling={method},{options.period}", *sampled]
        document, cost = run(common + own, options.count_host)
        result = document["runs"][0]
        results[method] = {"numbers": numbers(result), "cost": cost, "sampled": result.get("sampled")}
        print(f"{program} {method}: {cost:.4g}", file=sys.stderr)
        yield


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def report(all_results, options):
    rows, within, count = [], 0, 0
    for program, results in all_results.items():
        whole = results["none"]["numbers"]
        for name, (right, _) in whole.items():
            row = [program.replace(":", ", "), name, f"{right:.3g}"]
            for method in METHODS[1:]:
                value, half = results[method]["numbers"][name]
                error, reach = value / right - 1, half / right if half is not None else None
                is_beyond = reach is not None and abs(error) > reach
                within, count = within + (reach is not None and not is_beyond), count + (reach is not None)
                text = f"{100 * error:+.1f}%"
                row += [f"**{text}**" if is_beyond else text, "-" if reach is None else f"{100 * reach:.1f}%"]
            rows.append(row)
    table(["program", "number", "whole", "windows, error", "half", "phases, error", "half"], rows)
    rows = []
    for program, results in all_results.items():
        whole = results["none"]["cost"]
        phases = results["phases"]["sampled"]
        timed = phases["timed"] / phases["covered"]
        kinds = len({of["phase"] for of in phases["intervals"]})
        row = [program.replace(":", ", "), f"{whole:.3g}", str(kinds), f"{100 * timed:.1f}%"]
        rows.append(row + [f"{whole / results[method]['cost']:.1f}" for method in METHODS[1:]])
    unit = "host instructions" if options.count_host else "processor seconds"
    table(["program", f"whole, {unit}", "phases", "with time", "windows, speed", "phases, speed"], rows)
    print(f"{within} of {count} errors are within half of their interval.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    parser.add_argument("--instructions", default="60M")
    parser.add_argument("--warmup", default="2M")
    parser.add_argument("--period", default="2M")
    parser.add_argument("--window", default="50k")
    parser.add_argument("--timing", default="50k")
    parser.add_argument("--warming", default="300k")
    parser.add_argument("--count-host", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--methods", default=",".join(METHODS))
    options = parser.parse_args()
    all_results = {}
    if options.json and options.json.exists():
        all_results = json.loads(options.json.read_text())
    for program in options.programs:
        for _ in measure(program, options, all_results.setdefault(program, {})):
            if options.json:
                options.json.write_text(json.dumps(all_results))
    report({program: of for program, of in all_results.items() if len(of) == len(METHODS)}, options)


if __name__ == "__main__":
    main()
