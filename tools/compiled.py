"""What the tools here have in common that compile programs and capture a window of them."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
AMBULATOR = os.environ.get("AMBULATOR", str(TARGET / "release" / "ambulator"))


def run(*command, may_fail=False, **options):
    """Runs a command and returns its output; its messages are in the error if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if done.returncode != 0 and not may_fail:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr}")
    return done


def capture(trace, program, arguments=(), window=(), options=()):
    """Captures a program from the end of its set-up on, with these options: `PROGRAM setup ...` ends there, and `PROGRAM
    WINDOW... ...` goes on. Returns what it printed."""
    base = [AMBULATOR, "capture", "--no-progress", "--out", trace, *options]
    skipped = run(*base, "--skip", "1000000G", "--", program, "setup", *arguments, may_fail=True)
    # The set-up ends by itself, before the instructions to skip: the message says after how many.
    setup = re.search(r"ended after (\d+) instructions", skipped.stdout + skipped.stderr)
    if not setup:
        sys.exit(f"{program}: no instruction count in\n{skipped.stdout}{skipped.stderr}")
    done = run(*base, "--skip", setup[1], "--", program, *window, *arguments)
    return done.stdout + done.stderr
