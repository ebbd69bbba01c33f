#!/usr/bin/env python3
"""Runs the commands of the documents again and puts their output in.

A block that begins with `<!-- run -->` and a `console` fence is run: each line that begins with `$ ` is a command, what follows it
is its output. Commands run at the root of the repository with cargo's `release` folder (or `$AMBULATOR_BIN`) on the path and the
folder `out` at hand. An output line of `...` stands for lines that were left out: what is kept then is as many lines as were there
before it.

usage: scripts/refresh-outputs.py [FILE...]
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / (os.environ.get("CARGO_TARGET_DIR") or "target")
BLOCK = re.compile(r"(<!-- run -->\n```console\n)(.*?)(^```)", flags=re.S | re.M)


def run(command):
    path = f"{os.environ.get('AMBULATOR_BIN', TARGET / 'release')}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env={**os.environ, "PATH": path, "COLUMNS": "110"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    # A command that is told to fail shows how it does.
    return done.stdout.rstrip("\n").split("\n") if done.stdout.strip() else []


def refresh(block):
    out = []
    lines = block[2].rstrip("\n").split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith("$ ")] + [len(lines)]
    for start, end in zip(starts, starts[1:]):
        before = lines[start + 1:end]
        output = run(lines[start][2:])
        if before and before[-1] == "...":
            output = output[: len(before) - 1] + ["..."]
        out += [lines[start], *output]
    return block[1] + "\n".join(line.rstrip() for line in out) + "\n" + block[3]


def main():
    (ROOT / "out").mkdir(exist_ok=True)
    # Finished runs of an older build must not stand for this one's.
    shutil.rmtree(ROOT / "out/quick", ignore_errors=True)
    names = sys.argv[1:] or ["README.md", "CONTRIBUTING.md", *map(str, sorted((ROOT / "docs/src").glob("*.md")))]
    for name in names:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        fresh = BLOCK.sub(refresh, text)
        if fresh != text:
            path.write_text(fresh, encoding="utf-8")
            print(f"{name}: brought up to date")


if __name__ == "__main__":
    main()
