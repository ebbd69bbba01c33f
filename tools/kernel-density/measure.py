#!/usr/bin/env python3
"""What compiled programs execute for each unit of their work, beside the simulator's kernels.

Compiles the programs of this folder (g++ -O2, and -O3 for linked graphs, as GraphBIG's are), captures each from the
end of its set-up to its end with `ambulator capture`, and prints instructions, loads, stores and branches for each
stored edge, look-up or update: those of the compiled program, those of our kernel with the same settings (on the same
graph), and those that the kernel's source records. Exits with 1 if a kernel is more than a tenth away.

usage: measure.py [--scale N] [--keep FOLDER] [PROGRAM ...]
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
AMBULATOR = os.environ.get("AMBULATOR", str(TARGET / "release" / "ambulator"))
# Cargo's profile in which the kernels are built.
PROFILE = os.environ.get("PROFILE", "release")
NAMES = ["instructions", "loads", "stores", "branches"]
# Levels of optimisation, and how their programs' names end.
LEVELS = [("-O2", ""), ("-O3", "-O3")]
# What differs by more than a tenth and by more than this is a difference.
LEAST = 0.001


def run(*command, may_fail=False, **options):
    """Runs a command and returns its output; its messages are in the error if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if done.returncode != 0 and not may_fail:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done


def compile_programs(folder):
    for source in sorted(HERE.glob("*.cpp")):
        for level, suffix in LEVELS:
            run("g++", "-std=c++17", level, "-DNDEBUG", "-Wall", "-Wextra", source, "-o", folder / (source.stem + suffix))


def capture(folder, command):
    """Captures the window of a program; returns what it executed for each unit."""
    program, *arguments = command
    name = folder / ("-".join([program, *(a for a in arguments if "/" not in a)]) + ".amb")
    # GraphBIG's makefiles say -O3.
    program += "-O3" if "linked" in arguments else ""
    base = [AMBULATOR, "capture", "--no-progress", "--out", name]
    skipped = run(*base, "--skip", "1000000G", "--", folder / program, "setup", *arguments, may_fail=True)
    # The set-up ends by itself, before the instructions to skip: the message says after how many.
    setup = re.search(r"ended after (\d+) instructions", skipped.stdout + skipped.stderr)
    if not setup:
        sys.exit(f"{program}: no instruction count in\n{skipped.stdout}{skipped.stderr}")
    done = run(*base, "--skip", setup[1], "--", folder / program, "total", *arguments)
    units = int(re.search(r"units (\d+)", done.stdout + done.stderr)[1])
    info = json.loads(run(AMBULATOR, "trace", "info", "--json", name).stdout)
    totals = [info["region_instructions"], info["loads"], info["stores"], info["branches"]]
    return [total / units for total in totals]


def kernels(graph, times, programs):
    """The kernels' numbers: (command, unit) to {where from: numbers}."""
    command = ["cargo", "run", "--quiet", "--profile", PROFILE, "--locked", "-p", "ambulator-workloads"]
    command += ["--example", "kernel_density", "--", "--graph", graph, times, *programs]
    found = {}
    for line in run(*command, cwd=ROOT).stdout.splitlines():
        _, _, compiled, unit, where, *numbers = line.split("\t")
        found.setdefault((compiled, unit), {})[where] = list(map(float, numbers))
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--scale", type=int, default=14, help="vertices of the graph: 2 to this power, at least 14")
    arguments.add_argument("--keep", type=pathlib.Path, help="folder for programs, graph and traces")
    arguments.add_argument("programs", nargs="*", help="the simulator's names; all without")
    given = arguments.parse_args()
    if given.scale < 14:
        arguments.error("--scale is at least 14, the scale of the recorded numbers")
    scratch = None if given.keep else tempfile.TemporaryDirectory()
    folder = given.keep.resolve() if given.keep else pathlib.Path(scratch.name)
    folder.mkdir(parents=True, exist_ok=True)
    compile_programs(folder)
    graph = folder / f"kronecker-{given.scale}.txt"
    graph.write_text(run(folder / "kronecker", given.scale, 16).stdout)
    far = False
    print(f"{'':34}" + "".join(f"{name:>14}" for name in NAMES))
    for (command, unit), ours in kernels(graph, 2 ** (given.scale - 14), given.programs).items():
        print(f"{command}, for each {unit}")
        compiled = capture(folder, [str(graph) if a == "EDGES" else a for a in command.split()])
        for title, numbers in [("compiled", compiled), *ours.items()]:
            print(f"  {title:32}" + "".join(f"{number:14.4f}" for number in numbers))
        for name, a, b in zip(NAMES, ours["kernel"], compiled):
            if abs(a - b) > 0.1 * b + LEAST:
                print(f"  {name} of the kernel are {a / b:.2f} of the compiled program's")
                far = True
    sys.exit(1 if far else 0)


if __name__ == "__main__":
    main()
