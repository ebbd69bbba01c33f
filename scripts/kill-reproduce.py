#!/usr/bin/env python3
"""Kills a reproduction at random points and resumes it, again and again: the result must equal that of an uninterrupted
one byte for byte, and so must the rows of the store, but for the sim host's times. Needs the program `zstd`.

    scripts/kill-reproduce.py [--binary target/release/ambulator] [--figure utopia/fig6] [--kills 100] [--seed 1]
"""

import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/ambulator")
    parser.add_argument("--figure", default="utopia/fig6")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)

    def start(folder):
        command = [arguments.binary, "reproduce", arguments.figure, "--quick", "--no-progress"]
        command += ["--store", str(folder / "store"), "--json", str(folder / "result.json")]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def lines(folder):
        cells = folder / "store" / "cells"
        text = b"".join(path.read_bytes() for path in sorted(cells.glob("*.ndjson")))
        for path in sorted(cells.glob("*.ndjson.zst")):
            text += subprocess.run(["zstd", "-dcq", path], stdout=subprocess.PIPE, check=True).stdout
        return text.splitlines()

    def contents(folder):
        parts = [path.name for path in folder.rglob("*.part")]
        if parts:
            sys.exit(f"temporary files are left: {parts}")
        rows = [json.loads(line) for line in lines(folder)]
        compared = [{key: row[key] for key in row if key != "xxh3" and not key.startswith("host.")} for row in rows]
        return (folder / "result.json").read_bytes(), sorted(json.dumps(row) for row in compared)

    def complete(folder):
        process = start(folder)
        _, said = process.communicate()
        if process.returncode != 0:
            sys.exit(f"it failed with {process.returncode}: {said}")
        return contents(folder)

    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        began = time.monotonic()
        (scratch / "whole").mkdir()
        expected = complete(scratch / "whole")
        took = time.monotonic() - began
        cells = len(expected[1])
        kills, sequences, resumed = 0, 0, []
        while kills < arguments.kills:
            folder = scratch / f"killed-{sequences}"
            folder.mkdir()
            sequences += 1
            # A few kills each: with more, little is left to be killed.
            for _ in range(rng.randint(1, 8)):
                process = start(folder)
                try:
                    process.communicate(timeout=rng.uniform(0, took))
                    break
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.communicate()
                    kills += 1
                    resumed.append(len(lines(folder)))
            if complete(folder) != expected:
                sys.exit(f"a reproduction killed in sequence {sequences} differs from an uninterrupted one")
            print(f"{kills} kills, {sequences} reproductions: equal", file=sys.stderr, flush=True)
        found = sorted(set(resumed))
        print(f"{kills} kills in {sequences} reproductions of {cells} cells: all equal")
        print(f"cells in the store when it was killed: {found}")


if __name__ == "__main__":
    main()
