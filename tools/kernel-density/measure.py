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
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from compiled import AMBULATOR, ROOT, capture, run  # noqa: E402

# Cargo's profile in which the kernels are built.
PROFILE = os.environ.get("PROFILE", "release")
NAMES = ["instructions", "loads", "stores", "branches"]
# Levels of optimisation, and how their programs' names end.
LEVELS = [("-O2", ""), ("-O3", "-O3")]
# What differs by more than a tenth and by more than this is a difference.
LEAST = 0.001


def compile_programs(folder):
    for source in sorted(HERE.glob("*.cpp")):
        for level, suffix in LEVELS:
            run("g++", "-std=c++17", level, "-DNDEBUG", "-Wall", "-Wextra", source, "-o", folder / (source.stem + suffix))


def compiled(folder, command):
    """What a compiled program executes for each unit in its window."""
    program, *arguments = command
    trace = folder / ("-".join([program, *(a for a in arguments if "/" not in a)]) + ".amb")
    # GraphBIG's makefiles say -O3.
    program += "-O3" if "linked" in arguments else ""
    printed = capture(trace, folder / program, arguments, window=["total"])
    units = int(re.search(r"units (\d+)", printed)[1])
    info = json.loads(run(AMBULATOR, "trace", "info", "--json", trace).stdout)
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
        reference = compiled(folder, [str(graph) if a == "EDGES" else a for a in command.split()])
        for title, numbers in [("compiled", reference), *ours.items()]:
            print(f"  {title:32}" + "".join(f"{number:14.4f}" for number in numbers))
        for name, a, b in zip(NAMES, ours["kernel"], reference):
            if abs(a - b) > 0.1 * b + LEAST:
                print(f"  {name} of the kernel are {a / b:.2f} of the compiled program's")
                far = True
    sys.exit(1 if far else 0)


if __name__ == "__main__":
    main()
