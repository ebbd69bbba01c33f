#!/usr/bin/env python3
"""Host speed and memory of Ambulator, against its goals. `make bench` runs it.

Each line says what was run, so that it can be run by itself. Machines are shared and noisy: each line gives the
best of several runs, and runs that are compared alternate.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile

AMBULATOR = os.path.join(os.environ.get("CARGO_TARGET_DIR") or "target", "release", "ambulator")
# What is measured here must run here.
os.environ["AMBULATOR_STORE"] = "none"
GIB = 1 << 30


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="runs of which the best counts")
    parser.add_argument("--quick", action="store_true", help="small footprints only")
    options = parser.parse_args()
    times = options.times
    one = ["--threads", "1", "--seed", "1", "--warmup", "1M"]

    for program, footprint, settings, goal in (
        ("gups", "8GiB", [], 10),
        ("bfs", "1GiB", ["--program-set", "layout=csr"], 20),
        ("bfs", "1GiB", ["--program-set", "layout=property"], 20),
    ):
        command = ["compare", program, "--footprint", footprint, *settings, "--designs", "radix", "--instructions", "40M", *one]
        got = best(times, "simulated_instructions", *command) / 1e6
        line(f"timing, {program} {footprint} {' '.join(settings[1:])}, radix", f"{got:.1f} M instructions/s", f">= {goal}", got >= goal, " ".join(command))

    for program, footprint in (("gups", "8GiB"), ("bfs", "1GiB"), ("pagerank", "1GiB"), ("stream", "1GiB")):
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

    eight = "radix,thp,flattened,asap,l2tlb-128k,ideal,perfect-tlb,radix-5level"
    command = ["compare", "bfs", "--footprint", "1GiB", "--instructions", "20M", *one]
    alone = min(wall(*command, "--designs", "radix") for _ in range(times))
    together = min(wall(*command, "--designs", eight) for _ in range(times))
    line("eight designs against eight times one", f"{together / (8 * alone):.2f} of it", "< 1", together < 8 * alone, " ".join(command))

    large = "8GiB" if options.quick else "64GiB"
    command = ["compare", "gups", "--footprint", large, "--designs", "radix", "--instructions", "10M", *one]
    runs, peak = run(*command)
    line(f"host memory, gups {large}", f"{peak / GIB:.2f} GiB", "< 2", peak < 2 * GIB, " ".join(command))
    setup = runs[0]["host_setup_seconds"]
    mapped = runs[0]["measures"]["pages_mapped"]
    line("4 KiB mappings in set-up", f"{mapped / setup / 1e6:.1f} M/s", ">= 5.33 (16 M in 3 s)", mapped / setup > 16e6 / 3, " ".join(command))

    costs = []
    for footprint in (1, 8) if options.quick else (1, 2, 8, 32, 64, 128):
        memory = 2 * max(footprint, 64)
        command = ["compare", "gups", "--footprint", f"{footprint}GiB", "--designs", "radix", "--instructions", "20M",
                   "--set", f"memory.bytes={memory}GiB", *one]
        cost = 1e9 / best(times, "simulated_accesses", *command)
        costs.append(cost)
        print(f"      gups {footprint:>3} GiB: {cost:.0f} ns of host time an access", flush=True)
    spread = max(costs) / min(costs) - 1
    line("cost an access from the least to the greatest footprint", f"+{100 * spread:.0f}%", "<= 25%", spread <= 0.25, "as above")


def generation(command):
    """Programs and how many million records a second each makes."""
    for row in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[1:]:
        name, rest = row[:44].strip(), row[44:].split()
        yield name, float(rest[2])


def wall(*arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()
