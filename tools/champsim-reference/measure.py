#!/usr/bin/env python3
"""Main memory under load, beside ChampSim.

Compiles the programs of this folder, captures each after its set-up in ChampSim's format, and runs the same traces in
ChampSim and in Ambulator: machine `lvm-table1` with one channel and with four, one core, no prefetchers, TLBs that miss
nothing, and pages in frames far apart. Prints IPC and lines of main memory of both, and what Ambulator's IPC is with one
rule after the other left out that ChampSim does not have.

CHECKOUT is a checkout of ChampSim (it was written for May 2025, commit 2ff2501), which stays as it is. Its libraries must be
there (Debian: libfmt-dev, nlohmann-json3-dev, libcli11-dev, libbz2-dev, liblzma-dev). Takes about a quarter of an hour.

usage: measure.py CHECKOUT [--keep FOLDER] [PROGRAM ...]
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

# Instructions before the region, in which every page is touched, and in the region.
WARMUP = {"gups": 1_200_000, "stream": 7_500_000, "bfs": 3_400_000}
REGION = 600_000
CHANNELS = [1, 4]
# What both machines have in common with `lvm-table1`, or in its place.
COMMON = [
    "mmu.perfect=true",
    'kernel.page_size_policy="never"',
    'kernel.zeroing="cycles-only"',
    "memory.fragmentation.fmfi=1",
    "memory.fragmentation.free_share=0.05",
    'dram.mapping="ro-co-ra-ba-ch"',
    *(f"costs.{cost}=0" for cost in ("fault", "zero_4k", "table_entry")),
]
# Rules that ChampSim does not have, or has in other numbers, left out one after the other.
LEFT_OUT = [
    ("no refresh", ["dram.t_refi_ns=1000000"]),
    ("and batches of 8 writes", ["dram.write_high=56", "dram.write_low=48"]),
    ("and 1 ns to the controller", ["dram.controller_ns=1"]),
    # A row cycle stays: ChampSim's banks serve a request from precharge to data, which takes as long.
    (
        "and no tWR, tWTR, tRRD, tFAW",
        [f"dram.{name}=0" for name in ("t_wr", "t_wtr_s", "t_wtr_l", "t_rrd_s", "t_rrd_l", "t_faw_ns")],
    ),
]


def configuration(checkout, channels):
    """ChampSim's own configuration with the machine of `lvm-table1`."""
    config = json.loads((checkout / "champsim_config.json").read_text())
    config["executable_name"] = f"champsim-{channels}"
    width = ["fetch_width", "decode_width", "dispatch_width", "execute_width", "retire_width"]
    buffers = ["ifetch_buffer_size", "decode_buffer_size", "dispatch_buffer_size"]
    core = config["ooo_cpu"][0]
    core |= dict.fromkeys(width, 4) | dict.fromkeys(buffers, 64)
    core |= {"frequency": 2000, "register_file_size": 1024, "rob_size": 224, "lq_size": 72, "sq_size": 56}
    core |= {"lq_width": 2, "sq_width": 1, "scheduler_size": 224}
    queues = {"rq_size": 64, "wq_size": 64, "max_tag_check": 3, "max_fill": 2, "prefetcher": "no", "replacement": "lru"}
    # Round trips are 1, 20 and 56 cycles; each level adds its own.
    for name, sets, ways, latency, mshrs in [
        ("L1I", 64, 8, 1, 16),
        ("L1D", 64, 8, 1, 16),
        ("L2C", 2048, 8, 19, 32),
        ("LLC", 2048, 16, 36, 64),
    ]:
        config[name] |= queues | {"sets": sets, "ways": ways, "latency": latency, "mshr_size": mshrs}
    config["LLC"]["frequency"] = 2000
    for name in ["ITLB", "DTLB"]:
        config[name] |= {"sets": 8192, "ways": 16, "rq_size": 32, "wq_size": 32, "mshr_size": 16, "latency": 1}
    config["physical_memory"] |= {"data_rate": 3200, "channels": channels, "ranks": 1, "bankgroups": 2, "banks": 4}
    config["physical_memory"] |= {"bank_rows": 131072, "bank_columns": 1024, "rq_size": 64, "wq_size": 64}
    config["physical_memory"] |= {"tCAS": 22, "tRCD": 22, "tRP": 22, "tRAS": 52}
    config["virtual_memory"] |= {"num_levels": 4, "minor_fault_penalty": 1}
    return config


