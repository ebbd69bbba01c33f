#!/usr/bin/env python3
"""Host speed and memory of Ambulator, against its goals. `make bench` runs it.

The first table sets the simulator's speed in relation to the host's own: native programs (tools/native-speed), compiled
and on one core, alternate with the simulator. The lines after it say what was run, so that it can be run by itself.
Machines are shared and noisy: what is compared alternates, and other lines give the best of several runs.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

from bench_native import Native, cpu, free_memory, paired

TARGET = os.environ.get("CARGO_TARGET_DIR") or "target"
AMBULATOR = os.environ.get("AMBULATOR") or os.path.join(TARGET, "release", "ambulator")
NATIVE = os.environ.get("NATIVE") or os.path.join(TARGET, "native-speed")
# What is measured here must run here.
os.environ["AMBULATOR_STORE"] = "none"
GIB = 1 << 30
# Instructions of one unit of work, as `make kernel-density` measures them.
PER_UPDATE = {128: 13.04, 1: 11.01}
PER_EDGE = {"csr": 8.37, "property": 7.65}
EIGHT = "radix,thp,flattened,asap,l2tlb-128k,ideal,perfect-tlb,radix-5level"


def run(*arguments):
    """Runs `ambulator`; returns its runs and its peak resident bytes."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [AMBULATOR, *arguments, "--json", out.name, "--no-progress"]
        pid = os.fork()
        if pid == 0:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.execv(command[0], command)
        _, status, usage = os.wait4(pid, 0)
        if status != 0:
            sys.exit(f"bench: {' '.join(command)} failed")
        with open(out.name) as file:
            return json.load(file)["runs"], usage.ru_maxrss * 1024


def rate(result, what):
    """Simulated instructions or accesses a second of host time, set-up left out."""
    return result[what] / (result["host_seconds"] - result["host_setup_seconds"])


def best(times, what, *arguments):
    return max(rate(run(*arguments)[0][0], what) for _ in range(times))


def line(name, value, goal, met, command):
    print(f"{'ok  ' if met else 'MISS'}  {name:58} {value:>22}   goal {goal:>20}   {command}", flush=True)


def size(footprint):
    return f"{footprint >> 30}GiB" if footprint >= GIB else f"{footprint >> 20}MiB"