def build(checkout, folder):
    """Builds ChampSim for each number of channels, beside the checkout."""
    copy = folder / "champsim"
    if copy.exists():
        return copy / "bin"
    run(ROOT / "integrations/champsim/folder.sh", checkout, copy)
    for channels in CHANNELS:
        file = folder / f"{channels}-channels.json"
        file.write_text(json.dumps(configuration(checkout, channels)))
        run("./config.sh", file, cwd=copy)
        run("make", "-j2", cwd=copy)
    return copy / "bin"


def record(name, folder):
    """The trace of a program from the end of its set-up on."""
    trace = folder / f"{name}.champsim.gz"
    if not trace.exists():
        run("gcc", "-O2", "-fno-tree-vectorize", "-static", HERE / f"{name}.c", "-o", folder / name)
        take = WARMUP[name] + REGION + 100_000
        capture(trace, folder / name, options=["--format", "champsim", "--take", take])
    return trace


def champsim(binaries, trace, name, channels):
    """IPC, and lines read from and written to main memory for 1000 instructions."""
    out = run(binaries / f"champsim-{channels}", "-w", WARMUP[name], "-i", REGION, trace).stdout
    out = out[out.index("Region of Interest") :]
    found = {}
    for kind in ["RQ", "WQ"]:
        rows = re.findall(rf"{kind} ROW_BUFFER_HIT:\s+(\d+)\s+ROW_BUFFER_MISS:\s+(\d+)", out)
        found[kind] = sum(int(count) for row in rows for count in row) * 1000 / REGION
    return float(re.search(r"CPU 0 cumulative IPC: ([\d.]+)", out)[1]), found["RQ"], found["WQ"]


def ambulator(trace, name, channels, settings):
    """The same, and page faults in the region."""
    settings = [*COMMON, f"dram.channels={channels}", f"memory.bytes={channels * 8}GiB", *settings]
    command = [AMBULATOR, "run", trace, "--machine", "lvm-table1", "--warmup", WARMUP[name], "--instructions", REGION]
    command += ["--json", "-", "--no-progress", *(word for one in settings for word in ("--set", one))]
    done = json.loads(run(*command, env={**os.environ, "AMBULATOR_STORE": "none"}).stdout)["runs"][0]
    counters = done["counters"]
    lines = lambda kind: sum(counters[f"hierarchy.dram.{of}_{kind}"] for of in ("data", "table")) * 1000 / REGION
    return done["ipc"], lines("reads"), lines("writes"), counters["core.page_faults"]


def print_row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("checkout", type=pathlib.Path, help="a checkout of ChampSim")
    arguments.add_argument("--keep", type=pathlib.Path, help="folder for ChampSim's build and the traces")
    arguments.add_argument("programs", nargs="*", default=[], help=f"of {', '.join(WARMUP)}; all without")
    given = arguments.parse_intermixed_args()
    if not (given.checkout / "champsim_config.json").exists():
        arguments.error(f"{given.checkout} has no champsim_config.json: it is no checkout of ChampSim")
    if unknown := [name for name in given.programs if name not in WARMUP]:
        arguments.error(f"no program is called {unknown[0]}; there are {', '.join(WARMUP)}")
    scratch = None if given.keep else tempfile.TemporaryDirectory()
    folder = given.keep.resolve() if given.keep else pathlib.Path(scratch.name)
    folder.mkdir(parents=True, exist_ok=True)
    binaries = build(given.checkout.resolve(), folder)
    head = ["program", "channels", "ChampSim IPC", "Ambulator IPC", "difference"]
    head += ["ChampSim, lines read / written for 1000 instructions", "Ambulator", *(name for name, _ in LEFT_OUT)]
    print_row(*head)
    print_row(*["---"] * len(head))
    for name in given.programs or WARMUP:
        trace = record(name, folder)
        for channels in CHANNELS:
            ipc, reads, writes = champsim(binaries, trace, name, channels)
            ours, our_reads, our_writes, faults = ambulator(trace, name, channels, [])
            if faults > REGION / 4000:
                sys.exit(f"{name}: {faults} page faults in the region: its warm-up does not touch all pages")
            settings, ladder = [], []
            for _, more in LEFT_OUT:
                settings += more
                ladder.append(f"{ambulator(trace, name, channels, settings)[0]:.3f}")
            row = [name, str(channels), f"{ipc:.3f}", f"{ours:.3f}", f"{100 * (ours / ipc - 1):+.0f}%"]
            row += [f"{reads:.1f} / {writes:.1f}", f"{our_reads:.1f} / {our_writes:.1f}"]
            print_row(*row, *ladder)


if __name__ == "__main__":
    main()