def speed(options, one):
    """The table of speeds and their goals: one row for each, measured in pairs."""
    print(f"speed on {cpu()}", flush=True)
    print(f"{'':6}{'':52} {'host itself':>16} {'ambulator':>16} {'ratio':>22}   goal", flush=True)

    def row(name, host, ours, ratio, goal, met):
        mark = "" if met is None else "ok" if met else "MISS"
        print(f"{mark:6}{name:52} {host:>16} {ours:>16} {ratio:>22}   {goal}", flush=True)

    def beside(native, unit, per_unit, *command):
        """A native program and the simulation of the same, in turns."""
        instructions = lambda: rate(run(*command, *one)[0][0], "simulated_instructions") / per_unit
        found = paired(options.times, lambda: native.rate(options.seconds), instructions)
        native.close()
        host, ours, ratio, (least, most) = found
        return f"{host / 1e6:.1f} M {unit}/s", f"{ours / 1e6:.2f} M {unit}/s", f"{ratio:.1f} ({least:.1f} to {most:.1f})", ratio

    quick = options.quick
    count = "10M" if quick else "40M"
    table = GIB if quick else 8 * GIB
    while table + 4 * GIB > free_memory() and table > 256 << 20:
        table //= 2
    if table < (GIB if quick else 8 * GIB):
        print(f"      the host has {free_memory() / GIB:.1f} GiB to spare: native tables of {size(table)}", flush=True)
    timing = ["--designs", "radix", "--instructions", count]
    for streams, goal in ((128, "< 15"), (1, "")):
        native = Native(NATIVE, "gups", table, streams)
        command = ["compare", "gups", "--footprint", size(table), "--program-set", f"streams={streams}", *timing]
        *cells, ratio = beside(native, "updates", PER_UPDATE[streams], *command)
        row(f"gups {size(table)}, {streams} streams, timing, radix", *cells, goal, ratio < 15 if goal else None)
    native = Native(NATIVE, "chase", table)
    command = ["compare", "pointer-chase", "--footprint", size(table), *timing]
    # A load, and a share of the loop's end.
    *cells, _ = beside(native, "loads", instructions_a_load(*command, *one), *command)
    row(f"pointer-chase {size(table)}, timing, radix", *cells, "", None)
    graph = 256 << 20 if quick else GIB
    for layout in ("csr", "property"):
        bytes_a_vertex = 144 if layout == "csr" else 1575
        native = Native(NATIVE, "bfs", layout, graph // bytes_a_vertex)
        command = ["compare", "bfs", "--footprint", size(graph), "--program-set", f"layout={layout}", *timing]
        *cells, _ = beside(native, "edges", PER_EDGE[layout], *command)
        row(f"bfs {size(graph)}, {layout}, timing, radix", *cells, "", None)

    def bfs(layout):
        command = ["compare", "bfs", "--footprint", size(graph), "--program-set", f"layout={layout}", *timing, *one]
        return lambda: rate(run(*command)[0][0], "simulated_instructions") / 1e6

    objects, rows, ratio, _ = paired(options.times, bfs("property"), bfs("csr"))
    row(f"bfs {size(graph)}, property beside csr, instructions", f"csr {rows:.1f} M/s", f"{objects:.1f} M/s", f"{ratio:.2f}", ">= 20 M/s where csr has 25", objects >= 20)

    for program, footprint in (("gups", table), ("bfs", graph)):
        command = ["compare", program, "--footprint", size(footprint), "--designs", "radix", "--functional", "--instructions", "20M" if quick else "100M", *one]
        got = statistics.median(rate(run(*command)[0][0], "simulated_accesses") for _ in range(options.times)) / 1e6
        row(f"{program} {size(footprint)}, functional, radix, accesses", "", f"{got:.1f} M/s", "", ">= 40 M/s", got >= 40)

    footprints = (1, 8) if quick else (1, 8, 32, 128)
    costs = {footprint: [] for footprint in footprints}
    for _ in range(options.times):
        for footprint in footprints:
            command = ["compare", "gups", "--footprint", f"{footprint}GiB", "--designs", "radix", "--instructions", "10M" if quick else "20M",
                       "--set", f"memory.bytes={2 * max(footprint, 64)}GiB", *one]
            costs[footprint].append(1e9 / rate(run(*command)[0][0], "simulated_accesses"))
    growth = [max(turn) / min(turn) - 1 for turn in zip(*costs.values())]
    each = " / ".join(f"{statistics.median(costs[footprint]):.0f}" for footprint in footprints)
    row(f"time an access, gups {' / '.join(map(str, footprints))} GiB, ns", "", each, f"+{100 * statistics.median(growth):.0f}%", "<= +25%", statistics.median(growth) <= 0.25)

    command = ["compare", "bfs", "--footprint", size(graph), "--instructions", "5M" if quick else "20M", *one, "--designs"]
    _, _, share, (least, most) = paired(options.times, lambda: wall(*command, EIGHT), lambda: 8 * wall(*command, "radix"))
    row("eight designs at once over eight times one", "", "", f"{share:.2f} ({least:.2f} to {most:.2f})", "<= 0.40", share <= 0.40)


def instructions_a_load(*command):
    """Instructions of a step of the pointer chase: those of the run by its loads."""
    found = run(*command)[0][0]
    return found["simulated_instructions"] / found["simulated_accesses"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, help="runs of each, 3 or, with --quick, 2")
    parser.add_argument("--seconds", type=float, help="time of a native run, 2 or, with --quick, 0.5")
    parser.add_argument("--quick", action="store_true", help="small footprints and short runs")
    parser.add_argument("--only-speed", action="store_true", help="only the table of speeds and their goals")
    options = parser.parse_args()
    options.times = options.times or (2 if options.quick else 3)
    options.seconds = options.seconds or (0.5 if options.quick else 2)
    times = options.times
    one = ["--threads", "1", "--seed", "1", "--warmup", "1M"]
    speed(options, one)
    if options.only_speed:
        return
    print(flush=True)

    for program, footprint, settings, goal in (
        ("gups", "8GiB", [], 10),
        ("bfs", "1GiB", ["--program-set", "layout=csr"], 20),
        ("bfs", "1GiB", ["--program-set", "layout=property"], 20),
    ):
        command = ["compare", program, "--footprint", footprint, *settings, "--designs", "radix", "--instructions", "40M", *one]
        got = best(times, "simulated_instructions", *command) / 1e6
        line(f"timing, {program} {footprint} {' '.join(settings[1:])}, radix", f"{got:.1f} M instructions/s", f">= {goal}", got >= goal, " ".join(command))

    for program, footprint in (("pagerank", "1GiB"), ("stream", "1GiB")):
        command = ["compare", program, "--footprint", footprint, "--designs", "radix", "--functional", "--instructions", "100M", *one]
        got = best(times, "simulated_accesses", *command) / 1e6
        line(f"functional, {program} {footprint}, radix", f"{got:.1f} M accesses/s", ">= 40", got >= 40, " ".join(command))

    for design, base, machine, goal in (
        ("ecpt", "radix", "me-hpt-table3", 0.67),
        ("me-hpt", "radix", "me-hpt-table3", 0.67),
        ("lvm", "radix", "lvm-table1", 1),
        ("rmm", "radix", "rmm-table5", 0.67),
        ("utopia", "thp", "utopia-table1", 0.67),
        ("revelator", "radix", "revelator-table1", 0.67),
    ):
        command = ["compare", "gups", "--footprint", "8GiB", "--machine", machine, "--instructions", "20M", *one, "--designs"]
        # They alternate, so that both see the same noise.
        turns = [[rate(run(*command, name)[0][0], "simulated_instructions") for name in (design, base)] for _ in range(times)]
        got = max(turn[0] for turn in turns) / max(turn[1] for turn in turns)
        line(f"timing, gups 8GiB, {design} over {base}", f"{got:.2f} of its instructions/s", f">= {goal}", got >= goal, " ".join([*command, f"{design},{base}"]))

    generate = ["cargo", "run", "--release", "-q", "-p", "ambulator-workloads", "--example", "generate_bench", "512", "gups", "bfs", "cc", "tc"]
    for name, measured in generation(generate):
        goal = 100 if name.startswith("gups") else 50
        line(f"records generated, {name}", f"{measured:.0f} M/s", f">= {goal}", measured >= goal, " ".join(generate))

    large = "8GiB" if options.quick else "64GiB"
    command = ["compare", "gups", "--footprint", large, "--designs", "radix", "--instructions", "10M", *one]
    runs, peak = run(*command)
    line(f"host memory, gups {large}", f"{peak / GIB:.2f} GiB", "< 2", peak < 2 * GIB, " ".join(command))
    setup = runs[0]["host_setup_seconds"]
    mapped = runs[0]["measures"]["pages_mapped"]
    line("4 KiB mappings in set-up", f"{mapped / setup / 1e6:.1f} M/s", ">= 5.33 (16 M in 3 s)", mapped / setup > 16e6 / 3, " ".join(command))


def generation(command):
    """Programs and how many million records a second each makes."""
    for row in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[1:]:
        # A name, which may have blanks, and four numbers; or a name and why it cannot be made so.
        name, *numbers = row.rsplit(maxsplit=4)
        try:
            yield name, float(numbers[2])
        except (ValueError, IndexError):
            print(f"      records generated, {row}", flush=True)


def wall(*arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()
